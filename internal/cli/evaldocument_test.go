package cli_test

import "testing"

// TestEvalDocument executes the commands in docs/EVAL.md in one shell, as a new user.
func TestEvalDocument(t *testing.T) {
	t.Parallel()
	f, environ := newUser(t)
	_, all := document(t, "docs/EVAL.md", 8)
	// The document begins with a harness that is installed.
	first := step{command: `mkdir -p "$HOME/bin" "$HOME/project" && ln -s "` + binary(t) + `" "$HOME/bin/harness" && cd "$HOME/project"`}
	typeIn(t, "docs/EVAL.md", "sh", f.dir, environ, append([]step{first}, all...))
}

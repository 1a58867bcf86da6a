package cli_test

import "testing"

// TestSkillsDocument executes the commands in docs/SKILLS.md in one shell, as a new user.
func TestSkillsDocument(t *testing.T) {
	t.Parallel()
	f, environ := newUser(t)
	_, all := document(t, "docs/SKILLS.md", 12)
	// The document begins with a harness that is installed.
	first := step{command: `mkdir -p "$HOME/bin" "$HOME/project" && ln -s "` + binary(t) + `" "$HOME/bin/harness" && cd "$HOME/project"`}
	typeIn(t, "docs/SKILLS.md", "sh", f.dir, environ, append([]step{first}, all...))
}

package cli_test

import (
	"encoding/json"
	"os"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestExamples executes the commands in docs/EXAMPLES.md in one shell, as a new user, and the program in docs/MIGRATION.md, whose result the document shows.
func TestExamples(t *testing.T) {
	t.Parallel()
	f, environ := newUser(t)
	_, all := document(t, "docs/EXAMPLES.md", 25)
	// The document begins with a harness that is installed.
	first := step{command: `mkdir -p "$HOME/bin" "$HOME/project" && ln -s "` + binary(t) + `" "$HOME/bin/harness" && cd "$HOME/project"`}
	typeIn(t, "docs/EXAMPLES.md", "sh", f.dir, environ, append([]step{first}, all...))

	text, err := os.ReadFile("../../docs/MIGRATION.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)\n```js\n(.*?)```.*?\n```json\n(.*?)```").FindSubmatch(text)
	if blocks == nil {
		t.Fatal("docs/MIGRATION.md has no program with its result")
	}
	g := setup(t)
	g.addDemo("database")
	var want, got any
	if err := json.Unmarshal(blocks[2], &want); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(g.run("exec", "-e", string(blocks[1])).want(0).stdout), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the program of docs/MIGRATION.md returns something else than it shows (-document +program):\n%s", diff)
	}
}

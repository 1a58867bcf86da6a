package cli_test

import (
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/skills/library"
)

// TestSkillsLibrary: skills of the library are in use at once. What a user has changed goes into the history, and a skill of the user's own is not replaced.
func TestSkillsLibrary(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.write("harness.yaml", "audit: {file: audit.jsonl}\n")
	profile := func() string {
		t.Helper()
		return f.run("exec", "-e", "import profile from '/skills/csv-profile/index.js'\nreturn (await profile({text: 'a;b\\n1;x'})).columns.map((c) => c.type)", "--json").want(0).stdout
	}
	if r := f.run("skills", "add", "library/csv-profile").want(0); !strings.Contains(r.stdout, "/skills/csv-profile") {
		t.Error(r.stdout)
	}
	if got := profile(); !strings.Contains(got, `["integer","text"]`) {
		t.Error(got)
	}
	f.write("index.js", "export default () => ({columns: [{type: 'mine'}]})")
	f.run("files", "put", "/skills", "index.js", "csv-profile/index.js").want(0)
	if got := profile(); !strings.Contains(got, "mine") {
		t.Error(got)
	}
	f.run("skills", "add", "library/csv-profile").want(0)
	if got := profile(); !strings.Contains(got, `["integer","text"]`) {
		t.Error(got)
	}
	var all struct{ Versions []struct{ Num int } }
	f.run("skills", "versions", "csv-profile", "--json").want(0).value(&all)
	if len(all.Versions) != 2 {
		t.Errorf("versions %+v", all.Versions)
	}
	f.run("skills", "restore", "csv-profile", "2").want(0)
	if got := profile(); !strings.Contains(got, "mine") {
		t.Error(got)
	}

	if r := f.run("skills", "add", "library/csv-profil").want(2); !strings.Contains(r.stderr, "csv-profile") {
		t.Error(r.stderr)
	}
	f.write("own.js", "export default 1")
	f.run("files", "put", "/skills", "own.js", "report/index.js").want(0)
	if r := f.run("skills", "add", "library", "--skill", "report"); r.code == 0 || !strings.Contains(r.stderr, "/skills/report") {
		t.Errorf("%d, %s", r.code, r.stderr)
	}
	f.run("skills", "add", "library", "--user", "ann").want(0)
	var listed []struct{ Name, Problem string }
	f.run("skills", "list", "--user", "ann", "--json").want(0).value(&listed)
	if len(listed) != len(library.Names()) || len(listed) != 12 {
		t.Errorf("%d skills", len(listed))
	}
	for _, s := range listed {
		if s.Problem != "" {
			t.Errorf("%s: %s", s.Name, s.Problem)
		}
	}
}

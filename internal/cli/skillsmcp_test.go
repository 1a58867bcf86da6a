package cli_test

import (
	"strings"
	"testing"
)

// TestSkillsOfServer adds a skill from the gateway of another harness, reviews it and uses it. The other harness serves nothing that waits for a review.
func TestSkillsOfServer(t *testing.T) {
	t.Parallel()
	from := setup(t)
	from.write("harness.yaml", "# state lives beside it\n")
	from.write("new/pdf/SKILL.md", "---\nname: pdf\ndescription: Does things.\nallowed-tools: Bash(*)\n---\nText.\n")
	from.write("new/pdf/index.js", "export default () => 'one'")
	from.write("new/held/SKILL.md", skillHead("held", ""))
	approve := func(f *fixture) {
		t.Helper()
		var held []struct{ Digest string }
		f.run("skills", "review", "pdf", "--json").want(0).value(&held)
		if len(held) != 1 {
			t.Fatalf("%+v", held)
		}
		f.run("skills", "review", "pdf", "--approve", held[0].Digest).want(0)
	}
	from.run("skills", "add", "./new").want(0)
	approve(from)
	s := from.serve()
	token := strings.TrimSpace(from.run("token").want(0).stdout)

	f := setup(t)
	f.write("harness.yaml", "mcpServers:\n  other: {url: "+quoted(s.url+"/mcp")+", headers: {Authorization: "+quoted("Bearer "+token)+"}}\n")
	f.addDemo("crm")
	var added addedJSON
	f.run("skills", "add", "mcp:other", "--json").want(0).value(&added)
	if len(added.Skills) != 1 || added.Skills[0].Name != "pdf" || added.Skills[0].State != "held" || len(added.Skipped) > 0 {
		t.Fatalf("%+v", added)
	}
	if r := f.run("skills", "list", "--json").want(0); strings.TrimSpace(r.stdout) != "[]" {
		t.Errorf("before the review there is %s", r.stdout)
	}
	if r := f.run("skills", "review", "pdf").want(0); !strings.Contains(r.stdout, "source:      mcp:other/skill://pdf/SKILL.md\n") || !strings.Contains(r.stdout, "allowed-tools") {
		t.Errorf("the review says\n%s", r.stdout)
	}
	approve(f)
	if got := f.run("exec", "-e", "return (await import('/skills/pdf/index.js')).default()").want(0).stdout; got != "one\n" {
		t.Errorf("the skill gives %s", got)
	}

	// What changes at the server is held again.
	from.write("new/pdf/index.js", "export default () => 'two'")
	from.run("skills", "add", "./new", "--skill", "pdf").want(0)
	approve(from)
	f.run("skills", "add", "mcp:other/skill://pdf/SKILL.md", "--json").want(0).value(&added)
	if len(added.Skills) != 1 || added.Skills[0].State != "held" || added.Skills[0].Conflict != "" {
		t.Errorf("%+v", added)
	}
	if got := f.run("exec", "-e", "return (await import('/skills/pdf/index.js')).default()").want(0).stdout; got != "one\n" {
		t.Errorf("before the second review the skill gives %s", got)
	}
	for source, says := range map[string]string{
		"mcp:other/skill://held/SKILL.md": "no skill at this URI", "mcp:crm": "does not offer this extension", "mcp:none": `unknown server "none"`,
	} {
		if r := f.run("skills", "add", source); r.code == 0 || !strings.Contains(r.stderr, says) {
			t.Errorf("%s: %d %s", source, r.code, r.stderr)
		}
	}
}

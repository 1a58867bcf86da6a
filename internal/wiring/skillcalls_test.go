package wiring_test

import (
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/skills"
)

// promote writes a skill of a user and promotes it without tests.
func promote(t *testing.T, saved *skills.Store, user, name string, c skills.Content) {
	t.Helper()
	if err := saved.Put(t.Context(), user, name, c); err != nil {
		t.Fatal(err)
	}
	if _, err := saved.Promote(t.Context(), user, name, user, true, time.Now()); err != nil {
		t.Fatal(err)
	}
}

// typed is a skill that takes a number n.
func typed(name, main string) skills.Content {
	c := folder(name, main)
	c["SKILL.md"] = []byte("---\nname: " + name + "\ndescription: Doubles an amount with the server.\nmetadata:\n  input: '{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\"}},\"required\":[\"n\"]}'\n---\n")
	return c
}

// TestSkillCalls: a promoted skill is a function of programs. Its calls are calls of the run, and a replay is the same after the skill is gone.
func TestSkillCalls(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, "up")
	f := setup(t, nil, up.entry)
	saved, err := f.Skills()
	if err != nil {
		t.Fatal(err)
	}
	double := typed("double", "import two from './two.js'\nexport default async ({ n }) => ({ doubled: (await tools.up.read({ n })).n * two })")
	double["two.js"] = []byte("export default 2")
	promote(t, saved, "local", "double", double)
	promote(t, saved, "local", "crm/list.ts", skills.Content{"list.ts": []byte("/** Lists.\n * Input: {\"type\":\"array\"} */\nexport default async (all: unknown[]) => all.length")})
	promote(t, saved, "eve", "secret", typed("secret", "export default () => 'secret'"))

	out, err := f.Runs().Execute(t.Context(), code(`
import { double as imported } from './servers/skills'
const own = await tools.skills.double({ n: 21 })
return [own.doubled, (await imported({ n: 2 })).doubled, (await callMCPTool('skills__double', { n: 3 })).doubled, (await tools.skills.double(4)).doubled,
  await tools.skills.crmList([1, 2, 3]), Object.keys(tools.skills).join(), (await list_mcp_tools()).filter((n) => n.startsWith('skills')).join(),
  await tools.skills.secret({ n: 1 }).catch((e) => e.message.includes('not found')), await tools.skills.double({ n: 'x' }).catch((e) => e.name),
  (await fs.readFile('./servers/skills/double.ts')).includes('n: number')].join('|')`))
	if err != nil || out.Error != nil {
		t.Fatal(err, out.Error)
	}
	if got, want := string(out.Output), `"42|4|6|8|3|crmList,double|skills__crm_list,skills__double|true|ToolError|true"`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if n := len(up.called()); n != 4 {
		t.Errorf("the server was called %d times", n)
	}
	if err := saved.Remove(t.Context(), "local", "double", "local", true); err != nil {
		t.Fatal(err)
	}
	if again := f.replayed(f.journalOf(out.RunID), ""); again.Error != nil || string(again.Output) != string(out.Output) {
		t.Errorf("the replay gives %s, %+v", again.Output, again.Error)
	}
	if n := strings.Count(strings.Join(up.called(), ","), "read"); n != 4 {
		t.Errorf("a replay called the server: %d calls", n)
	}
}

package wiring_test

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/skills"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/usage"
	"mcp-code-exec-harness/internal/versions"
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

// savedBy returns the saved skills of a harness.
func savedBy(t *testing.T, f *fixture) *skills.Store {
	t.Helper()
	saved, err := f.Skills()
	if err != nil {
		t.Fatal(err)
	}
	return saved
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
	saved := savedBy(t, f)
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
  await tools.skills.secret({ n: 1 }).catch((e) => e.message.includes('no promoted skill')), await tools.skills.double({ n: 'x' }).catch((e) => e.name),
  (await fs.readFile('./servers/skills/double.ts')).includes('n: number')].join('|')`))
	if err != nil || out.Error != nil {
		t.Fatal(err, out.Error)
	}
	if got, want := string(out.Output), `"42|4|6|8|3|crmList,double|skills__crm/list,skills__double|true|ToolError|true"`; got != want {
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

// TestSkillCallsRefused: skills that call skills end: at a depth, with an error that names them. A skill that has changed since its promotion, one that is promoted no more
// and one that its owner does not share any more are refused in the middle of a run. Concurrent calls, and skills of skills, take no runner.
func TestSkillCallsRefused(t *testing.T) {
	t.Parallel()
	f := setup(t, map[string]string{"sandbox.pool": "1"})
	saved := savedBy(t, f)
	for name, main := range map[string]string{
		"again":  "export default async ({ n }) => n === 0 ? 0 : 1 + await tools.skills.again({ n: n - 1 })",
		"other":  "import { again } from './servers/skills'\nexport default ({ n }) => again({ n })",
		"named":  "export default async ({ n }) => n === 0 ? 0 : (await callMCPTool('skills__named', { n: n - 1 }))",
		"late":   "export default async () => { await new Promise((r) => setTimeout(r, 1)); return 'late' }",
		"thrown": "export default async () => { throw new RangeError('too far') }",
	} {
		promote(t, saved, "local", name, typed(name, main))
	}
	out := f.exec(code(`
const caught = async (p) => { try { return await p } catch (e) { return e.name + ': ' + e.message } }
return [await tools.skills.again({ n: 7 }), await caught(tools.skills.again({ n: 8 })), await caught(tools.skills.other({ n: 9 })), await caught(tools.skills.named({ n: 9 })),
  (await Promise.all(Array.from({ length: 50 }, () => tools.skills.late({ n: 1 })))).length, await caught(tools.skills.thrown({ n: 1 }))]`))
	deep := "ToolError: skills call each other more than 8 deep: %s; a skill that calls itself has to end before that"
	chain := func(first string, n int) string {
		return strings.Replace(deep, "%s", first+strings.Repeat(" > again", n), 1)
	}
	want := []any{7.0, chain("again", 8), chain("other", 8), strings.ReplaceAll(chain("again", 8), "again", "named"), 50.0, "RangeError: too far"}
	if got := decoded[[]any](t, out); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}

	steps := 0
	program := code(`
const caught = async (p) => { try { return await p } catch (e) { return e.message } }
const results = [await caught(tools.skills.late({ n: 1 }))]
await tools.skills.thrown({ n: 1 }).catch(() => console.log('change'))
for (let i = 0; i < 2; i++) { results.push(await caught(tools.skills.late({ n: 1 }))); console.log('demote') }
return results`)
	program.Observe = func(e run.Event) {
		if e.Log == nil {
			return
		}
		var err error
		if steps++; steps == 1 {
			err = saved.Put(t.Context(), "local", "late", typed("late", "export default () => 'other'"))
		} else {
			err = saved.Demote(t.Context(), "local", "late")
		}
		if err != nil {
			t.Error(err)
		}
	}
	got := decoded[[]string](t, f.exec(program))
	if len(got) != 3 || got[0] != "late" || !strings.Contains(got[1], "skill late has changed since it was promoted") || !strings.Contains(got[2], "no promoted skill late") {
		t.Errorf("got %q", got)
	}
}

// TestSkillCallsPolicy: a rule names the function of a skill as a tool. Approvals work for the function and within it, also with one runner and after a crash.
func TestSkillCallsPolicy(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, "up")
	rules := `[{tools: skills__never, action: deny, reason: not this one}, {tools: skills__asked, action: ask}, {tools: up__send, action: ask}]`
	f := setup(t, map[string]string{"policy.rules": rules, "sandbox.pool": "1"}, up.entry)
	saved := savedBy(t, f)
	for _, name := range []string{"never", "asked", "sends"} {
		promote(t, saved, "local", name, typed(name, "export default async ({ n }) => (await tools.up.send({ n })).n + 1"))
	}
	out := f.waits(`
let denied
try { await tools.skills.never({ n: 1 }) } catch (e) { denied = e.name + ': ' + e.message }
return [denied, await tools.skills.sends({ n: 1 }), await tools.skills.asked({ n: 2 })]`)
	var asked []string
	for out.Status == run.WaitingApproval {
		asked = append(asked, out.Approval.Calls[0].Tool)
		out = f.decide(out, approve)
	}
	if got, want := strings.Join(asked, " "), "up__send skills__asked up__send"; got != want {
		t.Errorf("asked about %s, want %s", got, want)
	}
	if got := decoded[[]any](t, out); got[0] != "DeniedError: skills__never was not called: rule 1 (tools skills__never) denies skills__never: not this one" || got[1] != 2.0 || got[2] != 3.0 {
		t.Errorf("got %v", got)
	}
	f.replay(out)

	// An approval is for the code that was approved.
	out = f.waits(`return await tools.skills.asked({ n: 5 })`)
	promote(t, saved, "local", "asked", typed("asked", "export default () => 'other code'"))
	if out = f.decide(out, approve); out.Status != run.WaitingApproval {
		t.Errorf("other code was executed under an approval: %s, %+v", out.Output, out.Error)
	}
}

// TestSkillCallsCounted: the figures of a skill are those of its function: calls, failures, and the time until it has ended. A run that ends within the function counts.
func TestSkillCallsCounted(t *testing.T) {
	t.Parallel()
	f := setup(t, map[string]string{"sandbox.timeout": "1s"})
	saved := savedBy(t, f)
	promote(t, saved, "local", "slow", typed("slow", "export default async ({ n }) => { if (n < 0) throw new Error('no'); if (n > 50) for (;;); await new Promise((r) => setTimeout(r, n)) }"))
	for i := range 3 {
		f.exec(code("await Promise.allSettled([tools.skills.slow({ n: 30 }), callMCPTool('skills__slow', { n: -1 }), tools.skills.slow({ n: 'x' })]); return " + strconv.Itoa(i)))
	}
	if out := f.exec(code("await tools.skills.slow({ n: 99 })")); kind(out) != "timeout" {
		t.Errorf("an endless skill: %+v", out)
	}
	store, err := f.Store()
	if err != nil {
		t.Fatal(err)
	}
	report, err := store.Usage(t.Context(), usage.Query{By: usage.ByTool})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(report.Rows, func(l usage.Line) bool { return l.Name == "skills__slow" })
	if i < 0 {
		t.Fatalf("rows %+v", report.Rows)
	}
	if r := report.Rows[i]; r.Calls < 7 || r.CallsFailed < 4 || r.CallTimes == nil || r.CallTimes.P99 < 20 {
		t.Errorf("figures %+v, %+v", r, r.CallTimes)
	}
}

// TestSkillCallsShared: a promoted skill of another user is a function for those who have reviewed it, in the version that they use, and for nobody else.
func TestSkillCallsShared(t *testing.T) {
	t.Parallel()
	s := newSharers(t)
	promote(t, s.bobs, "bob", "lib", typed("lib", "import one from './one.js'\nexport default ({ n }) => n + one"))
	c := typed("lib", "import one from './one.js'\nexport default ({ n }) => n + one")
	c["one.js"] = []byte("export default 1")
	promote(t, s.bobs, "bob", "lib", c)
	s.share("bob", "lib", "ann", versions.Use)
	const call = `return await tools.skills['@bob/lib']({ n: 1 })`
	if out := s.as("ann", call); out.Error == nil {
		t.Errorf("an unreviewed skill: %s", out.Output)
	}
	s.accept("ann", "@bob/lib")
	if out := s.as("ann", `return [await tools.skills['@bob/lib']({ n: 1 }), Object.keys(tools.skills), (await search_mcp_tools('doubles an amount'))[0].name]`); string(out.Output) != `[2,["bobLib"],"skills__@bob/lib"]` {
		t.Errorf("%s, %+v", out.Output, out.Error)
	}
	if out := s.as("eve", call); out.Error == nil {
		t.Errorf("a user whom it is not shared with: %s", out.Output)
	}
	out := s.as("ann", call)
	if _, err := s.bobs.Unshare(s.Context(), "bob", "lib", "ann"); err != nil {
		t.Fatal(err)
	}
	if out := s.as("ann", call); out.Error == nil {
		t.Errorf("after the end of the share: %s", out.Output)
	}
	s.there.replay(out)
}

// TestSkillCallsChecked: what a program passes to a skill is checked before it runs.
func TestSkillCallsChecked(t *testing.T) {
	t.Parallel()
	f := setup(t, map[string]string{"sandbox.check": "refuse"})
	saved := savedBy(t, f)
	promote(t, saved, "local", "double", typed("double", "export default ({ n }) => n * 2"))
	for program, want := range map[string]string{
		`return await tools.skills.double({ n: 1 })`:                 "",
		`return await tools.skills.double({ m: 1 })`:                 "m",
		`return await tools.skills.trouble({ n: 1 })`:                "has no tool",
		`return await callMCPTool('skills__double', { n: 'seven' })`: "n",
	} {
		out, err := f.Runs().Execute(t.Context(), code(program))
		if err != nil {
			t.Fatal(err)
		}
		if got := out.Error; (got == nil) != (want == "") || got != nil && (got.Name != "CheckError" || !strings.Contains(got.Message, want)) {
			t.Errorf("%s: %+v", program, got)
		}
	}
	single, err := f.Runs().Execute(t.Context(), runs.CallOf("callMCPTool", "skills__double", []byte(`{"n":4}`)))
	if err != nil || string(single.Output) != "8" {
		t.Errorf("a single call: %+v, %v", single, err)
	}
}

// TestSkillUses: a run that imports a skill or calls it counts as a use, and the request of its task finds the skill later in other words than its own, for the same
// user only. A value in the request is a token.
func TestSkillUses(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	saved := savedBy(t, f)
	for _, user := range []string{"ann", "eve"} {
		promote(t, saved, user, "q7", folder("q7", "export default (n) => { if (n < 0) throw new Error('no'); return 1 }"))
	}
	if err := saved.Put(t.Context(), "ann", "crm/one.ts", skills.Content{"one.ts": []byte("export const one = 1")}); err != nil {
		t.Fatal(err)
	}
	const asked = "Who among our debtors is overdue? Mail to [EMAIL_1]."
	for _, program := range []string{
		"import q from '/skills/q7'\nimport { one } from '/skills/crm/one'\nreturn q(one)", "return await tools.skills.q7({})", "return (await import('/skills/q7')).default(-1)",
	} {
		if _, err := f.Runs().Execute(t.Context(), runs.Request{User: "ann", Code: program, Asked: asked}); err != nil {
			t.Fatal(err)
		}
	}
	uses, err := saved.Uses(t.Context(), "ann")
	if err != nil || len(uses) != 2 {
		t.Fatalf("uses %+v, %v", uses, err)
	}
	if u := uses["q7"]; u.Runs != 3 || u.Failed != 1 || len(u.Requests) != 1 || u.Requests[0] != asked || uses["crm/one.ts"].Runs != 1 {
		t.Errorf("uses %+v", uses)
	}
	for user, want := range map[string]int{"ann": 2, "eve": 0} {
		found, _, err := saved.Search(t.Context(), user, "list the overdue debtors", 5)
		if err != nil || len(found) != want {
			t.Errorf("%s finds %d skills, %v", user, len(found), err)
		}
	}
	all, err := saved.Overview(t.Context(), "ann")
	if err != nil || len(all) != 2 || all[1].Uses == nil || all[1].Uses.Runs != 3 {
		t.Errorf("overview %+v, %v", all, err)
	}
}

// TestRepeats: the first task whose program does nearly what that of an earlier task of the same user did says so, once, unless the program came from a skill.
func TestRepeats(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, "up")
	f := setup(t, nil, up.entry)
	saved := savedBy(t, f)
	promote(t, saved, "ann", "two", folder("two", "export default async () => { await tools.up.read({ s: 1 }); return tools.up.put({ s: 2 }) }"))
	const two = "const r = await tools.up.read({ n: %d })\nawait callMCPTool('up__put', { n: r.n, of: '%[1]d' })"
	const one = "return (await tools.up.read({ q: 'of %d' })).q // number %[1]d"
	for i, step := range []struct{ user, program, repeats string }{
		{"ann", fmt.Sprintf(two, 1), ""},
		{"eve", fmt.Sprintf(two, 2), ""},
		{"ann", fmt.Sprintf(two, 3) + "\nthrow new Error('failed')", ""},
		{"ann", "// in other words\nconst first = await tools.up.read({ n: 7 }); const second = await tools.up.put({ of: 1, n: first.n }); return second", "task_0"},
		{"ann", fmt.Sprintf(two, 5), ""},
		{"ann", fmt.Sprintf(one, 6), ""},
		{"ann", "return (await tools.up.read({ q: 'x' })).q.length", ""},
		{"ann", fmt.Sprintf(one, 8), "task_5"},
		{"ann", "await tools.up.read({ n: 1 }); await tools.up.put({ m: 1 })", ""},
		{"ann", "await tools.skills.two({})", ""},
		{"ann", "return await (await import('/skills/two')).default()", ""},
		{"ann", "return 1 + 1", ""},
		{"ann", "return 1 + 1", ""},
	} {
		id := fmt.Sprint("task_", i)
		out, err := f.Runs().Execute(t.Context(), runs.Request{User: step.user, Task: id, Code: step.program})
		if err != nil {
			t.Fatal(err)
		}
		got, err := f.Runs().Repeats(t.Context(), task.Task{ID: id, UserID: step.user, Status: task.Succeeded})
		if err != nil {
			t.Fatal(err)
		}
		if (got == nil) != (step.repeats == "") || got != nil && (got.Task != step.repeats || got.Run != out.RunID) {
			t.Errorf("%s repeats %+v, want %q", id, got, step.repeats)
		}
	}
}

package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/modelview"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/task"
)

// TestTask carries out a task with all tools up to its answer.
func TestTask(t *testing.T) {
	t.Parallel()
	w := newWorld(
		t,
		calls(searchTools, `{"query":"find customers","limit":"3"}`, getToolDetails, `{"names":"crm__search"}`),
		runs("one"),
		says("There are 3 rows."),
	)
	w.programs["one"] = succeeds(`{"rows":3}`, "looking")
	w.prices = model.Prices{"test/scripted": {Input: 1, Output: 10}}
	ended := w.do()
	if got, want := stepKinds(w.steps), "note ask turn result result ask turn run result ask turn"; got != want {
		t.Errorf("steps: %s", got)
	}
	if got, want := w.kinds(), []string{
		task.EventTurn, task.EventTurn, task.EventRunStarted, task.EventCall, task.EventAnswer, task.EventLog, task.EventRunEnded, task.EventTurn,
	}; !slices.Equal(got, want) {
		t.Errorf("events: %v", got)
	}
	cost := (300*1 + 50*10) / 1e6
	want := newTask()
	want.Status, want.Message, want.Text = task.Succeeded, "Answered after 3 turns and 1 run.", "There are 3 rows."
	want.Output, want.Logs, want.Runs = []byte(`{"rows":3}`), []string{"looking"}, []string{"run_1"}
	want.Usage = task.Usage{
		Model: "scripted", Turns: 3, Runs: 1, Calls: 1, Tokens: model.Usage{Input: 300, Output: 50}, CostUSD: &cost,
		Direct: ended.Usage.Direct,
	}
	if diff := cmp.Diff(want, ended, cmpopts.EquateApprox(1e-9, 0)); diff != "" {
		t.Errorf("task (-want +got):\n%s", diff)
	}
	written, read := tokensOf(len(`crm__search{"q":"acme"}`)), tokensOf(len(`{"rows":[1,2,3]}`))
	direct := &task.Direct{
		Definitions: 1000, Intermediate: written + read, Context: 1000 + written + read, Input: 2000 + written + read,
		Output: written + tokensOf(len(ended.Text)), Estimated: true,
	}
	if diff := cmp.Diff(direct, ended.Usage.Direct); diff != "" {
		t.Errorf("direct (-want +got):\n%s", diff)
	}
	last := w.requests[2].Messages
	if len(last) != 5 || last[0].Text != "count the rows" {
		t.Fatalf("last request: %+v", last)
	}
	if got := last[2].Results; len(got) != 2 || got[0].Text != "tools for find customers, 3" || got[1].Text != "details of crm__search" ||
		got[0].CallID != "call_0" || got[1].CallID != "call_1" || got[0].Name != searchTools {
		t.Errorf("results: %+v", got)
	}
	if got := last[4].Results; len(got) != 1 || got[0].Text != "output:\n{\n  \"rows\": 3\n}\n\nlogs:\nlooking\n" || got[0].IsError {
		t.Errorf("result: %+v", got)
	}
	if w.latest == nil || w.latest.Usage.Calls != 1 || w.latest.Status != task.Running {
		t.Errorf("progress: %+v", w.latest)
	}
}

// TestFailedRun: the model gets everything about a failed run that it needs to continue.
func TestFailedRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runs("bad"), runs("good"), says("done"))
	w.programs["bad"] = fails(
		run.Effect{Call: 1, Kind: "tool", Name: "mailer__send", State: "done"}, run.Effect{Call: 2, Kind: "tool", Name: "crm__add", State: "in_doubt"},
		run.Effect{Call: 3, Kind: "fs", Name: "writeFile", State: "done"},
	)
	w.programs["good"] = succeeds(`null`)
	ended := w.do()
	if ended.Status != task.Succeeded || string(ended.Output) != "null" || ended.Error != nil {
		t.Errorf("task: %+v", ended)
	}
	got := w.requests[1].Messages[2].Results[0]
	want := `failed
ToolError (tool): Tool not found: crm__serach. Closest: crm__search, crm__save
  at program:3:7
    await callMCPTool('crm__serach')
          ^
  hint: look at the names
  effect: call 1, tool mailer__send {"path":"/workspace/a.json"}: done
  effect: call 2, tool crm__add {"path":"/workspace/a.json"}: in doubt, it may have happened: look before repeating it
  effect: call 3, fs writeFile /workspace/a.json: done
  run: run_1

logs:
error: oh

What is marked as done above was done: do not repeat it. What is in doubt may have happened: look before you do anything about it. Correct the cause, and run a program for what is left to do.
`
	if diff := cmp.Diff(want, got.Text); diff != "" || !got.IsError {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	if got := w.requests[2].Messages[4].Results[0].Text; got != "output:\nnull\n" && !strings.Contains(got, "returned and printed nothing") {
		t.Errorf("a program without a result is told as %q", got)
	}
}

// TestNothingWritten: if a failed program has written nothing, the result says so.
func TestNothingWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runs("bad"), says("no"))
	w.programs["bad"] = fails()
	w.do()
	if got := w.requests[1].Messages[2].Results[0].Text; !strings.HasSuffix(got, "\nThe program had written nothing. Correct the cause, and run a program for what is left to do.\n") {
		t.Errorf("got %s", got)
	}
}

// TestWrongCalls: calls that cannot be executed get an error as result, and the task continues.
func TestWrongCalls(t *testing.T) {
	t.Parallel()
	wrong := calls(executeCode, `{}`, executeCode, `{"code":5}`, executeCode, `{"code":"  "}`, "crm__search", `{"q":"x"}`, searchTools, `{"query":""}`,
		getToolDetails, `{}`, getToolDetails, `{"names":[1]}`, executeCode, `{}`)
	wrong.Calls[7].Malformed = "{\"code\": \"return \n"
	w := newWorld(t, wrong, says("done"))
	if ended := w.do(); ended.Status != task.Succeeded || len(ended.Runs) != 0 {
		t.Errorf("task: %+v", ended)
	}
	results := w.requests[1].Messages[2].Results
	for i, want := range []string{
		"There is no program in \"{}\".", `There is no program in "{\"code\":5}".`, "There is no program in",
		`You have no tool "crm__search"; yours are execute_code, search_tools and get_tool_details. Tools of servers are called by programs: ` +
			`execute_code with {"code": "return await callMCPTool('crm__search', {…})"}.`,
		"There is no query in", "There are no names in", "There are no names in", `The input is not a JSON object: "{\"code\": \"return \n"`,
	} {
		if got := results[i]; !strings.HasPrefix(got.Text, strings.ReplaceAll(want, "\n", `\n`)) || !got.IsError {
			t.Errorf("result %d: %s", i, got.Text)
		}
	}
}

// TestEndings: the status, the message and the text of a task report correctly how it ended.
func TestEndings(t *testing.T) {
	t.Parallel()
	refusal := &model.Turn{Text: "I will not", Stop: model.StopRefusal}
	long := &model.Turn{Text: "A long ", Stop: model.StopLength}
	for _, c := range []struct {
		name    string
		turns   []*model.Turn
		status  task.Status
		kind    string
		message string
		text    string
	}{
		{"answer", []*model.Turn{says("hello")}, task.Succeeded, "", "Answered after 1 turn.", "hello"},
		{"refusal", []*model.Turn{refusal}, task.Failed, task.KindModel, "The model refused: I will not.", "I will not"},
		{"cut once", []*model.Turn{long, says("answer")}, task.Succeeded, "", "Answered after 2 turns.", "A long answer"},
		{
			"cut too often",
			[]*model.Turn{long, long, long},
			task.Failed, task.KindModel, "Stopped: the model's answer did not fit into 3 turns (model.maxTokens); its beginning is there.", "A long A long A long ",
		},
		{"empty once", []*model.Turn{says(""), says("x")}, task.Succeeded, "", "Answered after 2 turns.", "x"},
		{"empty twice", []*model.Turn{says(" "), says("")}, task.Failed, task.KindModel, "The model gave no answer, though it was asked twice.", ""},
		{
			"empty after a run",
			[]*model.Turn{runs("good"), says(""), says("")},
			task.Succeeded, "", "Ended after 3 turns and 1 run; the model wrote no answer, the output is what the last run returned.", "",
		},
		{
			"empty after a run that failed",
			[]*model.Turn{runs("bad"), says(""), says("")},
			task.Failed, task.KindRun,
			"The model ended after 3 turns and 1 run without an answer, and the last run had failed. Writes of runs that did not succeed: " +
				"mailer__send (run_1, call 1).", "",
		},
		{"cut and then empty", []*model.Turn{long, says(""), says("")}, task.Succeeded, "", "Answered after 3 turns.", "A long "},
		{"script ends", []*model.Turn{runs("good")}, task.Failed, task.KindModel, "Stopped after 1 turn and 1 run: the script has 1 turns.", ""},
		{"fault", []*model.Turn{runs("none")}, task.Failed, task.KindInternal, `Stopped by an internal error: run run_1: it cannot be worked: no program is "none".`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.turns...)
			w.programs["good"] = succeeds("7")
			w.programs["bad"] = fails(run.Effect{Call: 1, Kind: "tool", Name: "mailer__send", State: "done"})
			got := w.do()
			if got.Status != c.status || got.Message != c.message || strings.TrimSpace(got.Text) != strings.TrimSpace(c.text) {
				t.Errorf("%s: %q, text %q", got.Status, got.Message, got.Text)
			}
			var kind string
			if got.Error != nil {
				kind = got.Error.Kind
			}
			if kind != c.kind {
				t.Errorf("kind %q", kind)
			}
		})
	}
}

// TestCutOffCall: a program that may be incomplete is not executed.
func TestCutOffCall(t *testing.T) {
	t.Parallel()
	cut := runs("good", "half")
	cut.Stop = model.StopLength
	w := newWorld(t, cut, says("done"))
	w.programs["good"] = succeeds("1")
	if ended := w.do(); ended.Status != task.Succeeded || len(ended.Runs) != 1 {
		t.Errorf("task: %+v", ended)
	}
	if got := w.requests[1].Messages[2].Results[1]; !got.IsError || !strings.HasPrefix(got.Text, "This call was not done") {
		t.Errorf("result: %+v", got)
	}
}

// TestContextAndSkills: the first message contains the context and the skills.
func TestContextAndSkills(t *testing.T) {
	t.Parallel()
	w := newWorld(t, says("ok"))
	w.tokens = 50
	w.skills = []modelview.Skill{{Name: "/skills/a.js", Description: "Sums\n up."}, {Name: "/skills/b.js"}}
	nt := newTask()
	nt.Context = []byte(`{"note":"` + strings.Repeat("word ", 1000) + `"}`)
	if _, err := w.agent().Do(t.Context(), nt, nil, nil, w); err != nil {
		t.Fatal(err)
	}
	got := w.requests[0].Messages[0].Text
	for _, want := range []string{
		"count the rows\n\nContext that came with the task:\n\n{\"note\":\"word", "the whole is in /workspace/results/task_1/context.json",
		"fs.readFile):\n\n- /skills/a.js: Sums up.\n- /skills/b.js",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if string(nt.Context) != w.files["/workspace/results/task_1/context.json"] {
		t.Error("the context was not kept")
	}
}

// TestSkillsInSearch: the answer to a search has the saved skills that fit, without personal data.
func TestSkillsInSearch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calls(searchTools, `{"query":"x"}`), says("ok"))
	w.search = func(context.Context, string) (string, error) { return "crm__search\n", nil }
	w.found = []modelview.Skill{{Name: "/skills/a.js", Description: "Sums\n up for ada@acme.com."}}
	if _, err := w.privateAgent(pii.NewMemory(1)).Do(t.Context(), newTask(), nil, nil, w); err != nil {
		t.Fatal(err)
	}
	want := "crm__search\n\nSaved skills, which programs import:\n/skills/a.js — Sums up for [EMAIL_1].\n"
	if got := w.requests[1].Messages[2].Results[0].Text; got != want {
		t.Errorf("got %q", got)
	}
}

// TestLongResult: a long result is cut, and the full text is saved in the workspace.
func TestLongResult(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runs("long"), calls(searchTools, `{"query":"x"}`), says("ok"))
	w.tokens = 100
	w.programs["long"] = succeeds(`"` + strings.Repeat("word ", 1000) + `"`)
	w.search = func(context.Context, string) (string, error) { return strings.Repeat("tool\n", 500), nil }
	w.do()
	if got := w.requests[1].Messages[2].Results[0].Text; !strings.Contains(got, "the whole is in /workspace/results/run_1/output.json") {
		t.Errorf("got %s", got)
	}
	if got := w.requests[2].Messages[4].Results[0].Text; !strings.Contains(got, "the whole is in /workspace/results/task_1/turn-2-call-1.txt") {
		t.Errorf("got %s", got)
	}
	if len(w.files) != 2 || w.files["/workspace/results/task_1/turn-2-call-1.txt"] != strings.Repeat("tool\n", 500) {
		t.Errorf("%d files", len(w.files))
	}
}

// TestSearchFails: the error of a search is the result of its call.
func TestSearchFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calls(searchTools, `{"query":"x"}`), says("ok"))
	w.search = func(context.Context, string) (string, error) { return "", errors.New("no index") }
	w.do()
	if got := w.requests[1].Messages[2].Results[0]; got.Text != "no index" || !got.IsError {
		t.Errorf("got %+v", got)
	}
}

// TestModels: if the model is not available, the task ends with a message that names the remedy.
func TestModels(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.agent()
	a.opt.Models = func(name string) (model.Model, error) {
		return nil, &model.Error{Kind: model.KindNoKey, Provider: "openai", Model: name, Message: "no API key is set", Remedy: "set OPENAI_API_KEY"}
	}
	nt := newTask()
	nt.Model = "gpt"
	ended, err := a.Do(t.Context(), nt, nil, nil, w)
	if err != nil || ended.Error == nil || ended.Error.Kind != task.KindModel ||
		ended.Message != "Stopped before the first turn: model openai/gpt: no key: no API key is set; set OPENAI_API_KEY." {
		t.Errorf("got %+v, %v", ended, err)
	}
}

// TestDeltas: the task's watchers get the deltas of the model.
func TestDeltas(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.generate = func(_ context.Context, _ int, req *model.Request) (*model.Turn, error) {
		req.OnDelta(model.Delta{Text: "a<b"})
		req.OnDelta(model.Delta{Call: executeCode, CallID: "c", Input: `{"co`})
		req.OnDelta(model.Delta{Notice: "overloaded", Reset: true})
		req.OnDelta(model.Delta{Notice: "again"})
		return stamped(says("x")), nil
	}
	w.do()
	want := []string{`{"text":"a<b"}`, `{"call":"execute_code","callId":"c","input":"{\"co"}`, `{"reset":true,"notice":"overloaded"}`, `{"notice":"again"}`}
	if diff := cmp.Diff(want, w.deltas); diff != "" {
		t.Error(diff)
	}
}

// TestLogs: a task keeps the last lines of its logs and reports how many are missing.
func TestLogs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runs("a"), runs("b"), says("ok"))
	many := make([]string, 800)
	for i := range many {
		many[i] = "line"
	}
	w.programs["a"], w.programs["b"] = succeeds("1", many...), succeeds("2", append(many, "last")...)
	got := w.do().Logs
	if len(got) != 1001 || got[0] != "[601 lines before this are left out; `harness runs show` has all of a run]" || got[1000] != "last" {
		t.Errorf("%d lines from %q to %q", len(got), got[0], got[len(got)-1])
	}
}

// TestManySkills: the skills in the prompt have a limited size. If the skills cannot be listed, the task begins without them.
func TestManySkills(t *testing.T) {
	t.Parallel()
	w := newWorld(t, says("ok"))
	for range 30 {
		w.skills = append(w.skills, modelview.Skill{Name: "/skills/a.js", Description: strings.Repeat("long ", 100)})
	}
	w.others = 7
	w.do()
	got := w.requests[0].Messages[0].Text
	shown := strings.Count(got, "- /skills/a.js: long")
	if shown < 3 || !strings.HasSuffix(got, fmt.Sprintf("\n- and %d more, which search_tools finds", 37-shown)) || tokensOf(len(got)) > maxSkillTokens+50 {
		t.Errorf("%d skills in %s", shown, got)
	}
	others := newWorld(t, says("ok"))
	others.others = 7
	others.do()
	if got := others.requests[0].Messages[0].Text; got != "count the rows\n\nSaved skills: 7, none of which fits these words; search_tools finds them by others." {
		t.Errorf("got %s", got)
	}
	none := newWorld(t, says("ok"))
	none.noSkills = errors.New("no such directory")
	none.do()
	if got := none.requests[0].Messages[0].Text; got != "count the rows" {
		t.Errorf("got %s", got)
	}
}

// TestManyEffects: the message of a task lists a limited number of effects.
func TestManyEffects(t *testing.T) {
	t.Parallel()
	var effects []run.Effect
	for n := range 30 {
		effects = append(effects, run.Effect{Call: n + 1, Kind: "tool", Name: "mailer__send", State: "done"})
	}
	w := newWorld(t, runs("bad"))
	w.programs["bad"] = fails(effects...)
	if got := w.do().Message; !strings.HasSuffix(got, "mailer__send (run_1, call 10) and 20 more.") {
		t.Errorf("got %s", got)
	}
}

// TestLongTexts: texts of models, users and servers are cut where the agent repeats them.
func TestLongTexts(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ж", 10_000)
	if got := quoted(long); len([]rune(got)) != maxQuoted+3 {
		t.Errorf("%d characters are quoted", len([]rune(got)))
	}
	if got := shortText(long); len(got) > maxShortText+100 || !strings.Contains(got, " bytes …]") || strings.ContainsRune(got, '\ufffd') {
		t.Errorf("got %s", got)
	}
	if got := sentence("Stopped", ""); got != "Stopped." {
		t.Errorf("got %s", got)
	}
}

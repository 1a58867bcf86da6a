package gate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/gate"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/origin"
	"mcp-code-exec-harness/internal/policy"
)

// notes lets crm__create_note have at $.to what some origins said.
func notes(from ...string) []policy.Rule {
	return []policy.Rule{
		{Tools: []string{"crm__create_note"}, Args: map[string]policy.Condition{"$.to": {From: from}}, Action: policy.Allow},
		{Tools: []string{"crm__create_note"}, Action: policy.Deny},
	}
}

// remembering gives a fixture rules about where values come from.
func (f *fixture) remembering(memory *origin.Memory, history gate.History, rules ...policy.Rule) {
	f.t.Helper()
	p, err := policy.New(rules, "", nil, policy.Servers{})
	if err != nil {
		f.t.Fatal(err)
	}
	f.gate = gate.New(gate.Options{
		Catalog: f.catalog, Servers: f.servers, Now: func() time.Time { return f.now }, Policy: p, Origins: memory,
		History: func() (gate.History, error) { return history, nil },
	})
	f.scope.User = "ann"
	f.reopen(true)
}

// reopen ends the run and begins one with the fixture's scope.
func (f *fixture) reopen(ended bool) {
	f.Run.Close(ended)
	f.Run = f.gate.Open(f.scope)
}

// note is whether a value is let through, and else the error's message.
func (f *fixture) note(to string) string {
	_, err := f.do(frame.Tool, "crm__create_note", `{"input":{"to":`+string(mustEncode(to))+`}}`)
	if err != nil {
		return err.Message
	}
	return "noted"
}

// noted checks what becomes of notes with values.
func (f *fixture) noted(values map[string]string) {
	f.t.Helper()
	for to, want := range values {
		if got := f.note(to); !strings.HasSuffix(got, want) {
			f.t.Errorf("to %q: %s, want …%s", to, got, want)
		}
	}
}

// Every way in which a tool answers says values: structured content, texts, files, errors, resources, what is beside, what is too large.
func TestWaysOfAnswers(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.remembering(origin.NewMemory(origin.DefaultLimits), nil, notes("crm__search", "crm__resources/read")...)
	for name, raw := range map[string]string{
		"structured": `{"content":[{"type":"text","text":"beside-structured"}],"structuredContent":{"a":[{"b":"in-structured"}]}}`,
		"json":       `{"content":[{"type":"text","text":"{\"a\":\"in-json\"}"}]}`,
		"text":       `{"content":[{"type":"text","text":"it is in-text, see <in-brackets>"}]}`,
		"texts":      `{"content":[{"type":"text","text":"in-first"},{"type":"text","text":"in-second"}]}`,
		"resource":   `{"content":[{"type":"resource","resource":{"uri":"file:///in-name.txt","mimeType":"text/plain","text":"in-resource"}}]}`,
		"error":      `{"isError":true,"content":[{"type":"text","text":"ask in-error first"}]}`,
		"large":      `{"content":[{"type":"text","text":"` + strings.Repeat("x", 1000) + ` in-large"}]}`,
	} {
		f.servers.answer = func(context.Context, string, string, json.RawMessage) (*mcpclient.Result, error) {
			return result(raw), nil
		}
		if _, err := f.do(frame.Tool, "crm__search", `{"input":{"q":"a"}}`); (err != nil) != (name == "error") {
			t.Errorf("%s: %v", name, err)
		}
	}
	f.servers.answer = func(context.Context, string, string, json.RawMessage) (*mcpclient.Result, error) {
		return nil, &mcpclient.CallError{Server: "crm", Kind: mcpclient.KindRPC, Message: "use in-failure"}
	}
	if _, err := f.do(frame.Tool, "crm__search", `{"input":{"q":"a"}}`); err == nil {
		t.Error("no failure")
	}
	f.servers.contents = []mcpclient.ResourceContents{{URI: "crm://a", Text: "in-contents"}}
	if _, err := f.do(frame.Resource, "read", `{"server":"crm","uri":"crm://a"}`); err != nil {
		t.Error(err)
	}
	f.says("ok")
	f.noted(map[string]string{
		"in-structured": "noted", "beside-structured": "noted", "in-json": "noted", "in-text": "noted", "in-brackets": "noted", "in-first": "noted", "in-second": "noted",
		"in-resource": "noted", "1-in-name.txt": "noted", "in-error": "noted", "in-large": "noted", "in-failure": "noted", "in-contents": "noted",
		"in-nothing": "$.to is computed",
	})
	// The words of the harness itself are no tool's.
	if _, err := f.do(frame.Tool, "crm__search", `{"input":{"q":1,"forged-name":2}}`); err == nil {
		t.Error("wrong arguments were taken")
	}
	f.noted(map[string]string{"forged-name": "$.to is computed"})
}

// What the user says and puts there is theirs; what a program writes is not, nor an owner's file to which it has appended.
func TestWordsOfUsers(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.scope.Said = []string{"Tell Dora Smith (dora-1) and #team-b"}
	f.scope.Code = []string{`await tools.crm.createNote({to: 'in-code'})`, `{"to":"in-arguments"}`}
	f.remembering(origin.NewMemory(origin.DefaultLimits), nil, notes("user")...)
	for _, name := range []string{"given", "added"} {
		if _, _, err := f.work.WriteFrom(t.Context(), name, strings.NewReader("name,id\nbob,id-"+name+"\n")); err != nil {
			t.Fatal(err)
		}
	}
	for name, call := range map[string]string{
		"writeFile": `{"path":"/workspace/own","text":"id-own"}`, "appendFile": `{"path":"/workspace/added","text":"id-forged"}`,
	} {
		if _, err := f.do(frame.FS, name, call); err != nil {
			t.Fatal(err)
		}
	}
	f.noted(map[string]string{"id-given": "$.to is computed"}) // no program has read it
	for _, name := range []string{"given", "added", "own"} {
		if _, err := f.do(frame.FS, "readFile", `{"path":"/workspace/`+name+`","encoding":"utf8"}`); err != nil {
			t.Fatal(err)
		}
	}
	f.noted(map[string]string{
		"Dora Smith": "noted", "dora smith": "noted", "dora-1": "noted", "team-b": "noted", "#team-b": "noted", "id-given": "noted",
		"id-own": "$.to is computed", "id-forged": "$.to is computed", "id-added": "$.to is computed",
		"in-code": "$.to is in the program's text alone", "in-arguments": "$.to is in the program's text alone", "ode": "$.to is computed",
	})
}

// past is the recorded runs of a session.
type past struct {
	runs   []journal.RunInfo
	of     map[string][]journal.Record
	read   int
	broken bool
}

func (p *past) Runs(_ context.Context, f journal.Filter) ([]journal.RunInfo, string, error) {
	if f.User != "ann" || f.Session != "s" {
		return nil, "", errors.New("other runs were asked for")
	}
	return p.runs, "", nil
}

func (p *past) Read(_ context.Context, run string) ([]journal.Record, error) {
	p.read++
	if p.broken {
		return nil, errors.New("it is broken")
	}
	return p.of[run], nil
}

// recorded is a journal of calls and answers: a call of a tool with arguments, and the value or error of its answer.
func recorded(run string, calls ...[3]string) []journal.Record {
	records := []journal.Record{{Start: &journal.Start{Run: run}}}
	for i, c := range calls {
		records = append(records, journal.Record{Call: &journal.Call{N: i + 1, Kind: string(frame.Tool), Name: c[0], Args: json.RawMessage(`{"input":` + c[1] + `}`)}})
		a := &journal.Answer{N: i + 1}
		if strings.HasPrefix(c[2], `{"kind"`) {
			a.Error = json.RawMessage(c[2])
		} else {
			a.Value = json.RawMessage(c[2])
		}
		records = append(records, journal.Record{Answer: a})
	}
	return records
}

// Another process knows the values of a session's runs from their journals, each read once, and those of a run that goes on.
func TestValuesOfJournals(t *testing.T) {
	t.Parallel()
	f := setup(t)
	history := &past{
		runs: []journal.RunInfo{{ID: "run_2", Ended: f.now}, {ID: "run_1", Ended: f.now}, {ID: "run_x"}},
		of: map[string][]journal.Record{
			"run_1": recorded("run_1",
				[3]string{"crm__create_note", `{"to":"planted-1"}`, `"ok"`},
				[3]string{"crm__create_note", `{"to":"refused-1"}`, `{"kind":"denied","name":"DeniedError","message":"no"}`},
			),
			"run_2": recorded("run_2", [3]string{"CRM__Search", `{"q":"a"}`, `["said-2","planted-1","refused-1"]`}, [3]string{"crm__search", `{"q":"b"}`, `{"kind":"tool","name":"ToolError","message":"ask said-3"}`}),
		},
	}
	f.scope.Session = "s"
	f.scope.Recorded = recorded("run_x", [3]string{"crm__search", `{"q":"a"}`, `"said-x"`})
	memory := origin.NewMemory(origin.DefaultLimits)
	f.remembering(memory, history, notes("crm__search")...)
	want := map[string]string{
		"said-2": "noted", "said-3": "noted", "said-x": "noted", "refused-1": "noted", "planted-1": "$.to is computed", "other-1": "$.to is computed",
	}
	f.noted(want)
	f.scope.Recorded, f.scope.Run = nil, "run_y"
	f.reopen(true)
	f.noted(want)
	if history.read != 2 {
		t.Errorf("journals were read %d times", history.read)
	}
	// A run that goes on later is read again; one that another process works on, each time.
	f.reopen(false)
	history.runs = append(history.runs, journal.RunInfo{ID: "run_y"})
	history.of["run_y"] = recorded("run_y", [3]string{"crm__search", `{"q":"a"}`, `"said-y"`})
	f.scope.Run = "run_z"
	f.reopen(true)
	f.noted(map[string]string{"said-y": "noted"})
	f.scope.Session, f.scope.Run = "", "run_f"
	f.scope.Recorded = recorded("run_f", [3]string{"crm__search", `{"q":"a"}`, `{"file":"/workspace/results/run_f/1/result.txt","bytes":9}`})
	f.reopen(true)
	f.noted(map[string]string{"other-1": "$.to is of unknown origin"})
	f.scope.Session, f.scope.Recorded, f.scope.Run = "s", nil, "run_z"
	// What cannot be read may have said anything, and so may a file that was made of an answer.
	for name, spoil := range map[string]func(*past){
		"broken": func(p *past) { p.broken = true },
		"a file": func(p *past) {
			p.of["run_1"] = recorded("run_1", [3]string{"crm__search", `{"q":"a"}`, `{"file":"/workspace/results/run_1/1/result.txt","bytes":9}`})
		},
	} {
		of := &past{runs: history.runs, of: map[string][]journal.Record{}}
		spoil(of)
		f.remembering(origin.NewMemory(origin.DefaultLimits), of, notes("crm__search")...)
		if got := f.note("other-1"); !strings.HasSuffix(got, "$.to is of unknown origin") {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// Of a run without a session nothing is left when it is over, and a call that it has left behind brings nothing back.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	f := setup(t)
	memory := origin.NewMemory(origin.DefaultLimits)
	f.remembering(memory, nil, notes("crm__search")...)
	f.says("said-1")
	f.tool("crm__search", `{"q":"a"}`)
	f.noted(map[string]string{"said-1": "noted"})
	if memory.Bytes() == 0 {
		t.Error("a run remembers nothing")
	}
	f.Run.Close(true)
	if got := memory.Bytes(); got != 0 {
		t.Errorf("%d bytes are left of a run", got)
	}
	f.noted(map[string]string{"said-1": "$.to is of unknown origin"}) // a call that was left behind
	if got := memory.Bytes(); got != 0 {
		t.Errorf("%d bytes are taken behind the end of a run", got)
	}
}

// Values that have no room are of unknown origin, and no rule that allows takes them.
func TestMemoryIsFull(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.scope.MaxValue = 1 << 20
	f.remembering(origin.NewMemory(origin.Limits{Owner: 16 << 10, All: 1 << 20}), nil, notes("*")...)
	f.says("first-value")
	f.tool("crm__search", `{"q":"a"}`)
	var many strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&many, "value-%d ", i)
	}
	f.says(many.String() + "last-value")
	f.tool("crm__search", `{"q":"a"}`)
	f.noted(map[string]string{"first-value": "noted", "last-value": "$.to is of unknown origin", "no-value": "$.to is of unknown origin"})
}

// A call whose answer has 1 KiB costs at most 20 µs more with a rule about origins: go test -bench Origins.
func BenchmarkOrigins(b *testing.B) {
	answer := result(`{"structuredContent":[` + strings.TrimSuffix(strings.Repeat(
		`{"id":"c-1002","name":"Bob Brown","email":"bob@corp.example","url":"https://crm.example/c/1002?tab=notes","note":"Called twice, prefers mail."},`, 7), ",") + `]}`)
	for _, with := range []bool{false, true} {
		b.Run(fmt.Sprint(with), func(b *testing.B) {
			c := catalog.New()
			c.SetServer(crm)
			s := &servers{answer: func(context.Context, string, string, json.RawMessage) (*mcpclient.Result, error) { return answer, nil }}
			options := gate.Options{Catalog: c, Servers: s, Now: time.Now}
			if with {
				options.Origins = origin.NewMemory(origin.DefaultLimits)
			}
			r := gate.New(options).Open(gate.Scope{Run: "run_x", User: "ann", MaxCalls: 1 << 60, MaxValue: 1 << 20})
			defer r.Close(true)
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				n++
				call := &journal.Call{N: n, Kind: string(frame.Tool), Name: "crm__search", Args: json.RawMessage(`{"input":{"q":"customers","limit":7}}`)}
				if _, err := r.Prepare(call, nil)(b.Context(), flight{}); err != nil {
					b.Fatal(err)
				}
				s.called, s.keys, s.conns = s.called[:0], s.keys[:0], s.conns[:0]
			}
		})
	}
}

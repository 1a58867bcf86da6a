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

// notes returns rules that allow crm__create_note only if the value at $.to has one of the given origins.
func notes(from ...string) []policy.Rule {
	return []policy.Rule{
		{Tools: []string{"crm__create_note"}, Args: map[string]policy.Condition{"$.to": {From: from}}, Action: policy.Allow},
		{Tools: []string{"crm__create_note"}, Action: policy.Deny},
	}
}

// remembering gives a fixture a policy with rules about origins of values, and the memory and history for these origins.
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

// reopen closes the run and opens one with the fixture's scope.
func (f *fixture) reopen(ended bool) {
	f.Run.Close(ended)
	f.Run = f.gate.Open(f.scope)
}

// note calls crm__create_note with a value. It returns "noted" or the message of the error.
func (f *fixture) note(to string) string {
	_, err := f.do(frame.Tool, "crm__create_note", `{"input":{"to":`+string(mustEncode(to))+`}}`)
	if err != nil {
		return err.Message
	}
	return "noted"
}

// noted checks that note, called with each key of values, returns a text that ends with the value of that key.
func (f *fixture) noted(values map[string]string) {
	f.t.Helper()
	for to, want := range values {
		if got := f.note(to); !strings.HasSuffix(got, want) {
			f.t.Errorf("to %q: %s, want …%s", to, got, want)
		}
	}
}

// A tool becomes an origin of the values in every kind of answer: structured content, content in addition to it, texts, files, errors, resources and
// values that are too large.
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
	// A tool does not become an origin of values in an error of the harness.
	if _, err := f.do(frame.Tool, "crm__search", `{"input":{"q":1,"forged-name":2}}`); err == nil {
		t.Error("wrong arguments were taken")
	}
	f.noted(map[string]string{"forged-name": "$.to is computed"})
}

// The user is the origin of values in their texts and in files that they stored. The user is not the origin of values that a program writes, nor of
// any value in a file to which a program has appended.
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
	f.noted(map[string]string{"id-given": "$.to is computed"}) // No program has read the file.
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

// past has the recorded runs of a session.
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

// recorded returns the journal of a run. Each element of calls has the tool, the arguments, and the value or error of the answer.
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

// Another process learns the origins of values from the journals of a session's ended runs, each read once, and from the records of the run that it
// continues.
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
	// The journal of a run that may continue is read again for each later run.
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
	// If a journal cannot be read, or an answer was saved as a file, the origin of every other value is unknown.
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

// After the end of a run without a session, none of its values is remembered, and a call that is still in progress records none.
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
	f.noted(map[string]string{"said-1": "$.to is of unknown origin"}) // as by a call that is still in progress
	if got := memory.Bytes(); got != 0 {
		t.Errorf("%d bytes are taken behind the end of a run", got)
	}
}

// Values for which the memory has no room are of unknown origin, and no rule that allows matches them.
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

// BenchmarkOrigins measures a call with an answer of 1 KiB, without and with origins. Origins cost at most 20 µs: go test -bench Origins.
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

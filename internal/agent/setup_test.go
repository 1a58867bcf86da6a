package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/modelview"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/pii/detect"
	"mcp-code-exec-harness/internal/pii/seal"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/task"
)

// world stands for the environment of an agent: a store, a sandbox, a catalog and a model.
type world struct {
	t testing.TB

	mu     sync.Mutex
	steps  []task.Step // committed steps
	events []task.Event
	keys   map[string]bool
	latest *task.Task
	deltas []string
	fail   func(c task.Change) error // returns an error for a commit; if the error is errAfter, the change is committed before

	programs map[string]program
	ended    map[string]*run.Outcome // outcomes by run id, as a journal would keep them
	observed map[string][]run.Event
	executed []string // run ids, once for each start of a program
	asked    []string // run ids that were given to Execute
	files    map[string]string
	skills   []modelview.Skill // skills that fit the task
	found    []modelview.Skill // skills that fit a search
	others   int
	noSkills error

	turns    []*model.Turn // answers of the model: element n answers the request after n turns
	requests map[int]*model.Request
	window   int
	generate func(ctx context.Context, n int, req *model.Request) (*model.Turn, error) // replaces the answers in turns, unless it is nil

	search func(ctx context.Context, query string) (string, error)
	prices model.Prices
	budget task.Budget
	tokens int // Options.ResultTokens
}

// program stands for the execution of a program.
type program func(ctx context.Context, p Program) (*run.Outcome, error)

func newWorld(t testing.TB, turns ...*model.Turn) *world {
	return &world{
		t: t, keys: map[string]bool{}, programs: map[string]program{}, ended: map[string]*run.Outcome{}, observed: map[string][]run.Event{}, files: map[string]string{},
		requests: map[int]*model.Request{}, turns: turns, budget: task.Budget{Turns: 20},
	}
}

func (w *world) agent() *Agent {
	return New(Options{
		Models: func(string) (model.Model, error) { return worldModel{w}, nil },
		Runs:   worldRuns{w}, Catalog: worldCatalog{w}, Prices: w.prices, Budget: w.budget, ResultTokens: w.tokens,
		Now: time.Now, NewID: w.newID,
	})
}

// privateAgent returns an agent that hides personal data by a vault.
func (w *world) privateAgent(v pii.Vault) *Agent {
	w.t.Helper()
	d, err := detect.New(detect.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	a := w.agent()
	a.opt.Privacy = pii.New(pii.Options{
		Detector: d, Types: d.Types(), Now: time.Now, Vault: func() (pii.Vault, error) { return v, nil },
		Keys: func() (*seal.Keys, error) {
			return seal.New("the test", []byte("0123456789abcdefghijklmnopqrstuvwxyz"))
		},
	})
	return a
}

// newID returns ids that number the recorded runs, so that a continued task gets the same ids.
func (w *world) newID() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, s := range w.steps {
		if s.Run != nil {
			n++
		}
	}
	return fmt.Sprintf("run_%d", n+1)
}

var errAfter = errors.New("the process died after a commit")

func (w *world) Commit(_ context.Context, c task.Change) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var err error
	if w.fail != nil {
		if err = w.fail(c); err != nil && !errors.Is(err, errAfter) {
			return err
		}
	}
	for _, s := range c.Steps {
		if s.Seq != len(w.steps)+1 {
			w.t.Errorf("step %d is numbered %d", len(w.steps)+1, s.Seq)
		}
		text, failed := json.Marshal(s) // encodes and decodes the step, as a store does
		var stored task.Step
		if failed == nil {
			failed = json.Unmarshal(text, &stored)
		}
		if failed != nil {
			w.t.Errorf("store a step: %v", failed)
		}
		w.steps = append(w.steps, stored)
	}
	for _, e := range c.Events {
		if !json.Valid(e.Data) {
			w.t.Errorf("event %s has data %s", e.Type, e.Data)
		}
		if e.Key == "" || w.keys[e.Key] {
			continue
		}
		w.keys[e.Key] = true
		w.events = append(w.events, e)
	}
	if c.Task != nil {
		w.latest = c.Task
	}
	return err
}

func (w *world) Report(json.RawMessage) {}

func (w *world) Stream(data json.RawMessage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deltas = append(w.deltas, string(data))
}

// kinds returns the types of the events.
func (w *world) kinds() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var kinds []string
	for _, e := range w.events {
		kinds = append(kinds, e.Type)
	}
	return kinds
}

// stepKinds returns the kinds of steps.
func stepKinds(steps []task.Step) string {
	var kinds []string
	for _, s := range steps {
		switch {
		case s.Ask != nil:
			kinds = append(kinds, "ask")
		case s.Turn != nil:
			kinds = append(kinds, "turn")
		case s.Run != nil:
			kinds = append(kinds, "run")
		case s.Result != nil:
			kinds = append(kinds, "result")
		case s.Note != nil:
			kinds = append(kinds, "note")
		case s.Compact != nil:
			kinds = append(kinds, "compact")
		case s.Unanswered != nil:
			kinds = append(kinds, "unanswered")
		}
	}
	return strings.Join(kinds, " ")
}

type worldModel struct{ *world }

func (m worldModel) Info() model.Info {
	return model.Info{Provider: "test", Name: "scripted", ContextWindow: m.window, NativeTools: true}
}

func (m worldModel) Generate(ctx context.Context, req *model.Request) (*model.Turn, error) {
	m.mu.Lock()
	n := 0
	for _, s := range m.steps {
		if s.Turn != nil {
			n++
		}
	}
	if last := m.steps[len(m.steps)-1]; last.Ask == nil {
		m.t.Errorf("the model is asked behind %s", stepKinds(m.steps))
	}
	m.requests[n] = req
	m.mu.Unlock()
	if m.generate != nil {
		return m.generate(ctx, n, req)
	}
	if n >= len(m.turns) {
		return nil, fmt.Errorf("the script has %d turns", len(m.turns))
	}
	return stamped(m.turns[n]), nil
}

// stamped returns a turn with provider and model, as a model returns it.
func stamped(t *model.Turn) *model.Turn {
	turn := *t
	turn.Provider, turn.Model = "test", "scripted"
	return &turn
}

type worldRuns struct{ *world }

func (r worldRuns) Execute(ctx context.Context, p Program) (*run.Outcome, error) {
	r.mu.Lock()
	r.asked = append(r.asked, p.RunID)
	if last := r.steps[len(r.steps)-1]; last.Run == nil || last.Run.RunID != p.RunID {
		r.t.Errorf("run %s begins behind %s", p.RunID, stepKinds(r.steps))
	}
	if out := r.ended[p.RunID]; out != nil {
		r.mu.Unlock()
		for _, e := range r.observed[p.RunID] {
			p.Observe(e)
		}
		return out, nil
	}
	observe := p.Observe
	p.Observe = func(e run.Event) {
		r.mu.Lock()
		r.observed[p.RunID] = append(r.observed[p.RunID], e)
		r.mu.Unlock()
		observe(e)
	}
	r.executed = append(r.executed, p.RunID)
	do := r.programs[p.Code]
	r.mu.Unlock()
	if do == nil {
		return nil, fmt.Errorf("%w: no program is %q", task.ErrLasting, p.Code)
	}
	out, err := do(ctx, p)
	if err == nil {
		out.RunID = p.RunID
		r.mu.Lock()
		r.ended[p.RunID] = out
		r.mu.Unlock()
	}
	return out, err
}

func (r worldRuns) Abandon(context.Context, Program) (*run.Outcome, error) { return nil, nil }

func (r worldRuns) SaveFile(_ context.Context, user, session, name string, data []byte) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := path.Join("/workspace/results", name)
	r.files[at] = string(data)
	return at, nil
}

func (r worldRuns) Skills(ctx context.Context, _, request string) ([]modelview.Skill, int, error) {
	if request != newTask().Task {
		return r.found, 0, nil
	}
	return r.skills, r.others, errors.Join(r.noSkills, ctx.Err())
}

type worldCatalog struct{ *world }

func (c worldCatalog) Search(ctx context.Context, _, query string, limit int) (string, error) {
	if c.search != nil {
		return c.search(ctx, query)
	}
	return fmt.Sprintf("tools for %s, %d", query, limit), nil
}

func (c worldCatalog) Details(_ context.Context, _ string, names []string) (string, error) {
	return "details of " + strings.Join(names, ", "), nil
}

func (c worldCatalog) Definitions() int { return 1000 }

// do carries out a new task to its end.
func (w *world) do(history ...task.Past) task.Task {
	w.t.Helper()
	ended, err := w.agent().Do(context.Background(), newTask(), history, slices.Clone(w.steps), w)
	if err != nil {
		w.t.Fatal(err)
	}
	return ended
}

func newTask() task.Task {
	return task.Task{ID: "task_1", SessionID: "sess_1", UserID: "u", Task: "count the rows", Status: task.Running}
}

// says returns a turn that answers.
func says(text string) *model.Turn {
	return &model.Turn{Text: text, Stop: model.StopEnd, Usage: model.Usage{Input: 100, Output: 10}}
}

// calls returns a turn that calls tools; names and inputs alternate in pairs.
func calls(pairs ...string) *model.Turn {
	t := &model.Turn{Stop: model.StopTools, Usage: model.Usage{Input: 100, Output: 20}}
	for i := 0; i < len(pairs); i += 2 {
		t.Calls = append(t.Calls, model.ToolCall{ID: fmt.Sprintf("call_%d", i/2), Name: pairs[i], Input: json.RawMessage(pairs[i+1])})
	}
	return t
}

// runs returns a turn that runs programs.
func runs(codes ...string) *model.Turn {
	var pairs []string
	for _, code := range codes {
		pairs = append(pairs, executeCode, string(encode(map[string]string{"code": code})))
	}
	return calls(pairs...)
}

// succeeds returns a program that calls a tool, prints lines and returns a value.
func succeeds(output string, logs ...string) program {
	return func(_ context.Context, p Program) (*run.Outcome, error) {
		args, answer := json.RawMessage(`{"q":"acme"}`), json.RawMessage(`{"rows":[1,2,3]}`)
		p.Observe(run.Event{Call: &journal.Call{N: 1, Kind: "tool", Name: "crm__search", Args: args}})
		p.Observe(run.Event{Answer: &journal.Answer{N: 1, Value: answer}})
		out := &run.Outcome{Status: run.Succeeded, Output: json.RawMessage(output), Logs: []run.Log{}, Calls: 1}
		for _, text := range logs {
			line := run.Log{Level: "log", Text: text}
			p.Observe(run.Event{Log: &line})
			out.Logs = append(out.Logs, line)
		}
		return out, nil
	}
}

// fails returns a program that writes and then fails.
func fails(effects ...run.Effect) program {
	return func(_ context.Context, p Program) (*run.Outcome, error) {
		for _, e := range effects {
			p.Observe(run.Event{Call: &journal.Call{N: e.Call, Kind: e.Kind, Name: e.Name, Args: json.RawMessage(`{"path":"/workspace/a.json"}`)}})
		}
		return &run.Outcome{
			Status: run.Failed, Output: json.RawMessage("null"), Logs: []run.Log{{Level: "error", Text: "oh"}}, Effects: effects, Calls: len(effects),
			Error: &run.Error{
				Kind: frame.KindTool, Name: "ToolError", Message: "Tool not found: crm__serach. Closest: crm__search, crm__save", Line: 3, Column: 7,
				Source: "await callMCPTool('crm__serach')", Hint: "look at the names",
			},
		}, nil
	}
}

package eval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestWilson compares with the values of Newcombe (1998), Statistics in Medicine 17, table I.
func TestWilson(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		k, n      int
		low, high float64
	}{
		{81, 263, 0.2553, 0.3662}, {15, 148, 0.0624, 0.1605}, {0, 20, 0, 0.1611}, {1, 29, 0.0061, 0.1718}, {20, 20, 0.8389, 1}, {0, 0, 0, 1},
	} {
		if low, high := Wilson(tc.k, tc.n); math.Abs(low-tc.low) > 5e-5 || math.Abs(high-tc.high) > 5e-5 {
			t.Errorf("%d of %d: %.4f to %.4f, want %.4f to %.4f", tc.k, tc.n, low, high, tc.low, tc.high)
		}
	}
}

func TestMeans(t *testing.T) {
	t.Parallel()
	for degrees, want := range map[int]float64{1: 12.706, 2: 4.303, 3: 3.182, 5: 2.571, 29: 2.045, 1000: 1.962} {
		if got := student(degrees); math.Abs(got/want-1) > 0.01 {
			t.Errorf("%d degrees of freedom: %.3f, want %.3f", degrees, got, want)
		}
	}
	values := []float64{4, 6, 8, 6, 6}
	if i := meanOf(append(values, 6), values); i.Mean != 6 || i.N != 5 || math.Abs(i.High-7.756) > 0.01 || math.Abs(i.Low-4.244) > 0.01 {
		t.Errorf("%+v", i)
	}
	if i := meanOf([]float64{3}, []float64{3}); i != (Interval{3, 3, 3, 1}) {
		t.Errorf("one value: %+v", i)
	}
}

func suiteOf(tasks string) fstest.MapFS {
	return fstest.MapFS{
		"suite.yaml": {Data: []byte("name: test\n")}, "harness/harness.yaml": {}, "tasks/a.yaml": {Data: []byte(tasks)}, "in.txt": {Data: []byte("x")},
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	const good = "{name: a, prompt: Do it., checks: [{equals: 1}]}"
	for name, tc := range map[string]struct {
		files func(fstest.MapFS)
		tasks string
		want  string
	}{
		"good":             {nil, "[" + good + "]", ""},
		"no suite":         {func(f fstest.MapFS) { delete(f, "suite.yaml") }, "", "suite.yaml"},
		"no configuration": {func(f fstest.MapFS) { delete(f, "harness/harness.yaml") }, "", "harness/harness.yaml"},
		"unknown key":      {func(f fstest.MapFS) { f["suite.yaml"].Data = []byte("name: a\nrepeat: 3\n") }, "", "suite.yaml: [2:1] unknown field"},
		"no tasks":         {nil, "[]", "0 tasks"},
		"same names":       {nil, "[" + good + ", " + good + "]", `two tasks "a"`},
		"no name":          {nil, "[{prompt: x, checks: [{equals: 1}]}]", "the name"},
		"no checks":        {nil, "[{name: a, prompt: x}]", `task "a": it has no checks`},
		"two in one check": {nil, "[{name: a, prompt: x, checks: [{equals: 1, matches: x}]}]", "check 1: give one of"},
		"expression":       {nil, "[{name: a, prompt: x, checks: [{matches: '('}]}]", "missing closing )"},
		"no file":          {nil, "[{name: a, prompt: x, files: [b.txt], checks: [{equals: 1}]}]", "b.txt"},
		"budget":           {nil, "[{name: a, prompt: x, budget: {turns: -1}, checks: [{equals: 1}]}]", "negative limit"},
		"threshold": {
			func(f fstest.MapFS) { f["suite.yaml"].Data = []byte("name: a\nthresholds: {minSuccess: 90}\n") },
			"[" + good + "]", "write 0.9 for 90 %",
		},
		"same models": {
			func(f fstest.MapFS) { f["suite.yaml"].Data = []byte("name: a\nmodels: [{name: m}, {name: m}]\n") },
			"[" + good + "]", `two models "m"`,
		},
	} {
		files := suiteOf(tc.tasks)
		if tc.files != nil {
			tc.files(files)
		}
		_, err := Load(files)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}

// TestStarter checks that the suite in the binary has thirty tasks, with a recorded dialogue of each for both models.
func TestStarter(t *testing.T) {
	t.Parallel()
	s, err := Load(Starter())
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Tasks) != 30 || len(s.Models) != 2 {
		t.Fatalf("%d tasks, %d models", len(s.Tasks), len(s.Models))
	}
	for _, m := range s.Models {
		f, err := s.Files.Open(m.Recording)
		if err != nil {
			t.Fatal(err)
		}
		rec, err := DecodeRecording(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		for _, of := range s.Tasks {
			if d, again := rec.dialogue(of.Name, 1); d == nil || again || len(d.Turns) == 0 {
				t.Errorf("%s has no dialogue of %s", m.Name, of.Name)
			}
		}
	}
}

func TestChecks(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		check  Check
		answer string
		want   string
	}{
		{Check{Equals: 3}, " 3.0\n", ""},
		{Check{Equals: 3}, "It is 3.", "the value is no JSON"},
		{Check{Equals: "East"}, "East\n", ""},
		{Check{Equals: "East"}, "The East", `is not "East"`},
		{Check{Equals: []any{1, 2}}, "```json\n[1, 2]\n```", ""},
		{Check{Equals: []any{1, 2}}, "[2, 1]", "$[0] differs"},
		{Check{Equals: map[string]any{"a": nil}}, `{"a": null, "b": 1}`, "$.b is new"},
		{Check{Matches: `\b42\b`}, "the answer is 42", ""},
		{Check{Matches: `\b42\b`}, "the answer is 420", `does not match \b42\b`},
	} {
		if err := tc.check.compile(); err != nil {
			t.Fatal(err)
		}
		if got := tc.check.fits(tc.answer); (tc.want == "") != (got == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%+v, %q: %q, want %q", tc.check, tc.answer, got, tc.want)
		}
	}
	for output, want := range map[string]string{"true": "", `"wrong"`: "wrong", "false": "returned false", `""`: "returned", "null": "returned null"} {
		if got := said(&run.Outcome{Output: json.RawMessage(output)}); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("a check that returned %s: %q, want %q", output, got, want)
		}
	}
	if got := said(&run.Outcome{Error: &run.Error{Name: "TypeError", Message: "no"}}); got != "TypeError: no" {
		t.Errorf("a check that failed: %q", got)
	}
}

// talker is a model that answers with the number of messages that it was sent.
type talker struct{ calls []model.ToolCall }

func (*talker) Info() model.Info { return model.Info{Provider: "test", Name: "talker"} }

func (m *talker) Generate(_ context.Context, req *model.Request) (*model.Turn, error) {
	return &model.Turn{Text: fmt.Sprint(len(req.Messages)), Calls: m.calls, Usage: model.Usage{Input: 10, Output: 1}, Duration: 7}, nil
}

// ask sends a conversation in which the user and the assistant take turns, and a tool has answered last.
func ask(t *testing.T, m model.Model, system, said, result string) error {
	t.Helper()
	first := []model.Message{{Role: model.RoleUser, Text: said}}
	turn, err := m.Generate(t.Context(), &model.Request{System: system, Messages: first})
	if err != nil {
		return err
	}
	_, err = m.Generate(t.Context(), &model.Request{System: system, Messages: append(first,
		model.Message{Role: model.RoleAssistant, Turn: turn}, model.Message{Role: model.RoleTool, Results: []model.ToolResult{{Name: "f", Text: result}}})})
	return err
}

// TestPlay checks that a recording survives its file, answers the recorded requests, and names the first difference of others.
func TestPlay(t *testing.T) {
	t.Parallel()
	rec := &Recording{Version: 1, Dialogues: []Dialogue{}}
	mu := new(sync.Mutex)
	recorded := &recorder{Model: &talker{calls: []model.ToolCall{{Name: "f", Input: json.RawMessage(`{"b":1, "a": 2}`)}}}, into: rec, mu: mu}
	if err := ask(t, recorded, "sys", "do it", "one\ntwo"); err != nil {
		t.Fatal(err)
	}
	if !recorded.end("a", 1) {
		t.Fatal("not recorded")
	}
	text, err := json.MarshalIndent(rec, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	read, err := DecodeRecording(strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if e := read.Dialogues[0].Turns; len(e) != 2 || e[1].Keep != 1 || len(e[1].Messages) != 2 || e[0].Turn.Duration != 0 {
		t.Errorf("recorded %+v", e)
	}
	for _, tc := range []struct{ system, said, result, want string }{
		{"sys", "do it", "one\ntwo", ""},
		{"sys!", "do it", "one\ntwo", `turn 1: the system prompt differs in line 1: recorded "sys", now "sys!"`},
		{"sys", "do that", "one\ntwo", `turn 1: message 1, the text of the user differs in line 1: recorded "do it", now "do that"`},
		{"sys", "do it", "one\n2", `turn 2: message 3, the result of f differs in line 2: recorded "two", now "2"`},
	} {
		p := &player{rec: read}
		p.dialogue, _ = read.dialogue("a", 1)
		err := ask(t, p, tc.system, tc.said, tc.result)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || err.Error() != tc.want) || !errors.Is(err, p.diverged) {
			t.Errorf("%v, want %s", err, tc.want)
		}
		if tc.want == "" {
			if err := ask(t, p, tc.system, tc.said, tc.result); err == nil || !strings.Contains(err.Error(), "only 2 turns are recorded") {
				t.Errorf("a third turn: %v", err)
			}
		}
	}
	if err := ask(t, &player{rec: read}, "sys", "", ""); err == nil || !strings.Contains(err.Error(), "no dialogue of this task") {
		t.Errorf("an unknown task: %v", err)
	}
	for _, text := range []string{"", "{}", `{"version":2,"dialogues":[]}`, `{"version":1,"dialogues":[{"turns":[{"messages":[]}]}]}`} {
		if _, err := DecodeRecording(strings.NewReader(text)); err == nil {
			t.Errorf("%q is a recording", text)
		}
	}
}

// TestLongLine checks that a difference far in a long line is shown with what precedes it.
func TestLongLine(t *testing.T) {
	t.Parallel()
	before := strings.Repeat("word ", 200)
	d := firstLine("same\n"+before+"old", "same\n"+before+"new and more")
	if !strings.HasPrefix(d, ` differs in line 2: recorded "...word`) || !strings.Contains(d, `word old", now "...word`) || !strings.Contains(d, "new and") || len(d) > 3*maxLine {
		t.Errorf("%s", d)
	}
	if d := firstLine("same", "same\nmore"); d != ` differs in line 2: recorded "", now "more"` {
		t.Errorf("%s", d)
	}
}

// room is a Harness whose tasks end at once.
type room struct {
	open *atomic.Int32
	most *atomic.Int32
	ends chan struct{} // if not nil, tasks end when a value can be received, or with their context
}

func (r *room) Model(string) (model.Model, error) { return &talker{}, nil }

func (r *room) Work(ctx context.Context, _ model.Model, prompt string, _ map[string][]byte, _ task.Budget) (hidden, shown task.Task, err error) {
	if r.ends != nil {
		select {
		case <-r.ends:
		case <-ctx.Done():
		}
	}
	cost := 0.5
	t := task.Task{Status: task.Succeeded, Text: prompt, Usage: task.Usage{CostUSD: &cost, Turns: 1}}
	return t, t, ctx.Err()
}

func (r *room) Execute(context.Context, string, json.RawMessage) (*run.Outcome, error) {
	return &run.Outcome{Output: json.RawMessage("true")}, nil
}

func (r *room) Close() { r.open.Add(-1) }

func options(t *testing.T, ends chan struct{}) (o Options, most *atomic.Int32) {
	t.Helper()
	s, err := Load(suiteOf(`
- {name: a, prompt: x, checks: [{equals: x}, {program: return true}]}
- {name: b, prompt: y, checks: [{equals: x}]}
`))
	if err != nil {
		t.Fatal(err)
	}
	open := new(atomic.Int32)
	most = new(atomic.Int32)
	return Options{
		Suite: s, Tasks: []*Task{&s.Tasks[0], &s.Tasks[1]}, Models: []Model{{Named: Named{Name: "m"}}, {Named: Named{Name: "n"}}}, Repetitions: 3, Parallel: 2,
		Open: func(context.Context) (Harness, error) {
			for n := open.Add(1); ; {
				if old := most.Load(); n <= old || most.CompareAndSwap(old, n) {
					return &room{open, most, ends}, nil
				}
			}
		},
	}, most
}

func TestRun(t *testing.T) {
	t.Parallel()
	o, most := options(t, nil)
	ended := 0
	o.Ended = func(_ *Trial, n, of int) {
		if ended++; n != ended || of != 12 {
			t.Errorf("trial %d is %d of %d", ended, n, of)
		}
	}
	trials, err := Run(t.Context(), o)
	if err != nil || len(trials) != 12 || most.Load() > 2 {
		t.Fatalf("%d trials, %d at the same time, %v", len(trials), most.Load(), err)
	}
	var got []string
	for _, trial := range trials {
		got = append(got, fmt.Sprint(trial.Model, trial.Task, trial.Repetition, trial.Kind))
	}
	want := strings.Fields("ma1 ma2 ma3 mb1check mb2check mb3check na1 na2 na3 nb1check nb2check nb3check")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("trials (-want +got):\n%s", diff)
	}
	r := NewReport(o, trials, nil)
	if m := r.Models[1]; m.Succeeded != 3 || m.Failures["check"] != 3 || *m.TotalUSD != 3 || r.Partial || !r.Met() {
		t.Errorf("%+v", r)
	}
}

// TestRunEnds checks that an error of opening ends all trials, and that an interrupt keeps those that have ended.
func TestRunEnds(t *testing.T) {
	t.Parallel()
	o, _ := options(t, nil)
	broken := errors.New("broken")
	o.Open = func(context.Context) (Harness, error) { return nil, broken }
	if trials, err := Run(t.Context(), o); !errors.Is(err, broken) || len(trials) != 0 {
		t.Errorf("%d trials, %v", len(trials), err)
	}
	ends := make(chan struct{})
	o, _ = options(t, ends)
	o.Parallel = 1
	ctx, cancel := context.WithCancel(t.Context())
	o.Ended = func(_ *Trial, n, _ int) {
		if n == 2 {
			cancel()
		}
	}
	go func() { ends <- struct{}{}; ends <- struct{}{} }()
	trials, err := Run(ctx, o)
	if err != nil || len(trials) != 2 {
		t.Fatalf("%d trials, %v", len(trials), err)
	}
	if r := NewReport(o, trials, nil); !r.Partial || !strings.Contains(r.Markdown(), "**Partial**: 2 of 12 trials ended") {
		t.Errorf("the report is\n%s", r.Markdown())
	}
}

// TestThresholds checks the threshold of a model against that of the suite, and a cost that is not known.
func TestThresholds(t *testing.T) {
	t.Parallel()
	half, all, cent := 0.5, 1.0, 0.01
	o := Options{
		Suite: &Suite{Name: "s", Thresholds: Thresholds{MinSuccess: &all, MaxCost: &cent}}, Tasks: []*Task{{Name: "a"}, {Name: "b"}}, Repetitions: 1,
		Models: []Model{{Named: Named{Name: "m", Thresholds: Thresholds{MinSuccess: &half}}}},
	}
	trials := []*Trial{{Model: "m", Task: "a", Succeeded: true, Turns: 1}, {Model: "m", Task: "b", Kind: KindRecording, Turns: 1, Reason: "a | b\nc"}}
	r := NewReport(o, trials, nil)
	got := map[string]bool{}
	for _, v := range r.Verdicts {
		got[v.Threshold] = v.Met
	}
	if diff := cmp.Diff(map[string]bool{"minSuccess": true, "maxCost": false, "recording": false}, got); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
	if text := r.Markdown(); !strings.Contains(text, `| m | b | recording | a \| b c |`) || !strings.Contains(text, "unknown") {
		t.Errorf("the report is\n%s", text)
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	report := func(name string, results ...*Trial) *Report {
		o := Options{Suite: &Suite{}, Models: []Model{{Named: Named{Name: name}}}, Repetitions: 1}
		for _, r := range results {
			r.Model = name
		}
		return NewReport(o, results, nil)
	}
	before := report("old", &Trial{Task: "a", Succeeded: true}, &Trial{Task: "b", Kind: KindCheck}, &Trial{Task: "c", Succeeded: true}, &Trial{Task: "gone"})
	text, err := json.Marshal(before)
	if err != nil {
		t.Fatal(err)
	}
	read, err := DecodeReport(strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	now := report("new", &Trial{Task: "a", Succeeded: true}, &Trial{Task: "b", Succeeded: true}, &Trial{Task: "c", Succeeded: true},
		&Trial{Task: "c", Kind: KindLimit, Reason: "too long"}, &Trial{Task: "fresh"})
	c := compare(read, now)
	if diff := cmp.Diff([]TaskChange{{"new", "c", "1/1", "1/2", KindLimit, "too long"}}, c.Worse); diff != "" {
		t.Errorf("worse (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]TaskChange{{"new", "b", "0/1", "1/1", "", ""}}, c.Better); diff != "" {
		t.Errorf("better (-want +got):\n%s", diff)
	}
	if len(c.Models) != 1 || c.Models[0].Before != "old" || c.Models[0].Distinct || !cmp.Equal(c.Uncompared, []string{"fresh", "gone"}) {
		t.Errorf("%+v", c)
	}
	if _, err := DecodeReport(strings.NewReader(`{"version":2}`)); err == nil {
		t.Error("a report of another version is read")
	}
}

package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"sync"

	"mcp-code-exec-harness/internal/agent"
	"mcp-code-exec-harness/internal/id"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/task"
)

const taskRecordingVersion = 1

// TaskRecording is a task from which it can be worked again without its model and its servers. It is stored as JSON with a
// stable order of keys, so that two of them can be compared.
type TaskRecording struct {
	Version int             `json:"version"`
	Task    string          `json:"task"`
	Model   model.Recording `json:"model"`
	Skills  []agent.Skill   `json:"skills"`
	Tools   int             `json:"toolTokens"` // of all tools' definitions
	Answers []string        `json:"answers"`    // of the catalog, in order
	Runs    []RecordedRun   `json:"runs"`
}

// RecordedRun is a program of a recorded task: its journal, or how it ended where it never ran.
type RecordedRun struct {
	ID      string           `json:"id"`
	Records []journal.Record `json:"records,omitempty"`
	Outcome *run.Outcome     `json:"outcome,omitempty"`
}

// Encode writes the document.
func (r *TaskRecording) Encode(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r); err != nil {
		return fmt.Errorf("write recording: %w", err)
	}
	return nil
}

// DecodeTaskRecording reads a document.
func DecodeTaskRecording(rd io.Reader) (*TaskRecording, error) {
	rec := new(TaskRecording)
	if err := json.NewDecoder(rd).Decode(rec); err != nil {
		return nil, fmt.Errorf("read recording: %w", err)
	}
	switch {
	case rec.Version == 0 || rec.Model.Turns == nil:
		return nil, errors.New("read recording: it is not the recording of a task; harness run --record writes one")
	case rec.Version != taskRecordingVersion:
		return nil, fmt.Errorf("read recording: it has version %d, this program reads version %d", rec.Version, taskRecordingVersion)
	}
	return rec, nil
}

// TaskRecorder records one task. It is safe for concurrent use.
type TaskRecorder struct {
	h        *Harness
	runs     agent.Runs
	catalog  agent.Catalog
	recorder *model.Recorder

	mu  sync.Mutex
	rec TaskRecording
}

// Record makes opt record the one task that is worked with it.
func (h *Harness) Record(opt *TaskOptions, text, name string) (*TaskRecorder, error) {
	m, err := h.Models()(name)
	if err != nil {
		return nil, err
	}
	r := &TaskRecorder{
		h: h, runs: &taskRuns{h}, catalog: agent.NewCatalog(h.catalog, h.EnsureTools), recorder: model.NewRecorder(m),
		rec: TaskRecording{Version: taskRecordingVersion, Task: text, Skills: []agent.Skill{}, Answers: []string{}, Runs: []RecordedRun{}},
	}
	opt.Models = func(string) (model.Model, error) { return r.recorder, nil }
	opt.Runs, opt.Catalog = recordedRuns{r}, recordedCatalog{r}
	return r, nil
}

// Recording is what was recorded.
func (r *TaskRecorder) Recording(ctx context.Context) (*TaskRecording, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec, err := r.hidden(ctx)
	if err != nil {
		return nil, err
	}
	rec.Model = r.recorder.Recording()
	if rec.Model.Turns == nil {
		rec.Model.Turns = []model.RecordedTurn{}
	}
	for i, run := range rec.Runs {
		records, err := r.h.runs.Journal(ctx, run.ID)
		if errors.Is(err, journal.ErrNotFound) {
			continue // it was cancelled before it began
		}
		if err != nil {
			return nil, err
		}
		rec.Runs[i] = RecordedRun{ID: run.ID, Records: records}
	}
	return &rec, nil
}

// hidden is what was recorded before anything else had seen it, without personal data: a file may be passed on, so its
// tokens are of nobody's. r.mu is held.
func (r *TaskRecorder) hidden(ctx context.Context) (TaskRecording, error) {
	rec := r.rec
	privacy := pii.In(r.h.out.Privacy, "", "")
	rec.Skills, rec.Answers = slices.Clone(rec.Skills), slices.Clone(rec.Answers)
	texts := []*string{&rec.Task}
	for i := range rec.Skills {
		texts = append(texts, &rec.Skills[i].Description)
	}
	for i := range rec.Answers {
		texts = append(texts, &rec.Answers[i])
	}
	for _, text := range texts {
		var err error
		if *text, err = privacy.Hide(ctx, *text); err != nil {
			return rec, err
		}
	}
	return rec, nil
}

type recordedRuns struct{ *TaskRecorder }

func (r recordedRuns) Execute(ctx context.Context, p agent.Program) (*run.Outcome, error) {
	out, err := r.runs.Execute(ctx, p)
	if err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.rec.Runs = append(r.rec.Runs, RecordedRun{ID: p.RunID, Outcome: out})
	}
	return out, err
}

func (r recordedRuns) Abandon(ctx context.Context, p agent.Program) (*run.Outcome, error) {
	return r.runs.Abandon(ctx, p)
}

func (r recordedRuns) Keep(ctx context.Context, user, session, name string, data []byte) (string, error) {
	return r.runs.Keep(ctx, user, session, name, data)
}

func (r recordedRuns) Skills(ctx context.Context, user string) ([]agent.Skill, error) {
	all, err := r.runs.Skills(ctx, user)
	if err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.rec.Skills = append([]agent.Skill{}, all...)
	}
	return all, err
}

type recordedCatalog struct{ *TaskRecorder }

func (r recordedCatalog) keep(text string, err error) (string, error) {
	if err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.rec.Answers = append(r.rec.Answers, text)
	}
	return text, err
}

func (r recordedCatalog) Search(ctx context.Context, query string, limit int) (string, error) {
	return r.keep(r.catalog.Search(ctx, query, limit))
}

func (r recordedCatalog) Details(ctx context.Context, names []string) (string, error) {
	return r.keep(r.catalog.Details(ctx, names))
}

func (r recordedCatalog) Definitions() int {
	n := r.catalog.Definitions()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rec.Tools = n
	return n
}

// ReplayTask makes opt work a task from a recording: no model and no server is contacted.
func (h *Harness) ReplayTask(opt *TaskOptions, rec *TaskRecording) {
	m := model.NewRecorded(rec.Model)
	opt.Models = func(string) (model.Model, error) { return m, nil }
	p := &replayedTask{h: h, rec: rec}
	opt.Runs, opt.Catalog, opt.NewID = p, p, p.newID
}

// replayedTask answers from a recording, in its order.
type replayedTask struct {
	h   *Harness
	rec *TaskRecording

	mu                  sync.Mutex
	named, run, answers int
}

var (
	_ agent.Runs    = (*replayedTask)(nil)
	_ agent.Catalog = (*replayedTask)(nil)
)

// newID gives runs the recorded names: the model was told of them.
func (p *replayedTask) newID() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.named == len(p.rec.Runs) {
		return id.New("run")
	}
	p.named++
	return p.rec.Runs[p.named-1].ID
}

func (p *replayedTask) Execute(ctx context.Context, program agent.Program) (*run.Outcome, error) {
	p.mu.Lock()
	n := p.run
	p.run++
	p.mu.Unlock()
	if n >= len(p.rec.Runs) {
		return &run.Outcome{
			RunID: program.RunID, Status: run.Failed, Output: json.RawMessage("null"), Logs: []run.Log{},
			Error: &run.Error{Kind: run.KindDiverged, Message: fmt.Sprintf("program %d was not recorded", n+1)},
		}, nil
	}
	recorded := p.rec.Runs[n]
	if len(recorded.Records) == 0 {
		return recorded.Outcome, nil
	}
	code := program.Code
	if code == recorded.Records[0].Start.Source {
		code = "" // compiled as it was then
	}
	out, err := p.h.runs.Replay(ctx, recorded.Records, code, false, program.Observe)
	if err != nil {
		err = fmt.Errorf("%w: %w", task.ErrLasting, err)
	}
	return out, err
}

// Abandon finds nothing: no process dies in a replay that another goes on with.
func (p *replayedTask) Abandon(context.Context, agent.Program) (*run.Outcome, error) { return nil, nil }

// Keep keeps nothing: no program of a replay reads it from there.
func (p *replayedTask) Keep(_ context.Context, _, _, name string, _ []byte) (string, error) {
	return path.Join("/workspace/results", name), nil
}

func (p *replayedTask) Skills(context.Context, string) ([]agent.Skill, error) {
	return p.rec.Skills, nil
}

func (p *replayedTask) answer() (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.answers == len(p.rec.Answers) {
		return "", fmt.Errorf("the recording has no answer %d of the catalog", p.answers+1)
	}
	p.answers++
	return p.rec.Answers[p.answers-1], nil
}

func (p *replayedTask) Search(context.Context, string, int) (string, error) { return p.answer() }

func (p *replayedTask) Details(context.Context, []string) (string, error) { return p.answer() }

func (p *replayedTask) Definitions() int { return p.rec.Tools }

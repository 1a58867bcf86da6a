// Package recording records the execution of a task, and repeats it from the recording without the model and the servers.
package recording

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
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/id"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/modelview"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/task"
)

const version = 1

// Recording is a recorded task. Its JSON has a stable order of keys, so that two recordings can be compared.
type Recording struct {
	Version int                 `json:"version"`
	Task    string              `json:"task"`
	Model   model.Recording     `json:"model"`
	Skills  []modelview.Skill   `json:"skills"` // skills in the first message
	Others  int                 `json:"otherSkills,omitempty"`
	Found   [][]modelview.Skill `json:"foundSkills,omitempty"` // skills of each later search, in order
	Tools   int                 `json:"toolTokens"`            // number of tokens of all tools' definitions
	Answers []string            `json:"answers"`               // answers of the catalog, in order
	Runs    []Run               `json:"runs"`
}

// Run is a program of a recorded task: its journal, or its outcome if it has no journal.
type Run struct {
	ID      string           `json:"id"`
	Records []journal.Record `json:"records,omitempty"`
	Outcome *run.Outcome     `json:"outcome,omitempty"`
}

// Decode reads a recording.
func Decode(rd io.Reader) (*Recording, error) {
	rec := new(Recording)
	if err := json.NewDecoder(rd).Decode(rec); err != nil {
		return nil, fmt.Errorf("read recording: %w", err)
	}
	switch {
	case rec.Version == 0 || rec.Model.Turns == nil:
		return nil, errors.New("read recording: it is not the recording of a task; harness run --record writes one")
	case rec.Version != version:
		return nil, fmt.Errorf("read recording: it has version %d, this program reads version %d", rec.Version, version)
	}
	return rec, nil
}

// Recorder forwards the calls of one task and records them. It is safe for concurrent use.
type Recorder struct {
	agent.Runs
	agent.Catalog
	Model *model.Recorder

	mu       sync.Mutex
	rec      Recording
	searched bool // whether the skills of the first message are recorded
}

// NewRecorder returns a Recorder for the task text, which forwards to the given model, runs and catalog.
func NewRecorder(text string, m model.Model, runs agent.Runs, catalog agent.Catalog) *Recorder {
	return &Recorder{
		Runs: runs, Catalog: catalog, Model: model.NewRecorder(m),
		rec: Recording{Version: version, Task: text, Skills: []modelview.Skill{}, Answers: []string{}, Runs: []Run{}},
	}
}

// Recording returns the recording, with the journals of the runs. redact removes the personal data of all users from texts that no filter
// has processed, because the file may be shared.
func (r *Recorder) Recording(
	ctx context.Context, redact func(string) string, journalOf func(ctx context.Context, run string) ([]journal.Record, error),
) (*Recording, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec := r.rec
	rec.Skills, rec.Answers, rec.Runs = slices.Clone(rec.Skills), slices.Clone(rec.Answers), slices.Clone(rec.Runs)
	texts := []*string{&rec.Task}
	rec.Found = slices.Clone(rec.Found)
	for i := range rec.Found {
		rec.Found[i] = slices.Clone(rec.Found[i])
	}
	for _, skills := range append([][]modelview.Skill{rec.Skills}, rec.Found...) {
		for i := range skills {
			texts = append(texts, &skills[i].Description)
		}
	}
	for i := range rec.Answers {
		texts = append(texts, &rec.Answers[i])
	}
	for _, text := range texts {
		if redact != nil {
			*text = redact(*text)
		}
	}
	rec.Model = r.Model.Recording()
	if rec.Model.Turns == nil {
		rec.Model.Turns = []model.RecordedTurn{}
	}
	for i, run := range rec.Runs {
		records, err := journalOf(ctx, run.ID)
		if errors.Is(err, journal.ErrNotFound) {
			continue // the task was cancelled before it began
		}
		if err != nil {
			return nil, err
		}
		rec.Runs[i] = Run{ID: run.ID, Records: records}
	}
	return &rec, nil
}

// Execute implements agent.Runs. It does not record a run that waits for an approval, because the agent executes the run again after the decision.
func (r *Recorder) Execute(ctx context.Context, p agent.Program) (*run.Outcome, error) {
	out, err := r.Runs.Execute(ctx, p)
	if err == nil && out.Status == run.WaitingApproval {
		return out, nil
	}
	r.record(err, func(rec *Recording) { rec.Runs = append(rec.Runs, Run{ID: p.RunID, Outcome: out}) })
	return out, err
}

// record applies change to the recording if err is nil.
func (r *Recorder) record(err error, change func(*Recording)) {
	if err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		change(&r.rec)
	}
}

// Skills implements agent.Runs.
func (r *Recorder) Skills(ctx context.Context, user, request string) (fit []modelview.Skill, others int, err error) {
	fit, others, err = r.Runs.Skills(ctx, user, request)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.searched { // also after an error, which is recorded as no skills
		r.rec.Found = append(r.rec.Found, slices.Clone(fit))
	} else {
		r.rec.Skills, r.rec.Others, r.searched = append([]modelview.Skill{}, fit...), others, true
	}
	return fit, others, err
}

// Search implements agent.Catalog.
func (r *Recorder) Search(ctx context.Context, user, query string, limit int) (string, error) {
	return r.answered(r.Catalog.Search(ctx, user, query, limit))
}

// Details implements agent.Catalog.
func (r *Recorder) Details(ctx context.Context, user string, names []string) (string, error) {
	return r.answered(r.Catalog.Details(ctx, user, names))
}

func (r *Recorder) answered(text string, err error) (string, error) {
	r.record(err, func(rec *Recording) { rec.Answers = append(rec.Answers, text) })
	return text, err
}

// Definitions implements agent.Catalog.
func (r *Recorder) Definitions() int {
	n := r.Catalog.Definitions()
	r.record(nil, func(rec *Recording) { rec.Tools = n })
	return n
}

// Player answers the calls of a task from a recording, in the recorded order. It is safe for concurrent use.
type Player struct {
	rec    *Recording
	replay Replay

	mu                            sync.Mutex
	named, run, answers, searches int // number of IDs, runs, answers and lists of skills returned so far
}

// Replay executes a recorded run again, offline. If code is "", it executes the recorded program.
type Replay func(ctx context.Context, records []journal.Record, code string, observe func(run.Event)) (*run.Outcome, error)

var (
	_ agent.Runs    = (*Player)(nil)
	_ agent.Catalog = (*Player)(nil)
)

// NewPlayer returns a Player for a recording.
func NewPlayer(rec *Recording, replay Replay) *Player { return &Player{rec: rec, replay: replay} }

// NewID returns the recorded IDs of runs in order, because the model has seen them.
func (p *Player) NewID() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.named == len(p.rec.Runs) {
		return id.New("run")
	}
	p.named++
	return p.rec.Runs[p.named-1].ID
}

// Execute implements agent.Runs.
func (p *Player) Execute(ctx context.Context, program agent.Program) (*run.Outcome, error) {
	p.mu.Lock()
	n := p.run
	p.run++
	p.mu.Unlock()
	if n >= len(p.rec.Runs) {
		return &run.Outcome{
			RunID: program.RunID, Status: run.Failed, Output: json.RawMessage("null"), Logs: []run.Log{},
			Error: &run.Error{Kind: frame.KindDiverged, Message: fmt.Sprintf("program %d was not recorded", n+1)},
		}, nil
	}
	recorded := p.rec.Runs[n]
	if len(recorded.Records) == 0 {
		return recorded.Outcome, nil
	}
	code := program.Code
	if code == recorded.Records[0].Start.Source {
		code = "" // compiled as in the recording
	}
	out, err := p.replay(ctx, recorded.Records, code, program.Observe)
	if err != nil {
		err = fmt.Errorf("%w: %w", task.ErrLasting, err)
	}
	return out, err
}

// Abandon implements agent.Runs. It does nothing, because no process dies during a replay.
func (p *Player) Abandon(context.Context, agent.Program) (*run.Outcome, error) { return nil, nil }

// SaveFile implements agent.Runs. It stores nothing: programs read recorded answers.
func (p *Player) SaveFile(_ context.Context, _, _, name string, _ []byte) (string, error) {
	return path.Join("/workspace/results", name), nil
}

// Skills implements agent.Runs. Older recordings have no skills of searches.
func (p *Player) Skills(context.Context, string, string) (fit []modelview.Skill, others int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.searches - 1
	p.searches++
	switch {
	case n < 0:
		return p.rec.Skills, p.rec.Others, nil
	case n < len(p.rec.Found):
		return p.rec.Found[n], 0, nil
	}
	return nil, 0, nil
}

// Search implements agent.Catalog.
func (p *Player) Search(context.Context, string, string, int) (string, error) { return p.answer() }

// Details implements agent.Catalog.
func (p *Player) Details(context.Context, string, []string) (string, error) { return p.answer() }

func (p *Player) answer() (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.answers == len(p.rec.Answers) {
		return "", fmt.Errorf("the recording has no answer %d of the catalog", p.answers+1)
	}
	p.answers++
	return p.rec.Answers[p.answers-1], nil
}

// Definitions implements agent.Catalog.
func (p *Player) Definitions() int { return p.rec.Tools }

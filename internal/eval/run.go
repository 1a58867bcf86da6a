package eval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/task"
)

// Kinds of failures of a trial.
const (
	KindCheck     = "check"     // the task was answered, and a check does not hold
	KindLimit     = "limit"     // turns, programs, tokens, money or time were used up
	KindRecording = "recording" // the recording does not match: a request differs from the recorded one
	KindModel     = "model"     // the model failed, refused, or gave no answer
	KindRun       = "run"       // the model ended after a program that failed
	KindApproval  = "approval"  // a call waits for the approval of a person
	KindInternal  = "internal"  // a fault of the harness
)

// Model is a model that works a suite.
type Model struct {
	Named
	// Played is the recording that is played in place of the model; nil asks the model.
	Played *Recording
	// Into, if not nil, gets the dialogues with the model.
	Into *Recording
}

// Harness is a harness with fresh state, for one trial. Its methods are not called concurrently.
type Harness interface {
	// Model returns the configured model with a name.
	Model(name string) (model.Model, error)
	// Work works a task until it ends or waits for an approval, and returns it in two forms: as recorded, with personal data hidden, and as the user
	// gets it. files are put into its workspace. If ctx ends, the task is cancelled.
	Work(ctx context.Context, m model.Model, prompt string, files map[string][]byte, budget task.Budget) (hidden, shown task.Task, err error)
	// Execute executes a program in the session of the task. Its input is JSON.
	Execute(ctx context.Context, code string, input json.RawMessage) (*run.Outcome, error)
	Close()
}

// Options are the parts of Run.
type Options struct {
	Suite       *Suite
	Tasks       []*Task // tasks of the suite to work
	Models      []Model
	Repetitions int
	Parallel    int // trials at the same time
	// Open returns a harness for a trial. It is called concurrently. An error ends all trials: nothing is known of the model then.
	Open func(ctx context.Context) (Harness, error)
	// Ended is called after each trial, never concurrently. It may be nil.
	Ended func(t *Trial, ended, of int)
}

// Trial is the result of a task, worked once by one model. Personal data in it is hidden.
type Trial struct {
	Model      string `json:"model"`
	Task       string `json:"task"`
	Repetition int    `json:"repetition"`
	Succeeded  bool   `json:"succeeded"`
	// Again reports that a recorded dialogue was played once more. Intervals leave out such a trial.
	Again    bool     `json:"again,omitempty"`
	Kind     string   `json:"kind,omitempty"`   // kind of the failure
	Reason   string   `json:"reason,omitempty"` // sentence about the failure
	Answer   string   `json:"answer,omitempty"` // answer of the model, cut
	CostUSD  *float64 `json:"costUsd,omitempty"`
	Input    int      `json:"inputTokens"`
	Output   int      `json:"outputTokens"`
	Turns    int      `json:"turns"`
	Programs int      `json:"programs"`
	Calls    int      `json:"calls"` // tool calls of programs
	TimeMS   float64  `json:"timeMs"`
	// Unrecorded reports that the dialogue could not be recorded, because the last request had no answer.
	Unrecorded bool `json:"unrecorded,omitempty"`
}

const (
	maxAnswer = 2000
	maxReason = 600
	// closing is the time after the time of a task within which the harness has to end it.
	closing = 30 * time.Second
)

// errTime is the cause of the end of a task that has used up its time, waits for the model's provider included.
var errTime = errors.New("the time of the trial is used up")

// Run works the tasks with each model and returns the trials that ended, ordered by model, task and repetition. If ctx ends, trials under way are
// cancelled and left out. A model whose trials have cost more than its threshold starts no further ones. An error is that of a harness, and ends all trials.
func Run(ctx context.Context, o Options) ([]*Trial, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &runner{Options: o, recording: &sync.Mutex{}, spent: map[string]float64{}}
	var jobs []job
	for repetition := range o.Repetitions { // A partial report has as many tasks as possible.
		for i, t := range o.Tasks {
			for m := range o.Models {
				jobs = append(jobs, job{&o.Models[m], t, repetition + 1, (m*len(o.Tasks)+i)*o.Repetitions + repetition})
			}
		}
	}
	trials, queue := make([]*Trial, len(jobs)), make(chan job)
	var wg sync.WaitGroup
	ended := 0
	for range max(o.Parallel, 1) {
		wg.Go(func() {
			for j := range queue {
				t, err := r.trial(ctx, j)
				r.mu.Lock()
				if err != nil && ctx.Err() == nil {
					r.err = err
					cancel()
				}
				if t != nil && ctx.Err() == nil {
					trials[j.number] = t
					if ended++; o.Ended != nil {
						o.Ended(t, ended, len(jobs))
					}
				}
				r.mu.Unlock()
			}
		})
	}
	for _, j := range jobs {
		select {
		case queue <- j:
		case <-ctx.Done():
		}
	}
	close(queue)
	wg.Wait()
	return slices.DeleteFunc(trials, func(t *Trial) bool { return t == nil }), r.err
}

type job struct {
	model      *Model
	task       *Task
	repetition int
	number     int // place of the trial in the result
}

type runner struct {
	Options
	recording *sync.Mutex

	mu    sync.Mutex
	spent map[string]float64 // US dollars, by model
	err   error              // first error
}

// trial does one trial. It returns nil for a trial that is not done.
func (r *runner) trial(ctx context.Context, j job) (t *Trial, err error) {
	if most := j.model.Thresholds.Or(r.Suite.Thresholds).MaxCost; most != nil {
		r.mu.Lock()
		over := r.spent[j.model.Name] > *most
		r.mu.Unlock()
		if over {
			return nil, nil
		}
	}
	files, err := r.Suite.inputs(j.task)
	if err != nil {
		return nil, err
	}
	h, err := r.Open(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil, nil
		}
		return nil, err
	}
	defer h.Close()
	t = &Trial{Model: j.model.Name, Task: j.task.Name, Repetition: j.repetition}
	var m model.Model
	var play *player
	var record *recorder
	if j.model.Played != nil {
		play = &player{rec: j.model.Played}
		play.dialogue, t.Again = j.model.Played.dialogue(j.task.Name, j.repetition)
		m = play
	} else {
		if m, err = h.Model(j.model.Name); err != nil {
			return nil, err
		}
		if j.model.Into != nil {
			record = &recorder{Model: m, into: j.model.Into, mu: r.recording}
			m = record
		}
	}
	budget := j.task.limits(r.Suite.Budget)
	work, stop := context.WithTimeoutCause(ctx, time.Duration(budget.Wall)+closing, errTime)
	defer stop()
	began := time.Now()
	hidden, shown, err := h.Work(work, m, j.task.Prompt, files, budget)
	t.TimeMS = float64(time.Since(began).Microseconds()) / 1000
	if ctx.Err() != nil {
		return nil, nil
	}
	switch late := errors.Is(context.Cause(work), errTime); {
	case late:
		t.Kind, t.Reason = KindLimit, errTime.Error()
	case err != nil:
		return nil, fmt.Errorf("task %s: %w", j.task.Name, err)
	case play != nil && play.diverged != nil:
		t.Kind, t.Reason = KindRecording, play.diverged.Error()
	default:
		t.Kind, t.Reason = ending(hidden)
	}
	t.used(hidden)
	if t.Kind == "" {
		if t.Reason, err = r.check(ctx, h, j.task, shown); err != nil {
			return nil, fmt.Errorf("check task %s: %w", j.task.Name, err)
		}
		if t.Succeeded = t.Reason == ""; !t.Succeeded {
			t.Kind = KindCheck
		}
	}
	if ctx.Err() != nil {
		return nil, nil
	}
	t.Reason = clip.Text(t.Reason, maxReason)
	if record != nil {
		t.Unrecorded = !record.end(j.task.Name, j.repetition)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.CostUSD != nil {
		r.spent[j.model.Name] += *t.CostUSD
	}
	return t, nil
}

// ending returns the kind and the reason of a task's failure; "" if the task was answered.
func ending(t task.Task) (kind, reason string) {
	if t.Status == task.WaitingApproval {
		return KindApproval, "a call waits for an approval, which nobody gives in a trial"
	}
	if t.Error == nil {
		return "", ""
	}
	kinds := map[string]string{task.KindBudget: KindLimit, task.KindRun: KindRun, task.KindModel: KindModel, task.KindUnreachable: KindModel}
	if kind = kinds[t.Error.Kind]; kind == "" {
		kind = KindInternal
	}
	return kind, t.Error.Message
}

// used takes over what a task has used.
func (t *Trial) used(of task.Task) {
	t.Answer = clip.Text(of.Text, maxAnswer)
	t.CostUSD, t.Input, t.Output = of.Usage.CostUSD, of.Usage.Tokens.Input, of.Usage.Tokens.Output
	t.Turns, t.Programs, t.Calls = of.Usage.Turns, of.Usage.Runs, of.Usage.Calls
}

// check returns the reason of the first check that does not hold; "" if all hold.
func (r *runner) check(ctx context.Context, h Harness, of *Task, t task.Task) (reason string, err error) {
	for _, c := range of.Checks {
		if c.Program == "" {
			reason = c.fits(t.Text)
		} else {
			input, failed := journal.Encode(map[string]any{"answer": t.Text, "output": t.Output})
			if failed != nil {
				return "", failed
			}
			out, failed := h.Execute(ctx, c.Program, input)
			if failed != nil {
				return "", failed
			}
			reason = said(out)
		}
		if reason != "" {
			return reason, nil
		}
	}
	return "", nil
}

// said returns the reason that a check's program gives; "" if the check holds.
func said(out *run.Outcome) string {
	var text string
	switch {
	case out.Status == run.WaitingApproval:
		return "the check calls a tool that needs an approval"
	case out.Error != nil:
		return strings.TrimPrefix(out.Error.Name+": ", ": ") + out.Error.Message
	case string(out.Output) == "true":
		return ""
	case json.Unmarshal(out.Output, &text) == nil && text != "":
		return text
	}
	return "the check returned " + clip.Text(string(out.Output), maxLine) + " and not true"
}

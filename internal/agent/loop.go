package agent

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/task"
)

// work is the state of the work on a task. One goroutine owns it.
type work struct {
	a       *Agent
	task    task.Task
	history []task.Past
	log     task.Log
	bounds  bounds
	privacy pii.Session
	model   model.Model // model of the task; nil until it is needed
	steps   []task.Step
	state   state       // state derived from steps
	unsaved task.Change // the last steps and the events that the next commit stores
	since   time.Time   // time at which the work on the next step began
}

// ending describes how a task ends.
type ending struct {
	status  task.Status
	kind    string // kind of the error; empty if the task succeeded
	message string // a sentence for people
}

// errWall is the cause with which the context of a task ends when the time of the task is used up.
var errWall = errors.New("the time for the task is used up")

// watch returns the context of the work. The context ends when parent ends, or when the task's time is used up. If the cause of parent's
// end is not task.ErrCancelled, the task's run is handed over.
func (w *work) watch(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(parent))
	pass := func() {
		cause := context.Cause(parent)
		if !errors.Is(cause, task.ErrCancelled) && !errors.Is(cause, run.ErrHandedOver) {
			cause = fmt.Errorf("%w: %w", run.ErrHandedOver, cause)
		}
		cancel(cause)
	}
	stop := context.AfterFunc(parent, pass)
	if parent.Err() != nil { // AfterFunc calls pass in a goroutine, so ctx might not have ended yet
		pass()
	}
	if w.bounds.wall.most <= 0 {
		return ctx, func() { stop(); cancel(nil) }
	}
	timed, end := context.WithTimeoutCause(ctx, w.bounds.wall.most-w.state.worked, errWall)
	return timed, func() { stop(); end(); cancel(nil) }
}

// loop does one step after another until the task ends.
func (w *work) loop(ctx context.Context) (*ending, error) {
	for {
		switch cause := context.Cause(ctx); {
		case cause == nil:
		case errors.Is(cause, task.ErrCancelled):
			err := w.abandon(ctx)
			return &ending{task.Cancelled, task.KindCancelled, "Cancelled by the user " + w.effort() + "."}, err
		case errors.Is(cause, errWall):
			err := w.abandon(ctx)
			return w.usedUp(w.bounds.wall.reachedBy(w.bounds.wall.most, w.bounds.wall.most.String())), err
		default:
			return nil, cause
		}
		if end, err := w.next(ctx); end != nil || err != nil {
			return end, err
		}
	}
}

// next does the next step. It may do nothing if ctx ends.
func (w *work) next(ctx context.Context) (*ending, error) {
	switch {
	case len(w.steps) == 0:
		return w.begin(ctx)
	case w.state.pending() != nil:
		return w.call(ctx, *w.state.pending())
	case w.state.answered:
		return w.answered(), nil
	default:
		return w.ask(ctx)
	}
}

// ask sends the conversation to the model and adds its answer.
func (w *work) ask(ctx context.Context) (*ending, error) {
	if over := w.bounds.reached(&w.state); over != "" {
		return w.usedUp(over), nil
	}
	if w.model == nil {
		m, err := w.a.opt.Models(w.task.Model)
		if err != nil {
			return w.noAnswer(err), nil
		}
		w.model = m
	}
	if w.bounds.cost.most > 0 && w.cost(model.Usage{}) == nil {
		return &ending{task.Failed, task.KindBudget, w.a.unpriced(w.model.Info(), w.bounds.cost)}, nil
	}
	if w.state.open != nil { // the process that sent the request has died; watchers may have received parts of the model's answer
		w.stream(model.Delta{Reset: true})
	}
	input := w.shorten(ctx)
	w.add(task.Step{Ask: &task.Ask{Turn: w.state.asks + 1, Input: input, CostUSD: w.cost(model.Usage{Input: input})}})
	if err := w.save(ctx); err != nil {
		return nil, err
	}
	var lost model.Usage
	turn, err := w.model.Generate(ctx, &model.Request{
		System: w.a.system, Messages: conversation(w.history, w.task, w.steps, &w.state.compact), Tools: toolsForModel(), OnDelta: w.stream,
		OnLost: func(u model.Usage) { lost = lost.Add(u) },
	})
	if err != nil {
		return w.unanswered(ctx, err, lost)
	}
	step := &task.Turn{Turn: *turn, CostUSD: w.cost(turn.Usage)}
	err = w.hide(context.WithoutCancel(ctx), step)
	*turn = step.Turn // model.Recorder also holds turn, and must record it without personal data
	if err != nil {
		return internal(err)
	}
	if lost != (model.Usage{}) {
		step.Lost, step.LostUSD = lost, w.cost(lost)
	}
	w.add(task.Step{Turn: step}, w.turnEvent(step))
	return nil, nil
}

// cost returns the cost of a usage in US dollars; nil if the price is not known.
func (w *work) cost(u model.Usage) *float64 {
	info := w.model.Info()
	usd, known := w.a.opt.Prices.Cost(info.Provider, info.Name, u)
	if !known {
		return nil
	}
	return &usd
}

// Pauses before a task asks an unavailable provider again.
const (
	firstPause = 5 * time.Second
	maxPause   = 5 * time.Minute
	maxAsked   = time.Hour // maximum pause that a provider can request
)

// unanswered records a request without an answer. If the error is temporary, the task waits and asks again; the pause grows each time.
func (w *work) unanswered(ctx context.Context, err error, lost model.Usage) (*ending, error) {
	u := &task.Unanswered{Kind: task.KindCancelled, Lost: lost}
	if lost != (model.Usage{}) {
		u.LostUSD = w.cost(lost)
	}
	if ctx.Err() != nil {
		if lost != (model.Usage{}) {
			w.add(task.Step{Unanswered: u})
		}
		return nil, nil
	}
	u.Kind, u.Message = task.KindModel, clip.Counted(err.Error(), maxEventValue)
	var failed *model.Error
	if !errors.As(err, &failed) {
		w.add(task.Step{Unanswered: u})
		return w.noAnswer(err), nil
	}
	u.Kind = string(failed.Kind)
	shortened, again := w.state.shortened, w.state.outages
	if failed.Kind.Passing() {
		w.since = w.a.opt.Now() // an outage does not count against the time budget
	}
	w.add(task.Step{Unanswered: u})
	switch {
	case failed.Kind.Passing():
		pause := min(firstPause<<min(again, 10), maxPause)
		pause -= rand.N(pause / 4) // random, so that many tasks do not ask at the same time
		pause = max(pause, min(failed.RetryAfter, maxAsked))
		w.stream(model.Delta{Reset: true, Notice: fmt.Sprintf("%s: %s; the task waits and asks again in %s", u.Kind, failed.Message, pause.Round(time.Second))})
		return nil, &task.RetryError{After: pause, Err: err}
	case failed.Kind == model.KindContextLength && !shortened && w.shortenMore(ctx):
		return nil, nil // the next step asks the model again
	}
	return w.noAnswer(err), nil
}

const (
	// maxCuts is how often a model may continue an answer that was too long for one turn.
	maxCuts  = 2
	goOn     = "Your answer was cut off because it was too long for one turn. Go on exactly where it stopped."
	sayMore  = "Your turn was empty. Answer the task in plain words now, or go on with it."
	maxEmpty = 1 // maximum number of consecutive empty turns that do not end the task
)

// answered returns the ending of a task after a turn without calls; nil if the model has to continue.
func (w *work) answered() *ending {
	s := &w.state
	switch {
	case s.turn.Stop == model.StopRefusal:
		return &ending{task.Failed, task.KindModel, sentence("The model refused", w.state.turn.Text)}
	case s.turn.Stop == model.StopLength && s.cuts > maxCuts:
		return &ending{task.Failed, task.KindModel, fmt.Sprintf(
			"Stopped: the model's answer did not fit into %d turns (model.maxTokens); its beginning is there.", s.cuts)}
	case s.turn.Stop == model.StopLength:
		w.note(goOn)
		return nil
	case strings.TrimSpace(s.text) != "" && (s.empty == 0 || s.empty > maxEmpty):
		return &ending{status: task.Succeeded, message: "Answered " + w.effort() + "."}
	case s.empty <= maxEmpty:
		w.note(sayMore)
		return nil
	case s.lastRun == run.Succeeded:
		return &ending{status: task.Succeeded, message: "Ended " + w.effort() + "; the model wrote no answer, the output is what the last run returned."}
	case s.lastRun != "":
		return &ending{task.Failed, task.KindRun, "The model ended " + w.effort() + " without an answer, and the last run had failed."}
	default:
		return &ending{task.Failed, task.KindModel, "The model gave no answer, though it was asked twice."}
	}
}

// note adds a message for the model.
func (w *work) note(text string) {
	w.add(task.Step{Note: &task.Note{Text: text}}, w.event(task.EventNote, fmt.Sprintf("note/%d", len(w.steps)+1), task.NoteData{Text: text}))
}

// noAnswer returns the ending of a task whose model cannot be asked.
func (w *work) noAnswer(err error) *ending {
	return &ending{task.Failed, task.KindModel, sentence("Stopped "+w.effort(), err.Error())}
}

func (w *work) usedUp(bound string) *ending {
	return &ending{task.Failed, task.KindBudget, fmt.Sprintf("Stopped %s: the budget of %s is used up.", w.effort(), bound)}
}

// internal ends a task because of a lasting fault of the harness. An unavailable vault is no such fault: the task is continued later.
func internal(err error) (*ending, error) {
	if errors.Is(err, pii.ErrUnavailable) {
		return nil, err
	}
	return &ending{task.Failed, task.KindInternal, sentence("Stopped by an internal error", err.Error())}, nil
}

// take appends a recorded or new step and updates the state.
func (w *work) take(s task.Step) {
	w.steps = append(w.steps, s)
	w.state.take(s)
}

// add appends a new step with its events. The next save commits them.
func (w *work) add(s task.Step, events ...task.Event) {
	now := w.a.opt.Now()
	s.Seq, s.Time, s.Took = len(w.steps)+1, now, task.Duration(now.Sub(w.since).Round(time.Microsecond))
	w.since = now
	w.take(s)
	w.unsaved.Steps = append(w.unsaved.Steps, s)
	w.unsaved.Events = append(w.unsaved.Events, events...)
}

// save commits the added steps and events, even if the task is being cancelled.
func (w *work) save(ctx context.Context) error {
	if len(w.unsaved.Steps) == 0 && len(w.unsaved.Events) == 0 {
		return nil
	}
	if slices.ContainsFunc(w.unsaved.Steps, func(s task.Step) bool { return s.Turn != nil || s.Result != nil || s.Run != nil }) {
		t := w.progress()
		w.unsaved.Task = &t
	}
	err := w.log.Commit(context.WithoutCancel(ctx), w.unsaved)
	w.unsaved = task.Change{}
	if err != nil {
		return fmt.Errorf("record the steps of task %s: %w", w.task.ID, err)
	}
	return nil
}

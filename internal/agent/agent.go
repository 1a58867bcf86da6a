// Package agent works a task: it asks the model, runs the programs that the model writes, tells it how they ended, and so on
// until the model answers or a bound is reached.
//
// What a loop does next is a function of its task and the steps recorded so far, and so is what the model is sent. A loop
// whose process died therefore goes on where it stopped: an answered request is not sent again, and a program that had
// begun goes on under its recorded run id. Steps are committed before what depends on them happens: before a request is
// sent, before a program runs, before a tool is looked up.
//
// Nothing is asked of the model after it has answered. How to save a skill stands in the system prompt, and the model
// does it in the programs of the task itself.
package agent

import (
	"context"
	"time"

	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/task"
)

// Runs executes programs and keeps files of sessions. Its methods are safe for concurrent use.
type Runs interface {
	// Execute runs a program under its id. Where a run of this id was recorded, it goes on with that, or returns how it
	// ended. When ctx ends, it returns within half a second: the run has ended as cancelled then, or, where the cause is
	// run.ErrParked, is left to be continued, and the error wraps that cause. Other errors are faults of the harness; one
	// that wraps task.ErrLasting ends the task, after any other the run is continued later.
	Execute(ctx context.Context, p Program) (*run.Outcome, error)
	// Abandon ends a run that a dead process left, as cancelled, and returns how it ended; nil where none was recorded.
	Abandon(ctx context.Context, p Program) (*run.Outcome, error)
	// Keep stores a text in the workspace of a session, over one that is there, and returns the path under which programs
	// find it. The name may have slashes in it.
	Keep(ctx context.Context, user, session, name string, data []byte) (path string, err error)
	// Skills lists what a user has saved, in an order that does not change.
	Skills(ctx context.Context, user string) ([]Skill, error)
}

// Program is code to run.
type Program struct {
	RunID   string
	New     bool // the id has been made for it just now: no run of it was recorded
	Code    string
	User    string
	Session string
	// Observe sees what the run does, and what a recorded run did before, in order. It does not block. It is not called any
	// more when Execute has returned.
	Observe func(run.Event)
}

// Skill is a program that a user has saved.
type Skill struct {
	Name        string // its path
	Description string // one line; empty if it has none
}

// Catalog tells the model of tools. Its methods are safe for concurrent use.
type Catalog interface {
	// Search is a text on the tools that fit a request in words. A limit of 0 is the catalog's own.
	Search(ctx context.Context, query string, limit int) (string, error)
	// Details is a text on the tools of these names. A name that no tool has is told of in the text.
	Details(ctx context.Context, names []string) (string, error)
	// Definitions is about how many model tokens the definitions of all tools have.
	Definitions() int
}

// Options are the parts of an Agent and its bounds.
type Options struct {
	// Models gives the model that a task asks for by name; "" is the configured one. Its errors are told to the user.
	Models  func(name string) (model.Model, error)
	Runs    Runs
	Catalog Catalog
	Prompts *Prompts // nil: the built-in ones
	Prices  model.Prices
	Budget  task.Budget // the most that a task may take; zero fields are no bound
	// ResultTokens is how many model tokens the result of one call may have; 0 is modelview.DefaultLimit.
	ResultTokens int
	Privacy      pii.Filter // of prompts and results; nil is pii.None
	Now          func() time.Time
	NewID        func() string // of a run
}

// Agent works tasks. It is safe for concurrent use.
type Agent struct {
	opt Options
}

// New makes an agent.
func New(opt Options) *Agent {
	if opt.Prompts == nil {
		opt.Prompts = builtin()
	}
	return &Agent{opt: opt}
}

var _ task.Worker = (*Agent)(nil).Do

// Do works a task until it ends: from its beginning, or from where its steps stop. history are the earlier tasks of the
// session with their steps, oldest first. It returns the task as it ended, for the caller to commit.
//
// A provider that is away is a *task.RetryError: the task goes on when Do is called again.
//
// When ctx ends with the cause task.ErrCancelled, the task ends as cancelled; with any other cause it is left as it is,
// and the error wraps the cause. An error of log leaves it too. All goroutines that Do starts have ended when it returns.
func (a *Agent) Do(ctx context.Context, t task.Task, history []task.Past, steps []task.Step, log task.Log) (task.Task, error) {
	w := &work{
		a: a, task: t, history: history, log: log, bounds: boundsOf(a.opt.Budget, t.Budget),
		privacy: pii.In(a.opt.Privacy, t.UserID, t.SessionID), since: a.opt.Now(),
	}
	w.state.compact = inherited(history)
	for _, s := range steps {
		w.take(s)
	}
	ctx, stop := w.watch(ctx)
	defer stop()
	end, err := w.loop(ctx)
	if failed := w.save(ctx); err == nil {
		err = failed
	}
	if err != nil {
		return t, err
	}
	return w.ended(end), nil
}

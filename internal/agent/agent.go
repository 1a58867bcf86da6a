// Package agent works a task: it asks the model, executes the programs that the model writes and reports how they ended,
// until the model answers or a bound is reached.
//
// The task and its recorded steps decide what the loop does next and what it sends to the model. After the death of a
// process, the task therefore goes on where it stopped: an answered request is not sent again, and a program that had begun
// goes on under its recorded run id. Each step is committed before anything that depends on it happens.
//
// The loop ends with the model's answer. The system prompt says how to save a skill; the task's own programs do it.
package agent

import (
	"context"
	"time"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/task"
)

// Runs executes programs and stores files of sessions. Its methods are safe for concurrent use.
type Runs interface {
	// Execute executes a program under its id. It continues a recorded run of this id, or returns how that ended. When ctx
	// ends, it returns within half a second: the run has ended as cancelled, or, if the cause is run.ErrHandedOver, can be
	// continued, and the error wraps that cause. Other errors are faults of the harness: one that wraps task.ErrLasting
	// ends the task, after any other the run is continued later.
	Execute(ctx context.Context, p Program) (*run.Outcome, error)
	// Abandon ends a run of a dead process as cancelled, and returns how it ended; nil if no run was recorded.
	Abandon(ctx context.Context, p Program) (*run.Outcome, error)
	// SaveFile writes a file of a session's workspace; name may have slashes. It returns the path under which programs find it.
	SaveFile(ctx context.Context, user, session, name string, data []byte) (path string, err error)
	// Skills lists what a user has saved, in an order that does not change.
	Skills(ctx context.Context, user string) ([]Skill, error)
}

// Program is code to run.
type Program struct {
	RunID   string
	New     bool // no run of this id was recorded
	Code    string
	User    string
	Session string
	Task    string
	// Principal is whose credential asked for the task.
	Principal string
	Roles     []auth.Role // roles of the principal at the request; nil if unknown
	Began     time.Time   // the task
	// Said are the texts of the user: the task, its context, and the earlier tasks of the session.
	Said []string
	// Observe gets what the run does, and what a recorded run did before, in order, until Execute returns. It does not block.
	Observe func(run.Event)
	// Progress gets what servers report of calls under way, from several goroutines. It does not block.
	Progress func(call int, p mcpclient.Progress)
}

// Skill is a program that a user has saved.
type Skill struct {
	Name        string // path of the skill
	Description string // line that says what the skill is for; may be empty
}

// Catalog describes tools to the model. Its methods are safe for concurrent use.
type Catalog interface {
	// Search describes the tools that fit a request in words. A limit of 0 is the catalog's own.
	Search(ctx context.Context, user, query string, limit int) (string, error)
	// Details describes the tools of these names. It says which names no tool has.
	Details(ctx context.Context, user string, names []string) (string, error)
	// Definitions is about how many model tokens the definitions of all tools have.
	Definitions() int
}

// Options are the parts of an Agent and its bounds.
type Options struct {
	// Models returns the model that a task asks for by name; "" is the configured one. Users see its errors.
	Models  func(name string) (model.Model, error)
	Runs    Runs
	Catalog Catalog
	Prompts *Prompts // nil: the built-in ones
	Has     Features // features besides those of programs everywhere; Privacy decides about Private
	Prices  model.Prices
	Budget  task.Budget // the most that a task may take; zero fields are no bound
	// ResultTokens is how many model tokens the result of one call may have; 0 is modelview.DefaultLimit.
	ResultTokens int
	Privacy      *pii.Filter // filter of prompts and results; nil changes nothing
	Now          func() time.Time
	NewID        func() string // new id of a run
}

// Agent works tasks. It is safe for concurrent use.
type Agent struct {
	opt    Options
	system string // prompt
}

// New makes an agent.
func New(opt Options) *Agent {
	if opt.Prompts == nil {
		opt.Prompts = builtin()
	}
	opt.Has.Private = opt.Privacy != nil
	return &Agent{opt: opt, system: opt.Prompts.systemFor(opt.Has)}
}

var _ task.Worker = (*Agent)(nil).Do

// Do works a task until it ends: from its beginning, or from where its steps stop. history is the earlier tasks of the
// session with their steps, oldest first. Do returns the task as it ended, for the caller to commit.
//
// If the provider is away, the error is a *task.RetryError: the task goes on when Do is called again. If ctx ends with the
// cause task.ErrCancelled, the task ends as cancelled; any other cause, or an error of log, stops the work on the task, and
// the error wraps it. All goroutines that Do starts have ended when it returns.
func (a *Agent) Do(ctx context.Context, t task.Task, history []task.Past, steps []task.Step, log task.Log) (task.Task, error) {
	w := &work{
		a: a, task: t, history: history, log: log, bounds: boundsOf(a.opt.Budget, t.Budget),
		privacy: a.opt.Privacy.In(t.UserID, t.SessionID), since: a.opt.Now(),
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

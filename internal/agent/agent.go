// Package agent carries out tasks: it asks the model, executes the programs that the model writes, and reports their results to the model, until
// the model answers or a bound is reached.
//
// The task and its recorded steps decide what the loop does next and what it sends to the model. After the death of a
// process, the task therefore continues where it stopped: an answered request is not sent again, and a program that had begun
// continues under its recorded run id. Each step is committed before anything that depends on it happens.
//
// The loop ends with the model's answer. The loop itself saves no skills: the system prompt tells the model how a program saves one.
package agent

import (
	"context"
	"time"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/modelview"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/task"
)

// Runs executes programs and stores files of sessions. Its methods are safe for concurrent use.
type Runs interface {
	// Execute executes a program under its id. It continues a recorded run with this id, or returns its outcome if it has ended. When ctx ends,
	// Execute returns within half a second. If the cause is run.ErrHandedOver, the run can be continued, and the error wraps the cause; with any other
	// cause, the run has ended as cancelled. Other errors are faults of the harness: an error that wraps task.ErrLasting ends the task; after any
	// other error the run is continued later.
	Execute(ctx context.Context, p Program) (*run.Outcome, error)
	// Abandon ends a run whose process has died. The run ends as cancelled. Abandon returns the outcome of the run; nil if no run was recorded.
	Abandon(ctx context.Context, p Program) (*run.Outcome, error)
	// SaveFile writes a file of a session's workspace; name may contain slashes. It returns the path of the file for programs.
	SaveFile(ctx context.Context, user, session, name string, data []byte) (path string, err error)
	// Skills returns the skills of a user that fit a request in words, the best first, and the number of the user's other skills.
	Skills(ctx context.Context, user, request string) (fit []modelview.Skill, others int, err error)
}

// Program is code to run.
type Program struct {
	RunID   string
	New     bool // whether no run with this id was recorded
	Code    string
	User    string
	Session string
	Task    string
	// Principal is the credential that requested the task.
	Principal string
	Roles     []auth.Role // roles of the principal at the time of the request; nil if unknown
	Began     time.Time   // start of the task
	// Said are the texts that the user wrote: the task, its context, and the earlier tasks of the session.
	Said  []string
	Asked string // text of the task
	// Observe receives the events of the run in order, recorded ones first, until Execute returns. It must not block.
	Observe func(run.Event)
	// Progress receives the progress reports of servers about calls in flight, from several goroutines. It must not block.
	Progress func(call int, p mcpclient.Progress)
}

// Catalog describes tools to the model. Its methods are safe for concurrent use.
type Catalog interface {
	// Search describes the tools that fit a request in words. A limit of 0 means the default of the catalog.
	Search(ctx context.Context, user, query string, limit int) (string, error)
	// Details describes the tools with these names. It reports names that no tool has.
	Details(ctx context.Context, user string, names []string) (string, error)
	// Definitions estimates the size of the definitions of all tools in model tokens.
	Definitions() int
}

// Options are the parts of an Agent and its bounds.
type Options struct {
	// Models returns the model with the name that a task requests; "" is the configured model. Users see the errors of Models.
	Models  func(name string) (model.Model, error)
	Runs    Runs
	Catalog Catalog
	Prompts *Prompts // texts for the model; nil means the built-in prompts
	Has     Features // optional features of programs; New sets Private if Privacy is not nil
	Prices  model.Prices
	Budget  task.Budget // upper bounds of a task; a zero field sets no bound
	// ResultTokens is the maximum number of model tokens in the result of one call; 0 means modelview.DefaultLimit.
	ResultTokens int
	Privacy      *pii.Filter // filter of prompts and results; nil changes nothing
	Now          func() time.Time
	NewID        func() string // generates the id of a run
}

// Agent carries out tasks. It is safe for concurrent use.
type Agent struct {
	opt    Options
	system string // system prompt
}

// New returns an agent.
func New(opt Options) *Agent {
	if opt.Prompts == nil {
		opt.Prompts = builtin()
	}
	opt.Has.Private = opt.Privacy != nil
	return &Agent{opt: opt, system: opt.Prompts.systemFor(opt.Has)}
}

var _ task.Worker = (*Agent)(nil).Do

// Do carries out a task until it ends, from the beginning or from the last of its recorded steps. history contains the earlier tasks of the
// session with their steps, oldest first. Do returns the ended task, which the caller commits.
//
// If the provider is not available, the error is a *task.RetryError, and the next call of Do continues the task. If ctx ends with the
// cause task.ErrCancelled, the task ends as cancelled. Any other cause, or an error of log, stops the work on the task, and
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

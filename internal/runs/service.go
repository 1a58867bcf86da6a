// Package runs is the service of runs: it executes, replays, resumes and ends programs, and reads what is recorded of them. The command line, HTTP
// and tasks use it alike.
package runs

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/files"
	"mcp-code-exec-harness/internal/gate"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/program"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/sandbox"
	"mcp-code-exec-harness/internal/skills"
	"mcp-code-exec-harness/internal/slots"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/telemetry"
	"mcp-code-exec-harness/internal/usage"
)

// DefaultUser is the user of requests without one.
const DefaultUser = "local"

// Errors of requests.
var (
	// ErrEngine reports a run that another engine or guest runtime recorded; a replay refuses it unless forced.
	ErrEngine = errors.New("recorded by another engine")
	// ErrSession reports a session that belongs to another user or has expired.
	ErrSession = errors.New("no such session for this user")
)

// InvalidError is the error of a request that cannot be served as it is; its text is the reason.
type InvalidError string

func (e InvalidError) Error() string { return string(e) }

// Store keeps runs. Its methods are safe for concurrent use.
type Store interface {
	// KeepProgram stores the program of a task's run under a key, or that this task is the first to repeat that of an earlier task of the user.
	KeepProgram(ctx context.Context, user, key, task, run string) error
	// RepeatedProgram returns the earlier task whose program a task was the first to repeat; nil if there is none.
	RepeatedProgram(ctx context.Context, user, id string) (*task.Repeat, error)
	journal.Store
	// Run returns the run with an id; the error wraps journal.ErrNotFound.
	Run(ctx context.Context, id string) (journal.RunInfo, error)
	// MatchRun returns the run whose id is prefix, or the only run whose id begins with prefix. The error wraps journal.ErrNotFound, or names the
	// candidates.
	MatchRun(ctx context.Context, prefix string) (journal.RunInfo, error)
	// Runs lists runs, newest first; next continues the list and is empty at its end.
	Runs(ctx context.Context, f journal.Filter) (runs []journal.RunInfo, next string, err error)
	// ReadPage returns the records of a run with numbers above after, in order. It stops after limit records, or after the record with which the
	// records reach the given number of bytes. It returns none after the last record, and none for an unknown run.
	ReadPage(ctx context.Context, run string, after int64, limit, bytes int) ([]journal.Record, error)
	// Suspend makes a run wait for the decision on a request. This process must be the writer of the run's journal, and must have committed it.
	// Suspend ends the work of this process on the run: the run has no owner afterwards. In the same transaction, the request is put into the
	// outbox for webhook, unless webhook is empty, and for the callback of the run's task. The request leaves the outbox when it is decided. If
	// too many runs of the user wait, nothing changes and the error wraps task.ErrQuota.
	Suspend(ctx context.Context, r approval.Request, webhook string) error
	// Approvals lists requests, newest first; next continues the list and is empty at its end.
	Approvals(ctx context.Context, f approval.Filter) (requests []approval.Request, next string, err error)
	// Approval returns a request, or an error that wraps approval.ErrNotFound.
	Approval(ctx context.Context, id string) (approval.Request, error)
	// ApprovalsOf returns the requests of a run, oldest first. Before them come the requests of the run's task whose decisions are to be
	// remembered.
	ApprovalsOf(ctx context.Context, run, task string) ([]approval.Request, error)
	// Decide stores the decision about a request, once, and makes the task of the request due. The error wraps approval.ErrDecided or
	// approval.ErrNotFound.
	Decide(ctx context.Context, id string, status approval.Status, d approval.Decision) (approval.Request, error)
	// DueRuns lists runs that belong to no task and whose request was decided or has expired at now. next is the time at which the next request
	// expires. decided is the time of the last decision. Each is zero if there is none.
	DueRuns(ctx context.Context, now time.Time, limit int) (runs []string, next, decided time.Time, err error)
	// Doubts lists the writes in doubt that are not settled, the latest doubt first; next continues the list and is empty at its end.
	Doubts(ctx context.Context, f journal.DoubtFilter) (doubts []journal.Doubt, next string, err error)
	// Settlements returns the settlements of calls of a run, by call. It leaves out calls that were never in doubt. A doubt that no one has settled has
	// the verdict journal.Open.
	Settlements(ctx context.Context, run string, calls []int) (map[int]journal.Settlement, error)
	// Settle stores what a person said about a write in doubt, once. If the write already has this verdict, the stored settlement stays as it is
	// and changed is false. The error wraps journal.ErrNoDoubt or journal.ErrSettled.
	Settle(ctx context.Context, run string, call int, of journal.Settlement) (now journal.Settlement, changed bool, err error)
	// Strays lists unfinished runs whose process is dead, oldest first. It leaves out runs that belong to an unfinished task, and runs that
	// DueRuns lists.
	Strays(ctx context.Context) ([]journal.RunInfo, error)
	// Usage returns the totals of runs, calls and tasks that have ended.
	Usage(ctx context.Context, q usage.Query) (*usage.Report, error)
}

// Sessions are the sessions that runs may use.
type Sessions interface {
	// EnterSession begins the use of a user's session, and creates the session if it is absent. Until leave is called, the session is not deleted
	// and does not expire. The caller must call leave once. The error wraps task.ErrNotFound for another user's session.
	EnterSession(ctx context.Context, user, name string) (leave func(), err error)
}

// Options are the parts of a Service. The functions open a part at its first use and return the same part afterwards.
type Options struct {
	Store     func() (Store, error)
	Pool      func(tier string) (*sandbox.Pool, error) // returns the pool of the configured tier if tier is empty
	Skills    func() (*skills.Store, error)
	Workspace func() (files.Base, error) // workspaces of sessions; a run without a session has its own, named by its id
	Inputs    func() (files.Base, error) // copies of the inputs of runs that have not ended
	Sessions  func() (Sessions, error)

	// TierFor returns the tier for a run of a caller. asked is the tier that the request names; it may be empty. The error is an InvalidError if
	// this tier is unknown, or weaker than what the caller's runs need. If TierFor is nil, the run gets the tier that the request names.
	TierFor func(user string, roles []auth.Role, asked string) (string, error)

	Gate    *gate.Gate
	Catalog *catalog.Catalog
	// EnsureTools waits, for a limited time, until servers have listed their tools.
	EnsureTools func(ctx context.Context, user string)

	Compiler *program.Compiler
	Modules  *program.Cache
	Prelude  []program.Source // the operator's own runtime functions
	Packages string           // the node_modules directory that programs may import from, if any
	// Check configures what happens to a program that uses a tool, an argument or a field of an answer that does not exist: CheckOff, CheckWarn or
	// CheckRefuse; empty is CheckOff.
	Check string
	// Unavailable, if not nil, returns the names of servers whose tools are not known.
	Unavailable func() []string

	Limits run.Limits // upper limits of every run
	// LimitsFor returns the limits of a caller's runs, which are at most Limits; nil means Limits. roles is nil if unknown.
	LimitsFor func(user string, roles []auth.Role) run.Limits
	// DetachAfter is the time for which calls may keep a program waiting before its run gives up its runner; 0 means never.
	DetachAfter time.Duration
	// MaxDetached is the maximum number of calls in flight in a user's runs without a runner; 0 means any number. For all users together it is
	// shareOfAll times as high.
	MaxDetached int
	// ApprovalExpiry is the time for which a run waits for an approval; 0 means a day.
	ApprovalExpiry time.Duration
	// Presence decides which approvals a person has to confirm; nil means none.
	Presence *approval.Presence
	// Roles returns the current roles of a principal, or nil if they are not known. had are the roles that the principal had when it asked for a run or
	// task. Roles is called when that run is resumed, and before each program of that task. If Roles is nil, the earlier roles are used.
	Roles func(ctx context.Context, principal string, had []auth.Role) ([]auth.Role, error)
	// ApprovalWebhook is the URL that receives every request; may be empty.
	ApprovalWebhook string
	Env             map[string]string
	Privacy         *pii.Filter // filter for personal data; nil leaves texts unchanged
	Now             func() time.Time
	Logger          *slog.Logger
	Metrics         *telemetry.Metrics
	Audit           *telemetry.Auditor // nil writes no audit
	// Record writes the audit events of decisions, whichever process decides; nil means Audit.
	Record func(ctx context.Context, e telemetry.Event)
}

// Service executes runs. Its methods are safe for concurrent use.
type Service struct {
	opt      Options
	opening  sync.WaitGroup // goroutines that open parts in advance, and readers of feeds
	slots    *run.Slots     // slots of the runs of tasks
	turns    *run.Turns     // turns in which the programs of all runs compute
	args     *run.Args      // limits on the arguments of all runs' calls in flight
	detached *slots.Slots   // slots of runs that have given up their runners
	decided  chan struct{}  // holds a token when ResumeDecided has to look for runs to resume
	feeds    feeds          // feeds of watched runs
	asked    atomic.Bool    // set when a run begins to wait for an approval
	holding  sync.Mutex
	held     map[string]int // number of callers that resume a run themselves, by run; guarded by holding

	wrap func(journal.Writer) journal.Writer // returns its argument, except in tests of crashes
}

// New creates a service. Close must be called.
func New(opt Options) *Service {
	opt.Check = cmp.Or(opt.Check, CheckOff)
	if opt.Record == nil {
		opt.Record = opt.Audit.Audit
	}
	if opt.Unavailable == nil {
		opt.Unavailable = func() []string { return nil }
	}
	opt.ApprovalExpiry = cmp.Or(opt.ApprovalExpiry, 24*time.Hour)
	detached := slots.Limits{All: math.MaxInt, Each: math.MaxInt}
	if opt.MaxDetached > 0 {
		detached = slots.Limits{All: opt.MaxDetached * shareOfAll, Each: opt.MaxDetached}
	}
	s := &Service{
		opt: opt, detached: slots.New(detached, "calls of runs without a runner", "answered"), slots: run.NewSlots(runtime.GOMAXPROCS(0)), turns: run.NewTurns(runtime.GOMAXPROCS(0)), args: run.NewArgs(), decided: make(chan struct{}, 1), held: map[string]int{},
		wrap: func(w journal.Writer) journal.Writer { return w },
	}
	if opt.Catalog != nil && opt.Skills != nil {
		opt.Catalog.Own(s.functions)
	}
	return s
}

// roles returns the roles of a principal who asked for a run earlier.
func (s *Service) roles(ctx context.Context, principal string, had []auth.Role) ([]auth.Role, error) {
	if s.opt.Roles == nil {
		return had, nil
	}
	return s.opt.Roles(ctx, principal, had)
}

// shareOfAll is the factor by which a limit for all users together is higher than the limit for one user.
const shareOfAll = 50

// Others reports whether a program of a user other than the given one computes, or has computed lately.
func (s *Service) Others(user string) bool { return s.turns.Others(user) }

// stored calls ask with the store, which opens at its first use.
func stored[T any](s *Service, ask func(Store) (T, error)) (T, error) {
	store, err := s.opt.Store()
	if err != nil {
		var none T
		return none, err
	}
	return ask(store)
}

// WrapJournal puts a wrapper between runs and their journals, for tests of crashes. It must be called before any run.
func (s *Service) WrapJournal(wrap func(journal.Writer) journal.Writer) { s.wrap = wrap }

// Close waits until no part is being opened; runs must have ended.
func (s *Service) Close() { s.opening.Wait() }

// Package runs is the service of runs: it executes, replays, resumes and ends programs, and says what is recorded of
// them. The command line, HTTP and tasks use it alike.
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

// InvalidError is a request that cannot be served as it is; its text says why.
type InvalidError string

func (e InvalidError) Error() string { return string(e) }

// Store keeps runs. Its methods are safe for concurrent use.
type Store interface {
	journal.Store
	// Run returns the run of an id; the error wraps journal.ErrNotFound.
	Run(ctx context.Context, id string) (journal.RunInfo, error)
	// MatchRun returns the run of an id, or of the beginning of one that no other run shares. The error wraps
	// journal.ErrNotFound, or names the candidates.
	MatchRun(ctx context.Context, prefix string) (journal.RunInfo, error)
	// Runs lists runs, newest first; next continues the list and is empty at its end.
	Runs(ctx context.Context, f journal.Filter) (runs []journal.RunInfo, next string, err error)
	// ReadPage returns the records of a run with numbers above after, in order: at most limit, and none more once they
	// have so many bytes. There are none behind the last one, and none of an unknown run.
	ReadPage(ctx context.Context, run string, after int64, limit, bytes int) ([]journal.Record, error)
	// Suspend ends this process's work on a run whose journal it writes, all of which is committed: the run waits for the answer to a
	// request, and has no owner. The request is put into the outbox for webhook, if that is not empty, and for the callback of its
	// task, in the same transaction; it leaves the outbox when it is decided. The error wraps task.ErrQuota if too many runs of its user wait; then nothing has changed.
	Suspend(ctx context.Context, r approval.Request, webhook string) error
	// Approvals lists requests, newest first; next continues the list and is empty at its end.
	Approvals(ctx context.Context, f approval.Filter) (requests []approval.Request, next string, err error)
	// Approval returns a request, or an error that wraps approval.ErrNotFound.
	Approval(ctx context.Context, id string) (approval.Request, error)
	// ApprovalsOf returns the requests of a run, oldest first, and before them those of its task that are to be remembered.
	ApprovalsOf(ctx context.Context, run, task string) ([]approval.Request, error)
	// Decide ends the waiting of a request, once, and makes its task due. The error wraps approval.ErrDecided or ErrNotFound.
	Decide(ctx context.Context, id string, status approval.Status, d approval.Decision) (approval.Request, error)
	// DueRuns lists runs of no task that may go on at now: their requests were decided, or have expired. next is when another request
	// expires, decided the time of the last decision; zero for never.
	DueRuns(ctx context.Context, now time.Time, limit int) (runs []string, next, decided time.Time, err error)
	// Doubts lists the writes in doubt that are not settled, the latest doubt first; next continues the list and is empty at its end.
	Doubts(ctx context.Context, f journal.DoubtFilter) (doubts []journal.Doubt, next string, err error)
	// Settlements returns those of the calls of a run that are in doubt, by call, settled or not.
	Settlements(ctx context.Context, run string, calls []int) (map[int]journal.Settlement, error)
	// Settle stores what a person said about a write in doubt, once: changed is false for the verdict that it has already, which stays as it was.
	// The error wraps journal.ErrNoDoubt or ErrSettled.
	Settle(ctx context.Context, run string, call int, of journal.Settlement) (now journal.Settlement, changed bool, err error)
	// Strays lists the unfinished runs of dead processes that belong to no unfinished task and that DueRuns does not list, oldest first.
	Strays(ctx context.Context) ([]journal.RunInfo, error)
	// Usage is what runs, calls and tasks that have ended add up to.
	Usage(ctx context.Context, q usage.Query) (*usage.Report, error)
}

// Sessions are the sessions that runs may use.
type Sessions interface {
	// EnterSession begins the use of a user's session, which is created if it is absent. The session is neither deleted
	// nor expired until leave is called, once. The error wraps task.ErrNotFound for another user's session.
	EnterSession(ctx context.Context, user, name string) (leave func(), err error)
}

// Options are the parts of a Service. The functions open a part at its first use and return the same part afterwards.
type Options struct {
	Store     func() (Store, error)
	Pool      func(tier string) (*sandbox.Pool, error) // empty: the configured tier
	Skills    func() (*skills.Store, error)
	Workspace func() (*files.Base, error) // workspaces of sessions; a run without a session has its own, named by its id
	Inputs    func() (*files.Base, error) // copies of what runs are given to work on, while they have not ended
	Sessions  func() (Sessions, error)

	// TierFor returns the tier of a caller's run that asked for one, or for none (empty), and an InvalidError for an unknown tier, or one that is weaker
	// than what the caller's runs need. nil: what it asked for.
	TierFor func(user string, roles []auth.Role, asked string) (string, error)

	Gate    *gate.Gate
	Catalog *catalog.Catalog
	// EnsureTools waits, within a bound, until servers have listed their tools.
	EnsureTools func(ctx context.Context, user string)

	Compiler *program.Compiler
	Modules  *program.Cache
	Prelude  []program.Source // the operator's own runtime functions
	Packages string           // the node_modules directory that programs may import from; empty: none
	// Check is what becomes of a program that uses what its tools do not have: CheckOff, CheckWarn or CheckRefuse; empty: CheckOff.
	Check string
	// Unavailable returns the names of servers whose tools are not known; nil: none.
	Unavailable func() []string

	Limits run.Limits // upper limits of every run
	// LimitsFor returns the limits of runs of a caller, none above Limits; nil: Limits. Roles that are not known are nil.
	LimitsFor func(user string, roles []auth.Role) run.Limits
	// DetachAfter is how long calls may keep a program waiting before its run gives up its runner; 0: it keeps it.
	DetachAfter time.Duration
	// MaxDetached is how many calls may be in flight in runs of a user without a runner; 0: any number. All users together may have
	// shareOfAll times as many.
	MaxDetached int
	// ApprovalExpiry is how long a run waits for an approval; 0 is a day.
	ApprovalExpiry time.Duration
	// Presence says which approvals a person has to confirm; nil: none.
	Presence *approval.Presence
	// Roles returns the roles of a principal who asked for a run or task earlier and had the given roles then; nil if they are not
	// known. It is called when such a run goes on; nil returns what they were.
	Roles func(ctx context.Context, principal string, had []auth.Role) ([]auth.Role, error)
	// ApprovalWebhook is the URL that receives every request; empty: none.
	ApprovalWebhook string
	Env             map[string]string
	Privacy         *pii.Filter // nil changes nothing
	Now             func() time.Time
	Logger          *slog.Logger
	Metrics         *telemetry.Metrics
	Audit           *telemetry.Auditor // nil: none
	// Record writes the audit events of decisions, which are written whatever process decides; nil: Audit.
	Record func(ctx context.Context, e telemetry.Event)
}

// Service executes runs. Its methods are safe for concurrent use.
type Service struct {
	opt      Options
	opening  sync.WaitGroup // parts that are opened ahead, and readers of feeds
	slots    *run.Slots     // slots of the runs of tasks
	turns    *run.Turns     // turns of all runs
	args     *run.Args      // arguments of all runs
	detached *slots.Slots   // slots of runs that have given up their runners
	decided  chan struct{}  // holds a token when a run may be resumed, or another one expires earlier
	feeds    feeds          // feeds of watched runs
	asked    atomic.Bool    // set when a run begins to wait for an approval
	holding  sync.Mutex
	held     map[string]int // runs that callers resume themselves, with the number of these; guarded by holding

	wrap func(journal.Writer) journal.Writer // identity, but for tests of crashes
}

// New makes a service. Close must be called.
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
	return &Service{
		opt: opt, detached: slots.New(detached, "calls of runs without a runner", "answered"), slots: run.NewSlots(runtime.GOMAXPROCS(0)), turns: run.NewTurns(runtime.GOMAXPROCS(0)), args: run.NewArgs(), decided: make(chan struct{}, 1), held: map[string]int{},
		wrap: func(w journal.Writer) journal.Writer { return w },
	}
}

// roles are the roles of a principal who asked for a run earlier.
func (s *Service) roles(ctx context.Context, principal string, had []auth.Role) ([]auth.Role, error) {
	if s.opt.Roles == nil {
		return had, nil
	}
	return s.opt.Roles(ctx, principal, had)
}

// shareOfAll is how many times the bound of one user is that of all.
const shareOfAll = 50

// Others reports whether a program of another user than this one computes, or did lately.
func (s *Service) Others(user string) bool { return s.turns.Others(user) }

// stored asks the store, which opens at its first use.
func stored[T any](s *Service, ask func(Store) (T, error)) (T, error) {
	store, err := s.opt.Store()
	if err != nil {
		var none T
		return none, err
	}
	return ask(store)
}

// WrapJournal puts something between runs and their journals, for tests of crashes. It must be called before any run.
func (s *Service) WrapJournal(wrap func(journal.Writer) journal.Writer) { s.wrap = wrap }

// Close waits until no part is being opened; runs must have ended.
func (s *Service) Close() { s.opening.Wait() }

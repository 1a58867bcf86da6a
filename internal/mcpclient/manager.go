package mcpclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/confine"
)

// DefaultMaxResult is the largest message a server may send, in bytes, where Options do not say otherwise.
const DefaultMaxResult = 64 << 20

// Options configures a [Manager]. The zero value is useful.
type Options struct {
	Logger   *slog.Logger // nil discards
	CacheDir string       // directory of cached tool lists; empty caches none
	LogDir   string       // directory of servers' output, see LogFile; empty keeps none
	// Redact hides personal data in what is kept of that; nil hides nothing.
	Redact func(string) string
	// OnChange is called when the tools or instructions of a server are not what was last reported by it, [Manager.Add]
	// included if there was a cached list. It is called for one server at a time and must not call Remove or Close, which
	// wait for it.
	OnChange func(Server)
	// Review is called with what a server lists before any of it is offered, and returns the names of the tools that are not to be
	// offered; "" stands for the server's title and instructions. fresh has a cached list ignored: the server is to be asked. It is
	// called for one listing of a server at a time; nil offers everything.
	Review func(ctx context.Context, s Server) (held []string, fresh bool)

	ClientVersion string // version that servers are given; empty is dev

	Environ    []string // the environment of which servers get the allow-listed part; nil is the process's own
	Supervisor string   // a binary whose main calls Supervise; empty is the running one

	MaxResult int           // bytes of one message of a server; 0 is DefaultMaxResult
	MaxCall   time.Duration // how long a call can last that keeps reporting progress; 0 is 15 minutes

	backoffMin, backoffMax time.Duration
	healthy                time.Duration
}

func (o *Options) fill() {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.ClientVersion = cmp.Or(o.ClientVersion, "dev")
	if o.Environ == nil {
		o.Environ = os.Environ()
	}
	switch {
	case o.Supervisor != "":
	case runtime.GOOS == "linux":
		o.Supervisor = "/proc/self/exe" // stays right when the file is replaced by an upgrade
	default:
		o.Supervisor, _ = os.Executable() // starting "" fails, with a reason
	}
	o.MaxResult = cmp.Or(o.MaxResult, DefaultMaxResult)
	o.MaxCall = cmp.Or(o.MaxCall, 15*time.Minute)
	o.backoffMin = cmp.Or(o.backoffMin, 500*time.Millisecond)
	o.backoffMax = cmp.Or(o.backoffMax, 30*time.Second)
	o.healthy = cmp.Or(o.healthy, time.Minute)
}

// State is where a server is in its life.
type State string

// The states of a server.
const (
	StateIdle State = "idle" // never started, or ended in order; the next use starts it
	// StateInstalling: npx, uvx, docker or podman fetch the server; the start follows.
	StateInstalling State = "installing"
	StateStarting   State = "starting" // a start is under way
	StateReady      State = "ready"    // connected
	StateFailed     State = "failed"   // the last start failed; uses fail until the backoff is over, then start again
	StateDisabled   State = "disabled" // the configuration disables it
	StateBackoff    State = "backoff"  // the connection was lost; otherwise as failed
	// StateNeedsLogin: a person has to log in; the next use looks for the credentials again.
	StateNeedsLogin State = "needs login"
)

// Status describes a server for people.
type Status struct {
	Name         string           `json:"name"`
	State        State            `json:"state"`
	Reason       string           `json:"reason,omitempty"` // cause of failed and backoff; the server's own words follow on the second line
	Transport    string           `json:"transport"`
	Sandbox      *confine.Sandbox `json:"sandbox,omitempty" doc:"What a server that is started here may reach; absent: what the user of the harness may."`
	PID          int              `json:"pid,omitempty"` // process id of the running server itself
	Tools        int              `json:"tools"`         // offered, from the server or its cached list
	Cached       bool             `json:"cached,omitempty"`
	Protocol     string           `json:"protocol,omitempty"`
	ServerInfo   Info             `json:"serverInfo"`
	Instructions string           `json:"instructions,omitempty"`
	Held         int              `json:"held,omitempty" doc:"Definitions that are held for review."`
	Since        time.Time        `json:"since"` // start of the state
	Restarts     int              `json:"restarts,omitempty"`
	RetryAt      time.Time        `json:"retryAt,omitzero"` // next start, for failed and backoff
	StderrTail   string           `json:"stderrTail,omitempty"`
	Refusal      *Refusal         `json:"-"` // HTTP refusal of the last start, for failed and backoff
	Scopes       []string         `json:"scopes,omitempty" doc:"Scopes that the next login asks for, because a call needed them."`
	PerUser      bool             `json:"perUser,omitempty" doc:"Each user logs in; the state is that of the user who asks."`
	// Conn numbers the connection; 0 before the first. Numbers grow with every new connection, also over restarts of
	// the harness, so that a number in a journal never means two connections.
	Conn int64 `json:"conn,omitempty"`
}

// Server is a server with the tools it offers.
type Server struct {
	Status
	Tools []Tool
	Held  []string // names of the tools that are held for review, sorted; they are not in Tools. "" is the server's title and instructions
	Known bool     // Tools were listed by the server, now or (Cached) before
}

// Manager holds the connections to all servers. Its methods may be called from any goroutine.
type Manager struct {
	opts Options

	// base is the parent of all work that outlives the call that began it (a start that several wait for); Close
	// ends it.
	base context.Context
	end  context.CancelFunc

	memory *memory // budget of answers

	installs, starts chan struct{} // hold an element for each installation and start under way

	prompts, resources notice // changes of what servers offer besides tools

	mu      sync.Mutex
	servers []*server      // servers in the order of addition
	leaving sync.WaitGroup // servers that are being removed; none begins once base has ended
}

var errClosed = errors.New("the connections to the servers are closed")

// NewManager makes a manager without servers. Close it.
func NewManager(opts Options) *Manager {
	opts.fill()
	base, end := context.WithCancel(context.Background())
	return &Manager{opts: opts, base: base, end: end, memory: newMemory(opts.MaxResult), installs: make(chan struct{}, maxStarts), starts: make(chan struct{}, maxStarts)}
}

// Add makes a server known, also while others are in use. It starts nothing; the cached tools are known at once.
func (m *Manager) Add(cfg Config) error {
	if err := cfg.validate(); err != nil {
		return err
	}
	cfg.Timeout = cmp.Or(cfg.Timeout, 60*time.Second)
	cfg.StartupTimeout = cmp.Or(cfg.StartupTimeout, 30*time.Second)
	cfg.InstallTimeout = cmp.Or(cfg.InstallTimeout, defaultInstallTimeout)
	var sandbox *confine.Plan
	if cfg.Sandbox != nil && cfg.usable() {
		var err error
		if sandbox, err = cfg.Sandbox.Resolve(); err != nil {
			cfg.Err = fmt.Errorf("its sandbox: %w", err)
		}
	}
	s := &server{users: map[string]*server{}, cfg: cfg, m: m, sandbox: sandbox, secrets: newRepeats(cfg.Secrets), calls: newCallSlots(), log: newServerLog(m.opts.LogDir, cfg, m.opts.Redact), state: StateIdle, since: time.Now()}
	switch {
	case cfg.Disabled:
		s.state = StateDisabled
	case cfg.Err != nil:
		s.state, s.reason, s.retryAt = StateFailed, cfg.Err.Error(), never
	}
	if err := m.add(s); err != nil {
		return fmt.Errorf("add server %q: %w", cfg.Name, err)
	}
	if l := readListing(m.opts.CacheDir, cfg); l != nil {
		s.recall(l)
	}
	return nil
}

func (m *Manager) add(s *server) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.base.Err() != nil {
		return errClosed
	}
	if other, _ := m.find(s.cfg.Name); other != nil {
		return errors.New("there is one of that name; remove it first or choose another")
	}
	s.life, s.end = context.WithCancel(m.base)
	m.servers = append(m.servers, s)
	return nil
}

// never is when a server is tried again that cannot be started as it is configured.
var never = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// Remove ends a server, with all its processes, and forgets it: calls under way fail, and after Remove nothing of it is
// left and nothing reported, also when ctx ended and the end was forced. An error says which process would not die.
// Another server may take its name at once.
func (m *Manager) Remove(ctx context.Context, name string) error {
	m.mu.Lock()
	s, err := m.find(name)
	if err == nil && m.base.Err() == nil {
		m.servers = slices.DeleteFunc(m.servers, func(other *server) bool { return other == s })
		m.leaving.Add(1)
		defer m.leaving.Done()
	}
	m.mu.Unlock()
	if err != nil {
		return err
	}
	err = s.shutdown(ctx)
	m.prompts.fire()
	m.resources.fire()
	if err != nil {
		return fmt.Errorf("remove server %q: %w", name, err)
	}
	return nil
}

// Servers describes all servers in the order in which they were added; those with a connection for each user as the local user has them.
func (m *Manager) Servers() []Status {
	var all []Status
	for _, s := range m.Tools() {
		all = append(all, s.Status)
	}
	return all
}

// Tools returns all servers with what is known of their tools, starting nothing.
func (m *Manager) Tools() []Server { return m.ServersOf("") }

// ServersOf is Tools as a user has the servers.
func (m *Manager) ServersOf(user string) []Server {
	var all []Server
	for _, s := range m.list() {
		all = append(all, s.snapshotOf(user))
	}
	return all
}

// EnsureTools starts the servers whose tools are not known, at most maxStarts child processes at a time, and returns all. A server that fails is in
// the result with its reason and costs the others nothing. It takes until all have started
// or failed, or until ctx ends: starts under way then go on in the background. For a server that was not ready at the deadline of an
// earlier ctx, also of another process, it waits only slowWait.
func (m *Manager) EnsureTools(ctx context.Context, user string) []Server {
	m.each(func(s *server) {
		if !s.snapshot().Known {
			s.ensure(ctx, user)
		}
		s.report() // reports what another caller's start has found
	})
	return m.Tools()
}

// Start starts all servers and returns them; as EnsureTools otherwise.
func (m *Manager) Start(ctx context.Context) []Server {
	m.each(func(s *server) { _ = s.start(ctx, "") }) // the reason is in the status
	return m.Tools()
}

// Starting starts all servers as Start does, and sends each as it is once it has started or failed. The channel holds all of them, and is closed
// behind the last.
func (m *Manager) Starting(ctx context.Context) <-chan Server {
	all := m.list()
	started := make(chan Server, len(all))
	var wg sync.WaitGroup
	for _, s := range all {
		wg.Go(func() {
			_ = s.start(ctx, "") // the reason is in the status
			started <- s.snapshotOf("")
		})
	}
	go func() {
		wg.Wait()
		close(started)
	}()
	return started
}

// Connect makes sure that a server is connected and returns the number of the connection, which a call can then ask
// for. During a backoff it fails at once.
func (m *Manager) Connect(ctx context.Context, user, name string) (int64, error) {
	s, err := m.serverOf(user, name)
	if err != nil {
		return 0, err
	}
	c, err := s.connect(ctx, false)
	if err != nil {
		return 0, err
	}
	return c.number, nil
}

// Reconnect ends the connection of a server, if it has one, and makes a new one now, whatever the backoff says.
func (m *Manager) Reconnect(ctx context.Context, user, name string) error {
	s, err := m.serverOf(user, name)
	if err != nil {
		return err
	}
	if err := s.disconnect(ctx); err != nil {
		return fmt.Errorf("reconnect server %q: %w", name, err)
	}
	_, err = s.connect(ctx, true)
	return err
}

// Review has Options.Review judge again what a server has listed. After it, the server offers what is not held.
func (m *Manager) Review(name string) error {
	s, err := m.server(name)
	if err != nil {
		return err
	}
	s.rereview()
	return nil
}

// Close ends all servers in parallel and waits until none of their processes and none of the manager's goroutines is
// left. When ctx ends first, processes are killed without further grace. Calls fail from its beginning.
func (m *Manager) Close(ctx context.Context) error {
	m.mu.Lock()
	m.end()
	m.mu.Unlock()
	var mu sync.Mutex
	var all []error
	m.each(func(s *server) {
		if err := s.shutdown(ctx); err != nil {
			mu.Lock()
			all = append(all, fmt.Errorf("close server %q: %w", s.cfg.Name, err))
			mu.Unlock()
		}
	})
	m.leaving.Wait()
	return errors.Join(all...)
}

func (m *Manager) list() []*server {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.servers)
}

// each runs f for all servers at once and waits.
func (m *Manager) each(f func(*server)) {
	var wg sync.WaitGroup
	for _, s := range m.list() {
		wg.Go(func() { f(s) })
	}
	wg.Wait()
}

func (m *Manager) server(name string) (*server, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.find(name)
}

// find finds a server by its name; m.mu is held.
func (m *Manager) find(name string) (*server, error) {
	names := make([]string, len(m.servers))
	for i, s := range m.servers {
		if names[i] = s.cfg.Name; names[i] == name {
			return s, nil
		}
	}
	msg := "no server has this name"
	if len(names) > 0 {
		msg += "; the servers are " + strings.Join(names, ", ")
	}
	return nil, &CallError{Server: name, Kind: KindUnavailable, Message: msg}
}

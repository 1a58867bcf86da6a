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
	"mcp-code-exec-harness/internal/process"
)

// DefaultMaxResult is the default of Options.MaxResult.
const DefaultMaxResult = 64 << 20

// Options configures a [Manager]. The zero value is useful.
type Options struct {
	Logger   *slog.Logger // log of the manager; nil discards all records
	CacheDir string       // directory of cached tool lists; empty disables the cache
	LogDir   string       // directory of the servers' logs, see LogFile; empty disables them
	// Redact hides personal data in the servers' logs; nil hides nothing.
	Redact func(string) string
	// OnChange is called when the tools or instructions of a server differ from those of the previous call. [Manager.Add] also calls
	// OnChange if there is a cached list. Calls for one server do not overlap. OnChange must not call Remove or Close, which
	// wait for it.
	OnChange func(Server)
	// Review is called with every listing of a server before any of it is offered. It returns the names of the tools to hold back;
	// "" stands for the server's title and instructions. If fresh is true, a cached listing is ignored, so that the server lists its
	// tools again. Calls for one server do not overlap. A nil Review holds nothing back.
	Review func(ctx context.Context, s Server) (held []string, fresh bool)

	ClientVersion string // client version sent to servers; empty is dev

	Environ    []string     // environment from which servers get the allowed variables; nil is that of the process
	Supervisor process.Self // program of supervisors, whose main calls supervisor.Main; nil is the running binary

	MaxResult int           // maximum size of a message of a server in bytes; 0 is DefaultMaxResult
	MaxCall   time.Duration // maximum duration of a call that keeps reporting progress; 0 is 15 minutes

	backoffMin, backoffMax time.Duration
	healthy                time.Duration
}

func (o *Options) fill() {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.ClientVersion = cmp.Or(o.ClientVersion, "dev")
	if o.Environ == nil {
		o.Environ = os.Environ()
	}
	if o.Supervisor == nil {
		path, _ := os.Executable() // with "" the start of a server fails with a clear error
		if runtime.GOOS == "linux" {
			path = "/proc/self/exe" // stays valid when an upgrade replaces the file
		}
		o.Supervisor = process.SelfAt(path)
	}
	o.MaxResult = cmp.Or(o.MaxResult, DefaultMaxResult)
	o.MaxCall = cmp.Or(o.MaxCall, 15*time.Minute)
	o.backoffMin = cmp.Or(o.backoffMin, 500*time.Millisecond)
	o.backoffMax = cmp.Or(o.backoffMax, 30*time.Second)
	o.healthy = cmp.Or(o.healthy, time.Minute)
}

// State is a stage in the life of a server.
type State string

// The states of a server.
const (
	StateIdle State = "idle" // never started, or ended normally; the next use starts it
	// StateInstalling: npx, uvx, docker or podman downloads the server; the start follows.
	StateInstalling State = "installing"
	StateStarting   State = "starting" // the server is being started
	StateReady      State = "ready"    // connected
	StateFailed     State = "failed"   // the last start failed; requests fail until the backoff ends, then the next request starts the server
	StateDisabled   State = "disabled" // the server is disabled in the configuration
	StateBackoff    State = "backoff"  // the connection was lost; requests are handled as in StateFailed
	// StateNeedsLogin: a person has to log in; the next use looks for the credentials again.
	StateNeedsLogin State = "needs login"
)

// Status describes a server for people.
type Status struct {
	Name         string           `json:"name"`
	State        State            `json:"state"`
	Reason       string           `json:"reason,omitempty"` // cause of failed, backoff and needs login; further lines quote the server and give hints
	Transport    string           `json:"transport"`
	Sandbox      *confine.Sandbox `json:"sandbox,omitempty" doc:"What a server that is started here may reach; absent: what the user of the harness may."`
	PID          int              `json:"pid,omitempty"` // process id of the running server itself
	Tools        int              `json:"tools"`         // number of offered tools, from the server or its cached list
	Cached       bool             `json:"cached,omitempty"`
	Protocol     string           `json:"protocol,omitempty"`
	ServerInfo   Info             `json:"serverInfo"`
	Instructions string           `json:"instructions,omitempty"`
	Held         int              `json:"held,omitempty" doc:"Definitions that are held for review."`
	Since        time.Time        `json:"since"` // start of the state
	Restarts     int              `json:"restarts,omitempty"`
	RetryAt      time.Time        `json:"retryAt,omitzero"` // end of the backoff, in the states failed and backoff
	StderrTail   string           `json:"stderrTail,omitempty"`
	Refusal      *Refusal         `json:"-"` // HTTP refusal because of which the last start failed; may be nil
	Scopes       []string         `json:"scopes,omitempty" doc:"Scopes that the next login asks for, because a call needed them."`
	PerUser      bool             `json:"perUser,omitempty" doc:"Each user logs in; the state is that of the user who asks."`
	// Conn is the number of the last connection; 0 before the first. Every new connection gets a larger number, even after a restart
	// of the harness, so that a number in a journal never refers to two connections.
	Conn int64 `json:"conn,omitempty"`
}

// Server is a server with the tools it offers.
type Server struct {
	Status
	Tools []Tool
	Held  []string // sorted names of the tools that are held back for review and not in Tools; "" stands for the title and instructions
	Known bool     // reports that the server has listed its tools, now or (with Cached) earlier
}

// Manager holds the connections to all servers. Its methods may be called from any goroutine.
type Manager struct {
	opts Options

	// base is the parent context of all work that outlives the call that began it, such as a start that several calls wait for.
	// Close ends base.
	base context.Context
	end  context.CancelFunc

	memory *memory // budget of answers

	installs, starts chan struct{} // semaphores: an installation or a start holds one of maxStarts elements

	prompts, resources notice // notices of changed prompts and resources

	mu      sync.Mutex
	servers []*server      // servers in the order of addition
	leaving sync.WaitGroup // servers being removed; nothing is added once base has ended
}

var errClosed = errors.New("the connections to the servers are closed")

// NewManager returns a manager without servers. The caller closes it.
func NewManager(opts Options) *Manager {
	opts.fill()
	base, end := context.WithCancel(context.Background())
	return &Manager{opts: opts, base: base, end: end, memory: newMemory(opts.MaxResult), installs: make(chan struct{}, maxStarts), starts: make(chan struct{}, maxStarts)}
}

// Add adds a server; other servers may be in use meanwhile. It starts nothing. Cached tools are available at once.
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

// never is the retry time of a server whose configuration does not allow a start.
var never = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// Remove ends a server with all its processes and removes it. Calls in flight fail. After Remove no process and no goroutine of the server is
// left, and OnChange is not called for it again, even if ctx ended and Remove used force. An error names the process that did not die.
// Another server may use the name at once.
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

// Servers returns the status of all servers in the order in which they were added. If a server has a connection for each user, its status is
// that for the local user.
func (m *Manager) Servers() []Status {
	var all []Status
	for _, s := range m.Tools() {
		all = append(all, s.Status)
	}
	return all
}

// Tools returns all servers with their known tools. It starts nothing.
func (m *Manager) Tools() []Server { return m.ServersOf("") }

// ServersOf does the same as Tools for a given user.
func (m *Manager) ServersOf(user string) []Server {
	var all []Server
	for _, s := range m.list() {
		all = append(all, s.snapshotOf(user))
	}
	return all
}

// EnsureTools starts the servers whose tools are not known, at most maxStarts child processes at a time, and returns what Tools returns. A server
// that failed is in the result, with the reason; its failure does not affect the others. EnsureTools returns when all servers have started
// or failed, or when ctx ends: starts under way then continue in the background. It waits only slowWait for a server that was not ready at
// the deadline of an earlier ctx, in this process or another one.
func (m *Manager) EnsureTools(ctx context.Context, user string) []Server {
	m.each(func(s *server) {
		if !s.snapshot().Known {
			s.ensure(ctx, user)
		}
		s.report() // a start by another caller may have found tools
	})
	return m.Tools()
}

// Start starts all servers, also those whose tools are known, and returns them. Like EnsureTools, it returns when all servers have started or
// failed, or when ctx ends.
func (m *Manager) Start(ctx context.Context) []Server {
	m.each(func(s *server) { _ = s.start(ctx, "") }) // the server's status keeps the error
	return m.Tools()
}

// Starting starts all servers as Start does, and sends each on the channel once it has started or failed. The channel has room for all servers
// and is closed after the last one.
func (m *Manager) Starting(ctx context.Context) <-chan Server {
	all := m.list()
	started := make(chan Server, len(all))
	var wg sync.WaitGroup
	for _, s := range all {
		wg.Go(func() {
			_ = s.start(ctx, "") // the server's status keeps the error
			started <- s.snapshotOf("")
		})
	}
	go func() {
		wg.Wait()
		close(started)
	}()
	return started
}

// Connect makes sure that a server is connected and returns the number of the connection, which a call can require with
// CallOptions.Conn. During a backoff it fails at once.
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

// Reconnect ends the connection of a server, if it has one, and makes a new one at once, even during a backoff.
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

// Review calls Options.Review again with the known listing of a server. The server then offers everything that the new review does not hold back.
func (m *Manager) Review(name string) error {
	s, err := m.server(name)
	if err != nil {
		return err
	}
	s.rereview()
	return nil
}

// Close ends all servers in parallel and waits until none of their processes and none of the manager's goroutines is
// left. When ctx ends first, Close kills the processes at once. Calls fail as soon as Close begins.
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

// each runs f for all servers concurrently and waits.
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

// find returns the server with the given name. The caller holds m.mu.
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

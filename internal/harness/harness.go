// Package harness joins the parts that the configuration names.
package harness

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/files"
	"mcp-code-exec-harness/internal/gate"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/program"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/sandbox"
	"mcp-code-exec-harness/internal/sandbox/wasm"
	"mcp-code-exec-harness/internal/skills"
	"mcp-code-exec-harness/internal/store/sqlite"
	"mcp-code-exec-harness/internal/telemetry"
	"mcp-code-exec-harness/internal/workspace"
)

// ErrUnavailable marks what fails because something the harness depends on is missing or cannot be reached.
var ErrUnavailable = errors.New("unavailable")

// unavailable is an error that matches ErrUnavailable; its message says what is missing.
type unavailable struct{ error }

func (e unavailable) Unwrap() error        { return e.error }
func (e unavailable) Is(target error) bool { return target == ErrUnavailable }

// Outside is what the harness needs of the world.
type Outside struct {
	Environ    []string // upstream servers get the allow-listed part
	Executable string   // this binary: re-executed for workers and supervisors
	Args       []string // before the hidden command, for test binaries
	CacheDir   string   // compiled code, tool lists; empty is the user's cache directory
	ToolCache  string   // tool lists, where they are not to outlive this harness; empty is in CacheDir
	Logger     *slog.Logger
	Now        func() time.Time
	Version    string
	Metrics    *telemetry.Metrics // nil: none are taken
	Audit      *telemetry.Auditor // nil: nobody is told
	Privacy    pii.Filter         // nil: pii.None
}

// Harness is the joined parts. Its methods are safe for concurrent use.
type Harness struct {
	cfg     *config.Config
	out     Outside
	cache   string
	catalog *catalog.Catalog
	servers *servers
	gate    *gate.Gate
	runs    *runs.Service

	// What only some commands need is opened when it is first used.
	store     func() (*sqlite.Store, error)
	pool      func() (*sandbox.Pool, error)
	skills    func() (*skills.Store, error)
	workspace func() (*workspace.Store, error)

	opening sync.WaitGroup               // of what Warm opens ahead
	started atomic.Pointer[sandbox.Pool] // what pool gives, once it has

	mu      sync.Mutex
	closers []func(context.Context) error // of what was opened, in that order
}

// Open joins the parts. Nothing is started yet: servers start when they are needed. Cancelling ctx gives up opening what
// is not open yet. Close must be called.
func Open(ctx context.Context, cfg *config.Config, out Outside) (*Harness, error) {
	h := &Harness{cfg: cfg, out: out, catalog: catalog.New()}
	if err := h.findCache(); err != nil {
		return nil, err
	}
	manager, err := h.connect()
	if err != nil {
		return nil, err
	}
	h.servers = manager
	h.gate = gate.New(gate.Options{Catalog: h.catalog, Servers: manager, Zones: zone, Now: out.Now})
	h.store = opened(h, func() (*sqlite.Store, error) {
		return sqlite.Open(ctx, cfg.Store.URL, sqlite.Options{
			Sync: sqlite.Sync(cfg.Store.Sync), Retention: cfg.Journal.Retention, Now: out.Now, Logger: out.Logger,
			Quotas: sqlite.Quotas{
				Bytes: int64(cfg.Quotas.Journal), Tasks: int64(cfg.Quotas.Tasks), Sessions: int64(cfg.Quotas.Sessions), Schedules: int64(cfg.Quotas.Schedules),
			},
		})
	}, func(_ context.Context, s *sqlite.Store) error { return s.Close() })
	h.pool = opened(h, func() (*sandbox.Pool, error) { return h.openPool(ctx) },
		func(_ context.Context, p *sandbox.Pool) error { p.Close(); return nil })
	h.skills = opened(h, func() (*skills.Store, error) {
		return skills.Open(cfg.Skills.Dir, limits(cfg.Skills.MaxBytes, cfg.Skills.MaxFiles))
	},
		func(_ context.Context, s *skills.Store) error { return s.Close() })
	h.workspace = opened(h, func() (*workspace.Store, error) {
		return workspace.Open(cfg.Workspace.Dir, limits(cfg.Workspace.MaxBytes, cfg.Workspace.MaxFiles))
	}, func(_ context.Context, s *workspace.Store) error { return s.Close() })
	return h, h.openRuns()
}

// openRuns joins the service of runs.
func (h *Harness) openRuns() error {
	c := h.cfg.Sandbox
	var prelude []program.Source
	for _, file := range c.Prelude {
		text, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read sandbox.prelude: %w", err)
		}
		prelude = append(prelude, program.Source{Name: filepath.Base(file), Code: string(text)})
	}
	compiler := program.NewCompiler(h.out.Executable, h.out.Args...)
	h.closers = append(h.closers, func(context.Context) error { compiler.Close(); return nil })
	h.runs = runs.New(runs.Options{
		Store: func() (runs.Store, error) { return h.store() },
		Pool:  h.pool, Skills: h.skills, Workspace: h.workspace,
		Sessions: kept(func() (runs.Sessions, error) { return h.Tasks(TaskOptions{}) }),
		Gate:     h.gate, Catalog: h.catalog, EnsureTools: h.EnsureTools,
		Compiler: compiler, Modules: program.NewCache(), Prelude: prelude, Packages: c.Packages,
		Limits: run.Limits{
			Timeout: c.Timeout, MaxWall: c.MaxWall, Memory: int64(c.Memory), MaxOutput: int(c.MaxOutput), MaxLogLines: c.MaxLogLines,
			MaxCalls: c.MaxCalls, MaxHostCalls: c.MaxHostCalls, MaxInFlight: c.MaxInFlight, MaxValue: int(c.MaxValue),
		},
		Env: c.Env, Privacy: h.out.Privacy, Now: h.out.Now, Logger: h.out.Logger, Metrics: h.out.Metrics, Audit: h.out.Audit,
	})
	return nil
}

// opened makes a part that is opened at its first use and closed with the harness.
func opened[T any](h *Harness, open func() (T, error), closer func(context.Context, T) error) func() (T, error) {
	return kept(func() (T, error) {
		part, err := open()
		if err != nil {
			return part, unavailable{err}
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.closers = append(h.closers, func(ctx context.Context) error { return closer(ctx, part) })
		return part, nil
	})
}

// kept calls open until it succeeds once, and returns what it made from then on. Callers share the attempt that is under
// way, and its error; the next caller tries again, because what failed may pass.
func kept[T any](open func() (T, error)) func() (T, error) {
	type attempt struct {
		done chan struct{}
		part T
		err  error
	}
	var mu sync.Mutex
	var last *attempt // under way, or successful
	return func() (T, error) {
		mu.Lock()
		a := last
		if a != nil {
			mu.Unlock()
			<-a.done
			return a.part, a.err
		}
		a = &attempt{done: make(chan struct{})}
		last = a
		mu.Unlock()
		defer close(a.done)
		if a.part, a.err = open(); a.err != nil {
			mu.Lock()
			last = nil
			mu.Unlock()
		}
		return a.part, a.err
	}
}

func limits(size config.Size, count int) files.Limits {
	return files.Limits{MaxBytes: int64(size), MaxFiles: int64(count)}
}

// findCache chooses where what can be made again is kept.
func (h *Harness) findCache() error {
	h.cache = h.out.CacheDir
	if h.cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return fmt.Errorf("find the cache directory: %w; set HARNESS_CACHE_DIR", err)
		}
		h.cache = filepath.Join(dir, "mcp-code-exec-harness")
	}
	return nil
}

func (h *Harness) openPool(ctx context.Context) (*sandbox.Pool, error) {
	tier, err := wasm.Open(ctx, wasm.Options{
		Executable: h.out.Executable, Args: h.out.Args, Dir: h.cache, MaxMemory: max(1<<30, int64(h.cfg.Sandbox.Memory)),
	})
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	h.closers = append(h.closers, func(context.Context) error { return tier.Close() })
	h.mu.Unlock()
	p := sandbox.NewPool(tier, sandbox.PoolOptions{Size: h.cfg.Sandbox.Pool, PerOwner: h.cfg.Sandbox.PoolPerUser})
	h.started.Store(p)
	return p, nil
}

// Close ends servers and runners and closes the store; runs must have ended. When ctx ends, processes are killed
// without further grace.
func (h *Harness) Close(ctx context.Context) error {
	err := h.servers.Close(ctx)
	h.runs.Close()
	h.opening.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := len(h.closers) - 1; i >= 0; i-- {
		err = errors.Join(err, h.closers[i](ctx))
	}
	h.closers = nil
	return err
}

// Runs is the service of runs.
func (h *Harness) Runs() *runs.Service { return h.runs }

// Catalog is every tool known.
func (h *Harness) Catalog() *catalog.Catalog { return h.catalog }

// Servers are the connections to upstream servers.
func (h *Harness) Servers() *mcpclient.Manager { return h.servers.Manager }

// EnsureTools waits until every server has listed its tools or failed to.
func (h *Harness) EnsureTools(ctx context.Context) { h.servers.EnsureTools(ctx) }

// Store opens the store of runs.
func (h *Harness) Store() (*sqlite.Store, error) { return h.store() }

// Pool opens the sandbox.
func (h *Harness) Pool() (*sandbox.Pool, error) { return h.pool() }

// Warm opens the sandbox in the background, and keeps some runners ready for users who have none. That it cannot be
// opened is told to whoever runs a program.
func (h *Harness) Warm(runners int) {
	h.opening.Go(func() {
		if pool, err := h.pool(); err == nil {
			pool.KeepWarm(runners)
		}
	})
}

// Skills opens what users have saved.
func (h *Harness) Skills() (*skills.Store, error) { return h.skills() }

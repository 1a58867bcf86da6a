package wiring

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"mcp-code-exec-harness/internal/jail"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/sandbox"
	"mcp-code-exec-harness/internal/sandbox/process"
	"mcp-code-exec-harness/internal/sandbox/wasm"
)

// tier is a tier of the sandbox that has been opened.
type tier struct {
	name    string
	pool    *sandbox.Pool
	missing func() jail.Missing // nil before the first runner
}

// Tiers are the names of the tiers.
var Tiers = []string{"wasm", "process"}

// auto stands for the strongest tier that works.
const auto = "auto"

// openTiers returns what opens each tier at its first use.
func (h *Harness) openTiers(ctx context.Context) map[string]func() (*tier, error) {
	closePool := func(t *tier) error { t.pool.Close(); return nil }
	engine := opened(h, "HARNESS_CACHE_DIR", "a directory that only you can write to", func() (*wasm.Sandbox, error) {
		return wasm.Open(ctx, wasm.Options{
			Executable: h.out.Executable, Args: h.out.Args, Dir: h.out.CacheDir, MaxMemory: max(1<<30, int64(h.cfg.Sandbox.Memory)),
		})
	}, (*wasm.Sandbox).Close)
	c := h.cfg.Sandbox
	tiers := map[string]func() (*tier, error){
		"wasm": opened(h, "sandbox.tier", "another tier", func() (*tier, error) {
			s, err := engine()
			if err != nil {
				return nil, err
			}
			return &tier{"wasm", sandbox.NewPool(s, sandbox.PoolOptions{Size: c.Pool, PerOwner: c.PoolPerUser}), s.Missing}, nil
		}, closePool),
		"process": opened(h, "sandbox.tier", "wasm", func() (*tier, error) {
			e, err := engine()
			if err != nil {
				return nil, err
			}
			program, args := e.Program()
			s, err := process.Open(ctx, process.Options{
				Program: program, Args: args, Node: c.Process.Node, Dir: filepath.Join(h.out.CacheDir, "process"), Memory: int64(c.Memory), Without: c.Process.Without,
			})
			if err != nil {
				return nil, err
			}
			h.atClose(s.Close)
			return &tier{"process", sandbox.NewPool(s, sandbox.PoolOptions{Size: c.Pool, PerOwner: c.PoolPerUser, MaxRuns: 1}), s.Missing}, nil
		}, closePool),
	}
	tiers[auto] = kept(func() (*tier, error) {
		var best *tier
		var strongest int
		var problems []error
		for _, name := range Tiers {
			t, err := tiers[name]()
			if err == nil {
				var strength int
				if strength, err = t.strength(ctx); err == nil && strength > strongest {
					best, strongest = t, strength
				}
			}
			problems = append(problems, err)
		}
		if best == nil {
			return nil, errors.Join(problems...)
		}
		return best, nil
	})
	return tiers
}

// strength orders tiers by what stands between a program and the machine: 3, the memory of WebAssembly in a process behind all walls; 2, Node.js
// behind them; 1, one of these without some of its walls. It starts a runner if none has been started.
func (t *tier) strength(ctx context.Context) (int, error) {
	missing, err := t.walls(ctx)
	switch {
	case err != nil:
		return 0, err
	case len(missing) > 0:
		return 1, nil
	case t.name == "wasm":
		return 3, nil
	}
	return 2, nil
}

// walls are those that the tier's runners have not.
func (t *tier) walls(ctx context.Context) (jail.Missing, error) {
	if missing := t.missing(); missing != nil {
		return missing, nil
	}
	lease, err := t.pool.Acquire(ctx, "walls")
	if err != nil {
		return nil, err
	}
	lease.Release(false)
	return t.missing(), nil
}

// tier opens a tier; empty is the configured one.
func (h *Harness) tier(name string) (*tier, error) {
	if name == "" {
		name = h.cfg.Sandbox.Tier
	}
	open := h.tiers[name]
	if open == nil {
		return nil, runs.InvalidError(fmt.Sprintf("sandbox: there is no tier %q; there are %s", name, strings.Join(Tiers, ", ")))
	}
	return open()
}

// Pool opens a tier of the sandbox; empty is the configured one.
func (h *Harness) Pool(name string) (*sandbox.Pool, error) {
	t, err := h.tier(name)
	if err != nil {
		return nil, err
	}
	return t.pool, nil
}

// checkTier returns an InvalidError for a tier that is weaker than the configured one.
func (h *Harness) checkTier(name string) error {
	configured, err := h.tier("")
	if err != nil {
		return err
	}
	if name == configured.name || name == auto {
		return nil
	}
	t, err := h.tier(name)
	if err != nil {
		return err
	}
	ctx := context.Background()
	has, err := t.strength(ctx)
	if err != nil {
		return err
	}
	needs, err := configured.strength(ctx)
	if err == nil && has < needs {
		err = runs.InvalidError(fmt.Sprintf("sandbox: %s is weaker than %s, which this server has configured (sandbox.tier)", name, configured.name))
	}
	return err
}

// Walls opens a tier, starts a runner of it if none has been started, and says which walls of the operating system its runners have not, and why.
func (h *Harness) Walls(ctx context.Context, name string) (jail.Missing, error) {
	t, err := h.tier(name)
	if err != nil {
		return nil, err
	}
	return t.walls(ctx)
}

// Warm opens the configured tier and keeps runners ready, in the background.
func (h *Harness) Warm(runners int) {
	h.opening.Go(func() {
		if pool, err := h.Pool(""); err == nil {
			pool.KeepWarm(runners)
		}
	})
}

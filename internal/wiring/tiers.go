package wiring

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/jail"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/sandbox"
	"mcp-code-exec-harness/internal/sandbox/docker"
	"mcp-code-exec-harness/internal/sandbox/process"
	"mcp-code-exec-harness/internal/sandbox/wasm"
)

// tier is a tier of the sandbox that has been opened.
type tier struct {
	name     string
	pool     *sandbox.Pool
	walls    []string            // that its runners should have
	strength int                 // if they have them, see strengthOf
	missing  func() jail.Missing // nil before the first runner
}

// Tiers are the names of the tiers.
var Tiers = []string{"wasm", "process", "docker"}

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
			return &tier{"wasm", sandbox.NewPool(s, sandbox.PoolOptions{Size: c.Pool, PerOwner: c.PoolPerUser, AcquireTimeout: c.AcquireTimeout}), jail.Walls, 3, s.Missing}, nil
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
			return &tier{"process", sandbox.NewPool(s, sandbox.PoolOptions{Size: c.Pool, PerOwner: c.PoolPerUser, AcquireTimeout: c.AcquireTimeout, MaxRuns: 1}), jail.Walls, 2, s.Missing}, nil
		}, closePool),
		"docker": opened(h, "sandbox.tier", "wasm", func() (*tier, error) {
			s, err := docker.Open(ctx, docker.Options{
				Engine: docker.Engine{Host: c.Docker.Host, Certs: c.Docker.Certs}, Image: c.Docker.Image, Runtime: c.Docker.Runtime,
				Memory: int64(c.Memory), CPUs: c.Docker.CPUs, Pids: c.Docker.Pids, Timeout: c.Timeout, Dir: h.out.CacheDir,
			})
			if err != nil {
				return nil, err
			}
			h.atClose(s.Close)
			strength := 2
			if slices.Contains(s.Walls(), docker.Kernel) {
				strength = 4
			}
			return &tier{"docker", sandbox.NewPool(s, sandbox.PoolOptions{Size: c.Pool, PerOwner: c.PoolPerUser, AcquireTimeout: c.AcquireTimeout, MaxRuns: 1}), s.Walls(), strength, s.Missing}, nil
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
				if strength, err = t.strengthOf(ctx); err == nil && strength > strongest {
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

// strengthOf orders tiers by what stands between a program and the machine: 4, the kernel of gVisor; 3, the memory of WebAssembly in a process
// behind all walls; 2, Node.js behind them, or in a container; 1, one of these without some of its walls. It starts a runner if none has been
// started.
func (t *tier) strengthOf(ctx context.Context) (int, error) {
	missing, err := t.lacks(ctx)
	if err != nil {
		return 0, err
	}
	for wall := range missing {
		if wall != jail.Limits { // it keeps programs from exhausting the machine, and not apart from it
			return 1, nil
		}
	}
	return t.strength, nil
}

// lacks are the walls that the tier's runners have not.
func (t *tier) lacks(ctx context.Context) (jail.Missing, error) {
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
		return nil, runs.InvalidError("sandbox: there is no such tier; there are " + strings.Join(Tiers, ", "))
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
	has, err := t.strengthOf(ctx)
	if err != nil {
		return err
	}
	needs, err := configured.strengthOf(ctx)
	if err == nil && has < needs {
		err = runs.InvalidError(fmt.Sprintf("sandbox: %s is weaker than %s, which this server has configured (sandbox.tier)", name, configured.name))
	}
	return err
}

// Walls opens a tier, starts a runner of it if none has been started, and says which walls its runners should have, and which they have not, and
// why.
func (h *Harness) Walls(ctx context.Context, name string) (walls []string, missing jail.Missing, err error) {
	t, err := h.tier(name)
	if err != nil {
		return nil, nil, err
	}
	missing, err = t.lacks(ctx)
	return t.walls, missing, err
}

// Warm opens the configured tier and keeps runners ready, in the background.
func (h *Harness) Warm(runners int) {
	h.opening.Go(func() {
		if pool, err := h.Pool(""); err == nil {
			pool.KeepWarm(runners)
		}
	})
}

// tierFor is the tier of a caller's run that asked for one, or for none (empty): where rules of policy.runs name tiers for the caller, the
// strongest of them and of the configured one, or the one asked for if that is not weaker.
func (h *Harness) tierFor(user string, roles []auth.Role, asked string) (string, error) {
	least := h.cfg.TiersFor(user, roles)
	if len(least) == 0 {
		return asked, nil
	}
	ctx := context.Background()
	best, err := h.tier(asked)
	if err != nil {
		return "", err
	}
	has, err := best.strengthOf(ctx)
	if err != nil {
		return "", err
	}
	for _, name := range least {
		t, err := h.tier(name)
		if err != nil {
			return "", err
		}
		needs, err := t.strengthOf(ctx)
		switch {
		case err != nil:
			return "", err
		case asked == "" && needs >= has:
			best, has = t, needs
		case needs > has:
			return "", runs.InvalidError(fmt.Sprintf("sandbox: %s is weaker than %s, which this user's programs need (policy.runs)", best.name, name))
		}
	}
	return best.name, nil
}

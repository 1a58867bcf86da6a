package wiring

import (
	"cmp"
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
	walls    []string            // walls that its runners should have
	strength int                 // if they have them, see strengthOf
	missing  func() jail.Missing // nil before the first runner
}

// Tiers are the names of the tiers.
var Tiers = []string{"wasm", "process", "docker"}

// strengths are those that tiers have at most, see strengthOf.
var strengths = map[string]int{"wasm": 3, "process": 2, "docker": 4}

// auto stands for the strongest tier that works.
const auto = "auto"

// openTiers returns what opens each tier at its first use.
func (h *Harness) openTiers(ctx context.Context) map[string]func() (*tier, error) {
	closePool := func(t *tier) error { t.pool.Close(); return nil }
	c := h.cfg.Sandbox
	// open makes the pool of a tier, whose runners execute a number of programs, 0 for as many as the pool's default.
	open := func(s sandbox.Sandbox, size, runs int, walls []string, strength int, missing func() jail.Missing) *tier {
		t := &tier{name: s.Info().Tier, walls: walls, strength: strength, missing: missing}
		t.pool = sandbox.NewPool(s, sandbox.PoolOptions{
			Size: size, PerOwner: c.PoolPerUser, AcquireTimeout: c.AcquireTimeout, FailFast: c.WhenFull == "fail", MaxRuns: runs,
		})
		h.mu.Lock()
		defer h.mu.Unlock()
		h.pools[t.name] = t.pool
		return t
	}
	engine := opened(h, "HARNESS_CACHE_DIR", "a directory that only you can write to", func() (*wasm.Sandbox, error) {
		return wasm.Open(ctx, wasm.Options{
			Executable: h.out.Executable, Args: h.out.Args, Dir: h.out.CacheDir, MaxMemory: max(1<<30, int64(h.cfg.Sandbox.Memory)),
		})
	}, (*wasm.Sandbox).Close)
	tiers := map[string]func() (*tier, error){
		"wasm": opened(h, "sandbox.tier", "another tier", func() (*tier, error) {
			s, err := engine()
			if err != nil {
				return nil, err
			}
			return open(s, c.Pool, 0, jail.Walls, strengths["wasm"], s.Missing), nil
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
			return open(s, c.Pool, 1, jail.Walls, strengths["process"], s.Missing), nil
		}, closePool),
		"docker": opened(h, "sandbox.tier", "wasm", func() (*tier, error) {
			s, err := docker.Open(ctx, docker.Options{
				Engine: h.engine(), Image: c.Docker.Image, Runtime: c.Docker.Runtime,
				Memory: int64(c.Memory), CPUs: c.Docker.CPUs, Pids: c.Docker.Pids, Timeout: c.Timeout, Dir: h.out.CacheDir, Size: c.Pool,
			})
			if err != nil {
				return nil, err
			}
			h.atClose(s.Close)
			strength := 2
			if slices.Contains(s.Walls(), docker.Kernel) {
				strength = strengths["docker"]
			}
			return open(s, s.Size(), 1, s.Walls(), strength, s.Missing), nil
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
		if wall != jail.Limits { // limits keep programs from exhausting the machine, but do not isolate them
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

// Runners says how many runners of a tier are alive or starting, how many of them wait for a program, and what has happened. It opens no tier.
func (h *Harness) Runners(tier string) (started, idle int, counts sandbox.Counts) {
	h.mu.Lock()
	pool := h.pools[tier]
	h.mu.Unlock()
	if pool == nil {
		return 0, 0, counts
	}
	started, idle = pool.Stats()
	return started, idle, pool.Counts()
}

// engine is where containers run.
func (h *Harness) engine() docker.Engine {
	return docker.Engine{Host: h.cfg.Sandbox.Docker.Host, Certs: h.cfg.Sandbox.Docker.Certs}
}

// Containers lists the images and containers of the docker tier, with those of other processes. It opens no tier.
func (h *Harness) Containers(ctx context.Context) (*docker.Listing, error) {
	return docker.List(ctx, h.engine(), h.cfg.Sandbox.Docker.Image, h.out.CacheDir)
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

// tierFor is the tier of a caller's run that asked for one, or for none (empty): the one that rules of policy.runs name for the caller, of
// several the strongest, or else the configured one. The one asked for takes its place if it is not weaker.
func (h *Harness) tierFor(user string, roles []auth.Role, asked string) (string, error) {
	ctx := context.Background()
	least, why, err := h.leastTier(ctx, user, roles)
	if err != nil {
		return "", err
	}
	if asked == "" || asked == least.name {
		return least.name, nil
	}
	weaker := runs.InvalidError(fmt.Sprintf("sandbox: %s is weaker than %s, %s", asked, least.name, why))
	if most := strengths[asked]; most > 0 {
		// One that is refused in any case is not opened.
		if needs, err := least.strengthOf(ctx); err != nil || most < needs {
			return "", cmp.Or(err, error(weaker))
		}
	}
	t, err := h.tier(asked)
	if err != nil {
		return "", err
	}
	switch enough, err := t.covers(ctx, least); {
	case err != nil:
		return "", err
	case enough:
		return t.name, nil
	case asked == auto:
		return least.name, nil
	}
	return "", weaker
}

// leastTier is the tier that programs of a caller have unless they ask for a stronger one, and why.
func (h *Harness) leastTier(ctx context.Context, user string, roles []auth.Role) (*tier, string, error) {
	rules := h.cfg.TiersFor(user, roles)
	if len(rules) == 0 {
		t, err := h.tier("")
		return t, "which this server has configured (sandbox.tier)", err
	}
	var least *tier
	for _, name := range rules {
		t, err := h.tier(name)
		if err != nil {
			return nil, "", err
		}
		if least == nil {
			least = t
		} else if more, err := t.covers(ctx, least); err != nil {
			return nil, "", err
		} else if more {
			least = t
		}
	}
	return least, "which this user's programs need (policy.runs)", nil
}

// covers reports that a tier is not weaker than another one.
func (t *tier) covers(ctx context.Context, other *tier) (bool, error) {
	if t == other {
		return true, nil
	}
	has, err := t.strengthOf(ctx)
	if err != nil {
		return false, err
	}
	needs, err := other.strengthOf(ctx)
	if err != nil || has != needs || has > 1 {
		return has >= needs, err
	}
	for wall := range t.missing() {
		if _, too := other.missing()[wall]; !too {
			return false, nil
		}
	}
	return true, nil
}

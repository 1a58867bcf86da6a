package wiring

import (
	"context"
	"path/filepath"
	"slices"

	"mcp-code-exec-harness/internal/jail"
	"mcp-code-exec-harness/internal/sandbox"
	"mcp-code-exec-harness/internal/sandbox/docker"
	"mcp-code-exec-harness/internal/sandbox/process"
	"mcp-code-exec-harness/internal/sandbox/wasm"
	"mcp-code-exec-harness/internal/tiers"
)

// openTiers returns the tiers. Each tier is opened at its first use.
func (h *Harness) openTiers(ctx context.Context) *tiers.Set {
	closePool := func(t *tiers.Tier) error { t.Pool.Close(); return nil }
	c := h.cfg.Sandbox
	// open makes a tier and its pool. runs is the number of programs that each runner executes; 0: the pool's default.
	open := func(s sandbox.Sandbox, size, runs int, walls []string, strength tiers.Strength, missing func() jail.Missing) *tiers.Tier {
		return &tiers.Tier{Walls: walls, Strength: strength, Missing: missing, Pool: sandbox.NewPool(s, sandbox.PoolOptions{
			Size: size, PerOwner: c.PoolPerUser, AcquireTimeout: c.AcquireTimeout, FailFast: c.WhenFull == "fail", MaxRuns: runs,
		})}
	}
	engine := opened(h, "HARNESS_CACHE_DIR", "a directory that only you can write to", func() (*wasm.Sandbox, error) {
		return wasm.Open(ctx, wasm.Options{
			Program: h.child, Dir: h.out.CacheDir, MaxMemory: max(1<<30, int64(h.cfg.Sandbox.Memory)),
		})
	}, (*wasm.Sandbox).Close)
	return tiers.New(tiers.Options{Default: c.Tier, Rules: h.cfg.TiersFor, Open: map[string]func() (*tiers.Tier, error){
		tiers.Wasm: opened(h, "sandbox.tier", "another tier", func() (*tiers.Tier, error) {
			s, err := engine()
			if err != nil {
				return nil, err
			}
			return open(s, c.Pool, 0, jail.Walls, tiers.Memory, s.Missing), nil
		}, closePool),
		tiers.Process: opened(h, "sandbox.tier", "wasm", func() (*tiers.Tier, error) {
			e, err := engine()
			if err != nil {
				return nil, err
			}
			s, err := process.Open(ctx, process.Options{
				Program: e.Program, Node: c.Process.Node, Dir: filepath.Join(h.out.CacheDir, "process"), Memory: int64(c.Memory), Without: c.Process.Without,
			})
			if err != nil {
				return nil, err
			}
			h.atClose(s.Close)
			return open(s, c.Pool, 1, jail.Walls, tiers.Shared, s.Missing), nil
		}, closePool),
		tiers.Docker: opened(h, "sandbox.tier", "wasm", func() (*tiers.Tier, error) {
			s, err := docker.Open(ctx, docker.Options{
				Engine: h.engine(), Image: c.Docker.Image, Runtime: c.Docker.Runtime,
				Memory: int64(c.Memory), CPUs: c.Docker.CPUs, Pids: c.Docker.Pids, Timeout: c.Timeout, Dir: h.out.CacheDir, Size: c.Pool,
			})
			if err != nil {
				return nil, err
			}
			h.atClose(s.Close)
			strength := tiers.Shared
			if slices.Contains(s.Walls(), docker.Kernel) {
				strength = tiers.Kernel
			}
			return open(s, s.Size(), 1, s.Walls(), strength, s.Missing), nil
		}, closePool),
	}})
}

// engine returns the address of the container engine.
func (h *Harness) engine() docker.Engine {
	return docker.Engine{Host: h.cfg.Sandbox.Docker.Host, Certs: h.cfg.Sandbox.Docker.Certs}
}

// Containers lists the images and containers of the docker tier, including those of other processes. It opens no tier.
func (h *Harness) Containers(ctx context.Context) (*docker.Listing, error) {
	return docker.List(ctx, h.engine(), h.cfg.Sandbox.Docker.Image, h.out.CacheDir)
}

// Warm opens the configured tier in the background and keeps the given number of runners ready.
func (h *Harness) Warm(runners int) {
	h.opening.Go(func() {
		if pool, err := h.tiers.Pool(""); err == nil {
			pool.KeepWarm(runners)
		}
	})
}

package bench

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/program"
	"mcp-code-exec-harness/internal/sandbox"
)

// Tier is a tier of the sandbox to measure.
type Tier struct {
	Name string
	Pool *sandbox.Pool
	// Budget is the maximum time of a run with a warm runner, in milliseconds; 0: no maximum.
	Budget float64
	// Fresh returns a command that executes a program without the harness, in a new container; nil: there is none.
	Fresh func(ctx context.Context, code string) *exec.Cmd
}

// tiers measures three kinds of runs in each tier: with a ready runner, without a ready runner, and of programs that compute. For comparison, it
// measures a process of Node.js, and a container that is created for one program.
func (b *bench) tiers(ctx context.Context) ([]Figure, error) {
	var all []Figure
	add := func(name string, measure func(Figure) (Figure, error)) error {
		if !strings.Contains(name, b.opt.Only) {
			return nil
		}
		b.opt.Progress("measuring: " + name)
		f, err := measure(Figure{Name: name})
		if err != nil {
			return fmt.Errorf("measure %s: %w", name, err)
		}
		all = append(all, f)
		return nil
	}
	node, missing := exec.LookPath("node")
	if missing == nil {
		err := add("node -e 1", func(f Figure) (Figure, error) {
			f.Note = "a plain process, clean environment"
			return b.command(f, func() *exec.Cmd {
				cmd := exec.CommandContext(ctx, node, "-e", "1")
				cmd.Env = []string{}
				return cmd
			})
		})
		if err != nil {
			return nil, err
		}
	}
	for _, t := range b.opt.Tiers {
		err := add(t.Name+", return 1", func(f Figure) (Figure, error) { return b.warm(ctx, t, f) })
		if err != nil {
			return nil, err
		}
		err = add(t.Name+", return 1, cold", func(f Figure) (Figure, error) { return b.cold(ctx, t, f) })
		if err != nil {
			return nil, err
		}
		if t.Fresh == nil {
			if err := b.jail(ctx, t.Name, add); err != nil {
				return nil, err
			}
			continue
		}
		err = add(t.Name+" run, return 1", func(f Figure) (Figure, error) {
			f.Note = "node -e 1 in a fresh container, without the harness"
			return b.command(f, func() *exec.Cmd { return t.Fresh(ctx, "1") })
		})
		if err != nil {
			return nil, err
		}
	}
	computed, err := b.compute(ctx, b.opt.Tiers)
	return append(all, computed...), err
}

// command measures a command from its start to its end. If this machine lacks the command, the figure is skipped.
func (b *bench) command(f Figure, command func() *exec.Cmd) (Figure, error) {
	if err := command().Err; err != nil {
		f.Skipped, f.Note = true, err.Error()
		return f, nil
	}
	return b.times(20, f, func() error {
		if out, err := command().CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

// ready waits until the pool has an idle runner. Then it stops the pool from keeping runners ready, so that no runner starts during the measurement.
func ready(ctx context.Context, pool *sandbox.Pool) error {
	pool.KeepWarm(1)
	defer pool.KeepWarm(0)
	for ctx.Err() == nil {
		if _, idle := pool.Stats(); idle > 0 {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return context.Cause(ctx)
}

// each measures runs and calls prepare before each run.
func (b *bench) each(ctx context.Context, t Tier, n int, f Figure, code string, prepare func() (user string, err error)) (Figure, error) {
	cache := program.NewCache()
	var all []time.Duration
	for range b.repetitions(n) + 1 {
		user, err := prepare()
		if err != nil {
			return f, err
		}
		began := time.Now()
		if err := b.execFor(ctx, t.Pool, user, b.store, answers{}, cache, code); err != nil {
			return f, err
		}
		all = append(all, time.Since(began))
	}
	f.Unit = "ms"
	return f.of(all[1:], time.Millisecond), nil
}

func (b *bench) warm(ctx context.Context, t Tier, f Figure) (Figure, error) {
	f.Budget, f.Note = t.Budget, "a runner is ready"
	return b.each(ctx, t, 100, f, "return 1", func() (string, error) {
		return "bench", ready(ctx, t.Pool)
	})
}

func (b *bench) cold(ctx context.Context, t Tier, f Figure) (Figure, error) {
	f.Note = "a runner is started for it"
	user := 0
	return b.each(ctx, t, 20, f, "return 1", func() (string, error) {
		user++
		if user == 1 { // an earlier measurement may have left a runner without an owner
			if err := ready(ctx, t.Pool); err != nil {
				return "", err
			}
		}
		return fmt.Sprint("user", user), nil
	})
}

package bench

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"mcp-code-exec-harness/internal/program"
	"mcp-code-exec-harness/internal/sandbox"
	"mcp-code-exec-harness/internal/sandbox/process"
	"mcp-code-exec-harness/internal/sandbox/wasm"
)

// jailed is a tier with and without the walls of the operating system, to measure the cost of the walls.
type jailed struct {
	walls, bare sandbox.Sandbox
	missing     func() map[string]string // returns the walls that this machine lacks
	pool        sandbox.PoolOptions
	startBudget float64 // maximum number of milliseconds that the walls may add to a start
}

// runBudget is the maximum that the walls may add to a run with a warm runner, in percent.
const runBudget = 3

// jailed opens a tier whose runners are processes of this machine (wasm or process), with and without walls.
func (b *bench) jailed(ctx context.Context, tier string) (*jailed, error) {
	j := &jailed{pool: sandbox.PoolOptions{Size: 1}}
	if tier == b.tier.Info().Tier {
		bare, err := wasm.Open(ctx, wasm.Options{Program: b.program, Dir: b.opt.CacheDir, Bare: true})
		if err != nil {
			return nil, err
		}
		j.walls, j.bare, j.missing, j.startBudget = unclosed{b.tier}, bare, b.tier.Missing, 5
		return j, nil
	}
	walls, err := b.node(ctx, false)
	if err != nil {
		return nil, err
	}
	bare, err := b.node(ctx, true)
	if err != nil {
		walls.Close()
		return nil, err
	}
	j.walls, j.bare, j.missing, j.startBudget = walls, bare, walls.Missing, 10
	j.pool.MaxRuns = 1
	return j, nil
}

// unclosed is a tier whose Close does nothing, because other measurements still use the tier.
type unclosed struct{ sandbox.Sandbox }

func (unclosed) Close() error { return nil }

func (j *jailed) close() {
	j.walls.Close()
	j.bare.Close()
}

// jail measures what the walls of the operating system add to the start of a tier's runner, and to a run with a warm runner. Measurements with and
// without walls alternate, so that other load on the machine affects both sides.
func (b *bench) jail(ctx context.Context, tier string, add func(name string, measure func(Figure) (Figure, error)) error) error {
	var j *jailed
	open := func(f *Figure) (ok bool, err error) {
		if runtime.GOOS != "linux" {
			f.Skipped, f.Note = true, "only Linux has these walls"
			return false, nil
		}
		if j == nil {
			j, err = b.jailed(ctx, tier)
		}
		return err == nil, err
	}
	defer func() {
		if j != nil {
			j.close()
		}
	}()
	err := add(tier+", start, added by the jail", func(f Figure) (Figure, error) {
		ok, err := open(&f)
		if !ok {
			return f, err
		}
		return j.start(ctx, f, b.repetitions(60))
	})
	if err != nil {
		return err
	}
	return add(tier+", warm run, added by the jail", func(f Figure) (Figure, error) {
		ok, err := open(&f)
		if !ok {
			return f, err
		}
		n := 1000
		if j.pool.MaxRuns == 1 { // each run needs the start of a runner
			n = 100
		}
		return b.warmJail(ctx, j, f, b.repetitions(n))
	})
}

func (j *jailed) start(ctx context.Context, f Figure, n int) (Figure, error) {
	f.Unit, f.Budget = "ms", j.startBudget
	return j.byTurns(f, n, time.Millisecond, func(s sandbox.Sandbox) (time.Duration, error) {
		began := time.Now()
		r, err := s.Start(ctx)
		took := time.Since(began)
		if err != nil {
			return 0, err
		}
		r.Kill()
		for range r.Frames() {
		}
		return took, nil
	})
}

// warmJail measures runs of the program "return 1" with a warm runner. The journal is in memory, so that the time of the disk does not count.
func (b *bench) warmJail(ctx context.Context, j *jailed, f Figure, n int) (Figure, error) {
	pools := map[sandbox.Sandbox]*sandbox.Pool{}
	for _, s := range []sandbox.Sandbox{j.walls, j.bare} {
		pools[s] = sandbox.NewPool(s, j.pool)
		defer pools[s].Close()
	}
	cache := program.NewCache()
	f.Budget = runBudget
	f, err := j.byTurns(f, n, time.Microsecond, func(s sandbox.Sandbox) (time.Duration, error) {
		if j.pool.MaxRuns == 1 {
			if err := ready(ctx, pools[s]); err != nil {
				return 0, err
			}
		}
		began := time.Now()
		err := b.execFor(ctx, pools[s], "bench", memory{}, answers{}, cache, "return 1")
		return time.Since(began), err
	})
	return f, err
}

// byTurns measures with walls and without, n times each. The figure is the median of the time that the walls added, in the given unit. If f has no
// unit, the figure is in percent of the time without walls.
func (j *jailed) byTurns(f Figure, n int, unit time.Duration, measure func(sandbox.Sandbox) (time.Duration, error)) (Figure, error) {
	var added, with, without []time.Duration
	for i := range n + n/10 + 1 {
		var took [2]time.Duration
		for k := range took {
			at := (i + k) % 2 // each side comes first in half of the pairs
			s := j.walls
			if at == 1 {
				s = j.bare
			}
			var err error
			if took[at], err = measure(s); err != nil {
				return f, err
			}
		}
		if i <= n/10 {
			continue // warm up
		}
		with, without, added = append(with, took[0]), append(without, took[1]), append(added, took[0]-took[1])
	}
	slices.Sort(with)
	slices.Sort(without)
	slices.Sort(added)
	half := len(added) / 2
	in := func(d time.Duration) float64 { return float64(d) / float64(unit) }
	f.P50 = in(added[half])
	name := "ms"
	if unit == time.Microsecond {
		name = "us"
	}
	if f.Unit == "" {
		f.Unit, f.P50 = "%", 100*f.P50/in(without[half])
	}
	f.Note = fmt.Sprintf("%.4g %s with all walls, %.4g %s with none, by turns", in(with[half]), name, in(without[half]), name)
	if missing := j.missing(); len(missing) > 0 {
		f.Note = fmt.Sprintf("%s; this machine does not give %d of the walls (harness doctor)", f.Note, len(missing))
	}
	return f, nil
}

// node opens the process tier, which needs Node.js on the machine. bare means without walls.
func (b *bench) node(ctx context.Context, bare bool) (*process.Sandbox, error) {
	return process.Open(ctx, process.Options{Program: b.tier.Program, Dir: filepath.Join(b.opt.CacheDir, "process"), Bare: bare})
}

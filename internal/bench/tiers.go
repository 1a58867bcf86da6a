package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/program"
	"mcp-code-exec-harness/internal/sandbox"
)

// Tier is a tier of the sandbox to measure.
type Tier struct {
	Name string
	Pool *sandbox.Pool
	// Budget is what a run with a warm runner may take, in milliseconds; 0: any time.
	Budget float64
	// Fresh is what executes a program without the harness, in a container made for it; nil: nothing does.
	Fresh func(ctx context.Context, code string) *exec.Cmd
}

// kernels are programs that compute, each on its own.
var kernels = []struct{ name, code string }{
	{"JSON", `const text = JSON.stringify(Array.from({ length: 2000 }, (_, i) => ({ id: i, name: 'item ' + i, tags: ['a', 'b'], price: i / 7 })));
		let n = 0; for (let i = 0; i < 10; i++) n += JSON.stringify(JSON.parse(text)).length; return n`},
	{"sort", `let x = 1; const all = Array.from({ length: 100000 }, () => (x = x * 48271 % 2147483647)); all.sort((a, b) => a - b); return all[500]`},
	{"regular expressions", `const text = 'ann@example.com 10.0.0.1 2026-01-02 '.repeat(3000); return text.match(/[\w.]+@[\w.]+|\d{4}-\d\d-\d\d/g).length`},
	{"strings", `let s = ''; for (let i = 0; i < 200000; i++) s += i % 10; return s.split('9').join('x').length`},
	{"maps", `const m = new Map(); for (let i = 0; i < 100000; i++) m.set('k' + i % 5000, (m.get('k' + i % 5000) ?? 0) + i); return m.size`},
	{"numbers", `let a = 0; for (let i = 1; i < 2000000; i++) a += Math.sqrt(i) / (i & 7 | 1); return a`},
	{"dates", `let n = 0; for (let i = 0; i < 20000; i++) n += new Date(1.7e12 + i * 864e5).toISOString().length; return n`},
	{"base64", `let s = 'abcdefghij'.repeat(5000); for (let i = 0; i < 10; i++) s = atob(btoa(s)); return s.length`},
	{"typed arrays", `const a = new Float64Array(500000); for (let k = 0; k < 4; k++) for (let i = 0; i < a.length; i++) a[i] = a[i] * 0.5 + i; return a[77]`},
	{"recursion", `const fib = (n) => n < 2 ? n : fib(n - 1) + fib(n - 2); return fib(24)`},
}

// tiers measures runs in each tier: with a runner that is ready, without one, and programs that compute. Beside them stand a process of Node.js, and
// the same programs in it, and a container that is made for one program.
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
	for _, k := range kernels {
		if missing == nil {
			if err := add(k.name+" in node", func(f Figure) (Figure, error) { return b.plain(ctx, f, node, k.code) }); err != nil {
				return nil, err
			}
		}
		for _, t := range b.opt.Tiers {
			if err := add(k.name+" in "+t.Name, func(f Figure) (Figure, error) { return b.kernel(ctx, t, f, k.code) }); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// command measures a command from its start to its end; one that this machine lacks is skipped.
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

// ready waits until a runner is. The next one does not start while it is measured.
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

// each measures runs, each of which prepare precedes.
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
		if user == 1 { // a runner may be left that nobody has used
			if err := ready(ctx, t.Pool); err != nil {
				return "", err
			}
		}
		return fmt.Sprint("user", user), nil
	})
}

func (b *bench) kernel(ctx context.Context, t Tier, f Figure, code string) (Figure, error) {
	return b.each(ctx, t, 10, f, code, func() (string, error) {
		return "bench", ready(ctx, t.Pool)
	})
}

// plain is the time of a program within Node.js; that of the start does not count.
func (b *bench) plain(ctx context.Context, f Figure, node, code string) (Figure, error) {
	dir, err := os.MkdirTemp("", "harness-bench-")
	if err != nil {
		return Figure{}, err
	}
	defer os.RemoveAll(dir)
	script := filepath.Join(dir, "kernel.cjs")
	text := "const began = performance.now(); (() => {" + code + "})(); process.stdout.write(String(performance.now() - began))"
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		return Figure{}, err
	}
	var all []time.Duration
	for range b.repetitions(10) {
		out, err := exec.CommandContext(ctx, node, script).Output()
		if err != nil {
			return Figure{}, err
		}
		took, err := time.ParseDuration(strings.TrimSpace(string(out)) + "ms")
		if err != nil {
			return Figure{}, err
		}
		all = append(all, took)
	}
	f.Unit = "ms"
	return f.of(all, time.Millisecond), nil
}

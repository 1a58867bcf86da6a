package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// kernels are programs that compute, without tool calls.
var kernels = []kernel{
	{"JSON", `const text = JSON.stringify(Array.from({ length: 2000 }, (_, i) => ({ id: i, name: 'item ' + i, tags: ['a', 'b'], price: i / 7 })));
		let n = 0; for (let i = 0; i < 10; i++) n += JSON.stringify(JSON.parse(text)).length; return n`},
	{"sort", `let x = 1; const all = Array.from({ length: 100000 }, () => (x = x * 48271 % 2147483647)); all.sort((a, b) => a - b); return all[500]`},
	{"regex", `const text = 'ann@example.com 10.0.0.1 2026-01-02 '.repeat(3000); return text.match(/[\w.]+@[\w.]+|\d{4}-\d\d-\d\d/g).length`},
	{"string building", `let s = ''; for (let i = 0; i < 200000; i++) s += i % 10; return s.split('9').join('x').length`},
	{"maps", `const m = new Map(); for (let i = 0; i < 100000; i++) m.set('k' + i % 5000, (m.get('k' + i % 5000) ?? 0) + i); return m.size`},
	{"numbers", `let a = 0; for (let i = 1; i < 2000000; i++) a += Math.sqrt(i) / (i & 7 | 1); return a`},
	{"dates", `let n = 0; for (let i = 0; i < 20000; i++) n += new Date(1.7e12 + i * 864e5).toISOString().length; return n`},
	{"base64", `let s = 'abcdefghij'.repeat(20000); for (let i = 0; i < 20; i++) s = atob(btoa(s)); return s.length`},
	{"typed arrays", `const a = new Float64Array(500000); for (let k = 0; k < 4; k++) for (let i = 0; i < a.length; i++) a[i] = a[i] * 0.5 + i; return a[77]`},
	{"deep recursion", `const depth = (n) => n === 0 ? 0 : 1 + depth(n - 1); let n = 0; for (let i = 0; i < 200; i++) n += depth(5000); return n`},
}

type kernel struct{ name, code string }

// figure returns the name of the kernel's figure for a tier.
func (k kernel) figure(tier string) string { return "compute, " + k.name + ", " + tier }

// computes reports whether any kernel is selected for measurement in a tier.
func (b *bench) computes(tier string) bool {
	return slices.ContainsFunc(kernels, func(k kernel) bool { return strings.Contains(k.figure(tier), b.opt.Only) })
}

// compute measures each kernel in a plain process of Node.js and then in each tier. A figure is the time of a run divided by the time in plain
// Node.js. The time of a run includes compilation and the journal. The time in plain Node.js does not include the start of the process.
func (b *bench) compute(ctx context.Context, tiers []Tier) ([]Figure, error) {
	node, missing := exec.LookPath("node")
	var all []Figure
	for _, k := range kernels {
		var plain Figure
		for _, t := range tiers {
			f := Figure{Name: k.figure(t.Name), Unit: "times"}
			if !strings.Contains(f.Name, b.opt.Only) {
				continue
			}
			b.opt.Progress("measuring: " + f.Name)
			if missing != nil {
				f.Skipped, f.Note = true, "plain Node.js is missing: "+missing.Error()
				all = append(all, f)
				continue
			}
			var err error
			if plain.P50 == 0 {
				if plain, err = b.plain(ctx, node, k.code); err != nil {
					return nil, fmt.Errorf("measure %s in plain Node.js: %w", k.name, err)
				}
			}
			ran, err := b.each(ctx, t, 10, Figure{}, k.code, func() (string, error) { return "bench", ready(ctx, t.Pool) })
			if err != nil {
				return nil, fmt.Errorf("measure %s: %w", f.Name, err)
			}
			f.P50, f.P95 = ran.P50/plain.P50, ran.P95/plain.P50
			f.Note = fmt.Sprintf("of plain Node.js: %.1f ms beside %.1f ms", ran.P50, plain.P50)
			all = append(all, f)
		}
	}
	return all, nil
}

// plain measures the time of a program within Node.js, without the start of Node.js.
func (b *bench) plain(ctx context.Context, node, code string) (Figure, error) {
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
		cmd := exec.CommandContext(ctx, node, script)
		cmd.Env = []string{}
		out, err := cmd.Output()
		if err != nil {
			return Figure{}, err
		}
		took, err := time.ParseDuration(strings.TrimSpace(string(out)) + "ms")
		if err != nil {
			return Figure{}, err
		}
		all = append(all, took)
	}
	return Figure{}.of(all, time.Millisecond), nil
}

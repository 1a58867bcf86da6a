// Package bench measures the quantities for which the design sets performance budgets, on the machine where it runs. It measures the real runner,
// frames, gate and journal. Only upstream servers are replaced, by servers that answer at once or after a fixed time, because their time is not
// time of the harness.
package bench

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/childprogram"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/process"
	"mcp-code-exec-harness/internal/sandbox"
	"mcp-code-exec-harness/internal/sandbox/wasm"
	"mcp-code-exec-harness/internal/store/sqlstore"
)

// Figure is one measured quantity.
type Figure struct {
	Name   string  `json:"name"`
	Unit   string  `json:"unit"`
	P50    float64 `json:"p50"`
	P95    float64 `json:"p95,omitempty"`
	Budget float64 `json:"budget,omitempty"`
	// AtLeast means that the budget is a lower bound.
	AtLeast bool `json:"atLeast,omitempty"`
	// Skipped means that this system cannot measure the figure; Note has the reason.
	Skipped bool   `json:"skipped,omitempty"`
	Note    string `json:"note,omitempty"`
}

// Over reports whether the figure misses its budget.
func (f Figure) Over() bool {
	if f.AtLeast {
		return f.P50 < f.Budget
	}
	return f.Budget > 0 && f.P50 > f.Budget
}

// Options select what is measured.
type Options struct {
	Executable string            // path of the harness binary
	CacheDir   string            // directory of compiled code; empty: a temporary directory
	Only       string            // measure only figures whose name contains this text
	Tiers      []Tier            // tiers to compare; if there are any, nothing else is measured
	Effort     Effort            // number of repetitions
	Progress   func(text string) // called with the name of each measurement; may be nil
}

// Effort determines how often a measurement is repeated.
type Effort int

const (
	Full  Effort = iota // Enough repetitions for steady figures.
	Quick               // A tenth of the repetitions of Full, and at least three.
	Once                // One repetition, which shows that the measurement works. Its figure means little.
)

// bench holds what all measurements share.
type bench struct {
	opt     Options
	program process.Self // program of child processes
	tier    *wasm.Sandbox
	pool    *sandbox.Pool
	store   *sqlstore.Store
	catalog *catalog.Catalog
	figures []Figure
	privacy *pii.Filter // nil, except while a figure of privacy is measured
}

// Run measures and returns the figures in a fixed order.
func Run(ctx context.Context, opt Options) ([]Figure, error) {
	if opt.Progress == nil {
		opt.Progress = func(string) {}
	}
	dir, err := os.MkdirTemp("", "harness-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for the bench: %w", err)
	}
	defer os.RemoveAll(dir)
	opt.CacheDir = cmp.Or(opt.CacheDir, filepath.Join(dir, "cache"))
	b := &bench{opt: opt, catalog: tools(), program: childprogram.New(opt.CacheDir, process.SelfAt(opt.Executable))}
	if b.tier, err = wasm.Open(ctx, wasm.Options{Program: b.program, Dir: opt.CacheDir}); err != nil {
		return nil, err
	}
	defer b.tier.Close()
	b.pool = sandbox.NewPool(b.tier, sandbox.PoolOptions{Warm: 1})
	defer b.pool.Close()
	if b.store, err = sqlstore.Open(ctx, filepath.Join(dir, "harness.db"), sqlstore.Options{}); err != nil {
		return nil, err
	}
	defer b.store.Close()
	if len(opt.Tiers) > 0 {
		return b.tiers(ctx)
	}
	for _, m := range []struct {
		name    string
		measure func(context.Context) (Figure, error)
	}{
		{"return 1, compiled before", b.compiled},
		{"return 1, never seen", b.neverSeen},
		{"tool call, journal in memory", func(ctx context.Context) (Figure, error) { return b.perCall(ctx, memory{}, 100) }},
		{"tool call, journal in SQLite", func(ctx context.Context) (Figure, error) { return b.perCall(ctx, b.store, 400) }},
		{"privacy, added to a tool call of 1 KiB", b.privateCall},
		{"privacy, small runs beside large texts", b.hostileSender},
		{"100 parallel tool calls of 10 ms", b.parallel},
		{"runs per second, one user", b.throughput},
		{"memory of a waiting run", b.waiting},
		{"memory of harness serve with 10,000 waiting runs", b.manyWaiting},
		{"mode direct, added to a call", b.directCall},
		{"search in 5,000 tools", b.search},
		{"users in turn, more than runners", b.manyUsers},
		{"1,000 waiters on 64 runners", b.manyWaiters},
		{"start of a worker", b.coldWorker},
		{"start of the binary", b.coldBinary},
	} {
		if !strings.Contains(m.name, opt.Only) {
			continue
		}
		opt.Progress("measuring: " + m.name)
		figure, err := m.measure(ctx)
		if err != nil {
			return nil, fmt.Errorf("measure %s: %w", m.name, err)
		}
		figure.Name = m.name
		b.figures = append(b.figures, figure)
	}
	tiers := []Tier{{Name: b.tier.Info().Tier, Pool: b.pool}}
	if b.computes("process") {
		node, err := b.node(ctx, false)
		if err != nil {
			opt.Progress("not measured: process: " + err.Error())
		} else {
			defer node.Close()
			pool := sandbox.NewPool(node, sandbox.PoolOptions{MaxRuns: 1})
			defer pool.Close()
			tiers = append(tiers, Tier{Name: "process", Pool: pool})
		}
	}
	computed, err := b.compute(ctx, tiers)
	return append(b.figures, computed...), err
}

// repetitions returns the number of repetitions at the bench's effort. n is the number at the effort Full.
func (b *bench) repetitions(n int) int {
	switch b.opt.Effort {
	case Once:
		return 1
	case Quick:
		return max(n/10, 3)
	default:
		return n
	}
}

// times measures the time of f in milliseconds, over n calls at the effort Full, after n/10 calls to warm up. It adds the unit and the times to
// result.
func (b *bench) times(n int, result Figure, f func() error) (Figure, error) {
	n = b.repetitions(n)
	all := make([]time.Duration, 0, n)
	for i := range n + n/10 {
		began := time.Now()
		if err := f(); err != nil {
			return Figure{}, err
		}
		if i >= n/10 {
			all = append(all, time.Since(began))
		}
	}
	result.Unit = "ms"
	return result.of(all, time.Millisecond), nil
}

// of returns the figure with the median and the 95th percentile of durations, in the given unit.
func (f Figure) of(all []time.Duration, unit time.Duration) Figure {
	slices.Sort(all)
	in := func(d time.Duration) float64 { return float64(d) / float64(unit) }
	f.P50, f.P95 = in(all[len(all)/2]), in(all[len(all)*95/100])
	return f
}

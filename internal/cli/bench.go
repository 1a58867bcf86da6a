package cli

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/bench"
	"mcp-code-exec-harness/internal/sandbox/docker"
	"mcp-code-exec-harness/internal/tiers"
)

type benchCmd struct {
	What  string `arg:"" optional:"" default:"all" enum:"all,tokens" help:"tokens: what tools cost of a model's context, directly and in code mode."`
	Tier  string `help:"Compare this tier of the sandbox with plain Node.js (docker: and with docker run), or all that this machine has: wasm, process, docker or all." aliases:"sandbox" placeholder:"TIER"`
	Only  string `help:"Only figures whose name contains this." placeholder:"TEXT"`
	Quick bool   `help:"Fewer repetitions."`
}

func (c *benchCmd) Run(ctx context.Context, a *app) error {
	if c.What == "tokens" {
		return benchTokens(ctx, a)
	}
	tiers, err := c.tiers(ctx, a)
	if err != nil {
		return err
	}
	effort := bench.Full
	if c.Quick {
		effort = bench.Quick
	}
	progress := a.progress("measuring")
	figures, err := bench.Run(ctx, bench.Options{
		Executable: a.Executable, Only: c.Only, Effort: effort, Tiers: tiers, Progress: progress.say,
	})
	progress.stop()
	if err != nil {
		return err
	}
	return answerList(a, list(figures), figures, "no figure has this name", "WHAT\tP50\tP95\tBUDGET\t\tNOTE", func(f bench.Figure) string {
		verdict := ""
		if f.Over() {
			verdict = "OVER"
		} else if f.Budget != 0 {
			verdict = "within"
		}
		cells := []string{f.Name, number(f.P50, f.Unit), number(f.P95, f.Unit), number(f.Budget, f.Unit), verdict, f.Note}
		return strings.Join(cells, "\t")
	})
}

// warmBudgets are the maximum times of a run with a warm runner in each tier, in milliseconds.
var warmBudgets = map[string]float64{"wasm": 1, "process": 1.5, "docker": 3}

// gvisorBudget replaces the budget of the docker tier if its containers use gVisor, in milliseconds.
const gvisorBudget = 10

// tiers opens the tiers to compare.
func (c *benchCmd) tiers(ctx context.Context, a *app) ([]bench.Tier, error) {
	names := []string{c.Tier}
	switch c.Tier {
	case "":
		return nil, nil
	case "all":
		names = tiers.Names
	}
	cfg, err := a.load()
	if err != nil {
		return nil, err
	}
	h, err := a.open(ctx)
	if err != nil {
		return nil, err
	}
	var tiers []bench.Tier
	for _, name := range names {
		if d := cfg.Sandbox.Docker; name == "docker" && d.Image == docker.DefaultImage {
			built, err := docker.Ensure(ctx, docker.Engine{Host: d.Host, Certs: d.Certs}, cfg.Sandbox.Process.Node)
			if built {
				fmt.Fprintf(a.Stderr, "harness: the engine had no image %s: it was made, as harness sandbox build does\n", d.Image)
			} else if err != nil && c.Tier != "all" {
				return nil, err
			}
		}
		pool, err := h.Tiers().Pool(name)
		var walls []string
		if err == nil {
			walls, _, err = h.Tiers().Walls(ctx, name)
		}
		if err != nil && c.Tier == "all" {
			fmt.Fprintf(a.Stderr, "harness: warning: %s is not measured: %v\n", name, err)
			continue
		}
		if err != nil {
			return nil, err
		}
		t := bench.Tier{Name: name, Pool: pool, Budget: warmBudgets[name]}
		if name == "docker" {
			if slices.Contains(walls, docker.Kernel) {
				t.Budget = gvisorBudget
			}
			d := cfg.Sandbox.Docker
			t.Fresh = func(ctx context.Context, code string) *exec.Cmd {
				return docker.Engine{Host: d.Host, Certs: d.Certs}.Command(ctx, d.Image, d.Runtime, code)
			}
		}
		tiers = append(tiers, t)
	}
	return tiers, nil
}

func number(v float64, unit string) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf("%.4g %s", v, unit)
}

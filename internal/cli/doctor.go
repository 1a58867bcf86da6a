package cli

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"time"

	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/harness"
	"mcp-code-exec-harness/internal/mcpclient"
)

type doctorCmd struct{}

func (doctorCmd) Help() string { return "Example:\n  harness doctor" }

// finding is one thing that was looked at.
type finding struct {
	Name   string `json:"name"`
	State  string `json:"state"` // ok, warning, failed
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"`
}

func (c *doctorCmd) Run(ctx context.Context, a *app) error {
	cfg, err := a.load()
	if err != nil {
		return err
	}
	h, err := a.openWith(ctx, cfg, "")
	if err != nil {
		return err
	}
	defer a.close(h)
	progress := a.progress("looking")
	findings := examine(ctx, cfg, h)
	progress.stop()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if a.flags.JSON {
		if err := a.json(findings); err != nil {
			return err
		}
	} else {
		a.findings(findings)
	}
	for _, f := range findings {
		if f.State == "failed" {
			return failed(exitUnavailable)
		}
	}
	return nil
}

// examine looks at everything that commands need.
func examine(ctx context.Context, cfg *config.Config, h *harness.Harness) []finding {
	var findings []finding
	note := func(f finding) { findings = append(findings, f) }
	if cfg.File == "" {
		note(finding{"configuration", "ok", "defaults; state in " + cfg.StateDir, ""})
	} else {
		note(finding{"configuration", "ok", cfg.File, ""})
	}
	for _, p := range parts(h) {
		if err := p.open(); err != nil {
			note(finding{p.name, "failed", err.Error(), p.fix})
			continue
		}
		switch p.name {
		case "store":
			note(finding{p.name, "ok", cfg.Store.URL, ""})
		case "skills":
			note(finding{p.name, "ok", cfg.Skills.Dir, ""})
		default:
			note(sandboxFinding(ctx, h, p))
		}
	}
	note(modelFinding(h))
	h.Servers().Start(ctx)
	for _, s := range h.Servers().Servers() {
		note(serverFinding(s))
	}
	for _, problem := range h.Catalog().Problems() {
		note(finding{"catalog", "warning", problem, "rename the server, or disable one of the tools"})
	}
	if node, err := exec.LookPath("node"); err != nil {
		note(finding{"node", "warning", "not found: servers that start with npx will not work", "install Node.js: https://nodejs.org"})
	} else {
		note(finding{"node", "ok", node, ""})
	}
	return findings
}

// findings prints them.
func (a *app) findings(all []finding) {
	var rows [][]string
	for _, f := range all {
		rows = append(rows, []string{f.State, f.Name, firstLine(f.Detail)})
		if f.Fix != "" {
			rows = append(rows, []string{"", "", "fix: " + f.Fix})
		}
	}
	a.table(rows)
}

// sandboxFinding starts a worker in the default tier.
func sandboxFinding(ctx context.Context, h *harness.Harness, p part) finding {
	began := time.Now()
	pool, err := h.Pool()
	if err == nil {
		lease, acquireErr := pool.Acquire(ctx, "doctor")
		if err = acquireErr; err == nil {
			lease.Release(false)
		}
	}
	if err != nil {
		return finding{p.name, "failed", err.Error(), p.fix}
	}
	memory := "copy-on-write snapshot, sealed"
	if runtime.GOOS != "linux" {
		memory = "copied snapshot"
	}
	return finding{p.name, "ok", fmt.Sprintf(
		"WebAssembly memory, killable worker process, %s; no operating-system walls around the worker in this version; "+
			"ready after %s", memory, time.Since(began).Round(time.Millisecond)), ""}
}

// modelFinding is the model that tasks are worked with. It is not asked anything: that may cost money.
func modelFinding(h *harness.Harness) finding {
	m, err := h.Models()("")
	if err != nil {
		return finding{"model", "warning", "harness run and serve cannot work tasks: " + err.Error(), "see docs/CONFIGURATION.md"}
	}
	info := m.Info()
	return finding{"model", "ok", fmt.Sprintf("%s of %s, not asked", info.Name, info.Provider), ""}
}

func serverFinding(s mcpclient.Status) finding {
	name := "server " + s.Name
	switch s.State {
	case mcpclient.StateReady:
		return finding{name, "ok", fmt.Sprintf("%d tools, %s, protocol %s", s.Tools, s.Transport, s.Protocol), ""}
	case mcpclient.StateDisabled:
		return finding{name, "ok", "disabled", ""}
	}
	return finding{name, "failed", firstLine(s.Reason), "harness servers test " + s.Name}
}

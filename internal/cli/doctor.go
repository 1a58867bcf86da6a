package cli

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"time"

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
	var findings []finding
	note := func(f finding) { findings = append(findings, f) }
	cfg, err := a.load()
	if err != nil {
		return err
	}
	if cfg.File == "" {
		note(finding{"configuration", "ok", "defaults; state in " + cfg.StateDir, ""})
	} else {
		note(finding{"configuration", "ok", cfg.File, ""})
	}
	h, err := a.openWith(ctx, cfg)
	if err != nil {
		return err
	}
	defer a.close(h)
	progress := a.progress("looking")
	note(sandboxFinding(ctx, h))
	if _, err := h.Store(); err != nil {
		note(finding{"store", "failed", err.Error(), "set store.url to a file in a directory that you may write to"})
	} else {
		note(finding{"store", "ok", cfg.Store.URL, ""})
	}
	for _, dir := range []struct{ name, path string }{{"skills", cfg.Skills.Dir}, {"workspace", cfg.Workspace.Dir}} {
		note(finding{dir.name, "ok", dir.path, ""})
	}
	if _, err := h.Skills(); err != nil {
		findings[len(findings)-2] = finding{"skills", "failed", err.Error(), "set skills.dir to a directory that you may write to"}
	}
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
	progress.stop()
	broken := 0
	for _, f := range findings {
		if f.State == "failed" {
			broken++
		}
	}
	if a.flags.JSON {
		if err := a.json(findings); err != nil {
			return err
		}
	} else {
		rows := [][]string{}
		for _, f := range findings {
			rows = append(rows, []string{f.State, f.Name, f.Detail})
			if f.Fix != "" {
				rows = append(rows, []string{"", "", "fix: " + f.Fix})
			}
		}
		a.table(rows)
	}
	if broken > 0 {
		return failed(exitUnavailable)
	}
	return nil
}

// sandboxFinding runs a program in the default tier.
func sandboxFinding(ctx context.Context, h *harness.Harness) finding {
	began := time.Now()
	pool, err := h.Pool()
	if err == nil {
		lease, acquireErr := pool.Acquire(ctx, "doctor")
		if err = acquireErr; err == nil {
			lease.Release(false)
		}
	}
	if err != nil {
		return finding{"sandbox wasm", "failed", err.Error(), "set HARNESS_CACHE_DIR to a directory that only you can write to"}
	}
	memory := "copy-on-write snapshot, sealed"
	if runtime.GOOS != "linux" {
		memory = "copied snapshot"
	}
	return finding{"sandbox wasm", "ok", fmt.Sprintf(
		"WebAssembly memory, killable worker process, %s; no operating-system walls around the worker in this version; "+
			"ready after %s", memory, time.Since(began).Round(time.Millisecond)), ""}
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

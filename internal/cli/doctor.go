package cli

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/part"
	"mcp-code-exec-harness/internal/tiers"
)

type doctorCmd struct{}

type finding struct {
	Name   string `json:"name"`
	State  string `json:"state"` // ok, warning, failed
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"`
	// Walls are those of a tier of the sandbox; started is whether it has them from a runner that started.
	Walls   []wallFinding `json:"walls,omitempty"`
	started bool
}

func found(name, state, detail, fix string) finding {
	return finding{Name: name, State: state, Detail: detail, Fix: fix}
}

// widestState is the longest state of a finding.
const widestState = "warning"

func (doctorCmd) Run(ctx context.Context, a *app, cfg *config.Config, h harness) error {
	progress := a.progress("checking")
	defer progress.stop()
	t := &table{to: a.stdout}
	for _, name := range []string{"configuration", "personal data", "sandbox process"} {
		t.fits([]string{widestState, name, ""})
	}
	for _, s := range h.Servers().Servers() {
		t.fits([]string{widestState, "server " + s.Name, ""})
	}
	findings := []finding{}
	examine(ctx, a, cfg, h, progress, func(f finding) {
		findings = append(findings, f)
		if a.flags.JSON {
			return
		}
		t.row([]string{f.State, f.Name, firstLine(f.Detail)})
		if f.Fix != "" {
			t.row([]string{"", "", "fix: " + f.Fix})
		}
		for _, w := range f.Walls {
			if w.State != "held" && f.started {
				t.row([]string{"", "", w.State + ": " + w.Name + " (" + w.Detail + ")"})
				t.row([]string{"", "", "fix: " + w.Fix})
			}
		}
	})
	progress.stop()
	err := context.Cause(ctx)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(findings, func(f finding) bool { return f.State == "failed" }) {
		err = failed(exitUnavailable)
	}
	if a.flags.JSON {
		err = errors.Join(a.json(findings), err)
	}
	return err
}

// examine checks everything that commands need, and notes each finding as soon as there is one. Servers start at once, and are noted in the
// order in which they have answered.
func examine(ctx context.Context, a *app, cfg *config.Config, h harness, progress *progress, note func(finding)) {
	started := h.Servers().Starting(ctx)
	switch {
	case a.untrusted != nil:
		note(found("configuration", "failed", "not trusted, so it does nothing: "+strings.Join(a.untrusted.Names(), ", "), "look at it, then harness trust "+config.ShellWord(a.untrusted.Dir)))
	case cfg.File == "":
		note(found("configuration", "warning", "no harness.yaml in "+a.Dir+" or above it, so defaults and no servers; state in "+cfg.StateDir,
			"harness init makes one here; --config FILE names one elsewhere"))
	default:
		note(found("configuration", "ok", cfg.File+", found "+cfg.FileOrigin, ""))
	}
	_, err := h.Store()
	note(partFinding("store", cfg.Store.URL, err))
	_, err = h.Skills()
	note(partFinding("skills", cfg.Skills.Dir, err))
	for _, f := range vaultFindings(ctx, cfg.PII, h) {
		note(f)
	}
	for _, f := range presenceFindings(ctx, cfg, h) {
		note(f)
	}
	note(modelFinding(h))
	if node, err := exec.LookPath("node"); err != nil {
		note(found("node", "warning", "not found: servers that start with npx will not work", "install Node.js: https://nodejs.org"))
	} else {
		note(found("node", "ok", node, ""))
	}
	configured, err := h.Tiers().Pool("")
	for _, tier := range tiers.Names {
		progress.say("starting a runner of sandbox " + tier)
		note(sandboxFinding(ctx, h, tier, err == nil && tier == configured.Info().Tier || tier == cfg.Sandbox.Tier))
	}
	progress.say(startingText(h.Servers().Servers()))
	for s := range started {
		note(serverFinding(s.Status))
		if s.Status.Held > 0 {
			note(found("quarantine", "warning", heldOf(s.Status)+" held for review", "harness servers review "+s.Name))
		}
		progress.say(startingText(h.Servers().Servers()))
	}
	for _, problem := range h.Catalog().Problems() {
		note(found("catalog", "warning", problem, "rename the server, or disable one of the tools"))
	}
}

// partFinding is the result of opening a part.
func partFinding(name, detail string, err error) finding {
	if err == nil {
		return found(name, "ok", detail, "")
	}
	if part, ok := errors.AsType[*part.UnavailableError](err); ok {
		return found(name, "failed", part.Err.Error(), part.Fix())
	}
	return found(name, "failed", err.Error(), "")
}

// vaultFindings opens the key of personal data and the vault, and reaches it.
func vaultFindings(ctx context.Context, c config.PII, h harness) []finding {
	const name = "personal data"
	if !c.Enabled {
		return []finding{found(name, "warning", "pii.enabled is false: models, logs and files see it", "set pii.enabled to true")}
	}
	warnings, err := h.Privacy().Check(ctx)
	if c.Vault == "memory" {
		warnings = append(warnings, "the vault is in memory: after a restart, tokens in sessions and tasks stand for nothing")
	}
	if err != nil || len(warnings) == 0 {
		return []finding{partFinding(name, "tokens, with a vault in "+map[string]string{"store": "the store", "redis": "Redis"}[c.Vault], err)}
	}
	findings := make([]finding, len(warnings))
	for i, text := range warnings {
		findings[i] = found(name, "warning", text, "see docs/PRIVACY.md")
	}
	return findings
}

// modelFinding checks the model's configuration. It sends the model no request, because that may cost money.
func modelFinding(h harness) finding {
	m, err := h.Models()("")
	if err != nil {
		return found("model", "warning", "harness run and serve cannot work tasks: "+err.Error(), "set the key of a provider in the environment, such as ANTHROPIC_API_KEY; harness config show lists what there is")
	}
	info := m.Info()
	return found("model", "ok", fmt.Sprintf("%s of %s, not asked", info.Name, info.Provider), "")
}

func serverFinding(s mcpclient.Status) finding {
	name := "server " + s.Name
	switch s.State {
	case mcpclient.StateReady:
		detail := fmt.Sprintf("%d tools, %s, protocol %s", s.Tools, s.Transport, s.Protocol)
		switch {
		case s.Sandbox != nil:
			detail += "; in a sandbox: " + s.Sandbox.String()
		case s.Transport == mcpclient.TransportStdio:
			detail += "; no sandbox"
		}
		return found(name, "ok", detail, "")
	case mcpclient.StateDisabled:
		return found(name, "ok", "disabled", "")
	case mcpclient.StateNeedsLogin:
		return found(name, "failed", firstLine(s.Reason), "harness servers login "+s.Name)
	}
	if strings.Contains(s.Reason, " is not set; ") {
		return found(name, "failed", firstLine(s.Reason), "set the variable, then harness servers test "+s.Name)
	}
	return found(name, "failed", firstLine(s.Reason), "harness servers test "+s.Name)
}

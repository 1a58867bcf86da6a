// Package doctor checks whether a harness and its machine work, and advises how to fix what does not.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/part"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/skills"
	"mcp-code-exec-harness/internal/tiers"
	"mcp-code-exec-harness/internal/upstream"
)

// Finding is the result of one check.
type Finding struct {
	Name   string `json:"name"`
	State  string `json:"state" enum:"ok,warning,failed"`
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"`
	// Walls are the walls of a sandbox tier. Started reports whether they were read from a runner that started.
	Walls   []Wall `json:"walls,omitempty"`
	Started bool   `json:"-"`
}

// Found returns a finding without walls.
func Found(name, state, detail, fix string) Finding {
	return Finding{Name: name, State: state, Detail: detail, Fix: fix}
}

// Harness is the harness that is examined. Its methods are safe for concurrent use.
type Harness interface {
	Servers() *upstream.Servers
	Skills() (*skills.Store, error)
	Privacy() *pii.Filter
	Models() func(name string) (model.Model, error)
	Tiers() *tiers.Set
	Catalog() *catalog.Catalog
	Probes() []part.Probe
}

// Own has the findings and checks that the command line supplies.
type Own struct {
	Configuration Finding
	Store         func() (Store, error) // opens the store
	Approvals     func() []Finding
}

// Store is the store that is examined.
type Store interface {
	// Inspect describes the store, and warns about settings of its server.
	Inspect(ctx context.Context) (detail string, warnings []string, err error)
}

// Examine checks everything that commands need, and passes each finding to note as soon as it is known. The servers start first; their findings
// come in the order in which they answer.
func Examine(ctx context.Context, cfg *config.Config, h Harness, own Own, say func(string), note func(Finding)) {
	started := h.Servers().Starting(ctx)
	note(own.Configuration)
	for _, f := range storeFindings(ctx, cfg.Store.Name(), h, own.Store) {
		note(f)
	}
	_, err := h.Skills()
	if bucket := cfg.Files.Bucket; bucket != "" {
		for _, p := range h.Probes() {
			if p.Name == "files" && err == nil {
				err = p.Check(ctx)
			}
		}
		note(away(h, "files", partFinding("files", "bucket "+bucket+" at "+cfg.Files.Endpoint, err)))
	} else {
		note(partFinding("skills", cfg.Skills.Dir, err))
	}
	for _, f := range vaultFindings(ctx, cfg.PII, h) {
		note(f)
	}
	for _, f := range own.Approvals() {
		note(f)
	}
	note(modelFinding(h))
	if node, err := exec.LookPath("node"); err != nil {
		note(Found("node", "warning", "not found: servers that start with npx will not work", "install Node.js: https://nodejs.org"))
	} else {
		note(Found("node", "ok", node, ""))
	}
	configured, err := h.Tiers().Pool("")
	for _, tier := range tiers.Names {
		say("starting a runner of sandbox " + tier)
		note(sandboxFinding(ctx, h, tier, err == nil && tier == configured.Info().Tier || tier == cfg.Sandbox.Tier))
	}
	say(StartingText(h.Servers().Servers()))
	for s := range started {
		note(serverFinding(s.Status))
		if s.Status.Held > 0 {
			note(Found("quarantine", "warning", HeldOf(s.Status)+" held for review", "harness servers review "+s.Name))
		}
		say(StartingText(h.Servers().Servers()))
	}
	for _, problem := range h.Catalog().Problems() {
		note(Found("catalog", "warning", problem, "rename the server, or disable one of the tools"))
	}
}

// partFinding returns the finding for a part of the harness, such as the store. err is the result of opening the part.
func partFinding(name, detail string, err error) Finding {
	if err == nil {
		return Found(name, "ok", detail, "")
	}
	if part, ok := errors.AsType[*part.UnavailableError](err); ok {
		return Found(name, "failed", part.Err.Error(), part.Fix())
	}
	return Found(name, "failed", err.Error(), "")
}

// away adds the effect of the failure to the finding of a failed part.
func away(h Harness, name string, f Finding) Finding {
	for _, p := range h.Probes() {
		if p.Name == name && f.State == "failed" {
			f.Detail = strings.Join(strings.Fields(f.Detail), " ") + "; " + p.Effect // an error of PostgreSQL has several lines
		}
	}
	return f
}

// storeFindings opens the store, and looks at the settings of its server.
func storeFindings(ctx context.Context, name string, h Harness, open func() (Store, error)) []Finding {
	var detail string
	var warnings []string
	store, err := open()
	if err == nil {
		detail, warnings, err = store.Inspect(ctx)
	}
	if err != nil {
		return []Finding{away(h, "store", partFinding("store", name, err))}
	}
	findings := []Finding{Found("store", "ok", name+": "+detail, "")}
	for _, text := range warnings {
		findings = append(findings, Found("store", "warning", text, "see Many machines in docs/OPERATIONS.md"))
	}
	return findings
}

// vaultFindings opens the vault and the key that encrypts personal data, and checks that the vault can be reached.
func vaultFindings(ctx context.Context, c config.PII, h Harness) []Finding {
	const name = "personal data"
	if !c.Enabled {
		return []Finding{Found(name, "warning", "pii.enabled is false: models, logs and files see it", "set pii.enabled to true")}
	}
	warnings, err := h.Privacy().Check(ctx)
	if c.Vault == "memory" {
		warnings = append(warnings, "the vault is in memory: after a restart, tokens in sessions and tasks stand for nothing")
	}
	if err != nil || len(warnings) == 0 {
		return []Finding{away(h, "vault", partFinding(name, "tokens, with a vault in "+map[string]string{"store": "the store", "redis": "Redis"}[c.Vault], err))}
	}
	findings := make([]Finding, len(warnings))
	for i, text := range warnings {
		findings[i] = Found(name, "warning", text, "see docs/PRIVACY.md")
	}
	return findings
}

// modelFinding checks the model's configuration. It sends the model no request, because that may cost money.
func modelFinding(h Harness) Finding {
	m, err := h.Models()("")
	if err != nil {
		return Found("model", "warning", "harness run and serve cannot work tasks: "+err.Error(), "set the key of a provider in the environment, such as ANTHROPIC_API_KEY; harness config show lists what there is")
	}
	info := m.Info()
	return Found("model", "ok", fmt.Sprintf("%s of %s, not asked", info.Name, info.Provider), "")
}

func serverFinding(s mcpclient.Status) Finding {
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
		return Found(name, "ok", detail, "")
	case mcpclient.StateDisabled:
		return Found(name, "ok", "disabled", "")
	case mcpclient.StateNeedsLogin:
		return Found(name, "failed", firstLine(s.Reason), "harness servers login "+s.Name)
	}
	if strings.Contains(s.Reason, " is not set; ") {
		return Found(name, "failed", firstLine(s.Reason), "set the variable, then harness servers test "+s.Name)
	}
	return Found(name, "failed", firstLine(s.Reason), "harness servers test "+s.Name)
}

// StartingText returns a text that names the servers that are being installed or started.
func StartingText(all []mcpclient.Status) string {
	var installing, starting []string
	for _, s := range all {
		switch s.State {
		case mcpclient.StateInstalling:
			installing = append(installing, s.Name)
		case mcpclient.StateStarting:
			starting = append(starting, s.Name)
		}
	}
	switch {
	case len(installing) > 0:
		return "installing " + strings.Join(installing, ", ")
	case len(starting) > 0:
		return "starting " + strings.Join(starting, ", ")
	}
	return "starting servers"
}

// HeldOf returns a text with the number of held definitions of a server.
func HeldOf(s mcpclient.Status) string {
	if s.Held == 1 {
		return "1 definition of server " + s.Name + " is"
	}
	return fmt.Sprintf("%d definitions of server %s are", s.Held, s.Name)
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

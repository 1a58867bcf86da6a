package cli

import (
	"context"
	"errors"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/doctor"
)

type doctorCmd struct {
	Bundle string `help:"Write FILE, a .zip or .tar.gz for whoever helps you, instead of a report: what a maintainer needs, without values or secrets." placeholder:"FILE"`
}

// Help implements kong.HelpProvider.
func (doctorCmd) Help() string {
	return `The file of --bundle holds numbers, times and words of this program only. Texts of yours, such as names, addresses, arguments, variables and
messages of servers, are left out; of an error, the known causes stay. It is also written when the configuration is wrong or the store is broken.
Look at it before you send it.

Examples:
  harness doctor
  harness doctor --bundle harness-report.zip`
}

type finding = doctor.Finding

func found(name, state, detail, fix string) finding { return doctor.Found(name, state, detail, fix) }

// widestState is the longest name of a finding's state.
const widestState = "warning"

// Run takes no parts of a harness as parameters, because a bundle is also written without them.
func (c *doctorCmd) Run(ctx context.Context, a *app) error {
	if c.Bundle != "" {
		return c.bundle(ctx, a)
	}
	cfg, err := a.load()
	if err != nil {
		return err
	}
	h, err := a.open(ctx)
	if err != nil {
		return err
	}
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
	doctor.Examine(ctx, cfg, h, a.about(ctx, cfg, h), progress.say, func(f finding) {
		findings = append(findings, f)
		if a.flags.JSON {
			return
		}
		t.row([]string{f.State, f.Name, firstLine(f.Detail)})
		if f.Fix != "" {
			t.row([]string{"", "", "fix: " + f.Fix})
		}
		for _, w := range f.Walls {
			if w.State != "held" && f.Started {
				t.row([]string{"", "", w.State + ": " + w.Name + " (" + w.Detail + ")"})
				t.row([]string{"", "", "fix: " + w.Fix})
			}
		}
	})
	progress.stop()
	if err := context.Cause(ctx); err != nil {
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

// about returns the findings about the configuration, and the checks of the store and the approvals.
func (a *app) about(ctx context.Context, cfg *config.Config, h harness) doctor.Own {
	own := doctor.Own{Configuration: found("configuration", "ok", cfg.File+", found "+cfg.FileOrigin, "")}
	switch {
	case a.untrusted != nil:
		own.Configuration = found("configuration", "failed", "not trusted, so it does nothing: "+strings.Join(a.untrusted.Names(), ", "), "look at it, then harness trust "+config.ShellWord(a.untrusted.Dir))
	case cfg.File == "":
		own.Configuration = found("configuration", "warning", "no harness.yaml in "+a.Dir+" or above it, so defaults and no servers; state in "+cfg.StateDir,
			"harness init makes one here; --config FILE names one elsewhere")
	}
	own.Store = func() (doctor.Store, error) { return h.Store() }
	own.Approvals = func() []finding { return presenceFindings(ctx, cfg, h) }
	return own
}

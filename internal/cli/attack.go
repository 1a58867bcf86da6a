package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/attack"
	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/policy"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
)

type attackCmd struct {
	Policy string        `help:"A file with another policy than that of the configuration." placeholder:"FILE"`
	User   string        `help:"Who calls." default:"local"`
	Role   []string      `help:"A role of the caller; several with commas. By default those of the command line." placeholder:"ROLE"`
	Time   time.Duration `help:"How long programs may try; what is left then is not tried." default:"50s"`
}

func (attackCmd) Help() string {
	return `Gullible programs take a destination from what a server says to the arguments of tools that say where a call sends something (harness policy
destinations): unchanged, in pieces, encoded, through files, errors, skills, resources, later programs. Definitions of tools, policy, gate and the
tier wasm are the real ones. Servers are simulated, so that none of yours is called and nothing is sent.

Sources are the servers that are marked untrusted; if none is, every server. Printed is what got through, the rule that stops it and the honest
programs that this rule would stop as well. A call that a person would be asked about counts as stopped. The exit code is 1 if something got through.

Examples:
  harness attack
  harness attack --policy stricter.yaml --json`
}

func (c *attackCmd) check() error {
	for _, role := range c.Role {
		if _, err := auth.ParseRole(role); err != nil && auth.Role(role) != auth.Anonymous {
			return fmt.Errorf("--role: %w", err)
		}
	}
	if c.Time < time.Second {
		return errors.New("--time: give a second or more")
	}
	return nil
}

func (c *attackCmd) Run(ctx context.Context, a *app, cfg *config.Config, h catalogued) error {
	defended := *cfg
	if c.Policy != "" {
		var err error
		if defended.Policy, err = a.policyFile(c.Policy); err != nil {
			return err
		}
	}
	a.warnServers(h.harness)
	dir, err := os.MkdirTemp("", "harness-attack-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	known := h.Catalog().For(c.User)
	tools := h.Catalog().Tools()
	world, err := attack.NewWorld(ctx, tools, func(t *catalog.Tool) json.RawMessage {
		details, err := known.Details(t.FullName())
		if err != nil || details.Learned == nil {
			return nil
		}
		return details.Learned.Schema
	})
	if err != nil {
		return err
	}
	defer world.Close()
	progress := a.progress("attacking")
	attacked := &attackedHarness{user: c.User, roles: auth.Local().Roles}
	if len(c.Role) > 0 {
		attacked.roles = nil
		for _, role := range c.Role {
			attacked.roles = append(attacked.roles, auth.Role(role))
		}
	}
	report, err := attack.Run(ctx, attack.Options{
		Tools: tools, Catalog: h.Catalog(), Policy: defended.Compiled(defended.Policy), World: world, Time: c.Time,
		Suggested: func(rules []policy.Rule, untrusted []string) (*policy.Policy, error) {
			return suggestedPolicy(&defended, rules, untrusted)
		},
		Progress: func(made, of int) { progress.say(fmt.Sprintf("%d of %d attempts", made, of)) },
		Open: func(judge *attack.Judge) (attack.Harness, error) {
			return attacked, attacked.open(ctx, a, simulatedConfig(&defended, dir, world.URLs()), judge, filepath.Join(dir, "tools"))
		},
	})
	progress.stop()
	err = errors.Join(err, attacked.close())
	if err != nil {
		return err
	}
	return ended(c.print(a, report), len(report.Holes) == 0)
}

// simulatedConfig returns a copy of the configuration. Its servers are the simulated ones, and its state is in the directory dir.
func simulatedConfig(cfg *config.Config, dir string, urls map[string]string) *config.Config {
	is := *cfg
	is.StateDir, is.Store.URL = dir, "sqlite:"+filepath.Join(dir, "harness.db")
	is.Skills = config.Skills{Dir: filepath.Join(dir, "skills")}
	is.Workspace = config.Workspace{Dir: filepath.Join(dir, "workspace")}
	is.PII.Vault, is.PII.KeyFile = "memory", filepath.Join(dir, "pii.key")
	is.Network, is.N8N, is.Learning, is.Audit, is.Telemetry = config.Network{}, config.N8N{}, config.Learning{}, config.Audit{}, config.Telemetry{}
	is.Approvals.Webhook, is.Approvals.Confirm, is.Quarantine, is.Policy.Runs, is.Quotas = "", "none", "off", nil, config.Quotas{}
	is.Sandbox.Tier, is.Sandbox.Check, is.Sandbox.Prelude, is.Sandbox.Packages, is.Sandbox.WhenFull = "wasm", "off", nil, "", "wait"
	is.Sandbox.Timeout, is.Sandbox.MaxWall, is.Sandbox.DetachAfter = 2*time.Minute, 10*time.Minute, 0
	is.Sandbox.MaxCalls, is.Sandbox.MaxHostCalls, is.Sandbox.MaxOutput = 1_000_000, 1_000_000, 16<<20
	is.MCPServers = nil
	for name, url := range urls {
		is.MCPServers = append(is.MCPServers, &config.MCPServer{
			Name: name, Type: config.HTTP, URL: url, Enabled: true, StartupTimeout: time.Minute, Timeout: time.Minute,
		})
	}
	return &is
}

// suggestedPolicy returns the policy of a configuration with two changes: the given rules precede its own, and the given servers are untrusted.
func suggestedPolicy(cfg *config.Config, rules []policy.Rule, untrusted []string) (*policy.Policy, error) {
	is := *cfg
	is.MCPServers = nil
	for _, s := range cfg.MCPServers {
		of := *s
		of.Untrusted = of.Untrusted || slices.Contains(untrusted, s.Name)
		is.MCPServers = append(is.MCPServers, &of)
	}
	of := is.Policy
	of.Rules = slices.Concat(rules, of.Rules)
	return is.Compiled(of), nil
}

// attackedHarness is a harness with simulated servers.
type attackedHarness struct {
	harness
	user  string
	roles []auth.Role
}

func (h *attackedHarness) open(ctx context.Context, a *app, cfg *config.Config, judge *attack.Judge, cache string) (err error) {
	out := outside{
		Logger: slog.New(slog.DiscardHandler), Policy: judge, ToolCache: cache, Environ: a.Environ, Executable: a.Executable, Now: a.Now, Version: Version,
	}
	if dir := a.env("HARNESS_CACHE_DIR"); dir != "" {
		out.CacheDir = a.path(dir)
	}
	if h.harness, err = join(ctx, cfg, out); err != nil {
		return err
	}
	h.EnsureTools(ctx, h.user)
	for _, s := range h.Servers().Servers() {
		if s.State == mcpclient.StateFailed {
			return fmt.Errorf("the simulated server %s: %s", s.Name, s.Reason)
		}
	}
	return nil
}

func (h *attackedHarness) close() error {
	if h.harness == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return h.Close(ctx)
}

// Execute implements attack.Harness.
func (h *attackedHarness) Execute(ctx context.Context, p attack.Program) (*run.Outcome, error) {
	said, err := h.Privacy().In(h.user, p.Session).Hide(ctx, pii.FromTask, p.Said)
	if err != nil {
		return nil, err
	}
	return h.Runs().Execute(ctx, runs.Request{Code: p.Code, User: h.user, Session: p.Session, Roles: h.roles, Said: []string{said}})
}

// maxUntested is the maximum number of untested tools that are printed.
const maxUntested = 10

// print prints a report.
func (c *attackCmd) print(a *app, r *attack.Report) error {
	if a.flags.JSON {
		return a.json(r)
	}
	const none = "there is nothing to attack: no tool has a destination, or no server says anything; see harness policy destinations"
	err := answerList(a, r, r.Sinks(), none, "SINK\tPATH\tTHROUGH\tASKED\tDENIED\tFAILED\tFROM", func(p *attack.Pair) string {
		return fmt.Sprintf("%s\t%s\t%d\t%d\t%d\t%d\t%s", p.Sink, p.Path, p.Passed, p.Asked, p.Denied, p.Failed, p.Source)
	})
	if err != nil {
		return err
	}
	for _, h := range r.Holes {
		fmt.Fprintf(a.Stdout, "\n%s %s: what %s says gets there\n", h.Sink, h.Path, strings.Join(h.Sources, ", "))
		fmt.Fprint(a.Stdout, a.stdout.paragraph("  forms    ", strings.Join(h.Forms, ", "), ""))
		fmt.Fprintf(a.Stdout, "  rule     %s\n", h.Fix())
		if len(h.Untrusted) > 0 {
			fmt.Fprintf(a.Stdout, "           where mcpServers.NAME.untrusted is true for %s\n", strings.Join(h.Untrusted, ", "))
		}
		if !h.Stops {
			fmt.Fprintln(a.Stdout, "           which does not stop all of it")
		}
		for _, program := range h.Hinders {
			fmt.Fprintf(a.Stdout, "  hinders  %s\n", program)
		}
	}
	for i, u := range r.Untested {
		if i == maxUntested {
			fmt.Fprintf(a.Stderr, "harness: warning: %d more were not tried; --json has them\n", len(r.Untested)-i)
			break
		}
		fmt.Fprintf(a.Stderr, "harness: warning: %s %s was not tried: %s\n", u.Tool, u.Path, u.Reason)
	}
	if !r.Marked && len(r.Servers) > 0 {
		fmt.Fprintf(a.Stderr, "no server is marked untrusted, so each was tried as a source; mark those that others write into (mcpServers.NAME.untrusted, untrustedTools)\n")
	}
	if r.Attempts < r.Planned {
		fmt.Fprintf(a.Stderr, "harness: warning: after %s, %d of %d attempts were made; --time gives more\n", c.Time, r.Attempts, r.Planned)
	}
	fmt.Fprintf(a.Stderr, "%s %d attempts, %d destinations with a hole\n", r.Simulated, r.Attempts, len(r.Holes))
	return nil
}

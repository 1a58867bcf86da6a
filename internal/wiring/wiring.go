// Package wiring creates the parts of the harness as the configuration says, and connects them.
package wiring

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/agent"
	"mcp-code-exec-harness/internal/answers"
	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/childprogram"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/credentials"
	"mcp-code-exec-harness/internal/files"
	"mcp-code-exec-harness/internal/gate"
	"mcp-code-exec-harness/internal/guest"
	"mcp-code-exec-harness/internal/n8n"
	"mcp-code-exec-harness/internal/origin"
	"mcp-code-exec-harness/internal/part"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/pii/seal"
	"mcp-code-exec-harness/internal/policy"
	"mcp-code-exec-harness/internal/process"
	"mcp-code-exec-harness/internal/program"
	"mcp-code-exec-harness/internal/quarantine"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/skills"
	"mcp-code-exec-harness/internal/slots"
	"mcp-code-exec-harness/internal/store/sqlstore"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/telemetry"
	"mcp-code-exec-harness/internal/tiers"
	"mcp-code-exec-harness/internal/upstream"
)

// Outside is the environment of a Harness.
type Outside struct {
	Environ    []string // environment variables; upstream servers get the allow-listed ones
	Executable string   // path of this binary, which child processes execute where childprogram cannot be unpacked
	Args       []string // arguments before the hidden command, for test binaries
	CacheDir   string   // directory of compiled code and tool lists; empty: the user's cache directory
	ToolCache  string   // directory of tool lists that must not outlive this harness; empty: in CacheDir
	Logger     *slog.Logger
	Now        func() time.Time
	Version    string
	Metrics    *telemetry.Metrics // nil: metrics are not exposed
	Audit      *telemetry.Auditor // nil: no events are written
	// Reviewed writes audit events that one process writes for all processes, such as those about held or approved definitions. If it is nil, Audit
	// writes them.
	Reviewed func(context.Context, telemetry.Event)
	Policy   policy.Decider // nil: the policy of the configuration
	// Quarantine is the mode that decides which definitions are held; empty: the mode of the configuration.
	Quarantine approval.Quarantine
	// Upgraded is called after a migration of the store, with both versions and the path of the copy made before it. It may be nil.
	Upgraded func(from, to int, before string)
}

// Harness contains the connected parts. Its methods are safe for concurrent use.
type Harness struct {
	cfg        *config.Config
	out        Outside
	child      process.Self // program of child processes
	catalog    *catalog.Catalog
	servers    *upstream.Servers
	n8n        *n8n.Instance // nil: none is configured
	runs       *runs.Service
	privacy    *pii.Filter    // nil if it is disabled
	origins    *origin.Memory // nil: no rule uses the origins of values
	logins     credentials.Logins
	keys       func() (*seal.Keys, error)
	common     *seal.Common // secrets of all processes on the store
	quarantine *quarantine.Quarantine
	// answered learns the shapes of answers; it may be nil.
	answered func(context.Context, string, *catalog.Tool, json.RawMessage)
	// presence verifies that a person was present at a decision.
	presence  *approval.Presence
	probes    []part.Probe
	computing *slots.Computing // limits the processor time of users' requests that only read

	// Parts that are opened at their first use.
	store     func() (*sqlstore.Store, error)
	uses      func() (*task.Uses, error) // sessions in use by runs that belong to no task
	tiers     *tiers.Set
	skills    func() (*skills.Store, error)
	workspace func() (*files.Base, error)
	inputs    func() (*files.Base, error)

	opening sync.WaitGroup // waits for the goroutine of Warm

	mu      sync.Mutex
	closers []func() error // functions that close the open parts, in the order of opening
}

// Open creates and connects the parts but starts no server: servers start when they are needed. Cancelling ctx aborts the opening of parts. The
// caller must call Close.
func Open(ctx context.Context, cfg *config.Config, out Outside) (*Harness, error) {
	if out.Metrics == nil {
		out.Metrics = telemetry.NewMetrics()
	}
	if out.Logger == nil {
		out.Logger = slog.New(slog.DiscardHandler)
	}
	var closers []func() error
	if out.CacheDir == "" {
		dir, remove, err := config.CacheDir()
		if err != nil {
			return nil, err
		}
		out.CacheDir, closers = dir, append(closers, remove)
	}
	if out.Policy == nil {
		out.Policy = cfg.Compiled(cfg.Policy)
	}
	var origins *origin.Memory
	if p, ok := out.Policy.(interface{ Origins() bool }); ok && p.Origins() {
		origins = origin.NewMemory(origin.DefaultLimits)
	}
	h := &Harness{cfg: cfg, out: out, origins: origins, catalog: catalog.New(), logins: credentials.Logins{}, closers: closers}
	h.child = childprogram.New(out.CacheDir, process.SelfAt(out.Executable, out.Args...))
	if cfg.Learning.Searches {
		h.catalog.LearnUse(time.Now)
	}
	h.keys = part.Once(func() (*seal.Keys, error) {
		keys, err := seal.Open(seal.Options{Keys: cfg.PII.Key, Name: "HARNESS_PII_KEY (pii.key)", File: cfg.PII.KeyFile})
		if err != nil {
			return nil, &part.UnavailableError{Err: err, Setting: "pii.keyFile", To: "a file in a directory that you may write to"}
		}
		return keys, nil
	})
	h.common = &seal.Common{Keys: h.keys, Store: func() (seal.CommonStore, error) { return h.store() }, Logger: out.Logger}
	h.openPresence()
	h.quarantine = quarantine.New(quarantine.Options{
		Mode: cmp.Or(out.Quarantine, approval.Quarantine(cfg.QuarantineMode())), Store: func() (quarantine.Store, error) { return h.store() },
		Presence: h.presence, Audit: h.out.audit, Logger: out.Logger,
	})
	if url := cfg.Approvals.Webhook; url != "" {
		if err := h.webhooks().Check(url); err != nil {
			return nil, fmt.Errorf("approvals.webhook: %w", err)
		}
	}
	var upgraded func(sqlstore.Upgrade)
	if out.Upgraded != nil {
		upgraded = func(u sqlstore.Upgrade) { out.Upgraded(u.From, u.To, u.Copy) }
	}
	h.store = opened(h, "store.url", cfg.Store.Wanted(), func() (*sqlstore.Store, error) {
		return sqlstore.Open(ctx, cfg.Store.URL, sqlstore.Options{
			Sync: sqlstore.Sync(cfg.Store.Sync), Retention: cfg.Journal.Retention, Now: out.Now, Logger: out.Logger, Upgraded: upgraded,
			Quotas: sqlstore.Quotas{
				Bytes: int64(cfg.Quotas.Journal), Tasks: int64(cfg.Quotas.Tasks), Sessions: int64(cfg.Quotas.Sessions), Schedules: int64(cfg.Quotas.Schedules),
				Waiting: int64(cfg.Quotas.Waiting),
			},
		})
	}, (*sqlstore.Store).Close)
	h.uses = part.Once(func() (*task.Uses, error) {
		store, err := h.store()
		if err != nil {
			return nil, err
		}
		uses := task.NewUses(task.UseOptions{Enter: store.EnterSession, Now: out.Now, Logger: out.Logger})
		h.atClose(func() error { uses.Close(); return nil })
		return uses, nil
	})
	h.tiers = h.openTiers(ctx)
	h.skills = opened(h, "skills.dir", "a directory that you may write to", func() (*skills.Store, error) {
		return skills.Open(cfg.Skills.Dir, limits(cfg.Skills.MaxBytes, cfg.Skills.MaxFiles), skills.Options{History: func() (skills.History, error) { return h.store() }, Teams: cfg.Auth.Teams, Trusted: cfg.Skills.Trusted})
	}, (*skills.Store).Close)
	h.workspace = opened(h, "workspace.dir", "a directory that you may write to", func() (*files.Base, error) {
		limits := limits(cfg.Workspace.MaxBytes, cfg.Workspace.MaxFiles)
		limits.MaxUserBytes = int64(cfg.Quotas.Workspace)
		return files.OpenBase(cfg.Workspace.Dir, files.Options{Limits: limits, Section: "workspace"})
	}, (*files.Base).Close)
	h.inputs = opened(h, "store.url", "a file in a directory that you may write to", func() (*files.Base, error) {
		return files.OpenBase(filepath.Join(cfg.StateDir, "inputs"), files.Options{Limits: files.Limits{MaxUserBytes: int64(cfg.Quotas.Workspace)}, Section: "workspace"})
	}, (*files.Base).Close)
	if cfg.Learning.Shapes {
		shapes := h.catalog.KeepShapes(filepath.Join(cfg.StateDir, "shapes.json"), func(server string) bool {
			return slices.ContainsFunc(cfg.MCPServers, func(s *config.MCPServer) bool { return s.Name == server })
		}, out.Logger)
		h.atClose(func() error { shapes.Close(); return nil })
		h.answered = shapes.Learn
	}
	var err error
	if h.servers, err = h.connect(); err == nil {
		err = h.openPrivacy()
	}
	if err == nil {
		err = h.openRuns()
	}
	if err != nil {
		return nil, errors.Join(err, h.closeParts()) // the quarantine may have opened the store
	}
	h.openProbes()
	h.quarantine.Watch(h.servers)
	return h, nil
}

// openProbes sets up the checks of the parts that the harness depends on.
func (h *Harness) openProbes() {
	h.probes = []part.Probe{
		part.NewProbe("store", "requests are refused, and tasks wait until it is back", func(ctx context.Context) error {
			store, err := h.store()
			if err == nil {
				err = store.Ping(ctx)
			}
			return err
		}),
		part.NewProbe("sandbox", "no program is executed", func(context.Context) error { _, err := h.tiers.Pool(""); return err }),
		part.NewProbe("skills", "programs have no skills", func(context.Context) error { _, err := h.skills(); return err }),
	}
	if h.cfg.PII.Enabled && h.cfg.PII.Vault == "redis" {
		check := func(ctx context.Context) error { _, err := h.privacy.Check(ctx); return err }
		h.probes = append(h.probes, part.NewProbe("vault", "runs with personal data fail, and tasks are continued when it is back", check))
	}
	if h.cfg.Audit.Required {
		h.probes = append(h.probes, part.NewProbe("audit", "no tool is called", func(context.Context) error { return h.out.Audit.Ready() }))
	}
}

// Probes returns the checks of the parts that the harness depends on.
func (h *Harness) Probes() []part.Probe { return slices.Clone(h.probes) }

// openPresence sets up the confirmation of decisions by a person.
func (h *Harness) openPresence() {
	h.presence = &approval.Presence{
		Dir: h.cfg.StateDir, Records: func() (approval.Records, error) { return h.store() }, Wanted: h.cfg.Approvals.Confirm != "none", Now: h.out.Now,
		Failed: func() {
			h.out.audit(context.Background(), telemetry.Event{
				Type: telemetry.AuthFailure, Severity: telemetry.Medium, Details: map[string]any{"reason": "wrong passphrase of approvals"},
			})
		},
	}
	h.out.Policy = policy.AskUntilConfirmed(h.out.Policy, h.Confirmation(), h.out.Logger)
}

// audit writes an audit event that one process writes for all processes.
func (o *Outside) audit(ctx context.Context, e telemetry.Event) {
	if o.Reviewed != nil {
		o.Reviewed(ctx, e)
		return
	}
	o.Audit.Audit(ctx, e)
}

// Presence returns the part that verifies that a person was present at a decision.
func (h *Harness) Presence() *approval.Presence { return h.presence }

// Confirmation returns what a person has to confirm about the current policy.
func (h *Harness) Confirmation() policy.Confirmation {
	return policy.Confirmation{Presence: h.presence, File: h.cfg.File, Hash: h.cfg.ApprovalHash()}
}

// openRuns builds the service of runs.
func (h *Harness) openRuns() error {
	c := h.cfg.Sandbox
	prelude, err := program.ReadSources(c.Prelude)
	if err != nil {
		return fmt.Errorf("read sandbox.prelude: %w", err)
	}
	compiler := program.NewCompiler(h.child)
	h.atClose(func() error { compiler.Close(); return nil })
	h.runs = runs.New(runs.Options{
		Store: func() (runs.Store, error) { return h.store() },
		Pool:  h.tiers.Pool, TierFor: h.tiers.For, Skills: h.skills, Workspace: h.workspace, Inputs: h.inputs,
		Sessions: part.Once(func() (runs.Sessions, error) { return h.Tasks(TaskOptions{}) }),
		Gate: gate.New(gate.Options{
			Catalog: h.catalog, Servers: h.servers, Policy: h.out.Policy, Counts: func() (gate.Counts, error) { return h.store() }, Decided: h.out.Audit.Decided, Restored: h.out.Audit.Restored, Zones: guest.DescribeZone, Now: h.out.Now,
			Answered: h.answered, Answers: &answers.Cache{Store: func() (answers.Store, error) { return h.store() }, Keys: h.keys, Now: h.out.Now},
			Languages: h.cfg.Languages(),
			Origins:   h.origins, History: func() (gate.History, error) { return h.store() },
			ApprovalKey: part.Once(h.common.Getter("approvals.key", func() ([]byte, error) { return approval.Key(h.cfg.StateDir) })),
		}),
		Catalog: h.catalog, EnsureTools: h.EnsureTools,
		Compiler: compiler, Modules: program.NewCache(), Prelude: prelude, Packages: c.Packages,
		Check: c.Check, Unavailable: h.servers.Unlisted,
		Limits: runLimits(c),
		LimitsFor: func(user string, roles []auth.Role) run.Limits {
			of, _ := h.cfg.LimitsFor(user, roles)
			return runLimits(of)
		},
		DetachAfter: c.DetachAfter, MaxDetached: h.cfg.Quotas.Waiting,
		ApprovalExpiry: h.cfg.Approvals.ExpireAfter, Presence: h.presence, Roles: h.roles, ApprovalWebhook: h.cfg.Approvals.Webhook,
		Env: c.Env, Privacy: h.privacy, Now: h.out.Now, Logger: h.out.Logger, Metrics: h.out.Metrics, Audit: h.out.Audit, Record: h.out.audit,
	})
	h.computing = slots.NewComputing(h.runs.Others)
	h.catalog.Compute(h.computing)
	return nil
}

func runLimits(c config.Sandbox) run.Limits {
	return run.Limits{
		Timeout: c.Timeout, MaxWall: c.MaxWall, Memory: int64(c.Memory), MaxOutput: int(c.MaxOutput), MaxLogLines: c.MaxLogLines,
		MaxCalls: c.MaxCalls, MaxHostCalls: c.MaxHostCalls, MaxInFlight: c.MaxInFlight, MaxValue: int(c.MaxValue),
	}
}

// roles returns the current roles of a principal who requested a run or task earlier.
func (h *Harness) roles(ctx context.Context, principal string, had []auth.Role) ([]auth.Role, error) {
	keys, err := h.Keys()
	if err != nil {
		return nil, err
	}
	return keys.Roles(ctx, principal, had)
}

// opened returns a function that opens a part at its first call. Harness.Close closes the part with closer. If opening fails, the error advises the
// user to change a setting: setting is its name, to is the proposed value.
func opened[T any](h *Harness, setting, to string, open func() (T, error), closer func(T) error) func() (T, error) {
	return part.Once(func() (T, error) {
		opened, err := open()
		if err != nil {
			return opened, &part.UnavailableError{Err: err, Setting: setting, To: to}
		}
		h.atClose(func() error { return closer(opened) })
		return opened, nil
	})
}

// atClose makes Close call do. Functions are called in reverse order of their addition.
func (h *Harness) atClose(do func() error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closers = append(h.closers, do)
}

func limits(size config.Size, count int) files.Limits {
	return files.Limits{MaxBytes: int64(size), MaxFiles: int64(count)}
}

// Close ends servers and runners and closes the store. Runs must have ended before. When ctx ends, Close kills
// processes without a grace period.
func (h *Harness) Close(ctx context.Context) error {
	h.quarantine.Close()
	err := h.servers.Close(ctx)
	h.runs.Close()
	h.opening.Wait()
	return errors.Join(err, h.closeParts())
}

// closeParts closes the open parts in reverse order of opening.
func (h *Harness) closeParts() (err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, do := range slices.Backward(h.closers) {
		err = errors.Join(err, do())
	}
	h.closers = nil
	return err
}

// Runs returns the service of runs.
func (h *Harness) Runs() *runs.Service { return h.runs }

// Quarantine returns the quarantine of server definitions.
func (h *Harness) Quarantine() *quarantine.Quarantine { return h.quarantine }

// Tiers returns the tiers of the sandbox.
func (h *Harness) Tiers() *tiers.Set { return h.tiers }

// Privacy returns the filter of personal data, or nil if it is disabled.
func (h *Harness) Privacy() *pii.Filter { return h.privacy }

// Features returns which features the configuration enables for programs.
func (h *Harness) Features() agent.Features {
	return agent.Features{Private: h.privacy != nil, Natural: h.privacy != nil && h.cfg.PII.Tokens == "natural", Fetch: len(h.cfg.Network.Allow) > 0, Packages: h.cfg.Sandbox.Packages != ""}
}

// Catalog returns the catalog of all known tools.
func (h *Harness) Catalog() *catalog.Catalog { return h.catalog }

// Computing returns the limit of the processor time of users' requests that only read.
func (h *Harness) Computing() *slots.Computing { return h.computing }

// Servers returns the connections to upstream servers.
func (h *Harness) Servers() *upstream.Servers { return h.servers }

// EnsureTools waits until every server has listed its tools or has failed to.
func (h *Harness) EnsureTools(ctx context.Context, user string) { h.servers.EnsureTools(ctx, user) }

// N8N returns the configured instance of n8n, or nil.
func (h *Harness) N8N() *n8n.Instance { return h.n8n }

// Store opens the store of runs.
func (h *Harness) Store() (*sqlstore.Store, error) { return h.store() }

// Common returns the secrets that all processes on the store share.
func (h *Harness) Common() *seal.Common { return h.common }

// Skills opens the store of skills.
func (h *Harness) Skills() (*skills.Store, error) { return h.skills() }

// Keys returns the API keys in the store.
func (h *Harness) Keys() (*auth.Keys, error) {
	store, err := h.store()
	if err != nil {
		return nil, err
	}
	return auth.NewKeys(store), nil
}

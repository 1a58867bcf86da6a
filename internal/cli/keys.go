package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/telemetry"
)

type keysCmd struct {
	Create keysCreateCmd `cmd:"" help:"Make an API key; its value is shown once."`
	List   keysListCmd   `cmd:"" help:"List API keys." example:"keys list"`
	Revoke keysRevokeCmd `cmd:"" help:"End an API key at once." example:"keys revoke key_4f2a"`
}

type keysCreateCmd struct {
	Name    string        `arg:"" optional:"" help:"What it is for."`
	User    string        `help:"The only user that it acts for; by default it acts for any user." placeholder:"ID"`
	Role    []auth.Role   `help:"What it may do: ${enum}." enum:"user,approver,admin" default:"user"`
	Expires time.Duration `help:"How long it is valid (30d); by default until it is revoked." placeholder:"DURATION"`
}

func (keysCreateCmd) Help() string {
	return `The value goes to standard output; the store has only its hash.
Once there is a key, every request needs one, on running servers too.

Examples:
  harness keys create --user alice laptop
  harness keys create --role admin operations
  harness keys create --user bot --expires 30d ci`
}

func (c *keysCreateCmd) check() error {
	if c.User != "" {
		if err := auth.CleanUser(c.User); err != nil {
			return fmt.Errorf("--user: %w", err)
		}
	}
	if c.Expires < 0 {
		return fmt.Errorf("--expires %s is in the past", c.Expires)
	}
	return nil
}

// widens reports whether the key permits more than the work of one user.
func (c *keysCreateCmd) widens() bool {
	return c.User == "" || slices.ContainsFunc(c.Role, func(r auth.Role) bool { return r != auth.User })
}

func (c *keysCreateCmd) Run(ctx context.Context, a *app, cfg *config.Config, h harness, keys *auth.Keys) error {
	if c.widens() {
		if _, err := a.confirm(ctx, h, "make a key that acts for others or has more roles"); err != nil {
			return err
		}
	}
	key, value, err := keys.Create(ctx, auth.NewKey{Name: c.Name, User: c.User, Roles: c.Role, TTL: c.Expires})
	if err != nil {
		return err
	}
	a.keyChange(ctx, cfg, "created", key.ID, key.User)
	if a.flags.JSON {
		return a.json(map[string]any{"id": key.ID, "key": value, "user": key.User, "roles": key.Roles, "expires": key.Expires})
	}
	fmt.Fprintln(a.Stdout, value)
	fmt.Fprintf(a.Stderr, "%s: keep the value above, it is not shown again; send it as Authorization: Bearer …\nit is a key of the servers with the store %s\n", key.ID, cfg.Store.Name())
	return nil
}

// keyChange records a change of keys in the audit log.
func (a *app) keyChange(ctx context.Context, cfg *config.Config, change, id, user string) {
	a.record(ctx, cfg, telemetry.Event{
		UserID: user, Type: telemetry.KeyChange, Severity: telemetry.Medium, Details: map[string]any{"key": id, "change": change},
	})
}

// record writes an event into the audit log.
func (a *app) record(ctx context.Context, cfg *config.Config, e telemetry.Event) {
	a.recording.Lock()
	defer a.recording.Unlock()
	audit, closeAudit, err := auditor(cfg, a.logger(cfg), a.Now)
	if err != nil {
		fmt.Fprintln(a.Stderr, "harness: warning: this is not recorded:", err)
		return
	}
	defer closeAudit()
	audit.Audit(ctx, e)
}

type keysListCmd struct{}

func (keysListCmd) Run(ctx context.Context, a *app, keys *auth.Keys) error {
	all, err := keys.List(ctx)
	if err != nil {
		return err
	}
	const none, header = "no keys; harness keys create makes one", "KEY\tNAME\tUSER\tROLES\tLAST USED\tSTATE"
	return answerList(a, map[string]any{"keys": list(all)}, all, none, header, func(k auth.Key) string {
		used := "never"
		if k.LastUsed != nil {
			used = k.LastUsed.Local().Format(time.DateTime)
		}
		return strings.Join([]string{k.ID, k.Name, cmp.Or(k.User, "any"), strings.Join(k.Roles, ","), used, k.State(a.Now())}, "\t")
	})
}

type keysRevokeCmd struct {
	ID string `arg:"" help:"Key id, as listed." names:"keys"`
}

func (c *keysRevokeCmd) Run(ctx context.Context, a *app, cfg *config.Config, keys *auth.Keys) error {
	if err := keys.Revoke(ctx, c.ID); err != nil {
		if errors.Is(err, task.ErrNotFound) {
			return usage(fmt.Errorf("unknown key %q in %s; %s", c.ID, cfg.Store.Name(), a.like(ctx, "keys", c.ID, "harness keys list shows all")))
		}
		return err
	}
	a.keyChange(ctx, cfg, "revoked", c.ID, "")
	if a.flags.JSON {
		return a.json(map[string]string{"revoked": c.ID})
	}
	fmt.Fprintln(a.Stderr, "revoked", c.ID)
	return nil
}

package cli

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/harness"
	"mcp-code-exec-harness/internal/telemetry"
)

type keysCmd struct {
	Create keysCreateCmd `cmd:"" help:"Make an API key; its value is shown once."`
	List   keysListCmd   `cmd:"" help:"List API keys."`
	Revoke keysRevokeCmd `cmd:"" help:"End an API key at once."`
}

func (keysCmd) Help() string { return "Example:\n  harness keys list" }

type keysCreateCmd struct {
	Name    string        `arg:"" optional:"" help:"What it is for."`
	User    string        `help:"The only user that it acts for; without it, it may act for any." placeholder:"ID"`
	Role    []string      `help:"What it may do: user, approver, admin." default:"user"`
	Expires time.Duration `help:"How long it is valid (720h); without it, until it is revoked." placeholder:"DURATION"`
}

func (keysCreateCmd) Help() string {
	return `The value goes to standard output and is kept nowhere: only its hash is.
From the first key on, every request needs one, also of a server that runs already.

Examples:
  harness keys create --user alice laptop
  harness keys create --role admin operations
  harness keys create --user bot --expires 720h ci`
}

func (c *keysCreateCmd) Run(ctx context.Context, a *app) error {
	n := auth.NewKey{Name: c.Name, User: c.User, TTL: c.Expires}
	for _, name := range c.Role {
		role, err := auth.ParseRole(name)
		if err != nil {
			return usage(fmt.Errorf("--role: %w", err))
		}
		n.Roles = append(n.Roles, role)
	}
	if c.User != "" {
		if err := auth.CleanUser(c.User); err != nil {
			return usage(fmt.Errorf("--user: %w", err))
		}
	}
	if c.Expires < 0 {
		return usage(fmt.Errorf("--expires %s is in the past", c.Expires))
	}
	h, keys, audit, err := a.openKeys(ctx)
	if err != nil {
		return err
	}
	defer a.close(h)
	key, value, err := keys.Create(ctx, n)
	if err != nil {
		return err
	}
	audit.Audit(ctx, keyChange("created", key.ID, key.User))
	if a.flags.JSON {
		return a.json(map[string]any{"id": key.ID, "key": value, "user": key.User, "roles": key.Roles, "expires": key.Expires})
	}
	fmt.Fprintln(a.Stdout, value)
	fmt.Fprintf(a.Stderr, "%s: keep the value above, it is not shown again; send it as Authorization: Bearer …\n", key.ID)
	return nil
}

// openKeys opens the harness with its keys, and the log of their changes.
func (a *app) openKeys(ctx context.Context) (*harness.Harness, *auth.Keys, *telemetry.Auditor, error) {
	cfg, err := a.load()
	if err != nil {
		return nil, nil, nil, err
	}
	h, err := a.openWith(ctx, cfg, "")
	if err != nil {
		return nil, nil, nil, err
	}
	keys, err := h.Keys()
	if err != nil {
		a.close(h)
		return nil, nil, nil, missing(h, err)
	}
	log := a.logger(cfg)
	if !log.Enabled(ctx, slog.LevelInfo) {
		return h, keys, nil, nil // a command is quiet unless a level is asked for
	}
	return h, keys, auditor(cfg, log), nil
}

// keyChange is the audit event of a change of keys.
func keyChange(change, id, user string) telemetry.Event {
	return telemetry.Event{
		UserID: user, Type: telemetry.KeyChange, Severity: telemetry.Medium, Details: map[string]any{"key": id, "change": change},
	}
}

type keysListCmd struct{}

func (keysListCmd) Help() string { return "Example:\n  harness keys list" }

// keyLine is what a list shows of a key.
type keyLine struct {
	ID       string     `json:"id"`
	Name     string     `json:"name,omitempty"`
	User     string     `json:"user,omitempty"`
	Roles    []string   `json:"roles"`
	Created  time.Time  `json:"createdAt"`
	LastUsed *time.Time `json:"lastUsedAt,omitempty"`
	Expires  *time.Time `json:"expiresAt,omitempty"`
	Revoked  *time.Time `json:"revokedAt,omitempty"`
}

func (keysListCmd) Run(ctx context.Context, a *app) error {
	h, keys, _, err := a.openKeys(ctx)
	if err != nil {
		return err
	}
	defer a.close(h)
	all, err := keys.List(ctx)
	if err != nil {
		return err
	}
	lines := []keyLine{}
	rows := [][]string{{"KEY", "NAME", "USER", "ROLES", "LAST USED", "STATE"}}
	for _, k := range all {
		lines = append(lines, keyLine{k.ID, k.Name, k.User, list(k.Roles), k.Created, k.LastUsed, k.Expires, k.Revoked})
		user, used, state := k.User, "never", "valid"
		if user == "" {
			user = "any"
		}
		if k.LastUsed != nil {
			used = k.LastUsed.Local().Format(time.DateTime)
		}
		switch {
		case k.Revoked != nil:
			state = "revoked"
		case k.Expires != nil && !k.Expires.After(a.Now()):
			state = "expired"
		}
		rows = append(rows, []string{k.ID, k.Name, user, strings.Join(k.Roles, ","), used, state})
	}
	if a.flags.JSON {
		return a.json(map[string]any{"keys": lines})
	}
	if len(all) == 0 {
		fmt.Fprintln(a.Stderr, "no keys; harness keys create makes one")
		return nil
	}
	a.table(rows)
	return nil
}

type keysRevokeCmd struct {
	ID string `arg:"" help:"Key id, as listed."`
}

func (keysRevokeCmd) Help() string { return "Example:\n  harness keys revoke key_4f2a" }

func (c *keysRevokeCmd) Run(ctx context.Context, a *app) error {
	h, keys, audit, err := a.openKeys(ctx)
	if err != nil {
		return err
	}
	defer a.close(h)
	if err := keys.Revoke(ctx, c.ID); err != nil {
		return taskError(fmt.Errorf("key %s: %w", c.ID, err))
	}
	audit.Audit(ctx, keyChange("revoked", c.ID, ""))
	if a.flags.JSON {
		return a.json(map[string]string{"revoked": c.ID})
	}
	fmt.Fprintln(a.Stderr, "revoked", c.ID)
	return nil
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/telemetry"
)

type securityKeysCmd struct {
	Add    securityKeysAddCmd    `cmd:"" help:"Register a security key or passkey, by which a person approves on the dashboard."`
	List   securityKeysListCmd   `cmd:"" help:"List the security keys." example:"approvals security-keys list"`
	Remove securityKeysRemoveCmd `cmd:"" help:"Remove a security key." example:"approvals security-keys remove ABCD-EFGH-IJKL"`
}

type securityKeysAddCmd struct {
	Name   string `arg:"" optional:"" help:"What it is for people." default:"security key"`
	Origin string `help:"Address of the dashboard at which it will approve; by default http://localhost with the port of server.listen, or https:// with the first of server.hosts." placeholder:"URL"`
}

func (securityKeysAddCmd) Help() string {
	return `Prints a link. On its page, who is logged in registers a security key or passkey; the page and this terminal show the code of the key. The passphrase
(harness approvals setup), typed here, lets the key approve from then on: at that address, as that caller. Browsers use security keys at http://localhost
and at https:// addresses with a name, not at IP addresses.

Examples:
  harness approvals security-keys add 'blue key'
  harness approvals security-keys add --origin https://harness.example.com`
}

// lookForKey is the interval at which the command checks whether the page has registered the key.
const lookForKey = 300 * time.Millisecond

func (c *securityKeysAddCmd) Run(ctx context.Context, a *app, cfg *config.Config, h harness) error {
	p := h.Presence()
	if keys, err := p.Keys(ctx); err != nil {
		return err
	} else if len(keys) == 0 {
		return usage(errors.New("a passphrase confirms security keys, and there is none yet: harness approvals setup"))
	}
	if a.keyboard() == nil {
		_, err := a.secretLine(ctx, "")
		return err
	}
	origin, err := c.origin(cfg)
	if err != nil {
		return err
	}
	token, err := p.BeginRegistration(ctx, c.Name, origin)
	if err != nil {
		return usage(err)
	}
	fmt.Fprintf(a.Stderr, "Open this page within %s, and register the key there:\n\n  %s/security-keys/new?registration=%s\n\n"+
		"It needs a login: without API keys, %s makes a link for one.\n", approval.RegistrationLife, origin, token, a.commandLine("open"))
	key, err := registered(ctx, p, token, origin)
	if err != nil {
		return usage(err)
	}
	fmt.Fprintf(a.Stderr, "%s has registered a key with the code %s. The page shows the same code; if yours does not, press Ctrl-C.\n", key.Principal, key.Code())
	sign, err := a.confirm(ctx, h, fmt.Sprintf("let it approve as %s at %s", key.Principal, key.Origin))
	if err != nil {
		return err
	}
	if err := p.AddSecurityKey(ctx, sign, *key); err != nil {
		return usage(err)
	}
	a.securityKeyChange(ctx, cfg, "confirmed", *key)
	return a.answer(shownKey(*key), "The security key %s approves from now on, as %s at %s.\n", key.Code(), key.Principal, key.Origin)
}

// registered waits until the page has registered a key, and returns the key.
func registered(ctx context.Context, p *approval.Presence, token, origin string) (*approval.SecurityKey, error) {
	for {
		key, err := p.Registered(ctx, token, origin)
		if key != nil || err != nil {
			return key, err
		}
		select {
		case <-time.After(lookForKey):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// origin returns the address of the dashboard at which the key will confirm approvals.
func (c *securityKeysAddCmd) origin(cfg *config.Config) (string, error) {
	if c.Origin != "" {
		return strings.TrimSuffix(c.Origin, "/"), nil
	}
	origin := dashboardOrigin(cfg.Server)
	if origin == "" {
		return "", usage(fmt.Errorf("server.listen is %s, where security keys cannot be used: give the address of the dashboard, as in --origin https://harness.example.com", cfg.Server.Listen))
	}
	return origin, nil
}

// dashboardOrigin returns the address of a server's dashboard at which browsers use security keys, or "" if it is not known.
func dashboardOrigin(s config.Server) string {
	at, err := url.Parse(address(s))
	if err != nil {
		return ""
	}
	if ip, err := netip.ParseAddr(at.Hostname()); err == nil {
		switch {
		case s.Local() && ip.IsLoopback():
			at.Host = net.JoinHostPort("localhost", at.Port())
		case len(s.Hosts) > 0:
			at.Scheme, at.Host = "https", s.Hosts[0]
		}
	}
	origin := at.Scheme + "://" + at.Host
	if _, err := approval.RPID(origin); err != nil {
		return ""
	}
	return origin
}

func (a *app) securityKeyChange(ctx context.Context, cfg *config.Config, change string, key approval.SecurityKey) {
	a.record(ctx, cfg, telemetry.Event{
		Type: telemetry.KeyChange, Severity: telemetry.Medium,
		Details: map[string]any{"key": "security key", "code": key.Code(), "for": key.Principal, "origin": key.Origin, "change": change},
	})
}

// securityKeyLine is a security key as commands show it.
type securityKeyLine struct {
	Code      string    `json:"code"`
	Name      string    `json:"name"`
	Principal string    `json:"principal"`
	Origin    string    `json:"origin"`
	Added     time.Time `json:"addedAt"`
}

func shownKey(k approval.SecurityKey) securityKeyLine {
	return securityKeyLine{k.Code(), k.Name, k.Principal, k.Origin, k.Added}
}

type securityKeysListCmd struct{}

func (securityKeysListCmd) Run(ctx context.Context, a *app, h harness) error {
	keys, err := h.Presence().SecurityKeys(ctx)
	if err != nil {
		return err
	}
	lines := []securityKeyLine{}
	for _, k := range keys {
		lines = append(lines, shownKey(k))
	}
	const none, header = "there are no security keys", "CODE\tNAME\tAPPROVES AS\tAT\tADDED"
	return answerShort(a, map[string]any{"securityKeys": lines}, lines, none, header, func(k securityKeyLine) string {
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%s", k.Code, cut(k.Name, shownText), k.Principal, k.Origin, k.Added.Local().Format(time.DateTime))
	})
}

type securityKeysRemoveCmd struct {
	Code string `arg:"" help:"Code of the security key."`
}

func (securityKeysRemoveCmd) Help() string {
	return `Takes the passphrase, because it signs the list of security keys. Approvals by the removed key whose calls were not made yet count as not decided.

Example:
  harness approvals security-keys remove ABCD-EFGH-IJKL`
}

func (c *securityKeysRemoveCmd) Run(ctx context.Context, a *app, cfg *config.Config, h harness) error {
	p := h.Presence()
	all, err := p.SecurityKeys(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(k approval.SecurityKey) bool { return k.Code() == c.Code })
	if i < 0 {
		return usage(fmt.Errorf("%w: %q; harness approvals security-keys list shows them", approval.ErrNoSecurityKey, c.Code))
	}
	sign, err := a.confirm(ctx, h, "remove the security key "+c.Code)
	if err != nil {
		return err
	}
	if err := p.RemoveSecurityKey(ctx, sign, c.Code); err != nil {
		return err
	}
	a.securityKeyChange(ctx, cfg, "removed", all[i])
	return a.answer(map[string]string{"removed": c.Code}, "removed the security key %s\n", c.Code)
}

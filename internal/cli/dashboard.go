package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"mcp-code-exec-harness/internal/api"
	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/disk"
	"mcp-code-exec-harness/internal/web"
)

// newDashboard returns a handler that serves the dashboard in front of the API. secret seals the sessions; if it is empty, the key of a file does.
func newDashboard(cfg *config.Config, secret []byte, service *api.API, people *auth.Login, once web.Once, log *slog.Logger) (http.Handler, error) {
	key := secret
	if len(key) == 0 {
		var err error
		if key, err = disk.Secret(filepath.Join(cfg.StateDir, "dashboard.key"), func() string { return rand.Text() + rand.Text() + "\n" }); err != nil {
			return nil, fmt.Errorf("the key of the dashboard's sessions: %w; delete it, and the next start makes a new one", err)
		}
	}
	hosts := cfg.Server.Hosts
	if name, err := os.Hostname(); err == nil {
		hosts = append([]string{name}, hosts...)
	}
	handler, uncounted := service.Handlers()
	return web.New(web.Options{API: handler, Uncounted: uncounted, Key: key, Once: once, Hosts: hosts, Proxies: cfg.Server.Proxies(), Login: people, Session: web.Room{Bytes: int64(cfg.Workspace.MaxBytes), Files: cfg.Workspace.MaxFiles}, Version: Version, Logger: log, Now: time.Now})
}

// login returns the auth.Login with which people log in at the configured issuer, or nil if auth.oidc.clientId is not set.
func login(cfg *config.Config, who api.Authenticator) *auth.Login {
	a, ok := who.(*auth.Authenticator)
	if o := cfg.Auth.OIDC; ok && a.Issuer != nil && o.ClientID != "" {
		return auth.NewLogin(a.Issuer, o.ClientID, o.ClientSecret)
	}
	return nil
}

type openCmd struct {
	Print  bool   `help:"Print the address, and start no browser."`
	Listen string `help:"Address and port of the server (server.listen)." key:"server.listen" placeholder:"HOST:PORT"`
}

func (openCmd) Help() string {
	return `Asks the running harness serve of this configuration for a link that logs one browser in, once and within a minute. Once there are API keys,
the page asks for one of them.

Examples:
  harness open
  harness open --print`
}

// linkTime is the maximum time that a server may take to answer.
const linkTime = 10 * time.Second

func (c *openCmd) Run(ctx context.Context, a *app, cfg *config.Config) error {
	token, _, err := auth.LocalToken(cfg.StateDir)
	if err != nil {
		return usage(err)
	}
	at := address(cfg.Server)
	ctx, cancel := context.WithTimeout(ctx, linkTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, at+"/login/links", bytes.NewReader(nil))
	if err != nil {
		return usage(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return &exitError{exitUnavailable, fmt.Errorf("no server answers at %s: start it with harness serve, or give its address with server.listen: %w", at, err)}
	}
	defer answer.Body.Close()
	var link struct {
		Path string `json:"path"`
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	switch {
	case err != nil:
		return &exitError{exitUnavailable, err}
	case answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden: // the server requires a key
		link.Path = "/login"
		fmt.Fprintln(a.Stderr, "harness: the server asks for an API key: harness keys create makes one")
	case answer.StatusCode != http.StatusOK || json.Unmarshal(text, &link) != nil || link.Path == "":
		return &exitError{exitUnavailable, fmt.Errorf("what answers at %s has no dashboard (%s)", at, answer.Status)}
	}
	if origin := dashboardOrigin(cfg.Server); cfg.Approvals.Confirm == "webauthn" && cfg.Server.Local() && origin != "" {
		at = origin // browsers use security keys at this name, but not at an IP address
	}
	browse := a.Browse
	if browse == nil {
		browse = openBrowser
	}
	if !c.Print {
		if err := browse(ctx, at+link.Path); err != nil {
			fmt.Fprintln(a.Stderr, "harness: no browser could be started; open the address yourself")
		}
	}
	return a.answer(map[string]string{"url": at + link.Path}, "%s\n", at+link.Path)
}

// address returns the URL at which a browser on this machine reaches a server.
func address(s config.Server) string {
	scheme := "http"
	if s.TLS.Cert != "" {
		scheme = "https"
	}
	host, port, err := net.SplitHostPort(s.Listen)
	if err != nil {
		return scheme + "://" + s.Listen
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}

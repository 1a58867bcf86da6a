package wiring_test

import (
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/agent"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/credentials"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/telemetry"
	"mcp-code-exec-harness/internal/testing/oauthtest"
	"mcp-code-exec-harness/internal/wiring"
)

// guarded returns the configuration entry of a server that requires a login.
func guarded(s *oauthtest.Server, per string) *config.MCPServer {
	return &config.MCPServer{
		Name: "guarded", Type: config.HTTP, URL: s.URL, Enabled: true, StartupTimeout: patience, Auth: &config.ServerAuth{Type: "oauth", Per: per},
	}
}

// login logs a user in, like another process with the same store.
func (f *fixture) login(s *oauthtest.Server, user string) {
	f.t.Helper()
	login, err := f.Logins("guarded")
	if err != nil {
		f.t.Fatal(err)
	}
	_, err = login.Login(f.t.Context(), user, credentials.Browser{Show: func(address string) error { return s.Visit(f.t.Context(), address) }})
	if err != nil {
		f.t.Fatal(err)
	}
}

// said returns what a program of a user returns, or the name and message of its error.
func (f *fixture) said(user, code string) string {
	f.t.Helper()
	code = "try { " + code + " } catch (e) { return e.name + ': ' + e.message }"
	out := f.exec(runs.Request{Code: code, User: user})
	if out.Error != nil {
		f.t.Fatalf("the program failed: %s: %s", out.Error.Kind, out.Error.Message)
	}
	return string(out.Output)
}

const whoami = "return JSON.stringify(await callMCPTool('guarded__whoami', {}))"

// TestLoginWhileRunning: a running harness notices logins and logouts in other processes. A server that needs a login does not affect other servers.
func TestLoginWhileRunning(t *testing.T) {
	t.Parallel()
	s := oauthtest.New(t)
	dir := t.TempDir()
	f := open(t, dir, nil, guarded(s, "shared"), newCRM(t, customers(pageSize, 1)).entry)
	other := open(t, dir, nil, guarded(s, "shared"))
	const needs = "NeedsLoginError: server \\\"guarded\\\": needs login: harness servers login guarded"
	for range 3 {
		if got := f.said("ann", whoami); !strings.Contains(got, needs) {
			t.Fatalf("without a login: %s", got)
		}
	}
	if got := f.said("ann", "return (await callMCPTool('crm__echo', {text: 'hello', how: 'base64'}))"); !strings.Contains(got, "aGVsbG8=") {
		t.Errorf("another server: %s", got)
	}
	if st := f.status("guarded"); st.State != mcpclient.StateNeedsLogin || !strings.Contains(st.Reason, "harness servers login guarded") {
		t.Errorf("status %+v", st)
	}
	other.login(s, "ann")
	if got := f.said("ann", whoami); !strings.Contains(got, "calls") {
		t.Fatalf("after the login of another process: %s", got)
	}
	if st := f.status("guarded"); st.State != mcpclient.StateReady {
		t.Errorf("status %+v", st)
	}
	// The access token expires in the middle of a run.
	got := f.said("ann", "await callMCPTool('guarded__expire', {}); return JSON.stringify(await Promise.all(Array.from({length: 20}, () => callMCPTool('guarded__whoami', {}))))")
	if strings.Count(got, "calls") != 20 || s.Refreshes() != 1 {
		t.Errorf("after the token's end: %s; %d renewals", got, s.Refreshes())
	}
	// A call that needs more scopes fails, and other calls still succeed.
	if got := f.said("ann", "return await callMCPTool('guarded__admin', {})"); !strings.Contains(got, "NeedsLoginError") || !strings.Contains(got, "email") {
		t.Errorf("more scopes: %s", got)
	}
	if st := f.status("guarded"); st.State != mcpclient.StateReady || !strings.Contains(strings.Join(st.Scopes, " "), "email") {
		t.Errorf("status %+v", st)
	}
	if got := f.said("ann", whoami); !strings.Contains(got, "calls") {
		t.Errorf("beside it: %s", got)
	}
	// The login is revoked, and the user logs in again.
	s.Revoke()
	if got := f.said("ann", whoami); !strings.Contains(got, "NeedsLoginError") {
		t.Errorf("after the revocation: %s", got)
	}
	if st := f.status("guarded"); st.State != mcpclient.StateNeedsLogin {
		t.Errorf("status %+v", st)
	}
	other.login(s, "ann")
	if got := f.said("ann", "return JSON.stringify(await callMCPTool('guarded__admin', {}))"); !strings.Contains(got, "calls") {
		t.Errorf("after another login: %s", got)
	}
	login, err := other.Logins("guarded")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := login.Logout(t.Context(), "ann"); err != nil {
		t.Error(err)
	}
	if got := f.said("ann", whoami); !strings.Contains(got, "NeedsLoginError") {
		t.Errorf("after the logout of another process: %s", got)
	}
}

// A search for tools starts the servers that have a login for each user with the login of the user who searches.
func TestLookingStartsOwnConnection(t *testing.T) {
	t.Parallel()
	s := oauthtest.New(t)
	f := setup(t, nil, guarded(s, "user"))
	f.login(s, "ann")
	tools := agent.NewCatalog(f.Catalog(), f.EnsureTools)
	for _, c := range []struct {
		user string
		want bool
	}{{"ben", false}, {"ann", true}} {
		text, err := tools.Search(t.Context(), c.user, "who am I", 0)
		if err != nil || strings.Contains(text, "guarded__") != c.want {
			t.Errorf("%s: %s, %v", c.user, text, err)
		}
	}
}

// TestLoginPerUser: no other user gets a user's login, connection or state.
func TestLoginPerUser(t *testing.T) {
	t.Parallel()
	s := oauthtest.New(t)
	f := setup(t, nil, guarded(s, "user"))
	f.login(s, "ann")
	if got := f.said("ann", whoami); !strings.Contains(got, "calls") {
		t.Errorf("ann: %s", got)
	}
	if got := f.said("ben", whoami); !strings.Contains(got, "NeedsLoginError") {
		t.Errorf("ben: %s", got)
	}
	state := func(user string) mcpclient.State {
		return f.Servers().ServersOf(user)[0].State
	}
	if ann, ben := state("ann"), state("ben"); ann != mcpclient.StateReady || ben != mcpclient.StateNeedsLogin {
		t.Errorf("ann's state is %s, ben's %s", ann, ben)
	}
	f.login(s, "ben")
	if got := f.said("ben", whoami); !strings.Contains(got, "calls") {
		t.Errorf("ben after a login: %s", got)
	}
	s.Revoke()
	f.login(s, "ben")
	if got := f.said("ann", whoami); !strings.Contains(got, "NeedsLoginError") {
		t.Errorf("ann after the revocation: %s", got)
	}
	if got := f.said("ben", whoami); !strings.Contains(got, "calls") {
		t.Errorf("ben after another login: %s", got)
	}
}

// TestMachineLogin: a server whose client gets tokens for itself is used without a login, even when its token is revoked between runs. A login is refused.
func TestMachineLogin(t *testing.T) {
	t.Parallel()
	s := oauthtest.New(t)
	server := guarded(s, "shared")
	server.Auth.Grant, server.Auth.ClientID, server.Auth.ClientSecret = "client_credentials", oauthtest.Machine, oauthtest.MachineSecret
	server.Auth.Issuer = s.Issuer
	f := setup(t, nil, server)
	for _, user := range []string{"ann", "ben"} {
		if got := f.said(user, whoami); !strings.Contains(got, "calls") {
			t.Errorf("%s: %s", user, got)
		}
		s.Revoke()
	}
	if _, err := f.Logins("guarded"); err == nil || !strings.Contains(err.Error(), "needs no login") {
		t.Errorf("login: %v", err)
	}
}

// TestLeakOfCredentials: tokens, codes and verifiers exist only in the store, sealed, even if a server repeats what it receives.
func TestLeakOfCredentials(t *testing.T) {
	t.Parallel()
	s := oauthtest.New(t)
	dir := t.TempDir()
	var log lockedBuffer
	logger := telemetry.NewLogger(telemetry.LogOptions{Writer: &log, Level: slog.LevelDebug, Redact: redact(t)})
	metrics := telemetry.NewMetrics()
	cache := t.TempDir()
	f := openIn(t, dir, nil, wiring.Outside{
		Logger: logger, Metrics: metrics, ToolCache: cache, Audit: telemetry.NewAuditor(logger, telemetry.AuditFile{}),
	}, guarded(s, "shared"))
	f.said("ann", whoami)
	f.login(s, "ann")
	var seen strings.Builder
	for range 2 {
		for _, code := range []string{
			whoami, "return JSON.stringify(await callMCPTool('guarded__repeat', {}))", "return await callMCPTool('guarded__fail', {})",
			"console.log(await callMCPTool('guarded__repeat', {})); await fs.promises.writeFile('/workspace/got.json', JSON.stringify(await callMCPTool('guarded__repeat', {}))); return 1",
			"return await callMCPTool('guarded__admin', {})",
		} {
			seen.WriteString(f.said("ann", code) + "\n")
		}
		s.Expire()
	}
	if got := seen.String(); strings.Count(got, "Bearer [credential]") < 4 {
		t.Errorf("programs saw\n%s", got)
	}
	s.Revoke()
	seen.WriteString(f.said("ann", whoami))
	for _, st := range f.Servers().Tools() {
		seen.WriteString(st.Reason)
	}
	f.login(s, "ann")
	seen.WriteString(f.said("ann", whoami))
	if err := f.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	places := map[string]string{"programs": seen.String(), "log": log.String()}
	for _, root := range []string{dir, cache} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			places[path] = string(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	secrets := s.Secrets()
	if len(secrets) < 8 || len(places) < 5 {
		t.Fatalf("%d secrets, %d places", len(secrets), len(places))
	}
	for place, text := range places {
		for _, secret := range secrets {
			if len(secret) >= 8 && strings.Contains(text, secret) {
				t.Errorf("%s holds a secret: %.12s…", place, secret)
			}
		}
	}
}

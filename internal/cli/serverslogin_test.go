package cli_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/cli"
	"mcp-code-exec-harness/internal/testing/oauthtest"
)

// TestServersLogin logs in to a server, after which its tools work. Without a login, after a revocation, and for more scopes, errors name the command.
func TestServersLogin(t *testing.T) {
	t.Parallel()
	s := oauthtest.New(t)
	f := setup(t)
	f.addDemo("crm")
	yaml := f.read("harness.yaml")
	f.write("harness.yaml", yaml+"  guarded: {url: "+quoted(s.URL)+", auth: {type: oauth}}\n")
	const how = "needs login: harness servers login guarded"

	if r := f.run("servers", "test").want(3); !strings.Contains(r.stdout, "needs login") || !strings.Contains(r.stderr, how) || !strings.Contains(r.stdout, "ready") {
		t.Errorf("servers test: %s%s", r.stdout, r.stderr)
	}
	if r := f.run("doctor"); !strings.Contains(r.stdout, "harness servers login guarded") {
		t.Errorf("doctor: %s", r.stdout)
	}
	const call = "try { return await callMCPTool('guarded__whoami', {}) } catch (e) { return e.name + ': ' + e.message }"
	if r := f.run("exec", "-e", call).want(0); !strings.Contains(r.stdout, how) {
		t.Errorf("a call without a login: %s%s", r.stdout, r.stderr)
	}

	f.login(s, 0, "guarded")
	if r := f.run("exec", "-e", call).want(0); !strings.Contains(r.stdout, `calls`) {
		t.Errorf("a call after the login: %s%s", r.stdout, r.stderr)
	}
	const admin = "try { return await callMCPTool('guarded__admin', {}) } catch (e) { return e.name + ': ' + e.message + (e instanceof NeedsLoginError && e instanceof ToolError) }"
	if r := f.run("exec", "-e", admin).want(0); !strings.Contains(r.stdout, "NeedsLoginError") || !strings.Contains(r.stdout, "email") || !strings.Contains(r.stdout, "true") {
		t.Errorf("a call that needs more scopes: %s%s", r.stdout, r.stderr)
	}
	f.login(s, 0, "guarded")
	if r := f.run("exec", "-e", "return await callMCPTool('guarded__admin', {})").want(0); !strings.Contains(r.stdout, `calls`) {
		t.Errorf("after the login for more scopes: %s%s", r.stdout, r.stderr)
	}
	s.Revoke()
	if r := f.run("exec", "-e", call).want(0); !strings.Contains(r.stdout, "NeedsLoginError") {
		t.Errorf("a call after the revocation: %s%s", r.stdout, r.stderr)
	}
	f.login(s, 0, "guarded")
	if r := f.run("servers", "logout", "guarded").want(0); !strings.Contains(r.stdout, "logged out of guarded") || s.Valid() != 0 {
		t.Errorf("logout: %s, %d tokens are valid", r.stdout, s.Valid())
	}
	f.run("exec", "-e", "return await callMCPTool('guarded__whoami', {})").want(1)
	f.run("servers", "login", "crm").want(2)
	f.run("servers", "login", "unknown").want(2)
}

// login runs harness servers login with a browser whose user logs in.
func (f *fixture) login(s *oauthtest.Server, code int, name string, args ...string) *result {
	f.t.Helper()
	var stdout, stderr bytes.Buffer
	args = append([]string{"servers", "login", name}, args...)
	visited := make(chan error, 1)
	got := cli.Main(f.t.Context(), cli.World{
		Args: args, Environ: f.environ, Dir: f.dir, Executable: self(f.t), Stdin: strings.NewReader(""),
		Stdout: &stdout, Stderr: &stderr, Now: time.Now,
		Browse: func(ctx context.Context, address string) error {
			go func() { visited <- s.Visit(context.WithoutCancel(ctx), address) }() // The command may end before its page is read.
			return nil
		},
	})
	if err := <-visited; err != nil {
		f.t.Error(err)
	}
	return (&result{f.t, args, got, stdout.String(), stderr.String()}).want(code)
}

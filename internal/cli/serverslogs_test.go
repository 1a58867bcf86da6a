//go:build unix

package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestServersLogs shows the output of a server that does not start, without its secrets and without personal data.
func TestServersLogs(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.environ = append(f.environ, "MAIL_TOKEN=s3cr3t-0123456789")
	f.run("servers", "add", "mail", "-e", "API_TOKEN=${MAIL_TOKEN}", "--", "sh", "-c",
		`printf 'token %s\nof ann.jones@example.com\033[2J\n' "$API_TOKEN" >&2; echo hello; exit 3`).want(0)
	if r := f.run("servers", "logs", "mail").want(0); !strings.Contains(r.stderr, "has printed nothing") {
		t.Errorf("before its start: %s%s", r.stdout, r.stderr)
	}
	f.run("servers", "test", "mail").want(3)
	r := f.run("servers", "logs", "mail").want(0)
	for _, want := range []string{"harness: started as process ", "stderr: token [credential]", "stderr: of ", "stdout: hello", "exited with code 3", "harness: it did not start: "} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("no %q in\n%s", want, r.stdout)
		}
	}
	for _, secret := range []string{"s3cr3t", "ann.jones", "\x1b"} {
		if strings.Contains(r.stdout, secret) {
			t.Errorf("%q is in\n%s", secret, r.stdout)
		}
	}
	if r := f.run("servers", "logs", "mail", "-n", "1").want(0); strings.Count(r.stdout, "\n") != 1 {
		t.Errorf("one line is %q", r.stdout)
	}
	var value struct {
		Server string
		Lines  []string
	}
	f.run("servers", "logs", "mail", "--json").want(0).value(&value)
	if value.Server != "mail" || len(value.Lines) < 4 {
		t.Errorf("got %+v", value)
	}
	f.run("servers", "logs", "mail", "--json", "-f").want(2)
	if r := f.run("servers", "logs", "maill").want(2); !strings.Contains(r.stderr, "did you mean mail?") {
		t.Error(r.stderr)
	}
}

// TestServersRestart restarts a server of a running harness serve: the server then has another process. Without a harness serve, the command fails.
func TestServersRestart(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.addDemo("crm")
	if r := f.run("servers", "restart", "crm").want(3); !strings.Contains(r.stderr, "no harness serve") {
		t.Error(r.stderr)
	}
	f.run("servers", "restart", "cmr").want(2)
	s := f.serve()
	f.environ = append(f.environ, "HARNESS_SERVER_LISTEN="+strings.TrimPrefix(s.url, "http://"))
	var first, second struct {
		State string
		PID   int
	}
	f.run("servers", "restart", "crm", "--json").want(0).value(&first)
	f.run("servers", "restart", "crm", "--json").want(0).value(&second)
	if first.State != "ready" || second.State != "ready" || first.PID == 0 || first.PID == second.PID {
		t.Errorf("got %+v and %+v", first, second)
	}
	if r := f.run("servers", "restart", "crm", "--key", "hk_none").want(3); !strings.Contains(r.stderr, "the role admin") {
		t.Error(r.stderr)
	}
}

// TestUnusedServers runs programs that do not use three of the configured servers. These servers never answer, and they are not even started.
func TestUnusedServers(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.addDemo("database")
	f.run("tools", "list").want(0) // stores the names of the tools of database
	for _, name := range []string{"one", "two", "three"} {
		f.run("servers", "add", name, "--", "sh", "-c", "touch "+filepath.Join(f.dir, "started")+"; sleep 100").want(0)
	}
	f.run("exec", "-e", "return 1").want(0)
	f.run("exec", "-e", "return (await tools.database.query('SELECT 1 AS n'))[0].n").want(0)
	f.run("exec", "-e", "return (await callMCPTool('database__query', {query: 'SELECT 1 AS n'}))[0].n").want(0)
	if _, err := os.Stat(filepath.Join(f.dir, "started")); err == nil {
		t.Error("a server was started that no program uses")
	}
	f.run("servers", "remove", "one").want(0)
	f.run("servers", "remove", "two").want(0)
	f.run("servers", "add", "three", "--replace", "--", "no-such-program").want(0)
	if r := f.run("exec", "-e", "return (await search_mcp_tools('run sql')).length > 0").want(0); !strings.Contains(r.stderr, "server three is not available") {
		t.Errorf("a search does not say which server is missing: %s", r.stderr)
	}
}

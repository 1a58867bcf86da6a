package cli_test

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/testing/dockertest"
	"mcp-code-exec-harness/internal/testing/postgrestest"
)

// TestDoctorOfPersonalData checks the finding of harness doctor about the vault and the key.
func TestDoctorOfPersonalData(t *testing.T) {
	t.Parallel()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	for config, want := range map[string]struct{ state, detail string }{
		"":                                 {"ok", "tokens, with a vault in the store"},
		"pii: {enabled: false}\n":          {"warning", "models, logs and files see it"},
		"pii: {vault: memory}\n":           {"warning", "after a restart"},
		"pii: {keyFile: ./harness.yaml}\n": {"failed", "harness.yaml"},
		"pii: {key: short}\n":              {"failed", "HARNESS_PII_KEY (pii.key)"},
		"pii: {vault: redis}\nredis: {address: '" + nobody + "'}\n": {"failed", nobody},
	} {
		f := setup(t)
		f.write("harness.yaml", config)
		var findings []struct{ Name, State, Detail, Fix string }
		exit := 0
		if want.state == "failed" {
			exit = 3
		}
		f.run("doctor", "--json").want(exit).value(&findings)
		found := false
		for _, is := range findings {
			if is.Name != "personal data" {
				continue
			}
			found = true
			if is.State != want.state || !strings.Contains(is.Detail, filepath.FromSlash(want.detail)) || is.State == "warning" && is.Fix == "" {
				t.Errorf("%q: %+v, want %+v", config, is, want)
			}
		}
		if !found {
			t.Errorf("%q: got %+v", config, findings)
		}
	}
}

// TestDocker builds the image of the docker tier and executes a program in it. harness doctor lists the walls of the tier. Without an engine, the errors say
// what to do.
func TestDocker(t *testing.T) {
	t.Parallel()
	f := setup(t)
	has := func(text string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(text, part) {
				t.Errorf("no %q in %s", part, text)
			}
		}
	}
	f.write("harness.yaml", "sandbox: {tier: docker, docker: {host: 'unix:///none/such'}}\n")
	has(f.run("exec", "-e", "return 1").want(3).stderr, "no Docker engine answers", "sandbox.docker.host")
	has(f.run("sandbox", "build").want(3).stderr, "no Docker engine answers")
	has(f.run("sandbox", "list").want(3).stderr, "no Docker engine answers")
	f.write("harness.yaml", "sandbox: {tier: docker, docker: {host: '"+dockertest.Host(t)+"', runtime: nonesuch}}\n")
	f.run("sandbox", "build").want(0)
	var built struct{ Name, Tag, ID, Node string }
	f.run("sandbox", "build", "--json").want(0).value(&built)
	if built.Name != "mcp-code-exec-harness/sandbox" || built.Tag == "" || built.ID == "" || built.Node == "" {
		t.Errorf("built %+v", built)
	}
	has(f.run("sandbox", "list").want(0).stdout, "WHAT", "image", built.Tag)
	has(f.run("sandbox", "list", "--json").want(0).stdout, `"id":"`+built.ID+`"`, `"used":true`, `"containers":[`)
	has(f.run("exec", "-e", "return 1").want(3).stderr, `no runtime "nonesuch"`)
	f.environ = append(f.environ, "HARNESS_SANDBOX_DOCKER_RUNTIME=runc")
	has(f.run("exec", "--json", "-e", "return 6 * 7").want(0).stdout, `"output":42`, `"sandbox":"docker"`)
	has(f.run("exec", "--json", "-e", "const all = []; for (;;) all.push(new Array(1e5).fill({}))").want(1).stdout, `"kind":"memory"`)
	has(f.run("exec", "--sandbox", "wasm", "--json", "-e", "return 6 * 7").want(0).stdout, `"sandbox":"wasm"`)
	f.run("runs", "list").want(0)
	has(f.run("doctor").stdout, "sandbox docker", "configured; Node.js, a container for each program", "walls around it: no privileges, read-only root, no network, seccomp, limits", "missing: kernel of its own", "sandbox.docker.runtime to runsc")
	has(f.run("doctor", "--json").stdout, `{"name":"seccomp","state":"held"}`, `{"name":"kernel of its own","state":"missing"`)
}

// TestDoctorOfPostgres: harness doctor says what it has found of a server, and what follows if it is away.
func TestDoctorOfPostgres(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t, postgrestest.Fast...)
	f := setup(t)
	f.write("harness.yaml", "store: {url: '"+server.Schema(t)+"'}\n")
	look := func(exit int, want ...string) {
		t.Helper()
		var findings []struct{ Name, State, Detail, Fix string }
		f.run("doctor", "--json").want(exit).value(&findings)
		var got []string
		for _, is := range findings {
			if is.Name == "store" {
				got = append(got, is.State+": "+is.Detail+" "+is.Fix)
			}
		}
		if len(got) != len(want) {
			t.Fatalf("got %q", got)
		}
		for i := range want {
			for _, text := range strings.Split(want[i], " … ") {
				if !strings.Contains(got[i], text) {
					t.Errorf("got %q, want %q", got[i], want[i])
				}
			}
		}
	}
	look(0, "ok: postgres:// … : PostgreSQL … tables of version", "warning: … synchronous_commit … OPERATIONS.md")
	server.Kill()
	look(3, "failed: … connect … tasks wait until it is back … store.url")
}

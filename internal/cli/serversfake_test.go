package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// fakeUvx and fakeDocker stand for the real programs, which would download from the network. They print that they are fakes, and log their arguments. Like the
// real programs, they start only a server that was fetched before. The server is a demo server.
const (
	fakeUvx = `#!/bin/sh
echo "this is a fake uvx" >&2
echo "$*" >> %[1]q/uvx.log
case "$*" in
*no-such-package*) echo "error: no-such-package was not found in the package registry" >&2; exit 1;;
*"python --version") touch %[1]q/uvx.fetched; exit 0;;
esac
[ -e %[1]q/uvx.fetched ] || { echo "fetching while the handshake waits" >&2; exit 1; }
exec %[2]q __demo-server database %[1]q/demo
`
	fakeDocker = `#!/bin/sh
echo "this is a fake docker" >&2
echo "$*" >> %[1]q/docker.log
case "$1" in
image) [ -e %[1]q/docker.fetched ]; exit;;
pull)
	case "$*" in *no/such*) echo "Error response from daemon: pull access denied for no/such" >&2; exit 1;; esac
	touch %[1]q/docker.fetched; exit;;
run) exec %[2]q __demo-server database %[1]q/demo;;
esac
exit 125
`
)

// TestServersOfUvxAndDocker checks that servers of uvx and docker are fetched before they are started, like those of npx. If a server cannot be fetched, the
// error has the program's own words.
func TestServersOfUvxAndDocker(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the fakes are scripts of a Unix shell")
	}
	f := setup(t)
	bin := filepath.Join(f.dir, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"uvx": fakeUvx, "docker": fakeDocker} {
		if err := os.WriteFile(filepath.Join(bin, name), fmt.Appendf(nil, text, f.dir, self(t)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	f.environ = append(f.environ, "PATH="+bin+":"+os.Getenv("PATH"))
	for _, c := range []struct {
		name, broken string
		command      []string
		asked        string
	}{
		{
			"git", "no-such-package was not found",
			[]string{"uvx", "mcp-server-git", "--repository", "."},
			"--from mcp-server-git python --version\nmcp-server-git --repository .\n",
		},
		{
			"boxed", "pull access denied",
			[]string{"docker", "run", "-i", "--rm", "mcp/git:1"},
			"image inspect mcp/git:1\npull mcp/git:1\nrun -i --rm mcp/git:1\n",
		},
	} {
		f.run(append([]string{"servers", "add", c.name, "--"}, c.command...)...).want(0)
		if r := f.run("servers", "test", c.name).want(0); !strings.Contains(r.stdout, "ready") {
			t.Errorf("%s: %s%s", c.name, r.stdout, r.stderr)
		}
		if log := f.read(c.command[0] + ".log"); log != c.asked {
			t.Errorf("%s was asked for\n%s\nwant\n%s", c.command[0], log, c.asked)
		}
		if r := f.run("tools", "call", c.name+"__query", `{"query": "SELECT 40 + 2 AS answer"}`).want(0); !strings.Contains(r.stdout, "42") {
			t.Errorf("%s: %s", c.name, r.stdout)
		}
		absent := strings.NewReplacer("mcp-server-git", "no-such-package", "mcp/git:1", "no/such:1").Replace(strings.Join(c.command, " "))
		if err := os.Remove(filepath.Join(f.dir, c.command[0]+".fetched")); err != nil {
			t.Fatal(err)
		}
		f.run(append([]string{"servers", "add", "absent-" + c.name, "--"}, strings.Fields(absent)...)...).want(0)
		if r := f.run("servers", "test", "absent-"+c.name).want(3); !strings.Contains(r.stdout+r.stderr, c.broken) {
			t.Errorf("%s: %s%s", absent, r.stdout, r.stderr)
		}
	}
}

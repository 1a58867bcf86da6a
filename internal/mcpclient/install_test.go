package mcpclient_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/testing/misbehave"
)

// TestFetches: the command that downloads a package is derived from the command of a server.
func TestFetches(t *testing.T) {
	t.Parallel()
	npx := "npx --yes --foreground-scripts "
	for _, c := range []struct{ command, want string }{
		{"npx -y @a/b ./data", npx + "--package=@a/b -- node --version"},
		{"/usr/bin/npx --yes --registry https://r @a/b@1.0 --flag", "/usr/bin/npx --yes --foreground-scripts --registry https://r --package=@a/b@1.0 -- node --version"},
		{"npx -y -p a --package=b run x", npx + "--package=a --package=b -- node --version"},
		{"npx -y -- a", npx + "--package=a -- node --version"},
		{"npx -c 'a b'", ""},
		{"npx -y", ""},
		{"npm exec a", ""},
		{"uvx mcp-server-git --repo .", "uvx --from mcp-server-git python --version"},
		{"uvx --python 3.12 --from git+https://x y", "uvx --python 3.12 --from git+https://x python --version"},
		{"uv tool run mcp-server-git", "uv tool run --from mcp-server-git python --version"},
		{"uv run server.py", ""},
		{"docker run -i --rm -e A -e B=c ghcr.io/a/b:1 serve", "docker pull ghcr.io/a/b:1"},
		{"docker run --rm -i --platform linux/amd64 --mount=type=bind,src=/a,dst=/b a/b", "docker pull --platform linux/amd64 a/b"},
		{"podman run -i --rm a/b", "podman pull a/b"},
		{"docker run -i --pull never a/b", ""},
		{"docker run --new-option x a/b", ""},
		{"docker exec -i a b", ""},
		{"node server.js", ""},
	} {
		words := strings.Fields(c.command)
		if got := strings.Join(mcpclient.Fetches(words[0], words[1:]...), " "); got != c.want {
			t.Errorf("%s: %q, want %q", c.command, got, c.want)
		}
	}
}

// fakeNPX stands for npx and behaves like it: with node as program it only installs the package; it counts a directory with node_modules as installed; it
// writes .package-lock.json last. Files in DIR make it fail or block. It executes another program if the package is complete.
const fakeNPX = `#!/bin/sh
echo "$*" >> "$DIR/log"
case "$*" in
*"-- node --version")
	[ -e "$DIR/missing" ] && { echo 'npm error 404 Not Found - GET https://r/pkg' >&2; exit 1; }
	[ -d "$PACKAGE/node_modules" ] && exit 0
	mkdir -p "$PACKAGE/node_modules"
	[ -e "$DIR/blocks" ] && { touch "$DIR/blocked"; sleep 1000; }
	touch "$PACKAGE/node_modules/main.js" "$PACKAGE/node_modules/.package-lock.json"
	exit 0;;
esac
[ -e "$PACKAGE/node_modules/main.js" ] || { echo "Error: Cannot find module '$PACKAGE/node_modules/main.js'" >&2; exit 1; }
exec "$SERVER"
`

// fakeUser is a server whose command is the fake npx.
type fakeUser struct {
	t      *testing.T
	dir    string // directory of the fake npx and of the files that control it
	pkg    string // directory in which npx installs the package
	config mcpclient.Config
}

func newFakeUser(t *testing.T) *fakeUser {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the fake npx is a script of a Unix shell")
	}
	u := &fakeUser{t: t, dir: t.TempDir(), config: bad(t, misbehave.Normal)}
	if err := os.WriteFile(filepath.Join(u.dir, "npx"), []byte(fakeNPX), 0o700); err != nil {
		t.Fatal(err)
	}
	env := u.config.Env
	env["PATH"], env["DIR"], env["SERVER"] = u.dir+":"+os.Getenv("PATH"), u.dir, u.config.Command
	env["npm_config_cache"] = filepath.Join(u.dir, "cache")
	u.pkg = mcpclient.PackageDirectory([]string{"npm_config_cache=" + env["npm_config_cache"]}, "-y", "pkg")
	env["PACKAGE"] = u.pkg
	u.config.Command, u.config.Args = "npx", []string{"-y", "pkg"}
	return u
}

func (u *fakeUser) touch(path string) {
	u.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		u.t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		u.t.Fatal(err)
	}
}

// log returns the calls of the fake npx: i for an installation, s for a start.
func (u *fakeUser) log() (asked string) {
	u.t.Helper()
	text, err := os.ReadFile(filepath.Join(u.dir, "log"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		u.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "-- node --version") {
			asked += "i"
		} else {
			asked += "s"
		}
	}
	return asked
}

func (u *fakeUser) exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// TestInstall: a package is installed once before the first start, and not again if it is complete. A package that a killed installer left incomplete is
// repaired.
func TestInstall(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before func(u *fakeUser)
		asked  string
	}{
		"new": {func(*fakeUser) {}, "is"},
		"there": {func(u *fakeUser) {
			u.touch(u.pkg + "/node_modules/main.js")
			u.touch(u.pkg + "/node_modules/.package-lock.json")
		}, "s"},
		"an installer was killed": {func(u *fakeUser) { u.touch(u.pkg + "/node_modules/half.js") }, "iis"},
		"files are missing":       {func(u *fakeUser) { u.touch(u.pkg + "/node_modules/.package-lock.json") }, "ssis"}, // the second start omits server/discover
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newFakeUser(t)
			c.before(u)
			cache := t.TempDir()
			m := setup(t, mcpclient.Options{CacheDir: cache}, u.config)
			mustCall(t, m, "echo", `{}`)
			asked := u.log()
			if name == "files are missing" && asked == "sis" {
				c.asked = "sis" // the process took longer to end than discoverGrace, so there was no start without server/discover
			}
			if asked != c.asked {
				t.Errorf("npx was asked for %q, want %q", asked, c.asked)
			}
			mustCall(t, setup(t, mcpclient.Options{CacheDir: cache}, u.config), "echo", `{}`)
			// Remove the package, although the tools are known.
			if err := os.RemoveAll(u.pkg); err != nil {
				t.Fatal(err)
			}
			mustCall(t, setup(t, mcpclient.Options{CacheDir: cache}, u.config), "echo", `{}`)
			if asked := u.log(); asked != c.asked+"sis" {
				t.Errorf("in all, npx was asked for %q, want %q", asked, c.asked+"sis")
			}
		})
	}
}

// TestInstalledInTheProject: npx uses a package that the project has installed, so nothing is downloaded.
func TestInstalledInTheProject(t *testing.T) {
	t.Parallel()
	u := newFakeUser(t)
	u.config.Cwd = t.TempDir()
	u.touch(u.config.Cwd + "/node_modules/pkg/package.json")
	u.touch(u.pkg + "/node_modules/main.js") // the fake does not know packages of the project
	mustCall(t, setup(t, mcpclient.Options{}, u.config), "echo", `{}`)
	if asked := u.log(); asked != "s" {
		t.Errorf("npx was asked for %q", asked)
	}
}

// TestInstallFails: the reason quotes the installer, and the next attempt installs again.
func TestInstallFails(t *testing.T) {
	t.Parallel()
	u := newFakeUser(t)
	u.touch(filepath.Join(u.dir, "missing"))
	m := setup(t, mcpclient.Options{}, u.config)
	m.Start(ctxFor(t))
	s := status(t, m, "bad")
	wantIn(t, "reason", s.Reason, "it was not installed: npx exited with code 1", "npm error 404 Not Found")
	if s.State != mcpclient.StateFailed || strings.Contains(strings.SplitN(s.Reason, "\n", 2)[0], "404") {
		t.Errorf("got %+v", s) // programs see only the first line of the reason
	}
	if err := os.Remove(filepath.Join(u.dir, "missing")); err != nil {
		t.Fatal(err)
	}
	if err := m.Reconnect(ctxFor(t), "", "bad"); err != nil {
		t.Error(err)
	}
	if asked := u.log(); asked != "iis" {
		t.Errorf("npx was asked for %q", asked)
	}
}

// TestInstallIsBounded: InstallTimeout ends an installer, StartupTimeout does not, and no incomplete package is left.
func TestInstallIsBounded(t *testing.T) {
	t.Parallel()
	u := newFakeUser(t)
	u.touch(filepath.Join(u.dir, "blocks"))
	u.config.InstallTimeout = 200 * time.Millisecond
	m := setup(t, mcpclient.Options{}, u.config)
	m.Start(ctxFor(t))
	wantIn(t, "reason", status(t, m, "bad").Reason, "it was not installed within 200ms", "installTimeout", "with npx")
	if u.exists(u.pkg) {
		t.Error("half of the package is still there")
	}
}

// TestInstallIsStopped: Close ends a running installer, and no incomplete package is left.
func TestInstallIsStopped(t *testing.T) {
	t.Parallel()
	u := newFakeUser(t)
	u.touch(filepath.Join(u.dir, "blocks"))
	u.config.StartupTimeout = time.Millisecond // StartupTimeout does not apply during the installation
	m := setup(t, mcpclient.Options{}, u.config)
	ctx, cancel := context.WithCancel(t.Context())
	started := make(chan struct{})
	go func() {
		defer close(started)
		m.Start(ctx)
	}()
	eventually(t, "the installer runs", func() bool { return u.exists(filepath.Join(u.dir, "blocked")) })
	if s := status(t, m, "bad"); s.State != mcpclient.StateInstalling {
		t.Errorf("state %s", s.State)
	}
	if err := m.Close(ctxFor(t)); err != nil {
		t.Error(err)
	}
	cancel()
	<-started
	if u.exists(u.pkg) {
		t.Error("half of the package is still there")
	}
}

// fakeDocker stands for docker: an image exists once it was pulled.
const fakeDocker = `#!/bin/sh
echo "$1 $2" >> "$DIR/log"
case "$1" in
image) [ -e "$DIR/image" ] || exit 1;;
pull) touch "$DIR/image";;
run) [ -e "$DIR/image" ] || { echo "no image" >&2; exit 125; }; exec "$SERVER";;
esac
`

func TestImagesArePulled(t *testing.T) {
	t.Parallel()
	u := newFakeUser(t)
	if err := os.WriteFile(filepath.Join(u.dir, "docker"), []byte(fakeDocker), 0o700); err != nil {
		t.Fatal(err)
	}
	u.config.Command, u.config.Args = "docker", []string{"run", "-i", "--rm", "a/b:1"}
	mustCall(t, setup(t, mcpclient.Options{}, u.config), "echo", `{}`)
	mustCall(t, setup(t, mcpclient.Options{}, u.config), "echo", `{}`)
	text, err := os.ReadFile(filepath.Join(u.dir, "log"))
	if want := "image inspect\npull a/b:1\nrun -i\nimage inspect\nrun -i\n"; err != nil || string(text) != want {
		t.Errorf("docker was asked for %q, %v, want %q", text, err, want)
	}
}

// TestInstallsOfOnePackage: servers of one package that start at the same time install the package once. Two managers share no more state than two
// processes do.
func TestInstallsOfOnePackage(t *testing.T) {
	t.Parallel()
	u := newFakeUser(t)
	configs := []mcpclient.Config{u.config, u.config, u.config}
	for i := range configs {
		configs[i].Name = "bad" + string(rune('a'+i))
	}
	var starts sync.WaitGroup
	for _, of := range [][]mcpclient.Config{configs[:2], configs[2:]} {
		m := setup(t, mcpclient.Options{}, of...)
		starts.Go(func() {
			for _, s := range m.Start(ctxFor(t)) {
				if s.State != mcpclient.StateReady {
					t.Errorf("%s: %s, %s", s.Name, s.State, s.Reason)
				}
			}
		})
	}
	starts.Wait()
	if asked := u.log(); strings.Count(asked, "i") != 1 || strings.Count(asked, "s") != 3 {
		t.Errorf("npx was asked for %q", asked)
	}
}

package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestServerSandbox(t *testing.T) {
	t.Parallel()
	e := world(t, map[string]string{
		"work/harness.yaml": `
mcpServers:
  a: {command: x, sandbox: {}}
  b: {command: x, sandbox: {network: host, read: [./servers, "~/tools", "${LIB}"], write: data}}
  gone: {command: x, sandbox: {write: [./nowhere]}}
  all: {command: x, sandbox: {read: /}}
  processes: {command: x, sandbox: {read: [/proc/self]}}
  loose: {command: x, sandbox: {write: data, read: data/out}}
  unset: {command: x, sandbox: {read: ["${NOWHERE}"]}}
  none: {command: x}
`,
		"work/servers/x": "", "home/tools/x": "", "work/data/x": "",
	})
	e.Environ = []string{"LIB=/usr/lib"}
	if err := os.Symlink(e.HomeDir, filepath.Join(e.Cwd, "data", "out")); err != nil {
		t.Fatal(err)
	}
	c, _ := load(t, e)
	at := func(p string) string { return filepath.Join(e.Cwd, p) }
	want := map[string]*ServerSandbox{
		"a": {Network: "none"},
		"b": {Network: "host", Read: []string{at("servers"), filepath.Join(e.HomeDir, "tools"), "/usr/lib"}, Write: []string{at("data")}},
	}
	problems := map[string]string{
		"gone": "mcpServers.gone.sandbox: " + at("nowhere") + " does not exist; create it", "all": "/ would leave no walls", "processes": "/proc/self would leave no walls",
		"loose": "which the server may change", "unset": "NOWHERE is not set",
	}
	for _, s := range c.MCPServers {
		switch problem := problems[s.Name]; {
		case problem != "":
			if s.Err == nil || !strings.Contains(s.Err.Error(), problem) {
				t.Errorf("%s: %v", s.Name, s.Err)
			}
		case s.Err != nil:
			t.Errorf("%s: %v", s.Name, s.Err)
		default:
			if diff := cmp.Diff(want[s.Name], s.Sandbox); diff != "" {
				t.Errorf("%s: %s", s.Name, diff)
			}
		}
	}
}

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
  b: {command: x, sandbox: {network: host, read: [./servers, "~/tools", "${LIB}"], write: files}}
  gone: {command: x, sandbox: {write: [./nowhere]}}
  all: {command: x, sandbox: {read: /}}
  processes: {command: x, sandbox: {read: [/proc/self]}}
  loose: {command: x, sandbox: {write: files, read: files/out}}
  unset: {command: x, sandbox: {read: ["${NOWHERE}"]}}
  own: {command: x, sandbox: {write: [.]}}
  none: {command: x}
  curious: {command: x, sandbox: {read: [.]}}
`,
		"work/servers/x": "", "home/tools/x": "", "work/files/x": "",
	})
	e.Environ = []string{"LIB=/usr/lib"}
	if err := os.Symlink(e.HomeDir, filepath.Join(e.Cwd, "files", "out")); err != nil {
		t.Fatal(err)
	}
	c, warnings := load(t, e)
	if len(warnings) != 2 || !strings.Contains(warnings[0], "mcpServers.curious.sandbox.read: the server can read "+e.Cwd+"/harness.yaml") {
		t.Errorf("warnings: %q", warnings)
	}
	at := func(p string) string { return filepath.Join(e.Cwd, p) }
	want := map[string]*ServerSandbox{
		"a": {Network: "none"}, "curious": {Network: "none", Read: []string{e.Cwd}},
		"b": {Network: "host", Read: []string{at("servers"), filepath.Join(e.HomeDir, "tools"), "/usr/lib"}, Write: []string{at("files")}},
	}
	problems := map[string]string{
		"gone": "mcpServers.gone.sandbox: " + at("nowhere") + " does not exist; create it", "all": "/ would leave no walls", "processes": "/proc/self would leave no walls",
		"own": "sandbox.write: the server could change " + at("harness.yaml"), "loose": "which the server may change", "unset": "NOWHERE is not set",
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

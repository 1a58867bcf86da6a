package config

import (
	"path/filepath"
	"testing"
)

// TestSameFromOtherDirectory checks that Same compares the settings, and not the names of the file in entries and errors, which depend on the working
// directory.
func TestSameFromOtherDirectory(t *testing.T) {
	t.Parallel()
	const text = "mcpServers:\n  crm: {command: crm, envFile: none}\n  web: {command: web}\n"
	e := world(t, map[string]string{"work/harness.yaml": text, "work/below/note.txt": ""})
	here, _ := load(t, e)
	if here.MCPServers[0].Err == nil {
		t.Fatal("no server has an error")
	}
	below := e
	below.Cwd = filepath.Join(e.Cwd, "below")
	if c, _ := load(t, below); !here.Same(c) {
		t.Error("from the directory below, the configuration is another one")
	}
	e.Flags = map[string]string{"sandbox.maxCalls": "7"}
	if c, _ := load(t, e); here.Same(c) {
		t.Error("with another setting, the configuration is the same")
	}
	e.Flags = nil
	c, _ := load(t, e)
	c.MCPServers[1].Args = []string{"x"}
	if here.Same(c) {
		t.Error("with another argument of a server, the configuration is the same")
	}
	c, _ = load(t, e)
	if c.MCPServers[0].Err = nil; here.Same(c) {
		t.Error("with a server that can be used, the configuration is the same")
	}
}

//go:build unix

package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestExposedFiles checks that files and directories that can start programs are refused if any user other than this one and root can change them or a
// directory above them. The error names the file and the remedy. A file whose content the user has trusted may be anywhere, because a change ends the trust.
func TestExposedFiles(t *testing.T) {
	t.Parallel()
	const yaml = "mcpServers: {a: {command: x, envFile: vars}}\n"
	for name, c := range map[string]struct {
		path  string // path below the home directory, which is also the working directory
		mode  os.FileMode
		owner int // user id of the owner, or minus a group id; 0: unchanged
		want  string
	}{
		"harness.yaml that all can write":              {path: "harness.yaml", mode: 0o666, want: "chmod o-w"},
		"harness.yaml that a group can write":          {path: "harness.yaml", mode: 0o664, owner: -4243, want: "chmod g-w"},
		"harness.yaml of another user":                 {path: "harness.yaml", mode: 0o644, owner: 4242, want: "chown"},
		".env that all can write":                      {path: ".env", mode: 0o666, want: "chmod o-w"},
		".env of another user":                         {path: ".env", mode: 0o600, owner: 4242, want: "chown"},
		"the directory, which all can write":           {path: ".", mode: 0o777, want: "chmod o-w"},
		"the directory of another user":                {path: ".", mode: 0o755, owner: 4242, want: "chown"},
		"data of another user":                         {path: "data", mode: 0o755, owner: 4242, want: "chown"},
		"data that all can write":                      {path: "data", mode: 0o777, want: "chmod o-w"},
		"skills that all can write":                    {path: "data/skills", mode: 0o777, want: "chmod o-w"},
		"a store of another user":                      {path: "data/harness.db", mode: 0o644, owner: 4242, want: "chown"},
		"the user's harness.yaml that all can write":   {path: ".config/harness/harness.yaml", mode: 0o666},
		"a directory that all can write, with the bit": {path: ".", mode: 0o777 | os.ModeSticky},
		"what others can only read":                    {path: "harness.yaml", mode: 0o644},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.owner != 0 && os.Getuid() != 0 {
				t.Skip("only root can give files away")
			}
			e := world(t, map[string]string{
				"work/harness.yaml": yaml, "work/.env": "A=b\n", "work/vars": "C=d\n", "work/data/skills/x": "", "work/data/harness.db": "",
				"work/.config/harness/harness.yaml": yaml,
			})
			e.HomeDir, e.Trust = e.Cwd, nil
			path := filepath.Join(e.Cwd, c.path)
			if c.owner > 0 {
				if err := os.Chown(path, c.owner, c.owner); err != nil {
					t.Fatal(err)
				}
			} else if c.owner < 0 {
				if err := os.Chown(path, -1, -c.owner); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Chmod(path, c.mode); err != nil {
				t.Fatal(err)
			}
			_, _, err := Load(e)
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestExposedEnvFile checks that an envFile that other users can change makes its own server unusable, and no other server.
func TestExposedEnvFile(t *testing.T) {
	t.Parallel()
	e := world(t, map[string]string{"work/harness.yaml": "mcpServers: {a: {command: x, envFile: vars}, b: {command: y}}\n", "work/vars": "C=d\n"})
	if err := os.Chmod(filepath.Join(e.Cwd, "vars"), 0o666); err != nil {
		t.Fatal(err)
	}
	c, _ := load(t, e)
	a, _ := c.MCPServer("a")
	b, _ := c.MCPServer("b")
	if a.Err == nil || !strings.Contains(a.Err.Error(), "chmod o-w") || len(a.Env) > 0 || b.Err != nil {
		t.Errorf("got %v, %v, %v", a.Err, a.Env, b.Err)
	}
}

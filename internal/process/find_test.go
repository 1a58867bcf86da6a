package process

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestFind finds programs by the rules of Unix and of Windows, with directories and environments that the test makes.
func TestFind(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("files have no mode there; run this test on unix, where it tests both")
	}
	dir := t.TempDir()
	for name, mode := range map[string]fs.FileMode{
		"a/tool": 0o755, "b/tool": 0o755, "a/data": 0o644, "b/data": 0o755, "a/secret": 0o644,
		"a/npx": 0o644, "a/npx.cmd": 0o644, "b/npx.exe": 0o644, "a/run.py": 0o644, "a/node.v1.exe": 0o644, "work/local": 0o755,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "a", "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	paths := func(names ...string) string {
		for i, n := range names {
			if n != "." {
				names[i] = filepath.Join(dir, n)
			}
		}
		return strings.Join(names, string(filepath.ListSeparator))
	}
	for name, c := range map[string]struct {
		command string
		windows bool
		env     []string
		want    string // path below the test's directory
		err     error
	}{
		"first in PATH":          {"tool", false, []string{"PATH=" + paths("b", "a")}, "b/tool", nil},
		"last PATH counts":       {"tool", false, []string{"PATH=" + paths("b"), "PATH=" + paths("a")}, "a/tool", nil},
		"not executable":         {"data", false, []string{"PATH=" + paths("a", "b")}, "b/data", nil},
		"nowhere executable":     {"secret", false, []string{"PATH=" + paths("a", "b")}, "", fs.ErrPermission},
		"folder":                 {"folder", false, []string{"PATH=" + paths("a")}, "", exec.ErrNotFound},
		"absent":                 {"nothing", false, []string{"PATH=" + paths("a")}, "", exec.ErrNotFound},
		"empty":                  {"", false, []string{"PATH=" + paths("a")}, "", exec.ErrNotFound},
		"no PATH":                {"tool", false, []string{"Path=" + paths("a")}, "", exec.ErrNotFound},
		"not in the work folder": {"local", false, []string{"PATH=" + paths(".", "a") + string(filepath.ListSeparator)}, "", exec.ErrNotFound},
		"relative":               {"./local", false, nil, "work/local", nil},
		"relative, above":        {"../a/tool", false, nil, "a/tool", nil},
		"absolute":               {filepath.Join(dir, "b/tool"), false, nil, "b/tool", nil},
		"absolute, absent":       {filepath.Join(dir, "x/tool"), false, nil, "", exec.ErrNotFound},
		"PATHEXT":                {"npx", true, []string{"Path=" + paths("a", "b"), "PATHEXT=.EXE;.CMD"}, "a/npx.cmd", nil},
		"PATHEXT's default":      {"NPX", true, []string{"Path=" + paths("b")}, "", exec.ErrNotFound}, // only Windows ignores case in names
		"order of PATHEXT":       {"../b/npx", true, nil, "b/npx.exe", nil},
		"extension given":        {"npx.cmd", true, []string{"PATH=" + paths("b", "a")}, "a/npx.cmd", nil},
		"dot in the name":        {"node.v1", true, []string{"PATH=" + paths("a")}, "a/node.v1.exe", nil},
		"not for unix":           {"npx", false, []string{"PATH=" + paths("a", "b")}, "", fs.ErrPermission},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := find(c.command, filepath.Join(dir, "work"), c.env, c.windows)
			want := ""
			if c.want != "" {
				want = filepath.Join(dir, c.want)
			}
			if got != want || !errors.Is(err, c.err) {
				t.Errorf("got %q, %v; want %q, %v", got, err, want, c.err)
			}
			if err != nil && !strings.Contains(err.Error(), c.command) {
				t.Errorf("the error names no command: %v", err)
			}
		})
	}
}

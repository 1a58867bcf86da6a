package files

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

// What a directory of the host has under a reserved name is neither seen nor reached, and does not hide what other users share.
func TestShared(t *testing.T) {
	t.Parallel()
	_, own, dir := setup(t, Options{Section: "skills", Reserved: SharedPrefix})
	_, work, _ := setup(t, Options{})
	outside := filepath.Join(t.TempDir(), "outside")
	for _, name := range []string{filepath.Join(dir, "@bob", "lib.js"), filepath.Join(dir, "@eve", "lib.js"), filepath.Join(dir, "own.js"), filepath.Join(outside, "lib.js")} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte("planted"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, filepath.Join(dir, "@link")); err != nil {
		t.Log(err) // Windows may not allow it.
	}
	s := NewSpace(own, work, nil)
	const top = `{"path":"/skills","recursive":true}`
	if got := do(t, s, "readdir", top); strings.Contains(got, "@") || !strings.Contains(got, "own.js") {
		t.Errorf("a user whom nobody shares anything with sees %s", got)
	}
	for _, p := range []string{"@bob/lib.js", "@eve/lib.js", "@link/lib.js", "./@bob/lib.js", "x/../@bob/lib.js", "\uff20bob/lib.js", "\ufe6bbob/lib.js"} {
		for _, op := range []string{"readFile", "writeFile", "deleteFile"} {
			if got := do(t, s, op, `{"path":"/skills/`+p+`","text":"x"}`); !strings.HasPrefix(got, "EINVAL: ") {
				t.Errorf("%s %s: %s", op, p, got)
			}
		}
	}
	s.Shared = tree{fstest.MapFS{"@bob/lib.js": {Data: []byte("shared")}, "@bob/data/a.txt": {Data: []byte("a")}}}
	if got := do(t, s, "readFile", `{"path":"/skills/@bob/lib.js"}`); got != `{"text":"shared"}` {
		t.Errorf("read %s", got)
	}
	if got := do(t, s, "readdir", top); !strings.Contains(got, `"/skills/@bob"`) || strings.Contains(got, "@bob/") || strings.Contains(got, "@eve") {
		t.Errorf("the top has %s", got)
	}
	if got := do(t, s, "readdir", `{"path":"/skills/@bob","recursive":true}`); !strings.Contains(got, `{"name":"data/a.txt","path":"/skills/@bob/data/a.txt"`) {
		t.Errorf("the directory of bob has %s", got)
	}
	for _, p := range []string{"@eve/lib.js", "@link/lib.js", "@bob/../@eve/lib.js", "@bob/none.js"} {
		if got := do(t, s, "readFile", `{"path":"/skills/`+p+`"}`); !strings.HasPrefix(got, "ENOENT: ") {
			t.Errorf("%s: %s", p, got)
		}
	}
	if got := do(t, s, "rename", `{"from":"/skills/own.js","to":"/skills/@bob/lib.js"}`); !strings.HasPrefix(got, "EACCES: ") {
		t.Errorf("rename: %s", got)
	}
	if text, err := os.ReadFile(filepath.Join(outside, "lib.js")); err != nil || string(text) != "planted" {
		t.Errorf("outside: %q, %v", text, err)
	}
}

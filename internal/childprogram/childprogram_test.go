package childprogram

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/process"
	"mcp-code-exec-harness/internal/sandbox/wasm/worker"
)

func TestMain(m *testing.M) {
	if code, ok := Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// embed makes this test binary the embedded program.
func embed(t *testing.T) (self string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(w, f); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	before := embedded
	embedded = packed.Bytes()
	t.Cleanup(func() { embedded = before })
	return self
}

// TestUnpacked: the embedded program is unpacked once, only its user can access it, and it has the internal commands.
func TestUnpacked(t *testing.T) {
	self := embed(t)
	dir := filepath.Join(t.TempDir(), "cache")
	path, args := New(dir, process.SelfAt(self, "own"))()
	if filepath.Dir(path) != dir || len(args) != 0 {
		t.Fatalf("it is %s %q", path, args)
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "windows" && before.Mode() != 0o700 {
		t.Errorf("its mode is %s", before.Mode())
	}
	out, err := exec.Command(path, worker.Command).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "internal") {
		t.Errorf("a worker without settings: %s, %v", out, err)
	}
	again, _ := New(dir, process.SelfAt(self))()
	if after, err := os.Stat(path); again != path || err != nil || !os.SameFile(before, after) {
		t.Errorf("another harness has %s: %v", again, err)
	}
}

// TestReplaced: a file that differs from the unpacked program is not executed.
func TestReplaced(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no modes of files")
	}
	self := embed(t)
	dir := t.TempDir()
	path, _ := New(dir, process.SelfAt(self))()
	whole, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func() error{
		"a part":           func() error { return os.Truncate(path, 1000) },
		"others may write": func() error { return os.Chmod(path, 0o777) }, //nolint:gosec // the fault that is tested
		"a link": func() error {
			if err := os.Rename(path, path+".moved"); err != nil {
				return err
			}
			return os.Symlink(path+".moved", path)
		},
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if again, args := New(dir, process.SelfAt(self))(); again != path || len(args) != 0 {
			t.Errorf("%s: the program is %s %q", name, again, args)
		}
		if info, err := os.Lstat(path); err != nil || info.Mode() != 0o700 || info.Size() != whole.Size() {
			t.Errorf("%s: the file is %v, %v", name, info, err)
		}
	}
}

// TestOwn: where the program cannot be executed, child processes execute the harness's own binary.
func TestOwn(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no modes of files")
	}
	self := embed(t)
	own := func(program process.Self) bool {
		path, args := program()
		return path == self && len(args) == 1 && args[0] == "own"
	}
	dir := t.TempDir()
	program := New(dir, process.SelfAt(self, "own"))
	path, _ := program()
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if !own(program) {
		t.Error("a file that cannot be executed is used")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if !own(program) {
		t.Error("a file that was removed is used")
	}
	shared := t.TempDir()
	if err := os.Chmod(shared, 0o777); err != nil { //nolint:gosec // the fault that is tested
		t.Fatal(err)
	}
	if !own(New(shared, process.SelfAt(self, "own"))) {
		t.Error("a program in a directory that others can write to is used")
	}
	if !own(New("", process.SelfAt(self, "own"))) {
		t.Error("without a directory there is a program")
	}
	embedded = nil
	if !own(New(dir, process.SelfAt(self, "own"))) {
		t.Error("without an embedded program there is one")
	}
}

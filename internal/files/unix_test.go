//go:build !windows

package files

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestForeignFilesAreInvisible checks that files with names that Windows cannot store, and special files, count in the quota but cannot be listed or named.
func TestForeignFilesAreInvisible(t *testing.T) {
	t.Parallel()
	_, d, host := setup(t, Options{})
	hostFile(t, "1", host, "good")
	hostFile(t, "22", host, "NUL")
	hostFile(t, "333", host, "a:b")
	if err := syscall.Mkfifo(filepath.Join(host, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := names(t, d); got != "good" {
		t.Errorf("listing is %q", got)
	}
	_, err := d.ReadFile("pipe", 0, -1)
	wantCode(t, err, Denied)
	wantCode(t, d.WriteFile("pipe", nil), Denied)
	wantUsage(t, d, Usage{Bytes: 6, Files: 4})
}

func TestModeIsKept(t *testing.T) {
	t.Parallel()
	_, d, host := setup(t, Options{Durable: true})
	write(t, d, "new", "1")
	file := hostFile(t, "old", host, "sub", "skill.js")
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	write(t, d, "sub/skill.js", "new")
	for name, want := range map[string]fs.FileMode{"sub/skill.js": 0o644, "new": 0o600} {
		info, err := os.Stat(filepath.Join(host, name))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("mode of %s is %v, %v, want %v", name, info.Mode(), err, want)
		}
	}
}

// TestKilledWriter kills a process that replaces a file again and again. The file is always whole. The leftovers of the process are invisible, do not count,
// and are removed once they are old.
func TestKilledWriter(t *testing.T) {
	const size = 2 << 20
	if dir := os.Getenv("FILES_TEST_WRITE"); dir != "" {
		b, err := OpenBase(dir, Options{Section: "workspace"})
		if err != nil {
			t.Fatal(err)
		}
		d, err := b.Open("alice")
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; ; i++ {
			write(t, d, "file", strings.Repeat(string(rune('a'+i%26)), size))
			fmt.Println("wrote")
		}
	}
	t.Parallel()
	_, d, host := setup(t, Options{})
	for round := range 5 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilledWriter$")
		cmd.Env = append(os.Environ(), "FILES_TEST_WRITE="+filepath.Dir(host))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for range 3 + round { // the process keeps writing, so the kill may come at any moment
			lines.Scan()
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // the error reports the kill
		got, err := d.ReadFile("file", 0, -1)
		if err != nil || len(got) != size || string(got) != strings.Repeat(string(got[:1]), size) {
			t.Fatalf("after the kill the file has %d bytes, %v", len(got), err)
		}
	}
	hostFile(t, "half", host, tempPrefix+"LEFTOVER") // at least one leftover, even if the kills left none
	if got := names(t, d); got != "file" {
		t.Errorf("listing is %q", got)
	}
	_, err := d.ReadFile(tempPrefix+"LEFTOVER", 0, -1)
	wantCode(t, err, Invalid)
	wantUsage(t, d, Usage{Bytes: size, Files: 1})
	left, err := filepath.Glob(filepath.Join(host, tempPrefix+"*"))
	if err != nil || len(left) == 0 {
		t.Fatalf("leftovers: %v, %v; a young one may belong to a living process and stays", left, err)
	}
	for _, file := range left {
		age(t, file, tempAge+time.Second)
	}
	wantUsage(t, d, Usage{Bytes: size, Files: 1})
	if left, err = filepath.Glob(filepath.Join(host, tempPrefix+"*")); err != nil || len(left) != 0 {
		t.Errorf("old leftovers are still there: %v, %v", left, err)
	}
}

// TestHardLinks checks that a file with several names is neither listed nor read nor changed, because one of its names may be outside the directory.
func TestHardLinks(t *testing.T) {
	t.Parallel()
	_, d, host := setup(t, Options{})
	secret := hostFile(t, "secret", t.TempDir(), "secret.txt")
	write(t, d, "mine", "x")
	if err := os.Link(secret, filepath.Join(host, "linked")); err != nil {
		t.Fatal(err)
	}
	_, err := d.ReadFile("linked", 0, -1)
	wantCode(t, err, Denied)
	wantCode(t, d.WriteFile("linked", []byte("owned")), Denied)
	wantCode(t, d.AppendFile(t.Context(), "linked", []byte("owned")), Denied)
	wantCode(t, Copy(t.Context(), d, "copy", d, "linked"), Denied)
	if got := names(t, d); got != "mine" {
		t.Errorf("listed are %q", got)
	}
	if data, err := os.ReadFile(secret); string(data) != "secret" || err != nil {
		t.Errorf("the file outside holds %q, %v", data, err)
	}
}

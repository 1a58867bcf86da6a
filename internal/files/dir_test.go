package files

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/id"
)

func TestDir(t *testing.T) {
	both(t, func(t *testing.T, s storage) {
		_, d := s.setup(t, "workspace", Options{})

		if got := names(t, d); got != "" {
			t.Errorf("a new directory lists %q", got)
		}
		if e, err := d.Stat("."); err != nil || !e.IsDir {
			t.Errorf("Stat(.) = %+v, %v", e, err)
		}

		write(t, d, "a/b/c.txt", "hello")
		write(t, d, "z.txt", "")
		write(t, d, "a/b/c.txt", "hello world")
		if err := d.AppendFile(t.Context(), "a/b/c.txt", []byte("!")); err != nil {
			t.Fatal(err)
		}
		if err := d.AppendFile(t.Context(), "log", []byte("one")); err != nil {
			t.Fatal(err)
		}
		wantFile(t, d, "a/b/c.txt", "hello world!")
		if got, err := d.ReadFile("a/b/c.txt", 6, 5); string(got) != "world" || err != nil {
			t.Errorf("range is %q, %v", got, err)
		}
		if got, err := d.ReadFile("a/b/c.txt", 99, 5); len(got) != 0 || err != nil {
			t.Errorf("range behind the end is %q, %v", got, err)
		}
		if got := names(t, d); got != "a a/b a/b/c.txt log z.txt" {
			t.Errorf("listing is %q", got)
		}
		if list, err := d.ReadDir(t.Context(), "a", false); err != nil || len(list) != 1 || list[0].Path != "a/b" || !list[0].IsDir {
			t.Errorf("ReadDir(a) = %+v, %v", list, err)
		}
		wantUsage(t, d, Usage{Bytes: 15, Files: 5})

		if err := Copy(t.Context(), d, "copy.txt", d, "log"); err != nil {
			t.Fatal(err)
		}
		if err := d.Rename(t.Context(), "copy.txt", "a/log"); err != nil {
			t.Fatal(err)
		}
		if err := d.Rename(t.Context(), "log", "a/log"); err != nil { // replaces the file
			t.Fatal(err)
		}
		if err := d.Mkdir(t.Context(), "empty", false); err != nil {
			t.Fatal(err)
		}
		if err := d.Rename(t.Context(), "a", "empty"); err != nil { // replaces the empty directory
			t.Fatal(err)
		}
		if got := names(t, d); got != "empty empty/b empty/b/c.txt empty/log z.txt" {
			t.Errorf("listing is %q", got)
		}
		wantUsage(t, d, Usage{Bytes: 15, Files: 5})

		if err := d.Delete("z.txt"); err != nil {
			t.Fatal(err)
		}
		if err := d.Delete("z.txt"); err != nil {
			t.Errorf("deleting what is absent: %v", err)
		}
		if err := d.Remove(t.Context(), "empty/b", true, true); err != nil {
			t.Fatal(err)
		}
		if err := d.Remove(t.Context(), "empty/b", true, true); err != nil {
			t.Errorf("removing what is absent: %v", err)
		}
		wantUsage(t, d, Usage{Bytes: 3, Files: 2})
	})
}

func TestDirErrors(t *testing.T) {
	both(t, func(t *testing.T, s storage) {
		_, d := s.setup(t, "workspace", Options{})
		write(t, d, "file", "x")
		write(t, d, "dir/inner", "x")
		for what, c := range map[string]struct {
			code string
			do   func() error
		}{
			"read absent":        {NotFound, func() error { _, err := d.ReadFile("no", 0, -1); return err }},
			"read directory":     {IsDirectory, func() error { _, err := d.ReadFile("dir", 0, -1); return err }},
			"read the top":       {IsDirectory, func() error { _, err := d.ReadFile("", 0, -1); return err }},
			"read below a file":  {NotDir, func() error { _, err := d.ReadFile("file/x", 0, -1); return err }},
			"negative offset":    {Invalid, func() error { _, err := d.ReadFile("file", -1, 1); return err }},
			"list absent":        {NotFound, func() error { _, err := d.ReadDir(t.Context(), "no", false); return err }},
			"list a file":        {NotDir, func() error { _, err := d.ReadDir(t.Context(), "file", false); return err }},
			"stat absent":        {NotFound, func() error { _, err := d.Stat("no"); return err }},
			"write a directory":  {IsDirectory, func() error { return d.WriteFile("dir", nil) }},
			"write the top":      {IsDirectory, func() error { return d.WriteFile(".", nil) }},
			"write below a file": {NotDir, func() error { return d.WriteFile("file/x/y", nil) }},
			"append directory":   {IsDirectory, func() error { return d.AppendFile(t.Context(), "dir", nil) }},
			"mkdir existing":     {Exists, func() error { return d.Mkdir(t.Context(), "dir", false) }},
			"mkdir over a file":  {Exists, func() error { return d.Mkdir(t.Context(), "file", true) }},
			"mkdir no parent":    {NotFound, func() error { return d.Mkdir(t.Context(), "x/y", false) }},
			"delete directory":   {IsDirectory, func() error { return d.Delete("dir") }},
			"rmdir full":         {NotEmpty, func() error { return d.Remove(t.Context(), "dir", false, false) }},
			"rmdir absent":       {NotFound, func() error { return d.Remove(t.Context(), "no", false, false) }},
			"remove the top":     {Denied, func() error { return d.Remove(t.Context(), "", true, true) }},
			"rename absent":      {NotFound, func() error { return d.Rename(t.Context(), "no", "x") }},
			"rename no parent":   {NotFound, func() error { return d.Rename(t.Context(), "file", "x/y") }},
			"rename to dir":      {IsDirectory, func() error { return d.Rename(t.Context(), "file", "dir") }},
			"rename dir to file": {NotDir, func() error { return d.Rename(t.Context(), "dir", "file") }},
			"rename into itself": {Invalid, func() error { return d.Rename(t.Context(), "dir", "dir/sub") }},
			"rename the top":     {Denied, func() error { return d.Rename(t.Context(), ".", "x") }},
			"rename out":         {Invalid, func() error { return d.Rename(t.Context(), "file", "../x") }},
			"copy a directory":   {IsDirectory, func() error { return Copy(t.Context(), d, "x", d, "dir") }},
			"copy out":           {Invalid, func() error { return Copy(t.Context(), d, "../x", d, "file") }},
		} {
			t.Run(what, func(t *testing.T) { wantCode(t, c.do(), c.code) })
		}
		if got := names(t, d); got != "dir dir/inner file" {
			t.Errorf("after the failures the listing is %q", got)
		}
		wantUsage(t, d, Usage{Bytes: 2, Files: 3})
	})
}

// TestLinks checks that symbolic links of any place and target are invisible and lead nowhere.
func TestLinks(t *testing.T) {
	t.Parallel()
	if os.Symlink("x", filepath.Join(t.TempDir(), "l")) != nil {
		missing(t, "symbolic links need the Windows developer mode: Settings, System, For developers")
	}
	b, d, host := setup(t, Options{})
	secret := hostFile(t, "secret", t.TempDir(), "secret.txt")
	write(t, d, "real/inside.txt", "inside")
	link := func(target, name string) {
		if err := os.Symlink(target, filepath.Join(host, name)); err != nil {
			t.Fatal(err)
		}
	}
	link(secret, "abs")
	link(filepath.Dir(secret), "absdir")
	link("../../secret.txt", "rel")
	link("real/inside.txt", "in")
	link("real", "indir")
	link("loop", "loop")
	link("nowhere", "dangling")

	for _, p := range []string{"abs", "absdir/secret.txt", "rel", "in", "indir/inside.txt", "loop", "dangling"} {
		_, err := d.ReadFile(p, 0, -1)
		wantCode(t, err, Denied)
		_, err = d.Stat(p)
		wantCode(t, err, Denied)
		wantCode(t, d.WriteFile(p, []byte("owned")), Denied)
		wantCode(t, d.AppendFile(t.Context(), p, []byte("owned")), Denied)
		wantCode(t, d.Delete(p), Denied)
		wantCode(t, d.Rename(t.Context(), "real/inside.txt", p), Denied)
		wantCode(t, Copy(t.Context(), d, p, d, "real/inside.txt"), Denied)
	}
	for _, p := range []string{"absdir", "indir"} {
		_, err := d.ReadDir(t.Context(), p, true)
		wantCode(t, err, Denied)
		wantCode(t, d.Remove(t.Context(), p, true, true), Denied)
		wantCode(t, d.Mkdir(t.Context(), p+"/sub", true), Denied)
	}
	if got := names(t, d); got != "real real/inside.txt" {
		t.Errorf("listing is %q", got)
	}

	// Remove removes a link itself and not its target.
	write(t, d, "real/x", "x")
	if err := os.Symlink(filepath.Dir(secret), filepath.Join(host, "real", "link")); err != nil {
		t.Fatal(err)
	}
	if err := d.Remove(t.Context(), "real", true, true); err != nil {
		t.Fatal(err)
	}
	if err := b.Remove("alice"); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(secret); string(got) != "secret" || err != nil {
		t.Errorf("the file outside holds %q, %v", got, err)
	}
}

// TestLinkedOwner checks that a symbolic link in place of an owner's directory is refused.
func TestLinkedOwner(t *testing.T) {
	t.Parallel()
	b, _, host := setup(t, Options{})
	base := filepath.Dir(host)
	hostFile(t, "bob's", base, "bob", "s1", "x")
	if err := os.Symlink("bob", filepath.Join(base, "mallory")); err != nil {
		missing(t, "symbolic links need the Windows developer mode: Settings, System, For developers")
	}
	for _, ids := range [][]string{{"mallory"}, {"mallory", "s1"}} {
		d, err := b.Open(ids...)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		_, err = d.ReadDir(t.Context(), ".", false)
		wantCode(t, err, IO)
		wantCode(t, d.WriteFile("x", nil), IO)
	}
	if err := b.Remove("mallory", "s1"); err == nil {
		t.Error("Remove went through the link")
	}
	if _, err := os.Stat(filepath.Join(base, "bob", "s1", "x")); err != nil {
		t.Error(err)
	}
}

// TestRemoveBesideWrites removes directories of a user while other directories of this user are written. No write fails.
func TestRemoveBesideWrites(t *testing.T) {
	t.Parallel()
	b, _, _ := setup(t, Options{})
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 200 {
				run := fmt.Sprint("run-", g, "-", i)
				d, err := b.Open("ann", run)
				if err == nil {
					err = d.WriteFile("file", []byte("x"))
					d.Close()
				}
				if err = errors.Join(err, b.Remove("ann", run)); err != nil {
					t.Errorf("%s: %v", run, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestUserQuota checks that all directories of a user, including older ones, share a quota, that removing files frees it, and that other users have their own.
func TestUserQuota(t *testing.T) {
	both(t, func(t *testing.T, s storage) {
		limits := Options{Section: "workspace", Limits: Limits{MaxBytes: 80, MaxUserBytes: 100}}
		b := s.open(t, "workspace", limits)
		dir := func(b Base, user, session string) *Dir { return dirOf(t, b, user, session) }
		write(t, dir(b, "ann", "s1"), "a", strings.Repeat("x", 60))
		again := s.open(t, "workspace", limits)
		second := dir(again, "ann", "s2")
		err := second.WriteFile("b", make([]byte, 41))
		wantCode(t, err, NoSpace)
		if !strings.Contains(err.Error(), "the quota of 100B for all of a user's files (quotas.workspace) has 40B left and 41B more are needed") {
			t.Error(err)
		}
		write(t, second, "b", strings.Repeat("x", 40))
		wantCode(t, second.AppendFile(t.Context(), "b", []byte("x")), NoSpace)
		write(t, dir(again, "bob", "s1"), "b", strings.Repeat("x", 80))
		if err := again.Remove("ann", "s1"); err != nil {
			t.Fatal(err)
		}
		write(t, second, "c", strings.Repeat("x", 40))
		wantCode(t, second.WriteFile("d", []byte("x")), NoSpace) // the quota of the directory itself
		if err := second.Delete("c"); err != nil {
			t.Fatal(err)
		}
		write(t, dir(again, "ann", "s3"), "d", strings.Repeat("x", 60))
		wantCode(t, second.WriteFile("c", []byte("x")), NoSpace)
	})
}

func TestQuotas(t *testing.T) {
	t.Parallel()
	b, d, host := setup(t, Options{Section: "skills", Limits: Limits{MaxBytes: 100, MaxFiles: 4}})
	write(t, d, "a", strings.Repeat("x", 60))

	err := d.WriteFile("b", make([]byte, 41))
	wantCode(t, err, NoSpace)
	want := "ENOSPC: no space left on device, open 'b': the quota of 100B (skills.maxBytes) has 40B left and 41B more " +
		"are needed; delete files or raise skills.maxBytes"
	if err.Error() != want {
		t.Errorf("error is %q, want %q", err, want)
	}
	wantCode(t, d.AppendFile(t.Context(), "a", make([]byte, 41)), NoSpace)
	write(t, d, "a", strings.Repeat("y", 60)) // a replacement of the same size needs no more room
	write(t, d, "b", strings.Repeat("x", 40))
	wantCode(t, d.AppendFile(t.Context(), "b", []byte("x")), NoSpace)
	if err := d.truncate("a", 1); err != nil {
		t.Fatal(err)
	}
	wantUsage(t, d, Usage{Bytes: 41, Files: 2})

	if err := d.Mkdir(t.Context(), "p/q", true); err != nil {
		t.Fatal(err)
	}
	err = d.WriteFile("p/q/r", nil)
	wantCode(t, err, NoSpace)
	if !strings.HasSuffix(err.Error(), "the quota of 4 files and directories (skills.maxFiles) is used up; delete files or raise skills.maxFiles") {
		t.Error(err)
	}
	wantCode(t, d.Mkdir(t.Context(), "r", false), NoSpace)
	wantCode(t, Copy(t.Context(), d, "copy", d, "a"), NoSpace)
	wantUsage(t, d, Usage{Bytes: 41, Files: 4})

	// A second Dir of the same owner shares the usage. The Dir of another owner does not.
	again, err := b.Open("alice")
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	wantCode(t, again.WriteFile("x", nil), NoSpace)
	bob, err := b.Open("bob")
	if err != nil {
		t.Fatal(err)
	}
	defer bob.Close()
	write(t, bob, "x", "x")

	// Changes by another process are noticed when a quota is reached, at most once a second.
	now := time.Now()
	b.now = func() time.Time { return now }
	if err := os.RemoveAll(filepath.Join(host, "p")); err != nil {
		t.Fatal(err)
	}
	hostOf(d).counted = now
	wantCode(t, d.WriteFile("x", nil), NoSpace)
	now = now.Add(recountEvery)
	write(t, d, "x", "")
	wantUsage(t, d, Usage{Bytes: 41, Files: 3})
}

// TestOverQuota checks that files can be removed from a directory above its quota. The quota may have been lowered, or another process may have written files.
func TestOverQuota(t *testing.T) {
	t.Parallel()
	_, d, host := setup(t, Options{Limits: Limits{MaxBytes: 10, MaxFiles: 1}})
	hostFile(t, strings.Repeat("x", 50), host, "big")
	hostFile(t, strings.Repeat("x", 50), host, "big2")
	wantCode(t, d.WriteFile("x", nil), NoSpace)
	write(t, d, "big", strings.Repeat("x", 40)) // the new content is smaller than the old one
	if err := d.Rename(t.Context(), "big", "big2"); err != nil {
		t.Fatal(err)
	}
	if err := d.Delete("big2"); err != nil {
		t.Fatal(err)
	}
	write(t, d, "x", "0123456789")
	wantUsage(t, d, Usage{Bytes: 10, Files: 1})
}

func TestConcurrentWriters(t *testing.T) {
	t.Parallel()
	const writers, rounds = 8, 20
	b, d, _ := setup(t, Options{Limits: Limits{MaxFiles: writers + 1}})
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			own, err := b.Open("alice")
			if err != nil {
				t.Error(err)
				return
			}
			defer own.Close()
			for i := range rounds {
				text := bytes.Repeat([]byte{byte('a' + w)}, 1000+i)
				err := errors.Join(own.WriteFile("shared", text), own.WriteFile(fmt.Sprint("own", w), text))
				if err != nil {
					t.Error(err)
				}
				got, err := own.ReadFile("shared", 0, -1)
				if err != nil || len(got) < 1000 || bytes.Count(got, got[:1]) != len(got) {
					t.Errorf("read a mixture of %d bytes, %v", len(got), err)
				}
				if _, err := own.ReadDir(t.Context(), ".", true); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	info, err := d.Stat("shared")
	if err != nil {
		t.Fatal(err)
	}
	wantUsage(t, d, Usage{Bytes: writers*(1000+rounds-1) + info.Size, Files: writers + 1})
}

func TestConcurrentAppends(t *testing.T) {
	t.Parallel()
	_, d, _ := setup(t, Options{})
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for range 25 {
				if err := d.AppendFile(t.Context(), "log", fmt.Appendf(nil, "line of %d\n", w)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	got, err := d.ReadFile("log", 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	for w := range 8 {
		if n := strings.Count(string(got), fmt.Sprintf("line of %d\n", w)); n != 25 {
			t.Errorf("%d lines of writer %d, want 25", n, w)
		}
	}
	wantUsage(t, d, Usage{Bytes: 8 * 25 * int64(len("line of 0\n")), Files: 1})
}

// TestPause checks that a paused directory is closed and opens again at its next use. A directory with another open Dir stays open.
func TestPause(t *testing.T) {
	t.Parallel()
	b, d, _ := setup(t, Options{})
	d.Pause() // the Dir has not been used yet
	write(t, d, "x", "1")
	other, err := b.Open("alice")
	if err != nil {
		t.Fatal(err)
	}
	if d.Pause(); hostOf(d).root == nil {
		t.Error("a directory that another uses was closed")
	}
	other.Close()
	if d.Pause(); hostOf(d).root != nil {
		t.Error("it is open")
	}
	wantFile(t, d, "x", "1")
	d.Pause()
	write(t, d, "y", "2")
	wantUsage(t, d, Usage{Bytes: 2, Files: 2})
}

func TestRemove(t *testing.T) {
	t.Parallel()
	b, _, host := setup(t, Options{})
	base := filepath.Dir(host)
	s1, err := b.Open("Alice Smith", "s1")
	if err != nil {
		t.Fatal(err)
	}
	defer s1.Close()
	s2, err := b.Open("Alice Smith", "s2")
	if err != nil {
		t.Fatal(err)
	}
	defer s2.Close()
	write(t, s1, "x/y", "1")
	write(t, s2, "x/y", "2")
	if err := b.Remove("Alice Smith", "s1"); err != nil {
		t.Fatal(err)
	}
	wantFile(t, s2, "x/y", "2")
	err = s1.WriteFile("x", nil)
	wantCode(t, err, NotFound)
	if !strings.Contains(err.Error(), "its session or run has ended") {
		t.Error(err)
	}
	_, err = s1.ReadFile("x", 0, -1)
	wantCode(t, err, NotFound)
	if err := errors.Join(b.Remove("Alice Smith", "s2"), b.Remove("Alice Smith", "s2"), b.Remove("nobody")); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(base)
	if err != nil || len(left) != 0 {
		t.Errorf("left in the base: %v, %v", left, err)
	}
	// The same session can be created again.
	s1b, err := b.Open("Alice Smith", "s1")
	if err != nil {
		t.Fatal(err)
	}
	defer s1b.Close()
	write(t, s1b, "new", "n")
	s1.Close() // closing the stale Dir must not close the new one
	wantFile(t, s1b, "new", "n")
}

// TestRemoveHoldsNoLock checks that removing a large tree does not delay other owners.
func TestRemoveHoldsNoLock(t *testing.T) {
	t.Parallel()
	b, _, host := setup(t, Options{})
	large, err := b.Open("bob", "s1")
	if err != nil {
		t.Fatal(err)
	}
	defer large.Close()
	write(t, large, "x/y", "1")
	removing, goOn := make(chan struct{}), make(chan struct{})
	b.clear = func(parent *os.Root, name string) error {
		close(removing)
		<-goOn
		return parent.RemoveAll(name)
	}
	done := make(chan error, 1)
	go func() { done <- b.Remove("bob", "s1") }()
	<-removing
	again, err := b.Open("bob", "s1")
	if err != nil {
		t.Fatal(err)
	}
	write(t, again, "new", "2")
	if got := names(t, again); got != "new" {
		t.Errorf("the new directory holds %q", got)
	}
	close(goOn)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	wantFile(t, again, "new", "2")
	again.Close()
	b.clear = (*os.Root).RemoveAll
	if err := b.Remove("bob", "s1"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(host), "bob")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("bob's directory is left: %v", err)
	}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	b, _, host := setup(t, Options{})
	base := filepath.Dir(host)
	b.now = func() time.Time { return time.Now().Add(time.Hour) }
	drop, running, open := id.New("run"), id.New("run"), id.New("run")
	for _, name := range []string{drop, running, "a-session", "run_mine", open, tempPrefix + "REMOVED"} {
		hostFile(t, "x", base, "u", name, "file")
	}
	d, err := b.Open("u", open)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	sweep := func(before time.Time, want ...string) {
		t.Helper()
		if err := b.Sweep(t.Context(), before, func(run string) bool { return run != running }); err != nil {
			t.Fatal(err)
		}
		var left []string
		for _, e := range b.list("u") {
			left = append(left, e.Name())
		}
		slices.Sort(left)
		slices.Sort(want)
		if !slices.Equal(left, want) {
			t.Errorf("left are %v, want %v", left, want)
		}
	}
	sweep(time.Now().Add(-time.Hour), drop, running, "a-session", "run_mine", open) // these directories have changed since
	sweep(time.Now().Add(time.Hour), running, "a-session", "run_mine", open)
}

// TestOwners checks that different sessions of a user, and sessions of the same name of different users, have separate files and quotas.
func TestOwners(t *testing.T) {
	t.Parallel()
	host := t.TempDir()
	s, err := OpenBase(filepath.Join(host, "workspace"), Options{Limits: Limits{MaxBytes: 10}, Section: "workspace"})
	if err != nil {
		t.Fatal(err)
	}
	var dirs []*Dir
	for _, owner := range [][2]string{{"alice", "s1"}, {"alice", "s2"}, {"bob", "s1"}, {"Bob", "s1"}, {"../alice", "s1"}} {
		d, err := s.Open(owner[0], owner[1])
		if err != nil {
			t.Fatal(err)
		}
		if list, err := d.ReadDir(t.Context(), ".", true); err != nil || len(list) != 0 {
			t.Errorf("workspace of %v begins with %v, %v", owner, list, err)
		}
		if err := d.WriteFile("file", []byte("0123456789")); err != nil {
			t.Error(err)
		}
		if err := d.WriteFile("more", []byte("x")); err == nil {
			t.Errorf("workspace of %v exceeds its quota", owner)
		}
		dirs = append(dirs, d)
	}
	if err := s.Remove("alice", "s1"); err != nil {
		t.Fatal(err)
	}
	if _, err := dirs[0].Stat("file"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after Remove: %v", err)
	}
	for _, d := range dirs[1:] {
		if _, err := d.Stat("file"); err != nil {
			t.Error(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if list, err := os.ReadDir(filepath.Join(host, "workspace")); err != nil || len(list) != 4 {
		t.Errorf("the base holds %v, %v", list, err)
	}
}

func TestOpenFails(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenBase(filepath.Join(file, "workspace"), Options{}); err == nil {
		t.Error("a file is taken for a directory")
	}
}

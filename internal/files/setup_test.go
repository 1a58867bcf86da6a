package files

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/bucket"
	"mcp-code-exec-harness/internal/testing/buckettest"
)

// setup opens a base in a temporary directory, and returns the base, the Dir of "alice" and the path of alice's directory.
func setup(t *testing.T, opts Options) (*hostBase, *Dir, string) {
	t.Helper()
	if opts.Section == "" {
		opts.Section = "workspace"
	}
	dir := t.TempDir()
	b, err := openHost(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	d, err := b.Open("alice")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return b, d, filepath.Join(dir, "alice")
}

// hostOf returns the implementation of a Dir in a directory of the host.
func hostOf(d *Dir) *hostDir { return d.directory.(*hostDir) }

// storage is where the directories of a test are: in a directory of the host or in a bucket.
type storage struct {
	// open opens a base. Bases of the same name are of several processes on the same files.
	open func(t *testing.T, name string, opts Options) Base
}

// both runs a test with directories of the host, and with a bucket.
func both(t *testing.T, test func(t *testing.T, s storage)) {
	t.Helper()
	t.Parallel()
	t.Run("directory", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		test(t, storage{func(t *testing.T, name string, opts Options) Base {
			b, err := OpenBase(filepath.Join(dir, name), opts)
			return opened(t, b, err)
		}})
	})
	t.Run("bucket", func(t *testing.T) {
		t.Parallel()
		server := buckettest.Start(t)
		test(t, storage{func(t *testing.T, name string, opts Options) Base {
			return opened(t, inBucket(t, server, name, opts), nil)
		}})
	})
}

// inBucket opens a base in a bucket with a client of its own, as another process does.
func inBucket(t *testing.T, server *buckettest.Server, name string, opts Options) *bucketBase {
	t.Helper()
	objects, err := bucket.Open(server.Options("test"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = objects.Close() })
	return OpenBucket(objects, name, opts).(*bucketBase)
}

func opened(t *testing.T, b Base, err error) Base {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// setup opens a base with a name and the Dir of "alice" in it.
func (s storage) setup(t *testing.T, name string, opts Options) (Base, *Dir) {
	t.Helper()
	if opts.Section == "" {
		opts.Section = "workspace"
	}
	b := s.open(t, name, opts)
	return b, dirOf(t, b, "alice")
}

func dirOf(t *testing.T, b Base, ids ...string) *Dir {
	t.Helper()
	d, err := b.Open(ids...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

func write(t *testing.T, d *Dir, p, text string) {
	t.Helper()
	if err := d.WriteFile(p, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

func wantFile(t *testing.T, d *Dir, p, want string) {
	t.Helper()
	if got, err := d.ReadFile(p, 0, -1); string(got) != want || err != nil {
		t.Errorf("%s holds %.80q, %v, want %.80q", p, got, err, want)
	}
}

// wantCode fails unless err is an *Error with the given code and without a path of the host.
func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	var e *Error
	switch {
	case !errors.As(err, &e):
		t.Errorf("error is %v (%T), want one with code %s", err, err, code)
	case e.Code != code:
		t.Errorf("error is %v, want code %s", err, code)
	case strings.Contains(e.Error(), os.TempDir()):
		t.Errorf("error shows a path of the host: %v", err)
	}
}

func names(t *testing.T, d *Dir) string {
	t.Helper()
	list, err := d.ReadDir(t.Context(), ".", true)
	if err != nil {
		t.Fatal(err)
	}
	var s []string
	for _, e := range list {
		s = append(s, e.Path)
	}
	return strings.Join(s, " ")
}

func usageOf(t *testing.T, d *Dir) Usage {
	t.Helper()
	if in, ok := d.directory.(*bucketDir); ok {
		s, err := in.load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return s.used
	}
	used, err := hostOf(d).usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return used
}

// wantUsage compares the maintained usage and a fresh count with the expected usage.
func wantUsage(t *testing.T, d *Dir, want Usage) {
	t.Helper()
	if in, ok := d.directory.(*bucketDir); ok {
		s, err := in.load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if s.used != want {
			t.Errorf("usage is %+v, want %+v", s.used, want)
		}
		if s.version == bucket.Absent {
			return
		}
		if s, err = in.base.list(t.Context(), in.names); err != nil || s.used != want {
			t.Errorf("counted usage is %+v, %v, want %+v", s.used, err, want)
		}
		return
	}
	got, err := hostOf(d).usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("usage is %+v, want %+v", got, want)
	}
	hostOf(d).mu.Lock()
	hostOf(d).known = false
	hostOf(d).mu.Unlock()
	if got, err = hostOf(d).usage(t.Context()); err != nil || got != want {
		t.Errorf("counted usage is %+v, %v, want %+v", got, err, want)
	}
}

// usage returns the usage of the directory, and counts it first if it is not known.
func (s *hostDir) usage(ctx context.Context) (Usage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.openRoot(false)
	if err == nil && s.root != nil && !s.known {
		err = s.count(ctx)
	}
	if err != nil {
		return Usage{}, hostError("scandir", ".", err)
	}
	return s.used, nil
}

func age(t *testing.T, file string, by time.Duration) {
	t.Helper()
	old := time.Now().Add(-by)
	if err := os.Chtimes(file, old, old); err != nil {
		t.Fatal(err)
	}
}

func hostFile(t *testing.T, text string, at ...string) string {
	t.Helper()
	file := filepath.Join(at...)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// missing skips a test whose precondition this machine lacks. In CI, the test fails.
func missing(t *testing.T, how string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(how)
	}
	t.Skip(how)
}

package files

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
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

// wantUsage compares the maintained usage and a fresh count with the expected usage.
func wantUsage(t *testing.T, d *Dir, want Usage) {
	t.Helper()
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

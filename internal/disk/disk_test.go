package disk

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestReplace(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	for _, text := range []string{"first", "2nd"} {
		if err := Replace(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("got %q, %v, want %q", got, err, text)
		}
	}
	if err := Replace(t.TempDir(), nil, 0o600); err == nil {
		t.Error("a directory was replaced")
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("left %v, %v", entries, err)
	}
}

// Only one caller at a time holds a lock, in one process or in several. Lock reports whether the caller had to wait.
func TestLock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "new", "lock")
	unlock, waited, err := Lock(t.Context(), path)
	if err != nil || waited {
		t.Fatalf("the first waited: %t, %v", waited, err)
	}
	ended, end := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	end(why)
	if _, waited, err := Lock(ended, path); !waited || !errors.Is(err, why) {
		t.Errorf("the second waited: %t, %v", waited, err)
	}
	var all sync.WaitGroup
	var holders atomic.Int32
	holders.Store(1)
	for range 4 {
		all.Go(func() {
			unlock, _, err := Lock(t.Context(), path)
			if err != nil {
				t.Error(err)
				return
			}
			if n := holders.Add(1); n != 1 {
				t.Errorf("%d have the lock", n)
			}
			holders.Add(-1)
			if err := unlock(); err != nil {
				t.Error(err)
			}
		})
	}
	holders.Add(-1)
	if err := unlock(); err != nil {
		t.Error(err)
	}
	all.Wait()
}

// Only one of several concurrent calls creates the file.
func TestCreate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	var made atomic.Int32
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			text := strings.Repeat(strconv.Itoa(i), 1000)
			switch err := Create(path, []byte(text), 0o600); {
			case err == nil:
				made.Add(1)
			case !errors.Is(err, fs.ErrExist):
				t.Error(err)
			}
			if got, err := os.ReadFile(path); err != nil || len(got) != 1000 {
				t.Errorf("a reader finds %d bytes, %v", len(got), err)
			}
		})
	}
	wg.Wait()
	if made.Load() != 1 {
		t.Errorf("%d created the file", made.Load())
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("left %v, %v", entries, err)
	}
	if err := Create(filepath.Join(path, "below"), nil, 0o600); err == nil {
		t.Error("a file was created below a file")
	}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old := time.Now().Add(-31 * 24 * time.Hour)
	for _, name := range []string{"a-old", "a-used", "b-old", "other"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Join(path, "full"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	Use(filepath.Join(dir, "a-used"))
	Sweep(dir, "a-", "b-")
	Sweep(filepath.Join(dir, "absent"), "a-")
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 || entries[0].Name() != "a-used" || entries[1].Name() != "other" {
		t.Errorf("left %v, %v", entries, err)
	}
}

package files

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// countdown is a context that ends after a number of calls of Err.
type countdown struct {
	context.Context
	left atomic.Int64
}

func (c *countdown) Err() error {
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// during is a context that calls a function at the first call of Err.
type during struct {
	context.Context
	fn func()
}

func (d *during) Err() error {
	if fn := d.fn; fn != nil {
		d.fn = nil
		fn()
	}
	return d.Context.Err()
}

// TestEndedEarly checks that operations on a large directory stop when their context ends.
func TestEndedEarly(t *testing.T) {
	t.Parallel()
	const dirs, each = 10, 20
	fill := func(t *testing.T) *Dir {
		_, d, host := setup(t, Options{})
		for i := range dirs {
			for k := range each {
				hostFile(t, "x", host, "top", fmt.Sprint("d", i), fmt.Sprint("f", k))
			}
		}
		return d
	}
	soon := func(t *testing.T) context.Context {
		ctx := &countdown{Context: t.Context()}
		ctx.left.Store(dirs * each / 2)
		return ctx
	}
	t.Run("list", func(t *testing.T) {
		t.Parallel()
		_, err := fill(t).ReadDir(soon(t), ".", true)
		wantCode(t, err, IO)
	})
	t.Run("count", func(t *testing.T) {
		t.Parallel()
		_, err := hostOf(fill(t)).usage(soon(t))
		wantCode(t, err, IO)
	})
	t.Run("write", func(t *testing.T) {
		t.Parallel()
		d := fill(t)
		wantCode(t, d.write(soon(t), "x", nil), IO)
		wantUsage(t, d, Usage{Bytes: dirs * each, Files: 1 + dirs + dirs*each})
	})
	t.Run("rename", func(t *testing.T) {
		t.Parallel()
		d := fill(t)
		wantCode(t, d.Rename(soon(t), "top", "longer"), IO)
		wantUsage(t, d, Usage{Bytes: dirs * each, Files: 1 + dirs + dirs*each})
	})
	t.Run("remove", func(t *testing.T) {
		t.Parallel()
		d := fill(t)
		wantCode(t, d.Remove(soon(t), "top", true, true), IO)
		left, err := hostOf(d).usage(t.Context())
		if err != nil || left.Bytes == 0 || left.Bytes >= dirs*each {
			t.Errorf("the ended removal left %+v, %v", left, err)
		}
		wantUsage(t, d, left)
		if err := d.Remove(t.Context(), "top", true, true); err != nil {
			t.Fatal(err)
		}
		wantUsage(t, d, Usage{})
	})
	t.Run("call", func(t *testing.T) {
		t.Parallel()
		s, _ := space(t)
		for i := range 100 {
			write(t, s.workspace, fmt.Sprint("d/f", i), "")
		}
		ctx := &countdown{Context: t.Context()}
		ctx.left.Store(50)
		_, bad := s.Call(ctx, "rm", json.RawMessage(`{"path":"d","recursive":true}`))
		if bad == nil || bad.Kind != "cancelled" {
			t.Errorf("error is %+v", bad)
		}
	})
}

// TestRemoveAllKeepsTheAccount checks that the usage stays right while a directory of more than one batch is removed, including files that do not count.
func TestRemoveAllKeepsTheAccount(t *testing.T) {
	t.Parallel()
	_, d, host := setup(t, Options{})
	write(t, d, "stays", "12")
	wantUsage(t, d, Usage{Bytes: 2, Files: 1})
	for i := range batch + 10 {
		write(t, d, fmt.Sprint("top/sub/f", i), "x")
	}
	hostFile(t, "half", host, "top", "sub", tempPrefix+"X")
	if err := d.Remove(t.Context(), "top", true, true); err != nil {
		t.Fatal(err)
	}
	wantUsage(t, d, Usage{Bytes: 2, Files: 1})
	if _, err := os.Stat(filepath.Join(host, "top")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory is still there: %v", err)
	}
}

// TestDeepDirectories checks that nested directories far beyond the length of any path cannot be counted, and can be removed.
func TestDeepDirectories(t *testing.T) {
	t.Parallel()
	_, d, host := setup(t, Options{Limits: Limits{MaxFiles: 1000}})
	hostFile(t, "x", host, "top", strings.Repeat("d/", maxDeep+20), "file")
	_, err := hostOf(d).usage(t.Context())
	wantCode(t, err, NoSpace)
	err = d.WriteFile("x", nil)
	wantCode(t, err, NoSpace)
	if err == nil || !strings.Contains(err.Error(), "remove them with fs.rm") {
		t.Errorf("error is %v", err)
	}
	if list, err := d.ReadDir(t.Context(), ".", true); err != nil || len(list) != maxDepth {
		t.Errorf("the listing has %d entries, %v; want those that a path reaches", len(list), err)
	}
	if err := d.Remove(t.Context(), "top", true, true); err != nil {
		t.Fatal(err)
	}
	write(t, d, "x", "1")
	wantUsage(t, d, Usage{Bytes: 1, Files: 1})
}

// TestLongListing checks the limit of a listing in bytes.
func TestLongListing(t *testing.T) {
	t.Parallel()
	_, d, host := setup(t, Options{})
	long := strings.Repeat("n", 250)
	deep := path.Join(long, long, long)
	hostFile(t, "", host, deep, "first")
	for i := range maxListBytes/1000 + 1 {
		file, err := os.Create(filepath.Join(host, deep, fmt.Sprintf("%0250d", i)))
		if err == nil {
			err = file.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := d.ReadDir(t.Context(), ".", true)
	wantCode(t, err, Invalid)
	if err == nil || !strings.Contains(err.Error(), "list one directory at a time") {
		t.Errorf("error is %v", err)
	}
}

// TestLinkPutInTheWay checks that a directory that is replaced by a symbolic link during a walk is not followed.
func TestLinkPutInTheWay(t *testing.T) {
	t.Parallel()
	if os.Symlink("x", filepath.Join(t.TempDir(), "l")) != nil {
		missing(t, "symbolic links need the Windows developer mode: Settings, System, For developers")
	}
	for what, do := range map[string]func(context.Context, *Dir) error{
		"list": func(ctx context.Context, d *Dir) error {
			list, err := d.ReadDir(ctx, "top", true)
			if len(list) > 1 {
				err = fmt.Errorf("the listing is %+v", list)
			}
			return err
		},
		"count":  func(ctx context.Context, d *Dir) error { _, _ = hostOf(d).usage(ctx); return nil },
		"remove": func(ctx context.Context, d *Dir) error { return d.Remove(ctx, "top", true, true) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			_, d, host := setup(t, Options{})
			hostFile(t, "x", host, "top", "dir", "inside")
			kept := hostFile(t, "kept", host, "other", "kept")
			ctx := during{t.Context(), func() {
				dir := filepath.Join(host, "top", "dir")
				if err := errors.Join(os.Rename(dir, filepath.Join(host, "gone")), os.Symlink("../other", dir)); err != nil {
					t.Error(err)
				}
			}}
			if err := do(&ctx, d); err != nil {
				t.Error(err)
			}
			if got, err := os.ReadFile(kept); string(got) != "kept" || err != nil {
				t.Errorf("the file behind the link holds %q, %v", got, err)
			}
		})
	}
}

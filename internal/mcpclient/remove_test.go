package mcpclient_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/testing/misbehave"
)

// TestRemoveWhileInUse: calls in flight fail, the other server stays ready, the removed server is not reported again, and its name is free.
func TestRemoveWhileInUse(t *testing.T) {
	t.Parallel()
	var removed atomic.Bool
	good := bad(t, misbehave.Normal)
	good.Name = "good"
	m := setup(t, mcpclient.Options{OnChange: func(s mcpclient.Server) {
		if s.Name == "bad" && removed.Load() {
			t.Error("a server is reported after it was removed")
		}
	}}, bad(t, misbehave.Normal), good)
	m.Start(ctxFor(t))
	var wg sync.WaitGroup
	var calls atomic.Int64
	for _, tool := range []string{"echo", "grow", "hang", "big"} {
		wg.Go(func() {
			for {
				_, err := call(t, m, tool, `{"bytes":100000}`)
				calls.Add(1)
				var ce *mcpclient.CallError
				switch {
				case err == nil:
				case !errors.As(err, &ce) || ce.Kind != mcpclient.KindUnavailable && ce.Kind != mcpclient.KindConnectionLost:
					t.Errorf("%s: %v", tool, err)
					return
				case strings.Contains(err.Error(), "no server has this name; the servers are good"):
					return
				}
			}
		})
	}
	eventually(t, "calls are under way", func() bool { return calls.Load() > 20 })
	for range 3 { // a later caller gets an error for an unknown server
		wg.Go(func() {
			if err := m.Remove(ctxFor(t), "bad"); err != nil {
				callError(t, err, mcpclient.KindUnavailable, false)
			}
			removed.Store(true)
		})
	}
	wg.Wait()
	if all := m.Servers(); len(all) != 1 || all[0].Name != "good" || all[0].State != mcpclient.StateReady {
		t.Errorf("servers %+v", all)
	}
	removed.Store(false)
	if err := m.Add(bad(t, misbehave.Normal)); err != nil {
		t.Fatal(err)
	}
	mustCall(t, m, "echo", `{}`)
}

// TestRemoveInEveryState: in every state, Remove takes no longer than ending the server's processes.
func TestRemoveInEveryState(t *testing.T) {
	t.Parallel()
	m := setup(t, mcpclient.Options{})
	add := func(name, kind string) {
		cfg := bad(t, kind)
		cfg.Name, cfg.Disabled = name, name == "disabled"
		if err := m.Add(cfg); err != nil {
			t.Fatal(err)
		}
	}
	add("idle", misbehave.Normal)
	add("disabled", misbehave.Normal)
	add("failed", misbehave.Dies)
	add("starting", misbehave.Hangs)
	_, err := m.Connect(ctxFor(t), "", "failed")
	callError(t, err, mcpclient.KindUnavailable, false)
	waiting := make(chan error, 1)
	go func() {
		_, err := m.Connect(ctxFor(t), "", "starting")
		waiting <- err
	}()
	eventually(t, "it is starting", func() bool { return status(t, m, "starting").State == mcpclient.StateStarting })
	for _, name := range []string{"idle", "disabled", "failed", "starting"} {
		if err := m.Remove(ctxFor(t), name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	callError(t, <-waiting, mcpclient.KindUnavailable, false)
	if all := m.Servers(); len(all) != 0 {
		t.Errorf("left: %+v", all)
	}
	wantIn(t, "error", callError(t, m.Remove(ctxFor(t), "idle"), mcpclient.KindUnavailable, false).Error(), "no server has this name")
}

// TestRemoveAndClose: Remove and Close may run at the same time; both return when nothing is left.
func TestRemoveAndClose(t *testing.T) {
	t.Parallel()
	m := setup(t, mcpclient.Options{}, bad(t, misbehave.Normal))
	m.Start(ctxFor(t))
	var wg sync.WaitGroup
	for _, end := range []func(context.Context) error{m.Close, func(ctx context.Context) error { return m.Remove(ctx, "bad") }} {
		wg.Go(func() {
			if err := end(ctxFor(t)); err != nil {
				callError(t, err, mcpclient.KindUnavailable, false)
			}
		})
	}
	wg.Wait()
	if err := m.Add(bad(t, misbehave.Normal)); err == nil {
		t.Error("a closed manager takes servers")
	}
}

// TestUnusedListingsAreRemoved: only cached tool lists that were used recently are kept.
func TestUnusedListingsAreRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	opts := mcpclient.Options{CacheDir: dir}
	long := time.Now().Add(-31 * 24 * time.Hour)
	files := func() (names []string) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	age := func() {
		for _, name := range files() {
			if err := os.Chtimes(filepath.Join(dir, name), long, long); err != nil {
				t.Fatal(err)
			}
		}
	}
	used, other := bad(t, misbehave.Normal), bad(t, misbehave.Normal)
	setup(t, opts, used).Start(ctxFor(t))
	setup(t, opts, other).Start(ctxFor(t))
	for _, name := range []string{".tools-left", "notes.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	age()
	if got := files(); len(got) != 4 {
		t.Fatalf("files %v", got)
	}
	if !setup(t, opts, used).Tools()[0].Known {
		t.Error("the cached list is not known")
	}
	setup(t, opts, bad(t, misbehave.Normal)).Start(ctxFor(t)) // writes a third file
	got := strings.Join(files(), " ")
	if len(files()) != 3 || !strings.Contains(got, "notes.txt") || strings.Contains(got, ".tools-left") {
		t.Errorf("files %s", got)
	}
	if !setup(t, opts, used).Tools()[0].Known {
		t.Error("a list that is used was removed")
	}
}

package sqlstore

import (
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Processes that count calls at the same time count exactly as many calls as the limit allows.
func TestCounts(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "harness.db")
	a, b := reopenAt(t, path, Options{}), reopenAt(t, path, Options{})
	now := time.Now()
	expires := now.Add(time.Hour)
	var counted atomic.Int64
	var wg sync.WaitGroup
	for _, s := range []*Store{a, b, a, b} {
		wg.Go(func() {
			for range 5 {
				ok, err := s.Count(t.Context(), "ann", "rule run_1", 7, now, expires)
				if err != nil {
					t.Error(err)
				}
				if ok {
					counted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if counted.Load() != 7 {
		t.Errorf("%d calls were counted", counted.Load())
	}
	if reached, err := b.Reached(t.Context(), "ann", "rule run_1", 7); !reached || err != nil {
		t.Errorf("reached: %t, %v", reached, err)
	}
	for user, key := range map[string]string{"bob": "rule run_1", "ann": "rule run_2"} {
		if ok, err := a.Count(t.Context(), user, key, 1, now, expires); !ok || err != nil {
			t.Errorf("%s, %s: %t, %v", user, key, ok, err)
		}
	}
	// Count deletes expired counts.
	if _, err := a.Count(t.Context(), "ann", "rule run_3", 7, expires.Add(time.Second), expires.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if rows := count(t, a, "SELECT count(*) FROM counts"); rows != 1 {
		t.Errorf("%d counts are left", rows)
	}
}

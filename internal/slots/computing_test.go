package slots

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// An owner has one read at a time. After a read it has to wait if other owners are active, and not if it is the only one.
func TestComputing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var active atomic.Bool
		c := &Computing{New(Limits{All: 1, Each: 1}, "reads", "answered"), func(string) bool { return active.Load() }}
		read := func(took time.Duration) {
			t.Helper()
			end, err := c.Begin(t.Context(), "reader")
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(took)
			end()
		}
		begin := time.Now()
		for range 10 {
			read(20 * time.Millisecond)
		}
		if took := time.Since(begin); took != 200*time.Millisecond {
			t.Errorf("alone, 10 reads of 20 ms take %s", took)
		}
		active.Store(true)
		begin = time.Now()
		for range 10 {
			read(20 * time.Millisecond)
			read(restFrom / 2)
		}
		if took := time.Since(begin); took < 400*time.Millisecond {
			t.Errorf("beside others, 10 reads of 20 ms take %s", took)
		}
		end, err := c.Begin(t.Context(), "reader")
		if err != nil {
			t.Fatal(err)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Begin(short, "reader"); err == nil {
			t.Error("two at the same time")
		}
		end()
		time.Sleep(time.Minute)
		if !c.slots.idle() {
			t.Error("a turn is left")
		}
	})
	if end, err := (*Computing)(nil).Begin(t.Context(), "x"); err != nil {
		t.Error(err)
	} else {
		end()
	}
}

package program

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// An owner whose compilations never end leaves a slot to the others, who take turns in it.
func TestSlotsAreShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(3)
		hostile, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		for range 100 {
			go func() {
				if err := s.acquire(hostile, "hostile"); err != nil {
					ended <- err
					return
				}
				<-hostile.Done()
				s.release("hostile")
				ended <- nil
			}()
		}
		synctest.Wait()
		if s.held["hostile"] != 2 || s.waiting != 98 {
			t.Errorf("the hostile owner holds %d slots, %d wait", s.held["hostile"], s.waiting)
		}
		var order []string
		for range 2 {
			for _, owner := range []string{"a", "a", "b", "c"} {
				go func() {
					if err := s.acquire(t.Context(), owner); err != nil {
						t.Error(err)
					}
					order = append(order, owner)
					time.Sleep(time.Second)
					s.release(owner)
				}()
				synctest.Wait()
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := strings.Join(order, ""); got != "aabcabca" { // the first finds the slot free
			t.Errorf("order %s", got)
		}
		stop()
		granted := 0
		for range 100 {
			if <-ended == nil {
				granted++
			}
		}
		if granted != 2 || s.free != 3 || s.waiting != 0 || len(s.held)+len(s.queues)+len(s.turns) != 0 {
			t.Errorf("%d were granted; left are %+v", granted, s)
		}
	})
}

func TestSlotsBounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1)
		ctx, cancel := context.WithCancel(t.Context())
		fill := func(owner string, n int) {
			for range n {
				go func() { _ = s.acquire(ctx, owner) }()
			}
			synctest.Wait()
		}
		fill("a", 1+maxOwnerWaiting)
		if err := s.acquire(ctx, "a"); err == nil || !strings.Contains(err.Error(), "more than 500 texts of this user") {
			t.Errorf("beyond the bound of an owner: %v", err)
		}
		for i := range maxWaiting/maxOwnerWaiting - 1 {
			fill(fmt.Sprint("b", i), maxOwnerWaiting)
		}
		if err := s.acquire(ctx, "c"); err == nil || !strings.Contains(err.Error(), "more than 5000 texts wait") {
			t.Errorf("beyond the bound of all: %v", err)
		}
		cancel()
		synctest.Wait()
		if s.waiting != 0 || len(s.turns) != 0 {
			t.Errorf("%d wait", s.waiting)
		}
	})
}

// What compiling a program costs is charged, and ends the compilation when the charge is refused.
func TestCharge(t *testing.T) {
	t.Parallel()
	spent := errors.New("spent")
	left := 2
	opts := Options{
		Cache: NewCache(),
		Compiler: &Compiler{slots: newSlots(2), do: func(t task) product {
			p := t.do()
			p.CPU = time.Second
			return p
		}},
		Charge: func(used time.Duration) error {
			if used != time.Second {
				t.Errorf("charged %s", used)
			}
			if left--; left < 0 {
				return spent
			}
			return nil
		},
		Resolver: sandbox{files: map[string]string{
			"/skills/a.js": "import '/skills/b.js'", "/skills/b.js": "import '/skills/c.js'", "/skills/c.js": "export default 1",
		}},
	}
	if _, err := CompileModule(t.Context(), "/skills/a.js", ProgramFile, opts); !errors.Is(err, spent) {
		t.Errorf("ended with %v", err)
	}
	left = 0 // the first two are remembered
	if _, err := CompileModule(t.Context(), "/skills/a.js", ProgramFile, opts); !errors.Is(err, spent) {
		t.Errorf("ended with %v", err)
	}
}

// A text that cannot be compiled is tried once; one that was given up for another reason is tried again.
func TestFailuresAreRemembered(t *testing.T) {
	t.Parallel()
	tries := 0
	opts := Options{
		Cache: NewCache(),
		Compiler: &Compiler{slots: newSlots(2), do: func(t task) product {
			tries++
			return t.do()
		}},
		Resolver: sandbox{files: map[string]string{"/skills/a.js": "const a = ;"}},
	}
	compile := func() error { _, err := CompileModule(t.Context(), "/skills/a.js", ProgramFile, opts); return err }
	first := compile()
	tried := tries
	if again := compile(); first == nil || again == nil || again.Error() != first.Error() || tries != tried {
		t.Errorf("%v, then %v, %d tries", first, again, tries)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	opts.Resolver = sandbox{files: map[string]string{"/skills/a.js": "export const a = 1"}}
	if _, err := CompileModule(ctx, "/skills/a.js", ProgramFile, opts); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	if err := compile(); err != nil {
		t.Error(err)
	}
}

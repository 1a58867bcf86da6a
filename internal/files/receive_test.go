package files

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"testing"
)

// session opens the directory of a session in a new base.
func (s storage) session(t *testing.T, limits Limits) *Dir {
	t.Helper()
	return dirOf(t, s.open(t, rand.Text(), Options{Limits: limits, Section: "workspace"}), "user", "session")
}

// TestReceive checks that a file received in parts appears when it is complete. Until then, it counts in the quota and is invisible.
func TestReceive(t *testing.T) {
	both(t, func(t *testing.T, at storage) {
		d := at.session(t, Limits{MaxBytes: 1 << 20, MaxFiles: 10})
		in := d.Part("in/a.txt", "")
		ctx, lost := context.Background(), errors.New("the connection is lost")
		first, second := strings.Repeat("a", 300<<10), strings.Repeat("b", 300<<10)
		if n, err := in.Receive(ctx, 0, io.MultiReader(strings.NewReader(first), failing{lost})); !errors.Is(err, lost) || n != int64(len(first)) {
			t.Fatalf("received %d: %v", n, err)
		}
		if n, err := in.Size(); err != nil || n != int64(len(first)) {
			t.Fatalf("%d bytes have come: %v", n, err)
		}
		if all, err := d.ReadDir(ctx, ".", true); err != nil || len(all) != 1 {
			t.Errorf("a part is listed: %+v %v", all, err)
		}
		if _, err := in.Receive(ctx, 5, strings.NewReader("x")); err == nil {
			t.Error("a part at another offset was taken")
		}
		if _, err := d.Part("other", "").Receive(ctx, 0, strings.NewReader(strings.Repeat("c", 900<<10))); err == nil {
			t.Error("what is received is not counted")
		}
		if err := d.Part("other", "").Abort(); err != nil {
			t.Fatal(err)
		}
		if n, err := in.Receive(ctx, int64(len(first)), strings.NewReader(second)); err != nil || n != int64(len(first)+len(second)) {
			t.Fatalf("received %d: %v", n, err)
		}
		if _, err := in.Complete(ctx, nil); err != nil {
			t.Fatal(err)
		}
		if data, err := d.ReadFile("in/a.txt", 0, -1); err != nil || string(data) != first+second {
			t.Fatalf("got %d bytes: %v", len(data), err)
		}
		if _, err := in.Complete(ctx, nil); err == nil {
			t.Error("nothing was completed")
		}
		for _, key := range []string{"1", "2"} {
			if _, err := d.Part("in/a.txt", key).Receive(ctx, 0, strings.NewReader("x")); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := d.Part("in/b.txt", "1").Receive(ctx, 0, strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
		for _, want := range []bool{true, false} {
			if found, err := d.Discard(ctx, "in/a.txt"); err != nil || found != want {
				t.Errorf("discarded: %t, want %t: %v", found, want, err)
			}
		}
		if n, err := d.Part("in/b.txt", "1").Size(); err != nil || n != 1 {
			t.Errorf("%d bytes of another file are left: %v", n, err)
		}
		wantUsage(t, d, usageOf(t, d))
	})
}

// TestFits: a file that a quota of files will refuse is refused before its first byte.
func TestFits(t *testing.T) {
	both(t, func(t *testing.T, at storage) {
		d := at.session(t, Limits{MaxFiles: 2})
		if err := d.WriteFile("a", []byte("x")); err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string]bool{"b": true, "in/b": false} { // in/b takes a directory as well
			err := d.Part(path, "").Fits(t.Context(), 1)
			_, failed := d.Part(path, "").Receive(t.Context(), 0, strings.NewReader("x"))
			if (err == nil) != want || (failed == nil) != want {
				t.Errorf("%s fits: %v; received: %v", path, err, failed)
			}
			if err := d.Part(path, "").Abort(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

package files

import (
	"strings"
	"testing"
)

// give writes a file as its owner.
func give(t *testing.T, d *Dir, p, text string) {
	t.Helper()
	if _, _, err := d.WriteFrom(t.Context(), p, strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
}

func wantGiven(t *testing.T, d *Dir, p string, want int64) {
	t.Helper()
	if got := d.Hand(p).Given; got != want {
		t.Errorf("%d bytes of %s are its owner's, want %d", got, p, want)
	}
}

// TestHand checks that the owner's part of a file stays the owner's when programs move and copy the file, and that nothing that programs write becomes the
// owner's.
func TestHand(t *testing.T) {
	both(t, func(t *testing.T, s storage) {
		b, d := s.setup(t, "workspace", Options{Limits: Limits{MaxFiles: 20}})
		ctx := t.Context()
		check := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		wantGiven(t, d, "a", 0)
		give(t, d, "a", "12345")
		wantGiven(t, d, "a", 5)
		wantUsage(t, d, Usage{Bytes: 5, Files: 1}) // the list of given files does not count
		write(t, d, "b", "12345")
		wantGiven(t, d, "b", 0)

		check(d.AppendFile(ctx, "a", []byte("678")))
		wantGiven(t, d, "a", 5)
		check(d.truncate("a", 3))
		wantGiven(t, d, "a", 3)

		check(d.Mkdir(ctx, "dir", true))
		check(d.Rename(ctx, "a", "dir/a"))
		check(d.Rename(ctx, "dir", "other"))
		wantGiven(t, d, "other/a", 3)
		wantGiven(t, d, "a", 0)
		check(Copy(ctx, d, "copy", d, "other/a"))
		wantGiven(t, d, "copy", 3)
		other, err := b.Open("alice", "skills")
		check(err)
		defer other.Close()
		check(Move(ctx, other, "moved", d, "copy"))
		wantGiven(t, other, "moved", 3)

		// A program replaces the owner's file by one of the same size, within the resolution of timestamps.
		for range 20 {
			give(t, d, "c", "12345")
			write(t, d, "c", "54321")
			wantGiven(t, d, "c", 0)
			give(t, d, "c", "12345")
			write(t, d, "mine", "54321")
			check(d.Rename(ctx, "mine", "c"))
			wantGiven(t, d, "c", 0)
			give(t, d, "c", "12345")
			check(d.Delete("c"))
			write(t, d, "c", "54321")
			wantGiven(t, d, "c", 0)
		}

		// Another process reads the same list.
		again := s.open(t, "workspace", Options{Section: "workspace"})
		same, err := again.Open("alice")
		check(err)
		defer same.Close()
		wantGiven(t, same, "other/a", 3)
		give(t, same, "late", "x")
		wantGiven(t, d, "late", 1)

		// Programs cannot read or write the list.
		_, err = d.ReadFile(handFile, 0, -1)
		wantCode(t, err, Invalid)
		wantCode(t, d.write(ctx, handFile, []byte(`{"path":"b","bytes":5}`)), Invalid)
		if all := names(t, d); strings.Contains(all, handFile) {
			t.Errorf("it is listed: %s", all)
		}
	})
}

// TestHandList checks that a long list is rewritten with only those files that still exist.
func TestHandList(t *testing.T) {
	t.Parallel()
	_, d, _ := setup(t, Options{})
	give(t, d, "kept", "kept")
	name := strings.Repeat("n", 250)
	for hostOf(d).hands().size <= maxHandBytes {
		if err := hostOf(d).change("open", name, func(*spot) error {
			all := make([]given, 1000)
			for i := range all {
				all[i] = given{Path: name, Bytes: 1, Size: 1, Time: int64(i)}
			}
			return hostOf(d).give(t.Context(), all...)
		}); err != nil {
			t.Fatal(err)
		}
	}
	give(t, d, "new", "new")
	wantGiven(t, d, "kept", 4)
	wantGiven(t, d, "new", 3)
	if size := hostOf(d).hands().size; size > 1000 {
		t.Errorf("the list has %d bytes", size)
	}
}

package files

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"io/fs"
	"strings"
	"testing"
)

// shouting restores <x> as XXXX. It leaves a token at the end of a text that may continue in the following text.
type shouting struct{}

func (shouting) RestoreSome(_ context.Context, text string, last bool) (string, int, error) {
	used := len(text)
	if open := strings.LastIndexByte(text, '<'); !last && open >= 0 && !strings.Contains(text[open:], ">") {
		used = open
	}
	return strings.ReplaceAll(text[:used], "<x>", "XXXX"), used, nil
}

// TestContent checks that an owner reads a text file with restored tokens from any offset, and a binary file unchanged.
func TestContent(t *testing.T) {
	both(t, func(t *testing.T, at storage) {
		d := at.session(t, Limits{})
		ctx := t.Context()
		// Some tokens cross the borders of chunks.
		long := strings.Repeat("abcdefg<x>é", 3*chunkBytes/12)
		for name, c := range map[string]struct {
			file, want string
			text       bool
		}{
			"empty":                {"", "", true},
			"text without tokens":  {strings.Repeat("line\n", 200_000), strings.Repeat("line\n", 200_000), true},
			"text":                 {long, strings.ReplaceAll(long, "<x>", "XXXX"), true},
			"data":                 {long + "\xff", long + "\xff", false},
			"an unfinished letter": {"<x>\xc3", "<x>\xc3", false},
		} {
			if err := d.WriteFile("f", []byte(c.file)); err != nil {
				t.Fatal(err)
			}
			first, err := d.Content(ctx, "f", shouting{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer first.Close()
			if got, err := io.ReadAll(first); err != nil || string(got) != c.want || first.Size != int64(len(c.want)) || first.Text != c.text || first.Sum != sha256.Sum256([]byte(c.want)) {
				t.Errorf("%s: read %d bytes, %+v: %v", name, len(got), first.Layout, err)
			}
			again, err := d.Content(ctx, "f", shouting{}, func(fs.FileInfo) *Layout { return first.Layout })
			if err != nil {
				t.Fatal(err)
			}
			defer again.Close()
			for _, offset := range []int{0, 1, 8, len(c.want) / 3, len(c.want)/2 + 7, 5, max(0, len(c.want)-3), len(c.want), len(c.want) + 9} {
				if _, err := again.Seek(int64(offset), io.SeekStart); err != nil {
					t.Fatal(err)
				}
				want := c.want[min(offset, len(c.want)):]
				want = want[:min(len(want), 2*chunkBytes)]
				if got, err := io.ReadAll(io.LimitReader(again, 2*chunkBytes)); err != nil || string(got) != want {
					t.Errorf("%s: from %d on: %d bytes, want %d: %v", name, offset, len(got), len(want), err)
				}
			}
		}
	})
}

// TestContentChanges checks that truncating a file during a read is an error.
func TestContentChanges(t *testing.T) {
	t.Parallel()
	base, err := OpenBase(t.TempDir(), Options{Section: "workspace"})
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	d, err := base.Open("user", "session")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, text := range [][]byte{bytes.Repeat([]byte("a"), 3*chunkBytes), bytes.Repeat([]byte("a<x>"), chunkBytes)} {
		if err := d.WriteFile("f", text); err != nil {
			t.Fatal(err)
		}
		c, err := d.Content(t.Context(), "f", shouting{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := d.truncate("f", 1000); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(c); err == nil {
			t.Errorf("read %d bytes of a file that was cut", len(got))
		}
	}
}

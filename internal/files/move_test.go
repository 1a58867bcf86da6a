package files

import (
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// TestRenameKeepsTheLimitsOfPaths checks that renames cannot make a path that exceeds the limits of paths.
func TestRenameKeepsTheLimitsOfPaths(t *testing.T) {
	both(t, func(t *testing.T, s storage) {
		chain := func(name string, n int) string { return strings.TrimSuffix(strings.Repeat(name+"/", n), "/") }
		long := strings.Repeat("n", 250)
		for what, c := range map[string]struct {
			inside   string // content of the directory "moved"
			to       string // directory into which "moved" is moved
			problem  string
			straight bool // inside ends with a file
		}{
			"as deep as may be":      {chain("d", 16), chain("e", 15), "", false},
			"deeper":                 {chain("d", 16), chain("e", 16), "deeper than 32 directories", false},
			"a file, deeper":         {chain("d", 16), chain("e", 16), "deeper than 32 directories", true},
			"empty, at the bottom":   {"", chain("e", 31), "", false},
			"as long as may be":      {chain(long, 3), strings.Repeat("e", 252) + "/" + strings.Repeat("e", 12), "", false},
			"longer":                 {chain(long, 3), strings.Repeat("e", 252) + "/" + strings.Repeat("e", 13), "longer than 1024 bytes", false},
			"a file, longer":         {chain(long, 3), strings.Repeat("e", 252) + "/" + strings.Repeat("e", 13), "longer than 1024 bytes", true},
			"deep, but back upwards": {chain("d", 30), ".", "", false},
		} {
			t.Run(what, func(t *testing.T) {
				t.Parallel()
				_, d := s.setup(t, strings.Map(func(r rune) rune { return max(r, '-') }, what), Options{})
				from, to := "moved", path.Join(c.to, "moved")
				if c.to == "." {
					from, to = "a/moved", "moved"
				}
				if c.straight {
					write(t, d, path.Join(from, c.inside), "x")
				} else if err := d.Mkdir(t.Context(), path.Join(from, c.inside), true); err != nil {
					t.Fatal(err)
				}
				if err := d.Mkdir(t.Context(), c.to, true); err != nil {
					t.Fatal(err)
				}
				before := usageOf(t, d)
				err := d.Rename(t.Context(), from, to)
				at := to
				if c.problem != "" {
					at = from
					wantCode(t, err, Invalid)
					if err != nil && !strings.Contains(err.Error(), c.problem) {
						t.Errorf("error is %q, want %q", err, c.problem)
					}
				} else if err != nil {
					t.Fatal(err)
				}
				if _, err := d.Stat(path.Join(at, c.inside)); err != nil {
					t.Errorf("what was in the directory: %v", err)
				}
				wantUsage(t, d, before)
			})
		}
	})
}

func TestMove(t *testing.T) {
	both(t, func(t *testing.T, s storage) {
		_, src := s.setup(t, "a", Options{})
		_, dst := s.setup(t, "b", Options{})
		write(t, src, "a", "text")
		write(t, dst, "sub/b", "replaced")
		if err := Move(t.Context(), dst, "sub/b", src, "a"); err != nil {
			t.Fatal(err)
		}
		wantFile(t, dst, "sub/b", "text")
		wantUsage(t, src, Usage{})
		wantUsage(t, dst, Usage{Bytes: 4, Files: 2})
	})
}

// TestMoveOfChangingFile checks that a move fails if another run changes the file meanwhile, so that no data is lost. A removal meanwhile does not matter.
func TestMoveOfChangingFile(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(*Dir) error{
		"appended": func(d *Dir) error { return d.AppendFile(t.Context(), "a", []byte(" and more")) },
		"replaced": func(d *Dir) error { return d.WriteFile("a", []byte("text and more")) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			_, src, _ := setup(t, Options{})
			_, dst, _ := setup(t, Options{Limits: Limits{MaxFiles: 10}})
			write(t, src, "a", "text")
			// Move checks this context while it counts the quota of the target, after it has opened the source.
			ctx := during{t.Context(), func() {
				if err := change(src); err != nil {
					t.Error(err)
				}
			}}
			err := Move(&ctx, dst, "b", src, "a")
			wantCode(t, err, IO)
			if err != nil && !strings.Contains(err.Error(), "another run changed the file") {
				t.Error(err)
			}
			wantFile(t, src, "a", "text and more")
		})
	}
	t.Run("removed", func(t *testing.T) {
		t.Parallel()
		_, src, _ := setup(t, Options{})
		_, dst, _ := setup(t, Options{})
		write(t, src, "a", "text")
		ctx := during{t.Context(), func() {
			if err := src.Delete("a"); err != nil {
				t.Error(err)
			}
		}}
		if err := Move(&ctx, dst, "b", src, "a"); err != nil {
			t.Fatal(err)
		}
		wantFile(t, dst, "b", "text")
	})
}

// TestDurableRename checks that a durable rename syncs both directories.
func TestDurableRename(t *testing.T) {
	t.Parallel()
	_, d, host := setup(t, Options{Durable: true})
	write(t, d, "a/b/c", "1")
	if err := d.Mkdir(t.Context(), "e/f", true); err != nil {
		t.Fatal(err)
	}
	if err := d.Rename(t.Context(), "a/b", "e/f/b"); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(host, "e", "f", "b", "c")); string(got) != "1" || err != nil {
		t.Errorf("the file holds %q, %v", got, err)
	}
}

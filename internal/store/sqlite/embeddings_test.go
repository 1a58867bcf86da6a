package sqlite

import (
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/embedding"
)

// Vectors are kept by model and text, also for other processes. There is a bound; those that were used the longest ago give way.
func TestEmbeddings(t *testing.T) {
	t.Parallel()
	var passed atomic.Int64 // the stores ask in the background, too
	path := filepath.Join(t.TempDir(), "harness.db")
	opt := Options{Now: func() time.Time { return time.Unix(1_000_000, 0).Add(time.Duration(passed.Load())) }}
	s, other := reopenAt(t, path, opt), reopenAt(t, path, opt)
	key := func(n byte) embedding.Key { return embedding.Key{n} }
	put := func(model string, n byte) {
		t.Helper()
		if err := s.putEmbeddings(t.Context(), model, map[embedding.Key][]byte{key(n): {n, 0xff}}, 3); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(from *Store, model string, want ...byte) {
		t.Helper()
		got, err := from.Embeddings(t.Context(), model, []embedding.Key{key(1), key(2), key(3), key(4)})
		if err != nil {
			t.Fatal(err)
		}
		wanted := map[embedding.Key][]byte{}
		for _, n := range want {
			wanted[key(n)] = []byte{n, 0xff}
		}
		if diff := cmp.Diff(wanted, got); diff != "" {
			t.Error(diff)
		}
	}
	expect(s, "a")
	put("a", 1)
	passed.Add(int64(time.Hour))
	put("a", 2)
	passed.Add(int64(time.Hour))
	put("b", 3)
	expect(other, "a", 1, 2)
	expect(other, "b", 3)
	passed.Add(int64(48 * time.Hour))
	if _, err := s.Embeddings(t.Context(), "a", []embedding.Key{key(1)}); err != nil { // it is used again
		t.Fatal(err)
	}
	passed.Add(int64(time.Hour))
	put("b", 4)
	if n := count(t, s, "SELECT count(*) FROM embeddings"); n != 3 {
		t.Errorf("%d vectors are kept", n)
	}
	expect(s, "a", 1)
	expect(s, "b", 3, 4)
}

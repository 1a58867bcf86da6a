package sqlite

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/task"
)

func TestKeys(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "harness.db")
	s, other := reopenAt(t, path, Options{}), reopenAt(t, path, Options{})
	when := func(seconds int) *time.Time {
		at := time.Date(2031, 1, 2, 3, 4, seconds, 567_000, time.UTC)
		return &at
	}
	a := auth.Key{
		ID: "key_a", Hash: []byte("hash a"), Name: "ann's", User: "ann", Roles: []string{"user", "approver"}, Created: *when(0),
		LastUsed: when(1), Expires: when(2), Revoked: when(3),
	}
	b := auth.Key{ID: "key_b", Hash: []byte("hash b"), Roles: []string{}, Created: *when(4)}
	for _, k := range []auth.Key{a, b} {
		if err := s.CreateKey(t.Context(), k); err != nil {
			t.Fatal(err)
		}
	}
	wantIs(t, "an id that is taken", s.CreateKey(t.Context(), auth.Key{ID: "key_a", Hash: []byte("x")}), task.ErrExists)
	wantIs(t, "a hash that is taken", s.CreateKey(t.Context(), auth.Key{ID: "x", Hash: []byte("hash a")}), task.ErrExists)
	check := func(what string, s *Store, want ...auth.Key) {
		t.Helper()
		got, err := s.Keys(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", what, d)
		}
		for _, k := range want {
			got, _, err := s.KeyByHash(t.Context(), k.Hash)
			if d := cmp.Diff(k, got); err != nil || d != "" {
				t.Errorf("%s: by hash: %v (-want +got):\n%s", what, err, d)
			}
		}
	}
	check("created", other, a, b)
	if _, ok, err := s.KeyByHash(t.Context(), []byte("hash c")); ok || err != nil {
		t.Errorf("an unknown hash: %t, %v", ok, err)
	}

	for _, at := range []*time.Time{when(5), when(6)} {
		for _, id := range []string{"key_a", "key_b"} {
			if err := s.RevokeKey(t.Context(), id, *at); err != nil {
				t.Error(err)
			}
		}
	}
	b.Revoked = when(5)
	check("revoked twice", s, a, b)
	wantIs(t, "revoke of an unknown key", s.RevokeKey(t.Context(), "key_c", *when(0)), task.ErrNotFound)
}

// The use of a key is stored, but not of each request.
func TestTouchKey(t *testing.T) {
	t.Parallel()
	s := setup(t, Options{})
	begin := time.Date(2031, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, id := range []string{"a", "b"} {
		if err := s.CreateKey(t.Context(), auth.Key{ID: id, Hash: []byte(id)}); err != nil {
			t.Fatal(err)
		}
	}
	touch := func(id string, after time.Duration, want time.Duration, writes int64) {
		t.Helper()
		before := s.Stats().Changes
		if err := s.TouchKey(t.Context(), id, begin.Add(after)); err != nil {
			t.Fatal(err)
		}
		if n := s.Stats().Changes - before; n != writes {
			t.Errorf("%s after %v: %d writes, want %d", id, after, n, writes)
		}
		k, _, err := s.KeyByHash(t.Context(), []byte(id))
		if err != nil || k.LastUsed == nil || !k.LastUsed.Equal(begin.Add(want)) {
			t.Errorf("%s after %v: last used %v, %v, want %v", id, after, k.LastUsed, err, begin.Add(want))
		}
	}
	touch("a", 0, 0, 1)
	touch("a", 59*time.Second, 0, 0)
	touch("b", 59*time.Second, 59*time.Second, 1)
	touch("a", time.Minute, time.Minute, 1)
	touch("a", time.Second, time.Minute, 0) // a request that took long
	if err := s.TouchKey(t.Context(), "nobody's", begin); err != nil {
		t.Error(err)
	}
	// Another process, which has not seen the key before, does not turn its last use back.
	if err := reopenAt(t, s.path, Options{}).TouchKey(t.Context(), "a", begin.Add(time.Second)); err != nil {
		t.Error(err)
	}
	touch("a", time.Second, time.Minute, 0)
}

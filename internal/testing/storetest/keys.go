package storetest

import (
	"testing"
	"time"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/task"
)

func keys(t *testing.T, open Place) {
	s, other := open(t), open(t)
	a := auth.Key{
		ID: "key_a", Hash: []byte("hash a"), Name: "ann's", User: "ann", Roles: []string{"user", "approver"}, Created: begin,
		LastUsed: pointer(at(1)), Expires: pointer(at(2)), Revoked: pointer(at(3)),
	}
	b := auth.Key{ID: "key_b", Hash: []byte("hash b"), Roles: []string{}, Created: at(4)}
	for _, k := range []auth.Key{a, b} {
		must(t, "create", s.CreateKey(t.Context(), k))
	}
	wantIs(t, "an id that is taken", s.CreateKey(t.Context(), auth.Key{ID: "key_a", Hash: []byte("x")}), task.ErrExists)
	wantIs(t, "a hash that is taken", s.CreateKey(t.Context(), auth.Key{ID: "x", Hash: []byte("hash a")}), task.ErrExists)
	check := func(what string, s Store, want ...auth.Key) {
		t.Helper()
		got, err := s.Keys(t.Context())
		must(t, what, err)
		wantEqual(t, what, want, got)
		for _, k := range want {
			got, ok, err := s.KeyByHash(t.Context(), k.Hash)
			if err != nil || !ok {
				t.Errorf("%s: by hash: %t, %v", what, ok, err)
			}
			wantEqual(t, what+", by hash", k, got)
			got, ok, err = s.KeyByID(t.Context(), k.ID)
			if err != nil || !ok {
				t.Errorf("%s: by id: %t, %v", what, ok, err)
			}
			wantEqual(t, what+", by id", k, got)
		}
	}
	check("created", other, a, b)
	if _, ok, err := s.KeyByHash(t.Context(), []byte("hash c")); ok || err != nil {
		t.Errorf("an unknown hash: %t, %v", ok, err)
	}
	if _, ok, err := s.KeyByID(t.Context(), "key_c"); ok || err != nil {
		t.Errorf("an unknown id: %t, %v", ok, err)
	}
	for _, when := range []time.Time{at(5), at(6)} {
		for _, id := range []string{"key_a", "key_b"} {
			must(t, "revoke", s.RevokeKey(t.Context(), id, when))
		}
	}
	b.Revoked = pointer(at(5))
	check("revoked twice", s, a, b)
	wantIs(t, "revoke of an unknown key", s.RevokeKey(t.Context(), "key_c", begin), task.ErrNotFound)
}

// touchKey tests that the latest use of a key is stored, and that an earlier use never replaces it, in any process.
func touchKey(t *testing.T, open Place) {
	s, other := open(t), open(t)
	must(t, "create", s.CreateKey(t.Context(), auth.Key{ID: "a", Hash: []byte("a")}))
	touch := func(s Store, after, want int) {
		t.Helper()
		must(t, "touch", s.TouchKey(t.Context(), "a", at(after)))
		k, _, err := s.KeyByHash(t.Context(), []byte("a"))
		if err != nil || k.LastUsed == nil || !k.LastUsed.Equal(at(want)) {
			t.Errorf("after %d s: last used %v, %v, want %d s", after, k.LastUsed, err, want)
		}
	}
	touch(s, 0, 0)
	touch(s, 60, 60)
	touch(s, 1, 60)
	touch(other, 1, 60)
	touch(other, 120, 120)
	must(t, "touch of an unknown key", s.TouchKey(t.Context(), "b", begin))
}

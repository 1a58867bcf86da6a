package auth

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var errNoKey = errors.New("no such key")

// memoryKeys is a KeyStore in memory.
type memoryKeys struct {
	mu      sync.Mutex
	keys    []Key
	touched int
	fail    error
}

func (m *memoryKeys) CreateKey(_ context.Context, k Key) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keys = append(m.keys, k)
	return m.fail
}

func (m *memoryKeys) Keys(context.Context) ([]Key, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]Key(nil), m.keys...), m.fail
}

func (m *memoryKeys) KeyByHash(_ context.Context, hash []byte) (Key, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range m.keys {
		if string(k.Hash) == string(hash) {
			return k, true, m.fail
		}
	}
	return Key{}, false, m.fail
}

func (m *memoryKeys) KeyByID(_ context.Context, id string) (Key, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range m.keys {
		if k.ID == id {
			return k, true, m.fail
		}
	}
	return Key{}, false, m.fail
}

func (m *memoryKeys) set(id string, change func(*Key)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.keys {
		if m.keys[i].ID == id {
			change(&m.keys[i])
			return nil
		}
	}
	return errNoKey
}

func (m *memoryKeys) RevokeKey(_ context.Context, id string, at time.Time) error {
	return m.set(id, func(k *Key) { k.Revoked = &at })
}

func (m *memoryKeys) TouchKey(_ context.Context, id string, at time.Time) error {
	return m.set(id, func(k *Key) { k.LastUsed = &at; m.touched++ })
}

func mustCreate(t *testing.T, k *Keys, n NewKey) (Key, string) {
	t.Helper()
	key, value, err := k.Create(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	return key, value
}

func TestKeysAuthenticate(t *testing.T) {
	t.Parallel()
	keys := NewKeys(&memoryKeys{})
	bound, boundValue := mustCreate(t, keys, NewKey{Name: "ci", User: "alice"})
	anyone, anyValue := mustCreate(t, keys, NewKey{Roles: []Role{Approver, Admin}})
	for _, tt := range []struct {
		value string
		want  Identity
	}{
		{boundValue, Identity{Principal: bound.ID, User: "alice", Roles: []Role{User}}},
		{anyValue, Identity{Principal: anyone.ID, Roles: []Role{Approver, Admin}}},
	} {
		got, err := keys.Authenticate(t.Context(), tt.value)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Error(diff)
		}
	}
}

func TestKeysKeepNoValue(t *testing.T) {
	t.Parallel()
	store := &memoryKeys{}
	keys := NewKeys(store)
	key, value := mustCreate(t, keys, NewKey{Name: "ci", User: "alice"})
	secret := value[len(keyPrefix) : len(value)-keyChecksum]
	if all := fmt.Sprintf("%+v %q %+v", store.keys, store.keys[0].Hash, key); strings.Contains(all, secret) {
		t.Errorf("the store has the key: %s", all)
	}
	if len(key.Hash) != 32 || !strings.HasPrefix(key.ID, "key_") || strings.Contains(value, key.ID[4:]) {
		t.Errorf("key %+v", key)
	}
}

func TestKeysRefuse(t *testing.T) {
	t.Parallel()
	keys := NewKeys(&memoryKeys{})
	revoked, revokedValue := mustCreate(t, keys, NewKey{})
	if err := keys.Revoke(t.Context(), revoked.ID); err != nil {
		t.Fatal(err)
	}
	_, value := mustCreate(t, keys, NewKey{})
	for _, tt := range []struct{ name, value, why string }{
		{"revoked", revokedValue, "revoked"},
		{"unknown", newKeyValue(), "not known"},
		{"mistyped", value[:len(value)-1] + "_", "mistyped"},
		{"truncated", value[:20], "mistyped"},
	} {
		_, err := keys.Authenticate(t.Context(), tt.value)
		if !errors.Is(err, ErrUnauthenticated) || !strings.Contains(err.Error(), tt.why) {
			t.Errorf("%s: error %v", tt.name, err)
		}
		if strings.Contains(err.Error(), tt.value) {
			t.Errorf("%s: the error %q tells the key", tt.name, err)
		}
	}
	if err := keys.Revoke(t.Context(), "key_none"); !errors.Is(err, errNoKey) {
		t.Errorf("revoking an unknown key: %v", err)
	}
	if any, err := NewKeys(&memoryKeys{}).Any(t.Context()); any || err != nil {
		t.Errorf("an empty store has a key: %t, %v", any, err)
	}
}

// A harness whose only key is revoked must not be open.
func TestKeysAnyCountsRevokedOnes(t *testing.T) {
	t.Parallel()
	keys := NewKeys(&memoryKeys{})
	k, _ := mustCreate(t, keys, NewKey{})
	if err := keys.Revoke(t.Context(), k.ID); err != nil {
		t.Fatal(err)
	}
	if any, err := keys.Any(t.Context()); !any || err != nil {
		t.Errorf("Any = %t, %v", any, err)
	}
}

func TestKeysFailWithTheStore(t *testing.T) {
	t.Parallel()
	store := &memoryKeys{fail: errors.New("disk full")}
	keys := NewKeys(store)
	if _, _, err := keys.Create(t.Context(), NewKey{}); !errors.Is(err, store.fail) {
		t.Errorf("create: %v", err)
	}
	_, err := keys.Authenticate(t.Context(), newKeyValue())
	if !errors.Is(err, store.fail) || errors.Is(err, ErrUnauthenticated) {
		t.Errorf("authenticate: %v", err)
	}
}

func TestKeysCreateChecks(t *testing.T) {
	t.Parallel()
	store := &memoryKeys{}
	for _, n := range []NewKey{{Roles: []Role{"root"}}, {User: "a\nb"}, {TTL: -time.Second}} {
		if _, _, err := NewKeys(store).Create(t.Context(), n); err == nil {
			t.Errorf("%+v is accepted", n)
		}
	}
	if len(store.keys) != 0 {
		t.Errorf("keys were stored: %+v", store.keys)
	}
}

func TestKeysExpireAndAreTouched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &memoryKeys{}
		keys := NewKeys(store)
		created := time.Now()
		key, value := mustCreate(t, keys, NewKey{TTL: time.Hour})
		use := func() error { _, err := keys.Authenticate(t.Context(), value); return err }
		for range 3 {
			if err := use(); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(touchEvery)
		if err := use(); err != nil {
			t.Fatal(err)
		}
		if store.touched != 2 {
			t.Errorf("the store was written %d times, want 2", store.touched)
		}
		time.Sleep(time.Hour - touchEvery - 1)
		if err := use(); err != nil {
			t.Errorf("a nanosecond before it expires: %v", err)
		}
		time.Sleep(time.Nanosecond)
		if err := use(); !errors.Is(err, ErrUnauthenticated) || !strings.Contains(err.Error(), "expired") {
			t.Errorf("when it expires: %v", err)
		}
		time.Sleep(time.Hour)
		newer, _ := mustCreate(t, keys, NewKey{Name: "newer"})
		list, err := keys.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]Key{newer, key}, list, cmpopts.IgnoreFields(Key{}, "LastUsed")); diff != "" {
			t.Error(diff)
		}
		if want := created.Add(time.Hour); !key.Expires.Equal(want) {
			t.Errorf("expires %s, want %s", key.Expires, want)
		}
	})
}

package seal

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const testName = "HARNESS_PII_KEY"

// master returns a master key, a different one for each name.
func master(name string) []byte {
	sum := sha256.Sum256([]byte(name))
	return sum[:]
}

func newKeys(t testing.TB, masters ...string) *Keys {
	t.Helper()
	var all [][]byte
	for _, name := range masters {
		all = append(all, master(name))
	}
	keys, err := New(testName, all...)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func mustSeal(t testing.TB, k *Keys, s Scope, value string) []byte {
	t.Helper()
	sealed, err := k.Seal(s, value)
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

func TestOpenReversesSeal(t *testing.T) {
	t.Parallel()
	keys, same := newKeys(t, "a"), newKeys(t, "a")
	rapid.Check(t, func(rt *rapid.T) {
		s := Scope{rapid.String().Draw(rt, "user"), rapid.String().Draw(rt, "session")}
		value := string(rapid.SliceOf(rapid.Byte()).Draw(rt, "value"))
		sealed := mustSeal(t, keys, s, value)
		if len(sealed) != len(value)+Overhead || len(value) > 3 && bytes.Contains(sealed, []byte(value)) {
			rt.Fatalf("%q is sealed as %x", value, sealed)
		}
		if got, err := same.Open(s, sealed); err != nil || got != value { // The second Keys stand for another process.
			rt.Fatalf("opened %q, %v, want %q", got, err, value)
		}
		if again := mustSeal(t, same, s, value); !bytes.Equal(again, sealed) {
			rt.Fatalf("sealed as %x and as %x", sealed, again)
		}
	})
}

// scopes are different scopes. Some of them are equal if user and session are joined.
var scopes = []Scope{{"ab", "c"}, {"a", "bc"}, {"abc", ""}, {"", "abc"}, {"a", "b\x00c"}, {"a\x00b", "c"}, {}}

func TestScopesAreApart(t *testing.T) {
	t.Parallel()
	keys := newKeys(t, "a")
	for i, a := range scopes {
		sealed := mustSeal(t, keys, a, "alice@example.com")
		for j, b := range scopes {
			if _, err := keys.Open(b, sealed); (err == nil) != (i == j) || err != nil && !errors.Is(err, ErrDamaged) {
				t.Errorf("sealed for %q, opened for %q: %v", a, b, err)
			}
			if equal := keys.Key(a, "EMAIL", "alice@example.com") == keys.Key(b, "EMAIL", "alice@example.com"); equal != (i == j) {
				t.Errorf("%q and %q have equal lookup keys: %v", a, b, equal)
			}
		}
	}
}

func TestKeyDependsOnTypeAndValue(t *testing.T) {
	t.Parallel()
	keys := newKeys(t, "a")
	s := Scope{"alice", "sess_1"}
	seen := map[LookupKey]string{}
	for _, pair := range [][2]string{{"EMAIL", "ab"}, {"EMAILa", "b"}, {"EMAIL", "a"}, {"", "EMAILab"}, {"PHONE", "ab"}} {
		key := keys.Key(s, pair[0], pair[1])
		if other, ok := seen[key]; ok {
			t.Errorf("%q has the key of %q", pair, other)
		}
		seen[key] = pair[0] + " " + pair[1]
	}
	if keys.Key(s, "EMAIL", "ab") != newKeys(t, "a").Key(s, "EMAIL", "ab") {
		t.Error("another process has another key")
	}
}

// A sealed value with a changed bit, or without its end, does not open.
func TestDamaged(t *testing.T) {
	t.Parallel()
	keys, s := newKeys(t, "a"), Scope{"alice", "sess_1"}
	sealed := mustSeal(t, keys, s, "alice@example.com")
	for i := range sealed {
		for bit := range 8 {
			changed := bytes.Clone(sealed)
			changed[i] ^= 1 << bit
			if got, err := keys.Open(s, changed); !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrUnknownKey) {
				t.Fatalf("bit %d of byte %d changed: %q, %v", bit, i, got, err)
			}
		}
	}
	for n := range sealed {
		if got, err := keys.Open(s, sealed[:n]); err == nil {
			t.Errorf("the first %d bytes open as %q", n, got)
		}
	}
}

// After a change of the key, old values can be opened and found, and new values are sealed with the new key.
func TestRotation(t *testing.T) {
	t.Parallel()
	s := Scope{"alice", "sess_1"}
	const value = "alice@example.com"
	old, both, later := newKeys(t, "old"), newKeys(t, "new", "old"), newKeys(t, "new")
	sealed, lookup := mustSeal(t, old, s, value), old.Key(s, "EMAIL", value)
	if got, err := both.Open(s, sealed); err != nil || got != value {
		t.Errorf("got %q, %v", got, err)
	}
	if older := both.Older(s, "EMAIL", value); len(older) != 1 || older[0] != lookup {
		t.Errorf("older keys are %x, want %x", older, lookup)
	}
	if both.Key(s, "EMAIL", value) != later.Key(s, "EMAIL", value) || both.Key(s, "EMAIL", value) == lookup {
		t.Error("the newest key is not used to store")
	}
	if len(old.Older(s, "EMAIL", value)) != 0 {
		t.Error("there are older keys than the only one")
	}
	if got, err := later.Open(s, mustSeal(t, both, s, value)); err != nil || got != value {
		t.Errorf("sealed with the new key: %q, %v", got, err)
	}
	_, err := later.Open(s, sealed)
	if !errors.Is(err, ErrUnknownKey) {
		t.Fatal(err)
	}
	for _, part := range []string{testName, old.IDs()[0], "behind the newest"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not name %q", err, part)
		}
	}
	if strings.Contains(err.Error(), value) {
		t.Errorf("%q holds the value", err)
	}
}

func BenchmarkSeal(b *testing.B) {
	keys, s := newKeys(b, "a"), Scope{"alice@example.com", "sess_0123456789"}
	for b.Loop() {
		mustSeal(b, keys, s, "alice.wonderland@example.com")
	}
}

func BenchmarkOpen(b *testing.B) {
	keys, s := newKeys(b, "a"), Scope{"alice@example.com", "sess_0123456789"}
	sealed := mustSeal(b, keys, s, "alice.wonderland@example.com")
	for b.Loop() {
		if _, err := keys.Open(s, sealed); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkKey(b *testing.B) {
	keys, s := newKeys(b, "a"), Scope{"alice@example.com", "sess_0123456789"}
	for b.Loop() {
		keys.Key(s, "EMAIL", "alice.wonderland@example.com")
	}
}

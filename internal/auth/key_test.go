package auth

import (
	"strings"
	"testing"
)

func TestKeyValueIsWellFormed(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	used := map[rune]int{}
	for range 2000 {
		v := newKeyValue()
		if err := checkKey(v); err != nil {
			t.Fatalf("a new key %q: %v", v, err)
		}
		if seen[v] {
			t.Fatalf("%q was made twice", v)
		}
		seen[v] = true
		for _, r := range v[len(keyPrefix) : len(v)-keyChecksum] {
			used[r]++
		}
	}
	// Of 64,000 characters, each of the 62 different ones occurs about 1,032 times, and with probability 1 - 1e-9 between 800 and 1,270 times.
	for _, r := range base62 {
		if used[r] < 800 || used[r] > 1270 {
			t.Errorf("character %q occurs %d times", r, used[r])
		}
	}
}

func TestCheckKeyFindsTypingErrors(t *testing.T) {
	t.Parallel()
	v := newKeyValue()
	for i := len(keyPrefix); i < len(v); i++ {
		for _, r := range base62 {
			wrong := v[:i] + string(r) + v[i+1:]
			if wrong != v && checkKey(wrong) == nil {
				t.Errorf("%q for %q is accepted", wrong, v)
			}
		}
		if i+1 < len(v) && v[i] != v[i+1] {
			if swapped := v[:i] + v[i+1:i+2] + v[i:i+1] + v[i+2:]; checkKey(swapped) == nil {
				t.Errorf("%q for %q is accepted", swapped, v)
			}
		}
	}
	for _, wrong := range []string{"", "hk_", v[:len(v)-1], v + "x", "HK_" + v[3:], " " + v, v + "\n", strings.Replace(v, "hk_", "hk-", 1)} {
		if checkKey(wrong) == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}

func FuzzCheckKey(f *testing.F) {
	f.Add(newKeyValue())
	f.Add("hk_")
	f.Add("hk_" + strings.Repeat("0", keyRandom+keyChecksum))
	f.Add("hk_" + strings.Repeat("é", (keyRandom+keyChecksum)/2))
	f.Fuzz(func(t *testing.T, s string) {
		err := checkKey(s)
		if err != nil && len(s) > 8 && strings.Contains(err.Error(), s) {
			t.Errorf("the error %q tells the key", err)
		}
		if err != nil {
			return
		}
		if len(s) != len(keyPrefix)+keyRandom+keyChecksum || strings.Trim(s[len(keyPrefix):], base62) != "" {
			t.Errorf("%q is accepted", s)
		}
	})
}

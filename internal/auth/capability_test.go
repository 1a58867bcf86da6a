package auth

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

const testSecret = "0123456789abcdef0123456789abcdef"

func newTestCapabilities(t testing.TB, secret string) *Capabilities {
	t.Helper()
	s, err := NewCapabilities([]byte(secret), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustIssue(t testing.TB, s *Capabilities, c Capability) string {
	t.Helper()
	token, _, err := s.Issue(c)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

var testCapability = Capability{RunID: "run_1", User: "alice", Session: "sess_1", Principal: "key_1"}

func TestCapabilityIsWhatWasIssued(t *testing.T) {
	t.Parallel()
	s := newTestCapabilities(t, testSecret)
	token := mustIssue(t, s, testCapability)
	got, err := newTestCapabilities(t, testSecret).Check(token) // as in another process with the same secret
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(got.Expires); left < 59*time.Minute || left > time.Hour {
		t.Errorf("expires in %s", left)
	}
	got.Expires = time.Time{}
	if diff := cmp.Diff(testCapability, got); diff != "" {
		t.Error(diff)
	}
	if strings.Contains(token, testSecret) {
		t.Error("the token holds the secret")
	}
}

func TestCapabilityForgeries(t *testing.T) {
	t.Parallel()
	s := newTestCapabilities(t, testSecret)
	token := mustIssue(t, s, testCapability)
	_, body, _ := strings.Cut(token, ".")
	claims, signature, _ := strings.Cut(body, ".")
	other := base64.RawURLEncoding.EncodeToString([]byte(`{"run":"run_1","user":"mallory","exp":9999999999}`))
	forgeries := map[string]string{
		"empty":               "",
		"another secret":      mustIssue(t, newTestCapabilities(t, "another secret of its own"), testCapability),
		"another process":     mustIssue(t, newTestCapabilities(t, ""), testCapability),
		"other claims":        "hc1." + other + "." + signature,
		"no signature":        "hc1." + claims + ".",
		"no dot":              "hc1." + claims,
		"no claims":           "hc1.",
		"another version":     "hc2." + body,
		"no version":          body,
		"line break":          token[:len(token)-3] + "\n" + token[len(token)-3:],
		"line break behind":   token + "\n",
		"padding":             token + "=",
		"of the original":     "session_alice_1700000000000",
		"long":                token + strings.Repeat("A", maxCapability),
		"signature of claims": "hc1." + claims + "." + string(s.sign(claims)),
	}
	for i := range token { // each character belongs to the signature or to the text that it signs
		for _, c := range "A-" {
			if changed := token[:i] + string(c) + token[i+1:]; changed != token {
				forgeries[fmt.Sprintf("character %d", i)] = changed
			}
		}
	}
	for name, forged := range forgeries {
		_, err := s.Check(forged)
		if !errors.Is(err, ErrCapability) {
			t.Errorf("%s: %v", name, err)
		} else if forged != "" && strings.Contains(err.Error(), forged) {
			t.Errorf("%s: the error tells the token", name)
		}
	}
}

// A token with a valid signature is refused if its claims are incomplete, or if they have a field of a later version.
func TestCapabilityOfUnknownForm(t *testing.T) {
	t.Parallel()
	s := newTestCapabilities(t, testSecret)
	for _, claims := range []string{
		`{"run":"run_1","user":"alice","exp":9999999999,"tools":["a"]}`, `{"user":"alice","exp":9999999999}`,
		`{"run":"run_1","exp":9999999999}`, `{"run":"run_1","user":"alice","exp":"never"}`, `null`, `[]`, ``, "\xff",
	} {
		body := capabilityPrefix + base64url.EncodeToString([]byte(claims))
		if got, err := s.Check(body + "." + string(s.sign(body))); !errors.Is(err, ErrCapability) {
			t.Errorf("%s is accepted as %+v", claims, got)
		}
	}
}

func TestCapabilityExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTestCapabilities(t, "")
		soon, asked, late := testCapability, testCapability, testCapability
		soon.Expires = time.Now().Add(10 * time.Second)
		asked.Expires = time.Now().Add(time.Minute)
		late.Expires = time.Now().Add(24 * time.Hour)
		tokens := []string{mustIssue(t, s, soon), mustIssue(t, s, asked), mustIssue(t, s, testCapability), mustIssue(t, s, late)}
		valid := func() (n int) {
			for _, token := range tokens {
				if _, err := s.Check(token); err == nil {
					n++
				} else if !strings.Contains(err.Error(), "expired") {
					t.Error(err)
				}
			}
			return n
		}
		for _, step := range []struct {
			until time.Duration
			want  int
		}{{9 * time.Second, 4}, {10 * time.Second, 3}, {59 * time.Second, 3}, {time.Minute, 2}, {time.Hour - time.Second, 2}, {time.Hour, 0}} {
			time.Sleep(step.until - time.Since(asked.Expires.Add(-time.Minute)))
			if got := valid(); got != step.want {
				t.Errorf("after %s %d are valid, want %d", step.until, got, step.want)
			}
		}
	})
}

func TestNewCapabilitiesChecks(t *testing.T) {
	t.Parallel()
	if _, err := NewCapabilities([]byte("changeme"), time.Hour); err == nil || strings.Contains(err.Error(), "changeme") {
		t.Errorf("a short secret: %v", err)
	}
	if _, err := NewCapabilities(nil, 0); err == nil {
		t.Error("a lifetime of 0 is accepted")
	}
	s := newTestCapabilities(t, "")
	for _, c := range []Capability{{}, {RunID: "run_1"}, {User: "alice"}, {RunID: "run_1", User: strings.Repeat("u", maxCapability)}} {
		if _, _, err := s.Issue(c); err == nil {
			t.Errorf("issued for %.40v", c)
		}
	}
}

func FuzzCapability(f *testing.F) {
	s := newTestCapabilities(f, testSecret)
	forever, err := NewCapabilities([]byte(testSecret), 100*365*24*time.Hour)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(mustIssue(f, forever, testCapability), "")
	f.Add("hc1.e30.", `{"run":"run_1","user":"a","exp":1}`)
	f.Add("hc1...", `{"run":1}`)
	f.Fuzz(func(t *testing.T, token, claims string) {
		check := func(token string) {
			c, err := s.Check(token)
			if err != nil {
				if !errors.Is(err, ErrCapability) {
					t.Errorf("error %v", err)
				}
				return
			}
			if c.RunID == "" || c.User == "" || !time.Now().Before(c.Expires) {
				t.Errorf("%q is accepted as %+v", token, c)
			}
		}
		check(token)
		body := capabilityPrefix + base64url.EncodeToString([]byte(claims)) // a valid signature, so that the claims reach the decoder
		check(body + "." + string(s.sign(body)))
	})
}

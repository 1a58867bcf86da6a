package auth

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestLoginOfSilentIssuer checks that only the first login waits for an issuer that does not answer.
func TestLoginOfSilentIssuer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fakeIssuer{url: inMemory, hang: true}
		l := NewLogin(newTestIssuer(t, f, nil), "client", "")
		for n, want := range []time.Duration{fetchTimeout, 0, 0} {
			begin := time.Now()
			if _, _, err := l.Begin(t.Context(), "http://127.0.0.1/back"); !errors.Is(err, ErrUnavailable) || time.Since(begin) != want {
				t.Errorf("login %d: %v after %s, want %s", n, err, time.Since(begin), want)
			}
		}
		f.set(func() { f.hang = false })
		time.Sleep(fetchPause)
		begin := time.Now()
		if _, _, err := l.Begin(t.Context(), "http://127.0.0.1/back"); time.Since(begin) != 0 {
			t.Errorf("when it answers: %v after %s", err, time.Since(begin))
		}
	})
}

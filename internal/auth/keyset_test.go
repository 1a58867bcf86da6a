package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
)

func TestIssuerRotatesKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		old, next := newSigningKey(t, "old"), newSigningKey(t, "new")
		f := &fakeIssuer{url: inMemory}
		f.publish(old)
		i := newTestIssuer(t, f, nil)
		accepted := func(k *signingKey) error {
			_, err := i.Authenticate(t.Context(), k.token(t, f.url, nil))
			return err
		}
		for range 3 {
			if err := accepted(old); err != nil {
				t.Fatal(err)
			}
		}
		f.publish(next, old)
		time.Sleep(fetchPause)
		if err := accepted(next); err != nil {
			t.Errorf("the new key: %v", err)
		}
		if got := f.fetches.Load(); got != 2 {
			t.Errorf("the keys were fetched %d times, want 2", got)
		}
		f.publish(next)
		if err := accepted(old); err != nil {
			t.Errorf("the old key, before anybody could know that it was withdrawn: %v", err)
		}
		time.Sleep(keysFresh)
		if err := accepted(old); !errors.Is(err, ErrUnauthenticated) {
			t.Errorf("the old key an hour later: %v", err)
		}
		if err := accepted(next); err != nil {
			t.Errorf("the new key an hour later: %v", err)
		}
	})
}

func TestIssuerUnknownKeyFlood(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		key := newSigningKey(t, "k1")
		f := &fakeIssuer{url: inMemory}
		f.publish(key)
		i := newTestIssuer(t, f, nil)
		forger := newSigningKey(t, "")
		const minute = 60
		for second := range minute {
			var wg sync.WaitGroup
			for n := range 20 {
				forger := *forger
				forger.id = fmt.Sprintf("made-up-%d-%d", second, n)
				token := forger.token(t, f.url, nil)
				wg.Go(func() {
					if _, err := i.Authenticate(t.Context(), token); !errors.Is(err, ErrUnauthenticated) {
						t.Errorf("error %v", err)
					}
				})
			}
			wg.Wait()
			if _, err := i.Authenticate(t.Context(), key.token(t, f.url, nil)); err != nil {
				t.Errorf("a good token amid the flood: %v", err)
			}
			time.Sleep(time.Second)
		}
		if got := f.fetches.Load(); got > minute/10+1 {
			t.Errorf("%d bad tokens in a minute made %d fetches", 20*minute, got)
		}
	})
}

func TestIssuerIsResolvedLazily(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		key := newSigningKey(t, "k1")
		f := &fakeIssuer{url: inMemory, hang: true}
		f.publish(key)
		i := newTestIssuer(t, f, nil)
		begin := time.Now()
		_, err := i.Authenticate(t.Context(), key.token(t, f.url, nil))
		if !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnauthenticated) || !strings.Contains(err.Error(), f.url) {
			t.Errorf("a silent issuer: %v", err)
		}
		if took := time.Since(begin); took != fetchTimeout {
			t.Errorf("it was waited for %s", took)
		}
		f.set(func() { f.hang = false })
		begin = time.Now()
		if _, err := i.Authenticate(t.Context(), key.token(t, f.url, nil)); !errors.Is(err, ErrUnavailable) || time.Since(begin) != 0 {
			t.Errorf("right after: %v, in %s", err, time.Since(begin))
		}
		time.Sleep(fetchPause)
		if _, err := i.Authenticate(t.Context(), key.token(t, f.url, nil)); err != nil {
			t.Errorf("when it answers: %v", err)
		}
	})
}

// If an issuer does not answer, its tokens stay valid for a day, and only the first request waits for the issuer.
func TestIssuerOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		key := newSigningKey(t, "k1")
		f := &fakeIssuer{url: inMemory}
		f.publish(key)
		i := newTestIssuer(t, f, nil)
		waited := func() (time.Duration, error) {
			begin := time.Now()
			_, err := i.Authenticate(t.Context(), key.token(t, f.url, nil))
			return time.Since(begin), err
		}
		if _, err := waited(); err != nil {
			t.Fatal(err)
		}
		f.set(func() { f.hang = true })
		time.Sleep(keysFresh)
		if d, err := waited(); err != nil || d != fetchTimeout {
			t.Errorf("the first: %v after %s", err, d)
		}
		for range 20 {
			time.Sleep(time.Hour)
			if d, err := waited(); err != nil || d != 0 {
				t.Errorf("%v after %s", err, d)
			}
		}
		time.Sleep(4 * time.Hour)
		if _, err := waited(); !errors.Is(err, ErrUnavailable) {
			t.Errorf("after a day: %v", err)
		}
	})
}

// A fetch continues when the request that began it ends, because other requests wait for it.
func TestIssuerFetchOutlivesItsRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		key := newSigningKey(t, "k1")
		f := &fakeIssuer{url: inMemory, hang: true}
		i := newTestIssuer(t, f, nil)
		first, cancel := context.WithCancel(t.Context())
		gone := make(chan error)
		go func() {
			_, err := i.Authenticate(first, key.token(t, f.url, nil))
			gone <- err
		}()
		synctest.Wait()
		second := make(chan error)
		go func() {
			_, err := i.Authenticate(t.Context(), key.token(t, f.url, nil))
			second <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("the first: %v", err)
		}
		if err := <-second; !errors.Is(err, ErrUnavailable) {
			t.Errorf("the second: %v", err)
		}
	})
}

func TestIssuerPublishesWhatIsOfNoUse(t *testing.T) {
	t.Parallel()
	good, weak := newSigningKey(t, "good"), newRSAKey(t, "weak", jose.RS256, 1024)
	forEncryption, secret := newSigningKey(t, "enc"), []byte("0123456789abcdef0123456789abcdef")
	encryption := forEncryption.public()
	encryption.Use = "enc"
	f := serve(t)
	f.set(func() {
		f.keys = []any{
			"no key",
			map[string]any{"kty": "FUTURE", "kid": "x"},
			map[string]any{"kty": "RSA"},
			jose.JSONWebKey{Key: secret, KeyID: "secret", Algorithm: "ES256"},
			weak.public(), encryption, good.public(),
		}
	})
	if _, err := newTestIssuer(t, f, nil).Authenticate(t.Context(), good.token(t, f.url, nil)); err != nil {
		t.Errorf("the one good key: %v", err)
	}
	for _, k := range []*signingKey{weak, forEncryption} {
		if _, err := newTestIssuer(t, f, nil).Authenticate(t.Context(), k.token(t, f.url, nil)); !errors.Is(err, ErrUnauthenticated) {
			t.Errorf("key %s: %v", k.id, err)
		}
	}
}

func TestIssuerAnswersBadly(t *testing.T) {
	t.Parallel()
	key := newSigningKey(t, "k1")
	elsewhere := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(elsewhere.Close)
	for name, tt := range map[string]struct {
		change func(*fakeIssuer)
		why    string
	}{
		"down":         {func(f *fakeIssuer) { f.down = true }, "HTTP 502"},
		"another name": {func(f *fakeIssuer) { f.name = f.url + "/" }, "configure it by that name"},
		"no keys":      {func(f *fakeIssuer) { f.keys = nil }, "no key that is of use"},
		"keys away":    {func(f *fakeIssuer) { f.keysURI = elsewhere.URL }, "HTTP 404"},
		"keys nowhere": {func(f *fakeIssuer) { f.keysURI = "file:///etc/passwd" }, "unsupported protocol"},
		"no JSON":      {func(f *fakeIssuer) { f.keys = []any{strings.Repeat("x", maxDocument)} }, "not the JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := serve(t, key)
			f.set(func() { tt.change(f) })
			_, err := newTestIssuer(t, f, nil).Authenticate(t.Context(), key.token(t, f.url, nil))
			if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), tt.why) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestIssuerKeysStayOnHTTPS(t *testing.T) {
	t.Parallel()
	key := newSigningKey(t, "k1")
	f := &fakeIssuer{url: inMemory, keysURI: "http://issuer.test/keys"}
	f.publish(key)
	_, err := newTestIssuer(t, f, nil).Authenticate(t.Context(), key.token(t, f.url, nil))
	if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "https") {
		t.Errorf("plain keys: %v", err)
	}
	redirect := roundTrip(func(r *http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		http.Redirect(w, r, "http://issuer.test"+r.URL.Path, http.StatusFound)
		if r.URL.Scheme == "http" {
			w = httptest.NewRecorder()
			f.ServeHTTP(w, r)
		}
		return w.Result(), nil
	})
	i := newTestIssuer(t, f, func(o *IssuerOptions) { o.Client = &http.Client{Transport: redirect} })
	if _, err := i.Authenticate(t.Context(), key.token(t, f.url, nil)); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "redirect") {
		t.Errorf("redirected to plain http: %v", err)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

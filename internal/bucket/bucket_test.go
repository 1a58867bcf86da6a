package bucket_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"mcp-code-exec-harness/internal/bucket"
	"mcp-code-exec-harness/internal/testing/buckettest"
)

func open(t *testing.T, o bucket.Options) *bucket.Bucket {
	t.Helper()
	b, err := bucket.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func TestBucket(t *testing.T) {
	t.Parallel()
	s := buckettest.Start(t)
	b, ctx := open(t, s.Options("a/prefix")), t.Context()
	if err := b.Verify(ctx); err != nil {
		t.Fatal(err)
	}
	first, err := b.Put(ctx, "x/1", []byte("one"), bucket.Absent)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Put(ctx, "x/1", []byte("two"), bucket.Absent); !errors.Is(err, bucket.ErrConflict) {
		t.Errorf("a second object with the same key: %v", err)
	}
	second, err := b.Put(ctx, "x/1", []byte("two"), first)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Put(ctx, "x/1", []byte("three"), first); !errors.Is(err, bucket.ErrConflict) {
		t.Errorf("a write over a version that the writer does not know: %v", err)
	}
	if _, err := b.Put(ctx, "none", []byte("three"), first); !errors.Is(err, bucket.ErrConflict) {
		t.Errorf("a write over an object that is gone: %v", err)
	}
	if data, version, err := b.Get(ctx, "x/1", first); string(data) != "two" || version != second || err != nil {
		t.Errorf("read %q, %q, %v", data, version, err)
	}
	if _, _, err := b.Get(ctx, "x/1", second); !errors.Is(err, bucket.ErrUnchanged) {
		t.Errorf("read what is known: %v", err)
	}
	if _, _, err := b.Get(ctx, "none", ""); !errors.Is(err, bucket.ErrNotFound) {
		t.Errorf("read what is absent: %v", err)
	}
	if data, err := b.Read(ctx, "x/1", 1, 100); string(data) != "wo" || err != nil {
		t.Errorf("read a range: %q, %v", data, err)
	}
	for _, key := range []string{"x/2", "x/y/3", "z"} {
		if _, err := b.Put(ctx, key, nil, ""); err != nil {
			t.Fatal(err)
		}
	}
	list := func(prefix string, recursive bool) string {
		t.Helper()
		var keys []string
		if err := b.List(ctx, prefix, recursive, func(o bucket.Object) error {
			keys = append(keys, o.Key)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return strings.Join(keys, " ")
	}
	if got := list("x/", false); got != "x/1 x/2 x/y/" {
		t.Errorf("listed %s", got)
	}
	if got := list("", true); got != "x/1 x/2 x/y/3 z" {
		t.Errorf("listed %s", got)
	}
	if err := b.Delete(ctx, "x/1", "x/2", "x/y/3", "none"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(b.Delete(ctx, "z"), b.Delete(ctx, "z")); err != nil {
		t.Fatal(err)
	}
	if got := list("", true); got != "" {
		t.Errorf("left are %s", got)
	}
}

// Of many writers over one version, one succeeds.
func TestOneWriterWins(t *testing.T) {
	t.Parallel()
	b, ctx := open(t, buckettest.Start(t).Options("")), t.Context()
	version := bucket.Absent
	for round := range 10 {
		var mu sync.Mutex
		var winners []string
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				won, err := b.Put(ctx, "key", fmt.Append(nil, round, i), version)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					winners = append(winners, won)
				} else if !errors.Is(err, bucket.ErrConflict) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if len(winners) != 1 {
			t.Fatalf("%d writers have written over the same version", len(winners))
		}
		version = winners[0]
	}
}

// A request waits while the server is away, and fails with an error that says so if the server stays away.
func TestOutage(t *testing.T) {
	t.Parallel()
	s := buckettest.Start(t)
	b, hasty, ctx := open(t, s.Options("")), open(t, s.Options("")), t.Context()
	hasty.Hasty()
	if _, err := b.Put(ctx, "key", []byte("text"), ""); err != nil {
		t.Fatal(err)
	}
	s.Kill()
	if _, _, err := hasty.Get(ctx, "key", ""); !errors.Is(err, bucket.ErrUnavailable) {
		t.Errorf("without a server: %v", err)
	}
	if err := hasty.Check(ctx); !errors.Is(err, bucket.ErrUnavailable) {
		t.Errorf("without a server: %v", err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, _, err := b.Get(ended, "key", ""); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	done := make(chan error, 1)
	go func() {
		data, _, err := b.Get(ctx, "key", "")
		if err == nil && string(data) != "text" {
			err = fmt.Errorf("read %q", data)
		}
		done <- err
	}()
	s.Restart(t)
	if err := <-done; err != nil {
		t.Errorf("after the server was back: %v", err)
	}
}

// Refusals name what to correct.
func TestRefused(t *testing.T) {
	t.Parallel()
	s := buckettest.Start(t)
	ctx := t.Context()
	for _, c := range []struct {
		change func(*bucket.Options)
		want   string
	}{
		{func(o *bucket.Options) { o.Bucket = "other-bucket" }, `there is no bucket "other-bucket"`},
		{func(o *bucket.Options) { o.SecretKey = "wrong" }, "files.secretKey"},
		{func(o *bucket.Options) { o.AccessKey = "wrong" }, "files.accessKey"},
	} {
		o := s.Options("")
		c.change(&o)
		if err := open(t, o).Verify(ctx); err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, bucket.ErrUnavailable) {
			t.Errorf("error is %v, want %s", err, c.want)
		}
	}
	for endpoint, want := range map[string]string{"localhost:9000": "files.endpoint", "https://host/path": "files.endpoint", "ftp://host": "files.endpoint"} {
		if _, err := bucket.Open(bucket.Options{Endpoint: endpoint, Bucket: "files"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
	if _, err := bucket.Open(bucket.Options{Endpoint: "http://localhost", Bucket: "b"}); err == nil || !strings.Contains(err.Error(), "files.bucket: ") {
		t.Errorf("a name that no bucket has: %v", err)
	}
}

// A server that ignores a condition of writes is refused.
func TestWithoutConditions(t *testing.T) {
	t.Parallel()
	for _, ignored := range []string{"If-Match", "If-None-Match"} {
		written := map[string]bool{} // requests come one after another
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			refused := r.Header.Get("If-None-Match") != "" && written[r.URL.Path] || r.Header.Get("If-Match") == `"`+strings.Repeat("0", 32)+`"`
			switch {
			case r.Method == http.MethodPut && refused && r.Header.Get(ignored) == "":
				w.WriteHeader(http.StatusPreconditionFailed)
			case r.Method == http.MethodPut:
				written[r.URL.Path] = true
				w.Header().Set("ETag", `"`+strings.Repeat("1", 32)+`"`)
			}
		}))
		defer s.Close()
		b := open(t, bucket.Options{Endpoint: s.URL, Bucket: "files", Region: "us-east-1", AccessKey: "a", SecretKey: "s"})
		if err := b.Verify(t.Context()); err == nil || !strings.Contains(err.Error(), "does not keep the condition "+ignored+" ") {
			t.Errorf("%s: %v", ignored, err)
		}
	}
}

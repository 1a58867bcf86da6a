package api_test

import (
	"context"
	"net/http"
	"testing"

	"mcp-code-exec-harness/internal/api"
	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/doctor"
)

// Admins can start one examination at a time. During an examination, other examinations are refused and other reads are served. An examination ends when its
// request ends.
func TestDoctor(t *testing.T) {
	t.Parallel()
	begun, goOn := make(chan struct{}), make(chan struct{})
	ended := make(chan error, 1)
	first := true
	w := setup(t, setting{keys: true, options: func(o *api.Options) {
		o.Doctor = func(ctx context.Context, note func(doctor.Finding)) {
			note(doctor.Found("store", "ok", "it opens", ""))
			if first {
				first = false
				begun <- struct{}{}
				<-goOn
				return
			}
			begun <- struct{}{}
			<-ctx.Done()
			ended <- ctx.Err()
		}
	}})
	key, other := w.key("", auth.Admin), w.key("", auth.Admin)
	w.as(w.key("alice", auth.User, auth.Approver), "GET", "/v1/doctor", nil).want(http.StatusForbidden)
	done := make(chan api.Findings)
	go func() {
		var got api.Findings
		w.as(key, "GET", "/v1/doctor", nil).json(&got)
		done <- got
	}()
	<-begun
	w.as(key, "GET", "/v1/doctor", nil).want(http.StatusTooManyRequests)
	w.as(other, "GET", "/v1/doctor", nil).want(http.StatusServiceUnavailable)
	w.as(key, "GET", "/v1/runs", nil).want(http.StatusOK) // the examination does not take the caller's turn
	close(goOn)
	if got := <-done; len(got.Findings) != 1 || got.Findings[0].Name != "store" {
		t.Errorf("found: %+v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+"/v1/doctor", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	go func() {
		<-begun
		cancel()
	}()
	if answer, err := http.DefaultClient.Do(r); err == nil {
		answer.Body.Close()
		t.Errorf("a request that was given up: %d", answer.StatusCode)
	}
	<-ended
}

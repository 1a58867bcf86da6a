package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/testing/postgrestest"
	"mcp-code-exec-harness/internal/testing/redistest"
)

// /ready names the part that does not work and the effect, but not the error. When the part works again, /ready says so without a restart.
func TestReadyParts(t *testing.T) {
	t.Parallel()
	postgres, redis := postgrestest.Start(t, postgrestest.Fast...), redistest.Start(t)
	w := setup(t, setting{flags: map[string]string{"store.url": postgres.Schema(t), "pii.vault": "redis", "redis.url": redis.URL}})
	type readiness struct {
		Status          string
		Checks, Effects map[string]string
	}
	ready := func(status int, away string) {
		t.Helper()
		w.eventually("/ready says what works", func() bool { return w.do("GET", "/ready", nil).status == status })
		var got readiness
		r := w.do("GET", "/ready", nil).want(status).json(&got)
		want := map[string]string{"store": "ok", "vault": "ok", "queue": "ok", "sandbox": "ok", "skills": "ok"}
		if away != "" {
			want[away] = "failed"
			if len(got.Effects) != 1 || got.Effects[away] == "" {
				t.Errorf("effects: %v", got.Effects)
			}
		}
		if diff := cmp.Diff(want, got.Checks); diff != "" || strings.Contains(r.body, "connect") {
			t.Errorf("%s\n%s", diff, r.body)
		}
		w.do("GET", "/health", nil).want(http.StatusOK)
	}
	ready(http.StatusOK, "")
	postgres.Kill()
	ready(http.StatusServiceUnavailable, "store")
	if err := postgres.Restart(); err != nil {
		t.Fatal(err)
	}
	ready(http.StatusOK, "")
	redis.Kill()
	ready(http.StatusServiceUnavailable, "vault")
	redis.Restart(t)
	ready(http.StatusOK, "")
	if !redis.Pause() {
		return
	}
	ready(http.StatusServiceUnavailable, "vault") // the answer comes after part.ProbeTime
	redis.Kill()
	redis.Restart(t)
	ready(http.StatusOK, "")
}

package web_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/web"
)

// covers checks that the given paths include one for every pattern that answers GET: pages, and others that answer with something else than a page.
func (w *world) covers(t testing.TB, pages []string, others ...string) {
	t.Helper()
	mux, missing := http.NewServeMux(), map[string]bool{}
	for _, pattern := range web.Patterns() {
		if strings.HasPrefix(pattern, "GET ") {
			mux.Handle(pattern, http.NotFoundHandler())
			missing[pattern] = true
		}
	}
	for _, path := range slices.Concat(pages, others) {
		_, pattern := mux.Handler(httptest.NewRequest(http.MethodGet, path, nil))
		if pattern == "" {
			t.Errorf("%.200s is no page", path)
		}
		delete(missing, pattern)
	}
	for pattern := range missing {
		t.Errorf("no page of %s is visited", pattern)
	}
	r := w.login(w.token)
	for _, path := range others {
		if got := r.get(path); got.status != http.StatusOK || strings.HasPrefix(got.header.Get("Content-Type"), "text/html") {
			t.Errorf("%s is listed as something else than a page: %d %s", path, got.status, got.header.Get("Content-Type"))
		}
	}
}

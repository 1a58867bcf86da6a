package wiring_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"mcp-code-exec-harness/internal/testing/fake"
)

// A search compares what tools do with what is asked for, by a server for embeddings (a fake of one, whose words of the same meaning this test
// chose). What it gets has no personal data; a restart asks for no tool again; without it, words decide.
func TestEmbeddings(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	srv := fake.ServeEmbeddings(map[string]string{"peruse": "read", "read": "read"}, func(fake.EmbeddingRequest) fake.EmbeddingReply {
		if broken.Load() {
			return fake.EmbeddingReply{Status: http.StatusInternalServerError, Message: "broken"}
		}
		return fake.EmbeddingReply{}
	})
	defer srv.Close()
	up := newUpstream(t, "up")
	dir := t.TempDir()
	settings := map[string]string{"embeddings.name": "fake", "embeddings.baseUrl": srv.URL + "/v1", "embeddings.timeout": "1m"}
	find := func(t *testing.T, query string) string {
		t.Helper()
		f := open(t, dir, settings, up.entry)
		f.EnsureTools(t.Context(), "")
		hits := f.Catalog().Search(t.Context(), "", query, 1)
		if failed := f.Embeddings().Failure(); (failed != nil) != broken.Load() {
			t.Errorf("the failure that is told is %v", failed)
		}
		if len(hits) == 0 {
			return ""
		}
		return hits[0].Name
	}
	const query = "peruse for grace.hopper@example.com"
	t.Run("found", func(t *testing.T) {
		if got := find(t, query); got != "up__read" {
			t.Errorf("found %q", got)
		}
		texts := strings.Join(srv.Texts(), "\n")
		if strings.Contains(texts, "grace.hopper") || !strings.Contains(texts, "[EMAIL]") || !strings.Contains(texts, "up: read") {
			t.Errorf("asked for %s", texts)
		}
	})
	asked := len(srv.Texts())
	t.Run("restart", func(t *testing.T) {
		if got := find(t, query); got != "up__read" {
			t.Errorf("found %q", got)
		}
		if texts := srv.Texts()[asked:]; len(texts) != 1 {
			t.Errorf("asked for %q", texts)
		}
	})
	broken.Store(true)
	t.Run("broken", func(t *testing.T) {
		if got := find(t, query); got == "up__read" {
			t.Errorf("found %q by words that it has not", got)
		}
		if got := find(t, "read"); got != "up__read" {
			t.Errorf("found %q by its name", got)
		}
	})
}

package model_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/testing/fake"
)

func serveEmbeddings(t *testing.T, script func(fake.EmbeddingRequest) fake.EmbeddingReply) *fake.Embeddings {
	t.Helper()
	srv := fake.ServeEmbeddings(nil, script)
	t.Cleanup(srv.Close)
	return srv
}

func openEmbedder(t *testing.T, srv *fake.Embeddings, cfg model.Config) *model.Embedder {
	t.Helper()
	cfg.HTTPClient = srv.Client()
	t.Cleanup(cfg.HTTPClient.CloseIdleConnections)
	e, err := model.NewEmbedder(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Each provider that has embeddings is asked at its own address, with its own header for the key.
func TestEmbedProviders(t *testing.T) {
	t.Parallel()
	paths := map[string]string{
		"openai": "/v1/embeddings", "azure": "/openai/v1/embeddings", "google": "/v1beta/openai/embeddings", "ollama": "/v1/embeddings",
		"gateway": "/llm/v1/embeddings",
	}
	for _, p := range providers {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			if p.name == "anthropic" {
				_, err := model.NewEmbedder(p.cfg)
				if failed, ok := errors.AsType[*model.Error](err); !ok || !strings.Contains(failed.Remedy, "embeddings.baseUrl") {
					t.Fatalf("Anthropic, which has no embeddings, gives %v", err)
				}
				return
			}
			srv := serveEmbeddings(t, nil)
			vectors, used, err := openEmbedder(t, srv, p.cfg).Embed(t.Context(), []string{"send the mail", "count the rows"})
			if err != nil {
				t.Fatal(err)
			}
			if len(vectors) != 2 || len(vectors[0]) == 0 || len(vectors[1]) != len(vectors[0]) || used.Input != 6 {
				t.Errorf("%d vectors, usage %+v", len(vectors), used)
			}
			r := srv.Requests()[0]
			if r.Host != p.host || r.Path != paths[p.name] || r.Model != p.cfg.Name || r.Header.Get(p.auth) != p.authValue {
				t.Errorf("asked %s%s for %s with %q", r.Host, r.Path, r.Model, r.Header.Get(p.auth))
			}
		})
	}
}

// An address that has the operation already is taken as it is.
func TestEmbedAddress(t *testing.T) {
	t.Parallel()
	srv := serveEmbeddings(t, nil)
	e := openEmbedder(t, srv, model.Config{Provider: model.Compatible, Name: "m", BaseURL: "http://localhost:9/v1/embeddings/"})
	if _, _, err := e.Embed(t.Context(), []string{"text"}); err != nil || srv.Requests()[0].Path != "/v1/embeddings" {
		t.Errorf("%v, asked %s", err, srv.Requests()[0].Path)
	}
}

func TestEmbedFailures(t *testing.T) {
	t.Parallel()
	vector := `{"object":"embedding","index":%d,"embedding":%s}`
	two := func(first, second string) fake.EmbeddingReply {
		return fake.EmbeddingReply{Body: fmt.Sprintf(`{"object":"list","data":[%s,%s]}`, first, second)}
	}
	for name, c := range map[string]struct {
		reply fake.EmbeddingReply
		kind  model.Kind
		says  string
	}{
		"key":          {fake.EmbeddingReply{Status: http.StatusUnauthorized, Message: "Incorrect API key " + testKey}, model.KindAuth, "embeddings.apiKey"},
		"model":        {fake.EmbeddingReply{Status: http.StatusNotFound, Message: "no such model"}, model.KindUnknownModel, "embeddings.name"},
		"rate":         {fake.EmbeddingReply{Status: http.StatusTooManyRequests, Message: "slow down"}, model.KindRateLimited, "slow down"},
		"page":         {fake.EmbeddingReply{Body: "<html>"}, model.KindInvalidRequest, "does not answer with vectors"},
		"too few":      {fake.EmbeddingReply{Body: `{"data":[]}`}, model.KindInvalidRequest, "0 vectors for 2 texts"},
		"lengths":      {two(fmt.Sprintf(vector, 0, "[1]"), fmt.Sprintf(vector, 1, "[1,2]")), model.KindInvalidRequest, "different lengths"},
		"empty vector": {two(fmt.Sprintf(vector, 0, "[]"), fmt.Sprintf(vector, 1, "[]")), model.KindInvalidRequest, "of none"},
		"twice":        {two(fmt.Sprintf(vector, 1, "[1]"), fmt.Sprintf(vector, 1, "[2]")), model.KindInvalidRequest, "twice"},
		"negative":     {two(fmt.Sprintf(vector, -1, "[1]"), fmt.Sprintf(vector, 1, "[2]")), model.KindInvalidRequest, "one too many"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := serveEmbeddings(t, func(fake.EmbeddingRequest) fake.EmbeddingReply { return c.reply })
			e := openEmbedder(t, srv, model.Config{Provider: model.OpenAI, Name: "m", APIKey: testKey})
			_, _, err := e.Embed(t.Context(), []string{"a text", "another"})
			failed, ok := errors.AsType[*model.Error](err)
			if !ok || failed.Kind != c.kind || !strings.Contains(failed.Error(), c.says) || strings.Contains(failed.Error(), testKey) {
				t.Errorf("got %v, want kind %s and %q", err, c.kind, c.says)
			}
		})
	}
}

// Vectors may come in any order, and a request is tried again where that helps.
func TestEmbedRetry(t *testing.T) {
	t.Parallel()
	srv := serveEmbeddings(t, func(r fake.EmbeddingRequest) fake.EmbeddingReply {
		if r.N == 0 {
			return fake.EmbeddingReply{Status: http.StatusServiceUnavailable, Message: "busy", RetryAfter: time.Millisecond}
		}
		return fake.EmbeddingReply{Body: `{"data":[{"index":1,"embedding":[2]},{"index":0,"embedding":[1]}]}`}
	})
	e := openEmbedder(t, srv, model.Config{Provider: model.OpenAI, Name: "m", APIKey: testKey, MaxRetries: 1})
	vectors, _, err := e.Embed(t.Context(), []string{"first", "second"})
	if err != nil || vectors[0][0] != 1 || vectors[1][0] != 2 {
		t.Errorf("%v, %v", vectors, err)
	}
}

func TestEmbedCancelled(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	srv := serveEmbeddings(t, func(fake.EmbeddingRequest) fake.EmbeddingReply {
		close(asked)
		return fake.EmbeddingReply{Wait: make(chan struct{})}
	})
	e := openEmbedder(t, srv, model.Config{Provider: model.OpenAI, Name: "m", APIKey: testKey, MaxRetries: 5})
	why := errors.New("the user has gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() { <-asked; cancel(why) }()
	if _, _, err := e.Embed(ctx, []string{"text"}); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
}

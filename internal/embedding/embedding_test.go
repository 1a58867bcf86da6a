package embedding_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"mcp-code-exec-harness/internal/embedding"
	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/testing/fake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory is a store.
type memory struct {
	mu  sync.Mutex
	all map[string][]byte
}

func (m *memory) Embeddings(_ context.Context, model string, keys []embedding.Key) (map[embedding.Key][]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := map[embedding.Key][]byte{}
	for _, k := range keys {
		if v := m.all[model+string(k[:])]; v != nil {
			found[k] = v
		}
	}
	return found, nil
}

func (m *memory) PutEmbeddings(_ context.Context, model string, vectors map[embedding.Key][]byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, v := range vectors {
		m.all[model+string(k[:])] = v
	}
	return nil
}

// modelOf adapts the client of the wire.
type modelOf struct{ *model.Embedder }

func (m modelOf) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	vectors, _, err := m.Embedder.Embed(ctx, texts)
	return vectors, err
}

// modelFunc is a model without a wire.
type modelFunc func(ctx context.Context, texts []string) ([][]float32, error)

func (f modelFunc) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	return f(ctx, texts)
}

type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) lines() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), "\n")
}

func setup(t *testing.T, m embedding.Model, store *memory) (*embedding.Embeddings, *logs) {
	t.Helper()
	l := &logs{}
	e := embedding.New(embedding.Options{
		Model: m, Name: "test", Store: func() (embedding.Store, error) { return store, nil }, Timeout: 10 * time.Second,
		Redact: func(s string) string { return strings.ReplaceAll(s, "ann@example.com", "[EMAIL]") },
		Logger: slog.New(slog.NewTextHandler(l, nil)),
	})
	t.Cleanup(e.Close)
	return e, l
}

func setupFake(t *testing.T, store *memory, script func(fake.EmbeddingRequest) fake.EmbeddingReply) (*embedding.Embeddings, *fake.Embeddings, *logs) {
	t.Helper()
	srv := fake.ServeEmbeddings(map[string]string{"bill": "invoice"}, script)
	t.Cleanup(srv.Close)
	client := srv.Client()
	t.Cleanup(client.CloseIdleConnections)
	m, err := model.NewEmbedder(model.Config{Provider: model.Compatible, Name: "fake", BaseURL: "http://localhost:1/v1", HTTPClient: client})
	if err != nil {
		t.Fatal(err)
	}
	e, l := setup(t, modelOf{m}, store)
	return e, srv, l
}

// A text that stays is asked for once, however many processes and callers ask; of a search's texts too, and without personal data.
func TestAskedOnce(t *testing.T) {
	t.Parallel()
	store := &memory{all: map[string][]byte{}}
	e, srv, _ := setupFake(t, store, nil)
	texts := []string{"send the invoice", "count the rows", "send the invoice", "mail to ann@example.com"}
	vectors := e.Texts(t.Context(), texts)
	if len(vectors) != 4 || vectors[0].Likeness(vectors[2]) < 0.99 || vectors[0].Likeness(vectors[1]) > 0.5 {
		t.Fatalf("%d vectors", len(vectors))
	}
	if got := srv.Texts(); len(got) != 3 || strings.Contains(fmt.Sprint(got), "ann@") {
		t.Errorf("asked for %q", got)
	}
	for range 2 {
		asked := e.Queries(t.Context(), "ann", []string{"send the bill", "rows for ann@example.com"})
		if len(asked) != 2 || asked[0].Likeness(vectors[0]) < 0.9 || asked[1].Likeness(vectors[0]) > 0.5 {
			t.Fatalf("%d vectors", len(asked))
		}
	}
	if got := srv.Texts(); len(got) != 5 || strings.Contains(fmt.Sprint(got), "ann@") {
		t.Errorf("asked for %q", got)
	}
	later, again, _ := setupFake(t, store, nil)
	if len(later.Texts(t.Context(), texts)) != 4 || len(again.Texts()) != 0 {
		t.Errorf("another process asked for %q", again.Texts())
	}
}

// Where the model does not answer there are no vectors, one warning, and a pause before it is asked again.
func TestModelDoesNotAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked, broken := 0, true
		e, l := setup(t, modelFunc(func(ctx context.Context, texts []string) ([][]float32, error) {
			asked++
			if broken {
				<-ctx.Done()
				return nil, context.Cause(ctx)
			}
			return make([][]float32, len(texts)), nil
		}), &memory{all: map[string][]byte{}})
		began := time.Now()
		for range 3 {
			if e.Queries(t.Context(), "", []string{"a"}) != nil {
				t.Error("there are vectors")
			}
		}
		if took := time.Since(began); took != 10*time.Second || asked != 1 || l.lines() != 1 {
			t.Errorf("took %s, %d requests, %d lines", took, asked, l.lines())
		}
		time.Sleep(time.Minute)
		if e.Queries(t.Context(), "", []string{"a"}); asked != 2 || l.lines() != 1 {
			t.Errorf("%d requests, %d lines", asked, l.lines())
		}
		if e.Failure() == nil {
			t.Error("no failure is told")
		}
		time.Sleep(time.Minute)
		broken = false
		if e.Queries(t.Context(), "", []string{"a"}) == nil || e.Failure() != nil {
			t.Errorf("there are no vectors, although the model answers: %v", e.Failure())
		}
	})
}

// A caller who goes away does not make others go without.
func TestCallerGoesAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, l := setup(t, modelFunc(func(ctx context.Context, texts []string) ([][]float32, error) {
			select {
			case <-time.After(time.Second):
				return [][]float32{{1}, {2}}[:len(texts)], nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}), &memory{all: map[string][]byte{}})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		if e.Queries(ctx, "", []string{"a"}) != nil || e.Texts(ctx, []string{"b", "c"}) != nil {
			t.Error("there are vectors in time")
		}
		if e.Queries(t.Context(), "", []string{"a"}) == nil || e.Texts(t.Context(), []string{"b", "c"}) == nil || l.lines() != 0 {
			t.Errorf("no vectors for another caller; %d lines", l.lines())
		}
		e.Close()
		if e.Texts(t.Context(), []string{"d"}) != nil {
			t.Error("there are vectors after the end")
		}
	})
}

// An owner who searches without end goes by words, and others do not.
func TestOwnersAreBounded(t *testing.T) {
	t.Parallel()
	e, l := setup(t, modelFunc(func(_ context.Context, texts []string) ([][]float32, error) {
		all := make([][]float32, len(texts))
		for i := range all {
			all[i] = []float32{1}
		}
		return all, nil
	}), &memory{all: map[string][]byte{}})
	served := 0
	for i := range 3000 {
		if e.Queries(t.Context(), "greedy", []string{fmt.Sprint("text ", i)}) != nil {
			served++
		}
	}
	if served != 2000 || e.Queries(t.Context(), "other", []string{"mine"}) == nil || l.lines() != 0 {
		t.Errorf("%d searches of one owner had vectors, %d lines", served, l.lines())
	}
}

// What a wrong answer does to a vector does not reach a search.
func TestStrangeVectors(t *testing.T) {
	t.Parallel()
	e, _, _ := setupFake(t, &memory{all: map[string][]byte{}}, func(r fake.EmbeddingRequest) fake.EmbeddingReply {
		if r.N > 0 {
			return fake.EmbeddingReply{Status: http.StatusTeapot}
		}
		return fake.EmbeddingReply{Body: `{"data":[{"index":0,"embedding":[0,0]},{"index":1,"embedding":[3e38,3e38]},{"index":2,"embedding":[1,-1]}]}`}
	})
	v := e.Queries(t.Context(), "", []string{"none", "huge", "plain"})
	if len(v) != 3 {
		t.Fatal("there are none")
	}
	if a, b, c := v[0].Likeness(v[2]), v[1].Likeness(v[2]), v[2].Likeness(v[2]); a != 0 || b > 0.1 || c < 0.99 {
		t.Errorf("%g, %g, %g", a, b, c)
	}
	if got := v[2].Likeness(v[2][:1]); got != 0 {
		t.Errorf("vectors of two lengths are %g alike", got)
	}
}

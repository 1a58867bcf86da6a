package model

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"mcp-code-exec-harness/internal/journal"
)

// maxEmbeddings is how many bytes an answer with vectors may have.
const maxEmbeddings = 64 << 20

// Embedder asks a server for the vectors of texts, in OpenAI's format, which Azure, Google, Ollama, llama.cpp and vLLM speak too. It may
// be used from several goroutines.
type Embedder struct{ c *client }

// NewEmbedder makes an Embedder without contacting its server. Of cfg, what concerns conversations does not count. What is missing or
// wrong is an *Error that says what to set.
func NewEmbedder(cfg Config) (*Embedder, error) {
	cfg.embeds = true
	if cfg.Provider == Anthropic {
		return nil, cfg.newError(KindInvalidRequest, "Anthropic offers no embeddings").
			withRemedy("set embeddings.baseUrl to a server that does, such as http://127.0.0.1:11434/v1 for Ollama")
	}
	c, _, err := newClient(cfg)
	if err != nil {
		return nil, err
	}
	c.url = c.cfg.BaseURL + "/embeddings"
	c.header.Set("Accept", "application/json")
	return &Embedder{c}, nil
}

// Info says which model answers.
func (e *Embedder) Info() Info { return Info{Provider: e.c.cfg.Provider, Name: e.c.cfg.Name} }

// Embed returns a vector for each text, all of one length, and what the provider counted. It tries again as Generate does. When ctx ends,
// the error wraps the cause; other failures are an *Error.
func (e *Embedder) Embed(ctx context.Context, texts []string) (vectors [][]float32, used Usage, err error) {
	body, err := journal.Encode(object{"model": e.c.cfg.Name, "input": texts})
	if err != nil {
		return nil, Usage{}, fmt.Errorf("encode the request: %w", err)
	}
	for retry := 0; ; retry++ {
		vectors, used, err = e.attempt(ctx, body, len(texts))
		failed, ok := errors.AsType[*Error](err)
		if !ok || !failed.Kind.Passing() || retry >= e.c.cfg.MaxRetries {
			return vectors, used, err
		}
		wait := cmp.Or(max(failed.RetryAfter, 0), backoff(retry))
		if tooLong(ctx, wait) {
			return nil, Usage{}, failed
		}
		if err := e.c.pause(ctx, wait); err != nil {
			return nil, Usage{}, err
		}
	}
}

func (e *Embedder) attempt(ctx context.Context, body []byte, n int) ([][]float32, Usage, error) {
	c := e.c
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return nil, Usage{}, c.lost(ctx, err, false)
	}
	req.Header = c.header.Clone()
	silence := time.AfterFunc(c.cfg.Timeout, func() { cancel(errSilent) })
	defer silence.Stop()
	res, err := c.http.Do(req)
	if err != nil {
		return nil, Usage{}, c.lost(ctx, err, false)
	}
	defer res.Body.Close()
	live := liveReader{res.Body, silence, c.cfg.Timeout}
	if res.StatusCode != http.StatusOK {
		return nil, Usage{}, c.refusal(ctx, res, live)
	}
	raw, err := io.ReadAll(io.LimitReader(live, maxEmbeddings+1))
	if err != nil {
		return nil, Usage{}, c.lost(ctx, err, true)
	}
	vectors, used, err := parseEmbeddings(raw, n)
	if err != nil {
		return nil, Usage{}, c.cfg.newError(KindInvalidRequest, clean(err.Error())).
			withRemedy("check that embeddings.name is a model for embeddings, and " + c.cfg.settings().url)
	}
	return vectors, used, nil
}

// parseEmbeddings reads n vectors, which may come in any order.
func parseEmbeddings(raw []byte, n int) ([][]float32, Usage, error) {
	if len(raw) > maxEmbeddings {
		return nil, Usage{}, fmt.Errorf("the server answers with more than %d bytes", maxEmbeddings)
	}
	var answer struct {
		Data []struct {
			Index     int       `json:"index"`
			Embedding []float32 `json:"embedding"`
		} `json:"data"`
		Usage struct {
			Prompt int `json:"prompt_tokens"`
			Total  int `json:"total_tokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return nil, Usage{}, fmt.Errorf("the server does not answer with vectors: %w", err)
	}
	if len(answer.Data) != n {
		return nil, Usage{}, fmt.Errorf("the server answers with %d vectors for %d texts", len(answer.Data), n)
	}
	vectors := make([][]float32, n)
	for _, d := range answer.Data {
		if d.Index < 0 || d.Index >= n || vectors[d.Index] != nil {
			return nil, Usage{}, fmt.Errorf("the server answers with the vector %d twice, or with one too many", d.Index)
		}
		if len(d.Embedding) == 0 || len(d.Embedding) != len(answer.Data[0].Embedding) {
			return nil, Usage{}, errors.New("the server answers with vectors of different lengths, or of none")
		}
		vectors[d.Index] = d.Embedding
	}
	return vectors, Usage{Input: max(answer.Usage.Prompt, answer.Usage.Total, 0)}, nil
}

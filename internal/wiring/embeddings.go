package wiring

import (
	"fmt"

	"mcp-code-exec-harness/internal/embedding"
	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/telemetry"
)

// embeddingRetries is how often vectors of tools are asked for again after rate limits and the like. A search does not wait for that.
const embeddingRetries = 2

// openEmbeddings has searches for tools ask the model for embeddings, where one is named.
func (h *Harness) openEmbeddings() error {
	c := h.cfg.Embeddings
	if c.Name == "" {
		return nil
	}
	choice, err := c.Choose(h.cfg.Model)
	if err != nil {
		return err
	}
	m, err := model.NewEmbedder(model.Config{
		Provider: choice.Provider, Name: choice.Name, APIKey: choice.APIKey, BaseURL: choice.BaseURL,
		Timeout: h.cfg.Model.Timeout, MaxRetries: embeddingRetries,
	})
	if err != nil {
		return fmt.Errorf("embeddings: %w", err)
	}
	h.embeddings = embedding.New(embedding.Options{
		Model: telemetry.ObserveEmbedder(m, prices(h.cfg.Model.Prices), h.out.Metrics), Name: choice.Provider + "/" + choice.Name + "@" + choice.BaseURL,
		Store: func() (embedding.Store, error) { return h.store() }, Redact: h.privacy.Redactor(),
		Timeout: c.Timeout, Logger: h.out.Logger, Now: h.out.Now,
	})
	h.catalog.Embed(h.embeddings)
	return nil
}

// EmbeddingsFailure is why searches go by words alone; nil where the model for embeddings answers, or none is named.
func (h *Harness) EmbeddingsFailure() error {
	if h.embeddings == nil {
		return nil
	}
	return h.embeddings.Failure()
}

package catalog

import (
	"context"
	"strings"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/catalog/ident"
	"mcp-code-exec-harness/internal/embedding"
)

// Embeddings gives vectors of texts. Its methods may be called from several goroutines. *embedding.Embeddings does.
type Embeddings interface {
	// Queries returns the vectors of the parts of an owner's request; nil where they cannot be had in time.
	Queries(ctx context.Context, owner string, texts []string) []embedding.Vector
	// Texts returns the vectors of texts that stay; nil where ctx ends before all are known. It goes on to ask for them then.
	Texts(ctx context.Context, texts []string) []embedding.Vector
	// Timeout is how long a search waits for vectors.
	Timeout() time.Duration
}

// Embed has searches compare tools and requests by what they mean, too. It is called before the catalog is used.
func (c *Catalog) Embed(e Embeddings) { c.embeddings = e }

// alike is what the index asks for the steps of a search; nil where nothing is known of meanings.
func (s *snapshot) alike(ctx context.Context, e Embeddings, user string) func(steps []string) [][]float32 {
	if e == nil {
		return nil
	}
	return func(steps []string) [][]float32 {
		ctx, cancel := context.WithTimeout(ctx, e.Timeout())
		defer cancel()
		var wg sync.WaitGroup
		for _, m := range s.servers {
			if m.meanings.Load() == nil {
				wg.Go(func() { m.embed(ctx, e) })
			}
		}
		asked := e.Queries(ctx, user, steps)
		wg.Wait()
		if len(asked) != len(steps) {
			return nil
		}
		all := make([][]float32, len(steps))
		for i, of := range asked {
			for _, m := range s.servers {
				known := m.meanings.Load()
				if known == nil {
					all[i] = append(all[i], make([]float32, len(m.Tools))...)
					continue
				}
				for _, v := range *known {
					all[i] = append(all[i], of.Likeness(v))
				}
			}
		}
		return all
	}
}

// embed gets the vectors of a server's tools, and keeps them for later searches.
func (e *entry) embed(ctx context.Context, of Embeddings) {
	texts := make([]string, len(e.Tools))
	for i := range e.Tools {
		texts[i] = e.Tools[i].meaningText()
	}
	if vectors := of.Texts(ctx, texts); len(vectors) == len(texts) {
		e.meanings.Store(&vectors)
	}
}

// meaningText is what a tool is compared by: what it says of itself, in words.
func (t *Tool) meaningText() string {
	var b strings.Builder
	b.WriteString(strings.Join(ident.Words(t.Server), " ") + ": " + strings.Join(ident.Words(t.Name), " "))
	for _, text := range []string{t.title(), t.Description} {
		if text = strings.Join(strings.Fields(text), " "); text != "" {
			b.WriteString(". " + text)
		}
	}
	for i, p := range t.params() {
		b.WriteString([]string{" (", ", "}[min(i, 1)] + p.name)
	}
	if len(t.params()) > 0 {
		b.WriteString(")")
	}
	return b.String()
}

package catalog

import (
	"cmp"
	"context"
	"strings"

	"mcp-code-exec-harness/internal/catalog/search"
	"mcp-code-exec-harness/internal/clip"
)

// Hit is a tool found by Search.
type Hit struct {
	Name        string `json:"name"` // server__tool
	Server      string `json:"server"`
	Function    string `json:"function"` // function name in tools.<server>
	Description string `json:"description"`
	Signature   string `json:"signature"` // signature as a program writes it: tools.<server>.<function>(…)
}

// Default and maximum number of hits of a search.
const (
	defaultHits = 10
	maxHits     = 100
)

// maxHitText is the maximum length in bytes of a description in a hit; Details contains the whole description.
const maxHitText = 240

// Search finds tools for a request in words, the best first. For a request of several steps, there are tools for each step. A limit of 0 means 10,
// and the maximum is 100. If ctx has ended, Search returns nil. A search for a user prefers the tools that the user's programs called after earlier
// searches. The search itself is remembered for later ones.
func (c *Catalog) Search(ctx context.Context, user, query string, limit int) []Hit {
	if ctx.Err() != nil {
		return nil
	}
	if limit <= 0 {
		limit = defaultHits
	}
	snap := c.now.Load()
	hits := []Hit{}
	if user != "" {
		end, err := c.computing.Begin(ctx, user)
		if err != nil {
			return nil
		}
		defer end()
	}
	found := snap.index().SearchFavouring(query, min(limit, maxHits), snap.favours(c.usage, user))
	if c.usage != nil && user != "" {
		c.usage.searched(user, query)
	}
	for _, r := range found {
		t := &snap.servers[r.Segment].Tools[r.Doc]
		hits = append(hits, Hit{
			Name: t.FullName(), Server: t.Server, Function: t.Function(), Description: t.summary(),
			Signature: "tools." + snap.byName[t.Server].identifier + "." + c.For(user).signature(t),
		})
	}
	return hits
}

// summary returns the beginning of the description: as many sentences of its first paragraph as fit.
func (t *Tool) summary() string {
	text := cmp.Or(strings.TrimSpace(t.Description), t.title())
	text, _, _ = strings.Cut(text, "\n\n")
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= maxHitText {
		return text
	}
	text = clip.Text(text, maxHitText)
	if end := strings.LastIndex(text, ". "); end > maxHitText/3 {
		return text[:end+1]
	}
	return text
}

func newSegment(e *entry) *search.Segment {
	docs := make([]search.Doc, len(e.Tools))
	for i := range e.Tools {
		t := &e.Tools[i]
		docs[i] = search.Doc{
			Key: t.FullName(), Name: t.Name, Title: t.title(), Server: t.Server, Description: t.Description,
			Params: t.paramText(), Context: e.Description,
		}
	}
	return search.NewSegment(docs)
}

// paramText returns the names, descriptions and allowed values of the input's properties.
func (t *Tool) paramText() string {
	var b strings.Builder
	for _, p := range t.params() {
		b.WriteString(p.name + " " + p.schema.Get("description").String() + " ")
		for _, value := range p.schema.Get("enum").Strings() {
			b.WriteString(value + " ")
		}
	}
	return b.String()
}

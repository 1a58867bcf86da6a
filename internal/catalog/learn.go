package catalog

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"mcp-code-exec-harness/internal/catalog/dts"
	"mcp-code-exec-harness/internal/catalog/schema"
	"mcp-code-exec-harness/internal/catalog/shape"
)

// Learned is what the answers of a tool have looked like so far. It holds no value of them.
type Learned struct {
	Schema json.RawMessage `json:"schema"`          // JSON Schema of the value that programs get
	Drift  []string        `json:"drift,omitempty"` // how later answers differed from the first ones, the newest last
}

// KeptShape is what was learned of one tool, as it is kept across restarts.
type KeptShape struct {
	Server     string       `json:"server"`
	Tool       string       `json:"tool"`
	Definition string       `json:"definition"` // digest of the tool that answered; another definition starts without a shape
	Answers    int          `json:"answers"`
	Drift      []string     `json:"drift,omitempty"`
	Shape      *shape.Shape `json:"shape"`
}

const (
	// maxLearnedAnswer is the size of the largest answer that is learned from, in bytes.
	maxLearnedAnswer = 64 << 10
	// settled is how many answers a shape is learned from before one that differs is drift.
	settled = 5
	// maxDrift bounds the differences that are remembered of one tool.
	maxDrift = 8
	// maxLearnedTools bounds the tools of one server of which shapes are learned.
	maxLearnedTools = 500
	// After so many answers without a difference only one of sparse is looked at.
	certain, sparse = 32, 8
)

// learned is what is known of the answers of one tool. It outlives the tool's listings.
type learned struct {
	server, tool string

	definition string

	mu      sync.Mutex
	words   shape.Words   // names of the server that field names may be made of
	changed *atomic.Int64 // counts what is published for the entry that lists the tool
	shape   *shape.Shape
	answers int
	same    int // answers since the last difference
	drift   []string

	now atomic.Pointer[published] // nil: nothing is learned
}

// published is what readers see.
type published struct {
	Learned
	output    *schema.Value
	signature func() string
}

// shapes is the learned shapes of all tools. The zero value is ready.
type shapes struct {
	mu     sync.Mutex
	of     map[string]map[string]*learned // learned shapes, by server and tool
	kept   map[[2]string]KeptShape        // shapes of tools that are not listed yet
	change chan struct{}
}

// learned is nil where nothing is learned of the tool's answers.
func (t *Tool) learned() *published {
	if l := t.get().learned; l != nil {
		return l.now.Load()
	}
	return nil
}

// attach gives the tools of a server that declare no output what is known of their answers.
func (s *shapes) attach(e *entry) {
	words := shape.Words{}
	for i := range e.Tools {
		words.Add(e.Tools[i].Name)
		for _, p := range e.Tools[i].params() {
			words.Add(p.name)
		}
	}
	for t, l := range s.shapesOf(e) {
		l.mu.Lock()
		l.words, l.changed = words, e.learnt
		if l.shape != nil {
			l.publish(t)
		}
		l.mu.Unlock()
		t.derived.learned = l
	}
}

// shapesOf is what is known of the tools of a server. What was known of tools that it no longer lists is forgotten.
func (s *shapes) shapesOf(e *entry) map[*Tool]*learned {
	s.mu.Lock()
	defer s.mu.Unlock()
	out, now := map[*Tool]*learned{}, map[string]*learned{}
	for i := range e.Tools {
		t := &e.Tools[i]
		if t.outputSchema() != nil || len(out) == maxLearnedTools {
			continue
		}
		key, definition := [2]string{t.Server, t.Name}, definitionOf(t)
		l := s.of[t.Server][t.Name]
		if l == nil || l.definition != definition {
			l = &learned{server: t.Server, tool: t.Name, definition: definition}
			if kept, ok := s.kept[key]; ok && kept.Definition == definition {
				l.shape, l.answers, l.drift = kept.Shape, kept.Answers, kept.Drift
			}
			delete(s.kept, key)
		}
		out[t], now[t.Name] = l, l
	}
	if s.of == nil {
		s.of = map[string]map[string]*learned{}
	}
	s.of[e.Name] = now
	return out
}

func definitionOf(t *Tool) string {
	sum := sha256.Sum256(slices.Concat([]byte(t.Description), []byte{0}, t.InputSchema))
	return hex.EncodeToString(sum[:8])
}

// Learn learns the structure of an answer of a tool, the value that programs get, in which personal data is hidden. It keeps no
// value, and no key that may be data. It returns how the answer differs from those before, if there were some.
func (c *Catalog) Learn(t *Tool, answer json.RawMessage) (drift []string) {
	l := t.get().learned
	if l == nil || len(answer) > maxLearnedAnswer {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers++
	if l.same > certain && l.answers%sparse != 0 {
		return nil
	}
	found, err := shape.Of(answer, l.words)
	if err != nil {
		return nil // no JSON value is learned from
	}
	var what shape.Differences
	merged := shape.Merge(l.shape, found, &what)
	old := l.shape
	l.shape = merged
	l.same++
	if old != nil && len(what) == 0 && merged.Size() == old.Size() {
		return nil
	}
	l.same = 0
	if len(what) > 0 && l.answers > settled {
		drift = what
		l.drift = append(slices.Clone(l.drift), drift...)
		l.drift = l.drift[max(0, len(l.drift)-maxDrift):]
	}
	l.publish(t)
	c.shapes.changed()
	return drift
}

// publish shows readers what is learned; l is locked.
func (l *learned) publish(t *Tool) {
	raw := l.shape.Schema()
	output, err := schema.Parse(raw)
	if err != nil {
		return
	}
	if now := l.now.Load(); now != nil && bytes.Equal(now.Schema, raw) && slices.Equal(now.Drift, l.drift) {
		return
	}
	l.now.Store(&published{
		Learned: Learned{Schema: raw, Drift: slices.Clone(l.drift)}, output: output,
		signature: sync.OnceValue(func() string { return dts.Signature(t.declared(), maxSignature) }),
	})
	if l.changed != nil {
		l.changed.Add(1)
	}
}

func (s *shapes) changed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.change != nil {
		select {
		case s.change <- struct{}{}:
		default:
		}
	}
}

// ShapesChanged returns a channel that holds a token when something was learned that KeptShapes has not given yet.
func (c *Catalog) ShapesChanged() <-chan struct{} {
	c.shapes.mu.Lock()
	defer c.shapes.mu.Unlock()
	if c.shapes.change == nil {
		c.shapes.change = make(chan struct{}, 1)
	}
	return c.shapes.change
}

// KeptShapes is everything learned, sorted by server and tool.
func (c *Catalog) KeptShapes() []KeptShape {
	s := &c.shapes
	s.mu.Lock()
	var all []*learned
	for _, tools := range s.of {
		all = slices.AppendSeq(all, maps.Values(tools))
	}
	out := slices.Collect(maps.Values(s.kept))
	s.mu.Unlock()
	for _, l := range all {
		l.mu.Lock()
		if l.shape != nil {
			out = append(out, KeptShape{l.server, l.tool, l.definition, l.answers, l.drift, l.shape})
		}
		l.mu.Unlock()
	}
	slices.SortFunc(out, func(a, b KeptShape) int {
		return cmp.Or(cmp.Compare(a.Server, b.Server), cmp.Compare(a.Tool, b.Tool))
	})
	return out
}

// RestoreShapes takes what an earlier process learned. It is called before the first SetServer. What is not a shape is left out.
func (c *Catalog) RestoreShapes(kept []KeptShape) {
	s := &c.shapes
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = map[[2]string]KeptShape{}
	count := map[string]int{}
	for _, k := range kept {
		if k.Shape.Valid() && len(k.Drift) <= maxDrift && count[k.Server] < maxLearnedTools {
			count[k.Server]++
			s.kept[[2]string{k.Server, k.Tool}] = k
		}
	}
}

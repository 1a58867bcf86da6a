package catalog

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"mcp-code-exec-harness/internal/catalog/dts"
	"mcp-code-exec-harness/internal/catalog/schema"
	"mcp-code-exec-harness/internal/catalog/shape"
)

// Learned is what the answers of a tool to one user have looked like so far. It holds no value of them.
type Learned struct {
	Schema json.RawMessage `json:"schema"`          // JSON Schema of the value that programs get
	Drift  []string        `json:"drift,omitempty"` // how later answers differed from the first ones, the newest last
}

const (
	// maxLearnedAnswer is the size of the largest answer that is learned from, in bytes.
	maxLearnedAnswer = 64 << 10
	// settled is how many answers a shape is learned from before one that differs is drift.
	settled = 5
	// maxDrift bounds the differences that are remembered of one tool.
	maxDrift = 8
	// After so many answers without a difference only one of sparse is looked at.
	certain, sparse = 32, 8
)

// learned is what is known of the answers of one tool to one user. It outlives the tool's listings.
type learned struct {
	user, server, tool string

	definition string

	mu      sync.Mutex
	shape   *shape.Shape
	answers int
	same    int // answers since the last difference
	drift   []string
	used    time.Time // time of the last answer

	now atomic.Pointer[published] // nil: nothing is learned

	places int  // counted size, guarded by shapes.mu
	gone   bool // the store has forgotten it; guarded by shapes.mu
}

// published is what readers see.
type published struct {
	Learned
	output    func() *schema.Value
	signature atomic.Pointer[signature]
}

// signature is the signature of a tool as it was listed at one time.
type signature struct {
	tool *Tool
	text string
}

// wordsOf are the words that a server's own names are made of: those of its tools and of their parameters.
func wordsOf(e *entry) shape.Words {
	words := shape.Words{}
	for i := range e.Tools {
		words.Add(e.Tools[i].Name)
		for _, p := range e.Tools[i].params() {
			words.Add(p.name)
		}
	}
	return words
}

func definitionOf(t *Tool) string {
	sum := sha256.Sum256(slices.Concat([]byte(t.Description), []byte{0}, t.InputSchema))
	return hex.EncodeToString(sum[:8])
}

// Learn learns the structure of an answer that a tool gave a user, the value that programs get, in which personal data is hidden. It keeps
// no value, and no key that may be data. What is learned shows to the same user only. It returns how the answer differs from those before, if
// there were some. Nothing is learned without a user, nor of a tool that says what it answers.
func (c *Catalog) Learn(user string, t *Tool, answer json.RawMessage) (drift []string) {
	if user == "" || len(answer) > maxLearnedAnswer || !t.learns() {
		return nil
	}
	l := c.shapes.use(user, t)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used = time.Now()
	l.answers++
	if l.same > certain && l.answers%sparse != 0 {
		return nil
	}
	found, err := shape.Of(answer, t.get().words())
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
	c.shapes.grown(l, l.publish())
	return drift
}

// publish shows readers what is learned, and reports whether that is something new; l is locked.
func (l *learned) publish() bool {
	raw := l.shape.Schema()
	if now := l.now.Load(); now != nil && bytes.Equal(now.Schema, raw) && slices.Equal(now.Drift, l.drift) {
		return false
	}
	l.now.Store(&published{
		Learned: Learned{Schema: raw, Drift: slices.Clone(l.drift)},
		output:  sync.OnceValue(func() *schema.Value { return parse(raw) }),
	})
	return true
}

// signatureOf is the signature of a tool whose answers look like this.
func (p *published) signatureOf(t *Tool) string {
	if made := p.signature.Load(); made != nil && made.tool == t {
		return made.text
	}
	made := &signature{t, dts.Signature(t.declared(p), maxSignature)}
	p.signature.Store(made)
	return made.text
}

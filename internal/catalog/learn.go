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

// Learned describes what the answers of a tool to one user have looked like so far. It contains none of their values.
type Learned struct {
	Schema json.RawMessage `json:"schema"`          // JSON Schema of the value that programs get
	Drift  []string        `json:"drift,omitempty"` // differences between later answers and the first ones, the newest last
}

const (
	// maxLearnedAnswer is the maximum size in bytes of an answer; nothing is learned from a larger one.
	maxLearnedAnswer = 64 << 10
	// settled is the number of answers after which a different answer counts as drift.
	settled = 5
	// maxDrift is the maximum number of differences that are kept for one tool.
	maxDrift = 8
	// After more than 32 answers without a difference (certain), only one answer in 8 is examined (sparse).
	certain, sparse = 32, 8
)

// learned is what is known about the answers of one tool to one user. It is kept when the server lists its tools again.
type learned struct {
	user, server, tool string

	definition string

	mu      sync.Mutex
	shape   *shape.Shape
	answers int
	same    int // answers since the last difference
	drift   []string
	used    time.Time // time of the last answer

	now atomic.Pointer[published] // part that readers see; nil if nothing is learned

	places int  // size of this value, as counted by shapes; guarded by shapes.mu
	gone   bool // shapes has forgotten this value; guarded by shapes.mu
}

// published is the part of a learned value that readers see. Readers need not lock the learned value.
type published struct {
	Learned
	output    func() *schema.Value
	signature atomic.Pointer[signature]
}

// signature is a cached signature. tool is the Tool value that the signature was made for; a new listing makes new Tool values.
type signature struct {
	tool *Tool
	text string
}

// wordsOf returns the words in a server's own names: those of its tools and of their parameters.
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

// Learn learns the structure of an answer that a tool gave a user, and returns how the answer differs from earlier ones. The answer is the value that
// programs get, in which personal data is hidden. Learn keeps no value, and no key that may be data. What it learns is shown to the same user only.
// It learns nothing if user is empty, or if the tool declares its answers.
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
		return nil // the answer is not valid JSON
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

// publish shows readers what is learned, and reports whether that has changed. l must be locked.
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

// signatureOf returns the signature of a tool with the learned type of its answers.
func (p *published) signatureOf(t *Tool) string {
	if made := p.signature.Load(); made != nil && made.tool == t {
		return made.text
	}
	made := &signature{t, dts.Signature(t.declared(p), maxSignature)}
	p.signature.Store(made)
	return made.text
}

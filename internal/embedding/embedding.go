// Package embedding keeps the vectors that a model gives for texts, so that texts can be compared by what they mean. A vector is asked for
// once: those of tools are kept in a store. Where the model does not answer, there are no vectors for a while and one warning.
package embedding

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"mcp-code-exec-harness/internal/clip"
)

// Bounds of what is asked for and kept.
const (
	maxText    = 2000 // bytes of a text that count
	maxBatch   = 64   // texts in one request
	maxQueries = 1000 // texts of searches whose vectors are kept in memory
	// restAfterError is how long nothing is asked of a model that did not answer.
	restAfterError = time.Minute
	// Texts that are asked for in an hour: those that stay, so that servers that change their descriptions all the time are not paid for;
	// those of one owner's searches, and of all.
	maxKept, maxOwned, maxSearched = 30_000, 2_000, 20_000
)

// Vector is a text's place among meanings: components of a unit vector, times scale. Vectors of one model have one length.
type Vector []int8

func (v Vector) bytes() []byte {
	raw := make([]byte, len(v))
	for i, x := range v {
		raw[i] = byte(x)
	}
	return raw
}

func vectorOf(raw []byte) Vector {
	v := make(Vector, len(raw))
	for i, b := range raw {
		v[i] = int8(b)
	}
	return v
}

// scale is what a component of 1 would be. Components of text vectors are far smaller than 1; larger ones than 1/4 are cut.
const scale = 4 * math.MaxInt8

// quantize makes a Vector of any vector that is not 0.
func quantize(v []float32) Vector {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	out := make(Vector, len(v))
	if sum == 0 || math.IsInf(sum, 0) || math.IsNaN(sum) {
		return out
	}
	f := scale / math.Sqrt(sum)
	for i, x := range v {
		out[i] = int8(max(-math.MaxInt8, min(math.MaxInt8, math.Round(float64(x)*f))))
	}
	return out
}

// Likeness is the cosine of two vectors, between -1 and 1; 0 where their lengths differ.
func (v Vector) Likeness(w Vector) float32 {
	if len(v) != len(w) {
		return 0
	}
	var dot, a, b int32
	for i, x := range v {
		y := int32(w[i])
		dot += int32(x) * y
		a += int32(x) * int32(x)
		b += y * y
	}
	if a == 0 || b == 0 {
		return 0
	}
	return float32(float64(dot) / math.Sqrt(float64(a)*float64(b)))
}

// Key is the hash of a text, by which its vector is kept.
type Key = [sha256.Size]byte

// Store keeps vectors, by model. Its methods may be called from several goroutines.
type Store interface {
	// Embeddings returns the vectors of the keys that it has.
	Embeddings(ctx context.Context, model string, keys []Key) (map[Key][]byte, error)
	// PutEmbeddings keeps vectors. The ones that were used the longest ago give way.
	PutEmbeddings(ctx context.Context, model string, vectors map[Key][]byte) error
}

// Model gives vectors, one for each text.
type Model interface {
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}

// Options are the parts that an Embeddings needs.
type Options struct {
	Model   Model
	Name    string // model name; vectors of another name are not used
	Store   func() (Store, error)
	Redact  func(string) string // takes personal data out of texts before anything else sees them; nil leaves them as they are
	Timeout time.Duration       // how long a search waits
	Logger  *slog.Logger
	Now     func() time.Time // nil: the system's clock
}

// Embeddings gives the vectors of texts. It is safe for concurrent use.
type Embeddings struct {
	opt    Options
	model  string
	life   context.Context //nolint:containedctx // it ends with Close
	stop   context.CancelFunc
	work   sync.WaitGroup
	making singleflight.Group
	turn   chan struct{} // held by what asks for texts that stay

	mu      sync.Mutex
	queries map[string]Vector
	recent  []string // texts in memory, the oldest first
	rest    time.Time
	failure error     // last error since the model answered
	hour    time.Time // beginning of the counted hour
	kept    int
	all     int
	owned   map[string]int
}

// New makes an Embeddings and asks for nothing. Close must be called.
func New(opt Options) *Embeddings {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	life, stop := context.WithCancel(context.Background())
	return &Embeddings{opt: opt, model: opt.Name, life: life, stop: stop, turn: make(chan struct{}, 1), queries: map[string]Vector{}}
}

// Timeout is how long a search waits for vectors.
func (e *Embeddings) Timeout() time.Duration { return e.opt.Timeout }

func (e *Embeddings) clean(text string) string {
	if e.opt.Redact != nil {
		text = e.opt.Redact(text)
	}
	return clip.Text(text, maxText)
}

// Queries returns the vectors of texts of an owner's search, all or none. It waits at most the timeout.
func (e *Embeddings) Queries(ctx context.Context, owner string, texts []string) []Vector {
	cleaned, vectors, missing := make([]string, len(texts)), make([]Vector, len(texts)), []string(nil)
	for i, t := range texts {
		cleaned[i] = e.clean(t)
	}
	e.mu.Lock()
	for i, t := range cleaned {
		if vectors[i] = e.queries[t]; vectors[i] == nil && !slices.Contains(missing, t) {
			missing = append(missing, t)
		}
	}
	e.mu.Unlock()
	if len(missing) == 0 {
		return vectors
	}
	ctx, cancel := context.WithTimeout(ctx, e.opt.Timeout)
	defer cancel()
	made, err := e.embed(ctx, &owner, missing)
	if err != nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, t := range missing {
		if e.queries[t] == nil {
			e.recent = append(e.recent, t)
		}
		e.queries[t] = made[i]
	}
	for len(e.recent) > maxQueries {
		delete(e.queries, e.recent[0])
		e.recent = e.recent[1:]
	}
	for i, t := range cleaned {
		if vectors[i] == nil {
			vectors[i] = made[slices.Index(missing, t)]
		}
	}
	return vectors
}

// Texts returns the vectors of texts that stay, such as descriptions of tools; nil where ctx ends before all are known, or the model does
// not answer. They are asked for once for all callers, and also after ctx has ended.
func (e *Embeddings) Texts(ctx context.Context, texts []string) []Vector {
	if len(texts) == 0 || e.rests() {
		return nil
	}
	group := sha256.New()
	for _, t := range texts {
		_, _ = fmt.Fprintf(group, "%d %s", len(t), t)
	}
	done := e.making.DoChan(string(group.Sum(nil)), func() (any, error) {
		if !e.begin() {
			return nil, errClosed
		}
		defer e.end()
		return e.make(e.life, texts)
	})
	select {
	case made := <-done:
		vectors, _ := made.Val.([]Vector) // errors were logged
		return vectors
	case <-ctx.Done():
		return nil
	}
}

// begin waits until nothing else is made; false says that the Embeddings is closed.
func (e *Embeddings) begin() bool {
	e.mu.Lock()
	if e.life.Err() != nil {
		e.mu.Unlock()
		return false
	}
	e.work.Add(1)
	e.mu.Unlock()
	select {
	case e.turn <- struct{}{}:
		return true
	case <-e.life.Done():
		e.work.Done()
		return false
	}
}

func (e *Embeddings) end() {
	<-e.turn
	e.work.Done()
}

// Close ends what is asked for, and waits for its end.
func (e *Embeddings) Close() {
	e.mu.Lock()
	e.stop()
	e.mu.Unlock()
	e.work.Wait()
}

// make takes vectors from the store, and asks the model for the others.
func (e *Embeddings) make(ctx context.Context, texts []string) ([]Vector, error) {
	cleaned, keys := make([]string, len(texts)), make([]Key, len(texts))
	for i, t := range texts {
		cleaned[i] = e.clean(t)
		keys[i] = sha256.Sum256([]byte(cleaned[i]))
	}
	known := e.stored(ctx, keys)
	var missing []int
	asked := map[Key]bool{}
	for i, k := range keys {
		if known[k] == nil && !asked[k] {
			asked[k] = true
			missing = append(missing, i)
		}
	}
	for batch := range slices.Chunk(missing, maxBatch) {
		ask := make([]string, len(batch))
		for i, at := range batch {
			ask[i] = cleaned[at]
		}
		made, err := e.embed(ctx, nil, ask)
		if err != nil {
			return nil, err
		}
		keep := map[Key][]byte{}
		for i, at := range batch {
			raw := made[i].bytes()
			known[keys[at]], keep[keys[at]] = raw, raw
		}
		e.keep(ctx, keep)
	}
	vectors := make([]Vector, len(texts))
	for i, k := range keys {
		vectors[i] = vectorOf(known[k])
	}
	return vectors, nil
}

// stored are the vectors that the store has. Without a store all are asked for.
func (e *Embeddings) stored(ctx context.Context, keys []Key) map[Key][]byte {
	store, err := e.opt.Store()
	var known map[Key][]byte
	if err == nil {
		known, err = store.Embeddings(ctx, e.model, keys)
	}
	if err != nil && ctx.Err() == nil {
		e.opt.Logger.WarnContext(ctx, "kept vectors of texts cannot be read; they are asked for anew", "error", err)
	}
	if known == nil {
		known = map[Key][]byte{}
	}
	return known
}

func (e *Embeddings) keep(ctx context.Context, vectors map[Key][]byte) {
	store, err := e.opt.Store()
	if err == nil {
		err = store.PutEmbeddings(ctx, e.model, vectors)
	}
	if err != nil && ctx.Err() == nil {
		e.opt.Logger.WarnContext(ctx, "vectors of texts are not kept", "error", err)
	}
}

// embed asks the model. After an error nothing is asked for a while; the first one since it last answered is logged.
func (e *Embeddings) embed(ctx context.Context, owner *string, texts []string) ([]Vector, error) {
	if e.rests() {
		return nil, errRests
	}
	if err := e.charge(owner, len(texts)); err != nil {
		if !errors.Is(err, errOwner) {
			e.failed(ctx, err)
		}
		return nil, err
	}
	raw, err := e.opt.Model.Embed(ctx, texts)
	if err != nil {
		e.failed(ctx, err)
		return nil, err
	}
	e.mu.Lock()
	e.failure = nil
	e.mu.Unlock()
	vectors := make([]Vector, len(raw))
	for i, v := range raw {
		vectors[i] = quantize(v)
	}
	return vectors, nil
}

// rests reports whether nothing is asked for at the moment.
func (e *Embeddings) rests() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.opt.Now().Before(e.rest)
}

// Failure is why there are no vectors; nil while the model answers, and for nil Embeddings.
func (e *Embeddings) Failure() error {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.failure
}

// charge counts texts that are asked for, to the owner of a search, or as texts that stay.
func (e *Embeddings) charge(owner *string, n int) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if now := e.opt.Now(); now.Sub(e.hour) >= time.Hour {
		e.hour, e.kept, e.all, e.owned = now, 0, 0, map[string]int{}
	}
	switch {
	case owner == nil && e.kept+n > maxKept:
		return fmt.Errorf("more than %d texts of tools in an hour; look for a server that changes its tools all the time", maxKept)
	case owner == nil:
		e.kept += n
	case e.owned[*owner]+n > maxOwned:
		return errOwner
	case e.all+n > maxSearched:
		return fmt.Errorf("more than %d texts of searches in an hour", maxSearched)
	default:
		e.owned[*owner] += n
		e.all += n
	}
	return nil
}

// errOwner says that an owner has asked for too much; others may go on.
var errOwner = errors.New("too many searches of one owner in an hour")

// errClosed says that the harness ends.
var errClosed = errors.New("closed")

// errRests says that nothing is asked for after an error that was logged.
var errRests = errors.New("the model for embeddings did not answer lately")

// failed has nothing asked for a while. A caller who went away says nothing of the model.
func (e *Embeddings) failed(ctx context.Context, err error) {
	if errors.Is(context.Cause(ctx), context.Canceled) {
		return
	}
	e.mu.Lock()
	first := e.failure == nil
	e.failure, e.rest = err, e.opt.Now().Add(restAfterError)
	e.mu.Unlock()
	if first {
		e.opt.Logger.WarnContext(ctx, "tools are found by their words only, because the model for embeddings does not answer", "error", err)
	}
}

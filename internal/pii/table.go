package pii

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mcp-code-exec-harness/internal/pii/detect"
	"mcp-code-exec-harness/internal/pii/seal"
)

// form is the kind of text that replaces a token when it is restored.
type form byte

const (
	asText    form = 't' // the first spelling of the value
	asNumber  form = 'n' // a number in JSON
	asSpelled form = 'e' // a spelling with an encoding, such as %40 for @; each such spelling has a token of its own
)

// value is what a token stands for. Values that differ only in their spelling have the same token.
type value struct {
	kind      string // type, such as EMAIL
	form      form
	made      bool   // whether a program composed the value
	canonical string // canonical form, equal for all spellings
	spelling  string // text that replaces the token
}

// valueOf returns the value of a span and its spelling in the text. Escapes in JSON strings are decoded first.
func valueOf(raw string, span detect.Span, isJSON, natural bool) (v value, spelled string) {
	if isJSON && !span.Number {
		raw = unquote(raw)
	}
	v = value{kind: span.Type, form: asText, canonical: span.Value, spelling: raw}
	if address, ok := naturalAddress(raw); ok && natural && v.kind == addressKind {
		v.spelling = address
		return v, raw
	}
	if natural && v.kind == ipKind && !span.Number {
		return ipValue(v, raw), raw
	}
	switch {
	case span.Number:
		v.form, v.canonical = asNumber, raw
	case strings.ContainsAny(raw, `\%&`) || plusForSpace(raw):
		v.form, v.canonical = asSpelled, raw
	}
	return v, raw
}

// plusForSpace reports whether a number has + in place of spaces, as in the query of a URL.
func plusForSpace(raw string) bool {
	return len(raw) > 3 && strings.Contains(raw[3:], "+") && strings.Trim(raw, "0123456789+-./()") == ""
}

// shared returns v without its spelling. Values have the same token if the results of shared are equal.
func (v value) shared() value {
	v.spelling = ""
	return v
}

// key encodes everything but the spelling of the value as a string.
func (v *value) key() string {
	made := "o"
	if v.made {
		made = "m"
	}
	return v.kind + "\x00" + string(v.form) + made + v.canonical
}

// encode returns the value as a string to be sealed.
func (v *value) encode() string {
	made := byte(0)
	if v.made {
		made = 1
	}
	plain := binary.AppendUvarint([]byte{byte(v.form), made}, uint64(len(v.canonical)))
	plain = append(plain, v.canonical...)
	if v.spelling != v.canonical {
		plain = append(plain, v.spelling...)
	}
	return string(plain)
}

var errEntry = errors.New("a stored value cannot be read")

func (v *value) decode(plain string) error {
	if len(plain) < 3 {
		return errEntry
	}
	v.form, v.made = form(plain[0]), plain[1] == 1
	size, n := binary.Uvarint([]byte(plain[2:min(len(plain), 2+binary.MaxVarintLen64)]))
	rest := plain[min(len(plain), 2+max(0, n)):]
	if n <= 0 || size > uint64(len(rest)) {
		return errEntry
	}
	v.canonical, v.spelling = rest[:size], rest[size:]
	if v.spelling == "" {
		v.spelling = v.canonical
	}
	return nil
}

// token is a value that a session knows, with the text that replaces the value.
type token struct {
	value
	n       int
	text    string // text such as [EMAIL_1] or 240.117.103.0/24
	origins []string

	spellings []string // further spellings of the named part in an odd case; see odd
}

func newToken(v value, n int, origin string) *token {
	text := fmt.Sprintf("[%s_%d]", v.kind, n)
	if at, ok := tokenIPOf(n); ok && v.kind == networkKind {
		text = at.prefix().String()
	}
	return &token{value: v, n: n, text: text, origins: []string{origin}}
}

func (t *token) String() string { return t.text }

// name identifies a token.
type name struct {
	kind string
	n    int
}

// table holds the tokens of one session.
type table struct {
	f       *Filter
	scope   Scope
	dropped atomic.Bool
	used    time.Time // time of the last use, guarded by f.mu
	counted int       // number of tokens counted in f.size, guarded by f.mu

	mu        sync.Mutex
	loaded    bool
	mark      int64 // mark for the next call of Vault.Since
	touched   time.Time
	vault     Vault
	keys      *seal.Keys
	byValue   map[value]*token // tokens by value.shared
	byName    map[name]*token
	isNatural bool           // an entry of type formKind marks the session as one with natural tokens
	last      map[string]int // highest number of each type, codes excluded
	retired   map[name]bool  // codes of values that the session has forgotten
	whole     bool           // every code that may be in the session's texts is in byName or retired
	first     int
	tokens    int64         // number of tokens in all sessions of the user
	bytes     int64         // size of the sealed values of these tokens in bytes
	coded     int           // number of values that share a token with literals of programs
	guesses   int           // number of questions that count for maxGuesses
	words     *detect.Words // values of the fields in Options.Fields, which the detector finds in any text
	added     []addition
}

// addition is a token or an origin that is not in the vault yet.
type addition struct {
	token  *token
	origin string
	is     bool // whether the token is new; otherwise only its origin is new
}

var errDropped = errors.New("the table was dropped")

func (t *table) use(ctx context.Context, do func(*table) error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.dropped.Load() {
		return errDropped
	}
	if !t.loaded {
		if err := t.load(ctx); err != nil {
			return err
		}
		t.touched = t.f.opt.Now() // Load also marks the session as used
	}
	if err := t.touch(ctx); err != nil {
		return err
	}
	t.added = t.added[:0]
	err := do(t)
	if err == nil && len(t.added) > 0 {
		err = t.store(ctx)
	}
	if err != nil {
		t.undo()
		return err
	}
	for _, a := range t.added {
		if a.is {
			t.learn(a.token)
		}
	}
	return nil
}

// learn adds the value of a token to t.words if its type is that of a field. Values that a program composed are not added.
func (t *table) learn(tok *token) {
	if t.f.words[tok.kind] && !tok.made {
		t.words.Add(tok.spelling, tok.kind)
	}
}

func (t *table) load(ctx context.Context) error {
	var err error
	if t.vault, err = t.f.opt.Vault(); err != nil {
		return err
	}
	if t.keys, err = t.f.opt.Keys(); err != nil {
		return err
	}
	stored, err := t.vault.Load(ctx, t.scope)
	if err != nil {
		return err
	}
	t.byValue, t.byName, t.last, t.retired = map[value]*token{}, map[name]*token{}, map[string]int{}, map[name]bool{}
	t.isNatural = false
	t.whole = stored.First <= 1 && len(stored.Entries) == 0
	if t.words = nil; len(t.f.words) > 0 {
		t.words = detect.NewWords()
	}
	t.first, t.tokens, t.bytes, t.mark = max(1, stored.First), stored.Tokens, stored.Bytes, stored.Mark
	if err := t.take(stored.Entries); err != nil {
		return err
	}
	t.loaded = true
	t.f.grown(t, len(t.byName))
	return nil
}

// take adds stored entries to the table, except for those that the table already has.
func (t *table) take(entries []Entry) error {
	for _, e := range entries {
		known := t.byName[name{e.Type, e.N}]
		// An entry whose number is 1 or a code, or whose origin is cleared, shows that the vault has not lost the session's tokens: after a
		// loss, numbers do not begin at 1 again, and no codes are assigned.
		t.whole = t.whole || e.N == 1 || e.N >= FirstCode || e.Origin == cleared
		switch {
		case known != nil:
			if !slices.Contains(known.origins, e.Origin) {
				known.origins = append(known.origins, e.Origin)
			}
			continue
		case e.Sealed == nil && e.N >= FirstCode: // The entry is from clear.
			t.retired[name{e.Type, e.N}] = true
			continue
		case e.Sealed == nil:
			t.last[e.Type] = max(t.last[e.Type], e.N)
			continue
		}
		plain, err := t.keys.Open(seal.Scope(t.scope), e.Sealed)
		if err != nil {
			return fmt.Errorf("open the vault: %w", err)
		}
		tok := newToken(value{kind: e.Type}, e.N, e.Origin)
		if err := tok.decode(plain); err != nil {
			return fmt.Errorf("open the vault: [%s_%d]: %w", e.Type, e.N, err)
		}
		if tok.kind == spellingKind {
			if of, spelling := t.spellingOf(tok); of != nil && !slices.Contains(of.odd(), spelling) {
				of.spellings = append(of.spellings, spelling)
			}
		}
		if t.byValue[tok.shared()] != nil { // two processes made a token for the value at the same time
			t.byName[name{tok.kind, tok.n}] = tok
		} else {
			t.put(tok)
		}
		t.learn(tok)
	}
	t.coded = 0
	for _, tok := range t.byName {
		if !tok.made && slices.Contains(tok.origins, string(FromCode)) {
			t.coded++
		}
	}
	return nil
}

// refresh adds tokens that other processes have stored since the table was loaded.
func (t *table) refresh(ctx context.Context) error {
	entries, next, err := t.vault.Since(ctx, t.scope, t.mark)
	if err != nil || len(entries) == 0 {
		return err
	}
	t.mark = next
	before := len(t.byName)
	err = t.take(entries)
	t.f.grown(t, len(t.byName)-before)
	return err
}

func (t *table) put(tok *token) {
	t.byValue[tok.shared()] = tok
	t.byName[name{tok.kind, tok.n}] = tok
	t.isNatural = t.isNatural || tok.kind == formKind
	if tok.n < FirstCode {
		t.last[tok.kind] = max(t.last[tok.kind], tok.n)
	}
}

// maxCoded is the maximum number of values from literals in programs that share tokens with values from outside. This limits what a
// program learns by listing values to see which of them the session knows.
const maxCoded = 100

// token returns the token of a value; it creates the token if there is none.
func (t *table) token(v value, from Origin) (*token, error) {
	v.made = from.made()
	if known := t.byValue[v.shared()]; from == FromCode && (known == nil || !slices.Contains(known.origins, string(from))) {
		if v.made = t.coded >= maxCoded; !v.made {
			t.coded++
		}
	}
	return t.tokenOf(v, string(from))
}

// tokenOf returns the token of a value and adds the origin to it; it creates the token if there is none.
func (t *table) tokenOf(v value, origin string) (*token, error) {
	if t.natural() && !t.isNatural {
		if _, err := t.numbered(value{kind: formKind, form: asText, canonical: "natural", spelling: "natural"}, origin, 1); err != nil {
			return nil, err
		}
	}
	if t.natural() && v.form == asText {
		switch v.kind {
		case addressKind:
			if _, _, domain, ok := splitAddress(v.spelling); ok && t.byValue[plainValue(domain).shared()] == nil {
				if _, err := t.tokenOf(domainValue(domain, v.made), origin); err != nil {
					return nil, err
				}
			}
		case ipKind:
			if err := t.locate(v, origin); err != nil {
				return nil, err
			}
		}
	}
	return t.numbered(v, origin, 0)
}

// natural reports whether the session's tokens have natural forms. Either all tokens of a session have them or none, because a program compares
// new tokens with the tokens in files and conversations. A session with tokens keeps its form when the configuration changes.
func (t *table) natural() bool { return t.isNatural || t.f.opt.Natural && len(t.byName) == 0 }

// numbered does what tokenOf does, but adds tokens neither for the domain of an address nor for the networks of an IP address. n is the number
// of a new token; 0 means the next number of the type.
func (t *table) numbered(v value, origin string, n int) (*token, error) {
	if known := t.byValue[v.shared()]; known != nil {
		if !slices.Contains(known.origins, origin) && len(known.origins) < maxOrigins {
			known.origins = append(known.origins, origin)
			t.added = append(t.added, addition{known, origin, false})
		}
		return known, nil
	}
	if limit := t.f.opt.Limits.Tokens; limit > 0 && len(t.byName) >= limit {
		return nil, &LimitError{"pii.maxTokens", int64(limit), "the tokens of this session"}
	}
	if n == 0 {
		n = max(t.first, t.last[v.kind]+1)
	}
	tok := newToken(v, n, origin)
	tok.canonical, tok.spelling = strings.Clone(v.canonical), strings.Clone(v.spelling) // With the clones, the text is not kept in memory.
	t.put(tok)
	t.added = append(t.added, addition{tok, origin, true})
	return tok, nil
}

// derived returns the token of a value that contains the values in of, or is another form of one of them. The token also gets the origins of those
// values, so that passing values through a tool does not change where they may be sent.
func (t *table) derived(v value, from Origin, of []any) (tok *token, err error) {
	origins := []string{string(from)}
	for _, ref := range of {
		if known, ok := ref.(*token); ok {
			v.made = v.made || known.made
			origins = append(origins, known.origins...)
		}
	}
	for _, origin := range origins {
		if tok, err = t.tokenOf(v, origin); err != nil {
			return nil, err
		}
	}
	return tok, nil
}

// copy returns the token for a value of another session, with the same origins.
func (t *table) copy(of *token) (tok *token, err error) {
	for _, origin := range of.origins {
		if tok, err = t.tokenOf(of.value, origin); err != nil {
			return nil, err
		}
	}
	return tok, nil
}

// maxOrigins is the maximum number of origins that a token records. The policy treats a token that has reached the maximum as one of unknown
// origin, the strictest case, because an origin that a rule names could be missing.
const maxOrigins = 64

// judged returns the origins that the policy judges; nil if they are not all known.
func (t *token) judged() []string {
	if len(t.origins) >= maxOrigins {
		return nil
	}
	return slices.Clone(t.origins)
}

// store writes the additions to the vault.
func (t *table) store(ctx context.Context) error {
	entries := make([]Entry, len(t.added))
	var bytes int64
	grown := 0
	for _, a := range t.added {
		if a.is {
			grown++
		}
	}
	if most := t.f.opt.Limits.UserTokens; most > 0 && grown > 0 && t.tokens+int64(grown) > most {
		return &LimitError{"quotas.tokens", most, "the tokens of all sessions of this user"}
	}
	for i, a := range t.added {
		entries[i] = Entry{Type: a.token.kind, N: a.token.n, Origin: a.origin}
		if !a.is {
			continue
		}
		sealed, err := t.keys.Seal(seal.Scope(t.scope), a.token.encode())
		if err != nil {
			return fmt.Errorf("seal a value: %w", err)
		}
		key := t.keys.Key(seal.Scope(t.scope), a.token.kind, a.token.key())
		entries[i].Sealed, entries[i].Key = sealed, key[:]
		bytes += int64(len(sealed))
	}
	if most := t.f.opt.Limits.UserBytes; most > 0 && bytes > 0 && t.bytes+bytes > most {
		return &LimitError{"quotas.vault", most, "the bytes of this user in the vault"}
	}
	if err := t.vault.Add(ctx, t.scope, entries); err != nil {
		return err
	}
	t.tokens, t.bytes = t.tokens+int64(grown), t.bytes+bytes
	t.f.grown(t, grown)
	return nil
}

// clear forgets the tokens of a session that continues. Their numbers are not reused, because texts may still mention them: the vault
// keeps the last number of each type in an entry without a token.
func (t *table) clear(ctx context.Context) error {
	last := make([]Entry, 0, len(t.last))
	for kind, n := range t.last {
		last = append(last, Entry{Type: kind, N: n, Origin: cleared})
	}
	for at := range t.byName {
		if at.kind == networkKind && at.n >= FirstCode { // Retiring a network retires all addresses in it.
			t.retired[at] = true
		}
	}
	for at := range t.retired {
		last = append(last, Entry{Type: at.kind, N: at.n, Origin: cleared})
	}
	if err := t.vault.Delete(ctx, t.scope); err != nil || len(last) == 0 {
		return err
	}
	if _, err := t.vault.Load(ctx, t.scope); err != nil { // Load must precede Add
		return err
	}
	return errors.Join(t.vault.Add(ctx, t.scope, last), t.vault.Sync(ctx))
}

const cleared = "cleared"

// undo removes the additions that were not stored. Their numbers are not reused, because a text may already contain a token with one of them.
func (t *table) undo() {
	for _, a := range slices.Backward(t.added) {
		if a.is {
			if of, spelling := t.spellingOf(a.token); a.token.kind == spellingKind && of != nil {
				of.spellings = slices.DeleteFunc(of.spellings, func(s string) bool { return s == spelling })
			}
			delete(t.byValue, a.token.shared())
			delete(t.byName, name{a.token.kind, a.token.n})
			t.isNatural = t.isNatural && a.token.kind != formKind
			if a.token.n >= FirstCode {
				t.retired[name{a.token.kind, a.token.n}] = true
			}
		} else {
			a.token.origins = slices.DeleteFunc(a.token.origins, func(o string) bool { return o == a.origin })
		}
	}
	t.added = t.added[:0]
}

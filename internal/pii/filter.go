package pii

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/pii/detect"
	"mcp-code-exec-harness/internal/pii/seal"
	"mcp-code-exec-harness/internal/slots"
)

// Options configure a Filter. Vault and Keys are called whenever the vault or the keys are needed, and must always return the same ones.
type Options struct {
	Detector Detector
	Types    []string // types of the detector; a text that looks like a token of another type is not a token
	Fields   []Field
	Natural  bool // sessions without tokens start with natural forms, where those exist; a session keeps the form it started with
	// FailUnknown makes RestoreArguments fail for unknown tokens. If it is false, unknown tokens stay in the arguments.
	FailUnknown bool
	InCode      InCode // mode for values in code; empty for EscapeInCode

	Vault  func() (Vault, error)
	Keys   func() (*seal.Keys, error)
	Limits Limits
	Now    func() time.Time
	IntN   func(n int) int // returns a random number below n; nil means rand.IntN
}

// Field selects a place in the answers of tools where every value is personal data. Once found, a value of the field is also found everywhere
// else in the same session, if it is distinctive enough (see detect.Words).
type Field struct {
	detect.Field
	From func(Origin) bool // reports whether an origin is one of the field's tools
}

// Limits limit the tokens of sessions and users. A zero field means no limit.
type Limits struct {
	Tokens     int   // maximum number of tokens of a session
	UserTokens int64 // maximum number of tokens in all sessions of a user
	UserBytes  int64 // maximum size of a user's sealed values in bytes
}

// LimitError reports that a text has more values than the session or its user may have.
type LimitError struct {
	Setting string
	Limit   int64
	What    string
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("%s would have more than %d (%s)", e.What, e.Limit, e.Setting)
}

// Filter finds personal data and maps values to tokens. It is safe for concurrent use.
type Filter struct {
	opt   Options
	types map[string]bool
	words map[string]bool // types of Options.Fields
	large *slots.Slots    // slots for large texts, which take long to process

	mu     sync.Mutex
	tables map[Scope]*table
	size   int // number of tokens in all tables
}

// New returns a Filter with the options.
func New(opt Options) *Filter {
	if opt.IntN == nil {
		opt.IntN = rand.IntN
	}
	f := &Filter{
		opt: opt, types: map[string]bool{literal: true, domainKind: true, networkKind: true}, words: map[string]bool{}, tables: map[Scope]*table{},
		large: slots.New(slots.Limits{
			All: max(1, runtime.GOMAXPROCS(0)/2), Each: 1, Waiting: math.MaxInt, EachWaiting: math.MaxInt,
		}, "texts", "read"),
	}
	for _, name := range opt.Types {
		f.types[name] = true
	}
	for _, field := range opt.Fields {
		f.types[field.Type], f.words[field.Type] = true, true
	}
	return f
}

// In returns the filter for a session of a user. The Session of a nil Filter changes nothing.
func (f *Filter) In(user, session string) Session {
	if f == nil {
		return Session{}
	}
	return Session{f, Scope{user, session}}
}

// Clear forgets the tokens of a session that continues. They then stand for nothing, and no later token reuses one of their numbers.
func (f *Filter) Clear(ctx context.Context, user, session string) error {
	if f == nil {
		return nil
	}
	return f.use(ctx, Scope{user, session}, func(t *table) error {
		if err := t.clear(ctx); err != nil {
			return err
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.drop(t)
		return nil
	})
}

// Forget removes all tokens of a deleted session.
func (f *Filter) Forget(ctx context.Context, user, session string) error {
	if f == nil {
		return nil
	}
	s := Scope{user, session}
	f.mu.Lock()
	if t := f.tables[s]; t != nil {
		f.drop(t)
	}
	f.mu.Unlock()
	vault, err := f.opt.Vault()
	if err != nil {
		return err
	}
	return vault.Delete(ctx, s)
}

// Stats counts the tokens of a user by type: in one session, or in all if session is empty.
func (f *Filter) Stats(ctx context.Context, user, session string) (map[string]int64, error) {
	if f == nil {
		return map[string]int64{}, nil
	}
	vault, err := f.opt.Vault()
	if err == nil {
		err = vault.Sync(ctx)
	}
	if err != nil {
		return nil, err
	}
	stats, err := vault.Stats(ctx, user, session)
	delete(stats, spellingKind)
	delete(stats, placeKind)
	delete(stats, formKind)
	delete(stats, plainKind)
	return stats, err
}

// Check opens the key and the vault. If the vault has a method Check of its own, that method contacts the vault's server, and warnings are about the
// settings of the server. If the vault has a method Ends, which returns its oldest and newest sealed values, there is a warning for each key that sealed one
// of them and is not configured.
func (f *Filter) Check(ctx context.Context) (warnings []string, err error) {
	if f == nil {
		return nil, nil
	}
	keys, err := f.opt.Keys()
	if err != nil {
		return nil, err
	}
	vault, err := f.opt.Vault()
	if err != nil {
		return nil, err
	}
	if v, ok := vault.(interface {
		Ends(context.Context) ([][]byte, error)
	}); ok {
		sealed, err := v.Ends(ctx)
		if err != nil {
			return nil, err
		}
		return keys.Missing(sealed), nil
	}
	if v, ok := vault.(interface {
		Check(context.Context) ([]string, error)
	}); ok {
		return v.Check(ctx)
	}
	return nil, nil
}

// Redactor returns a function that removes values from texts without an owner (see Redact), or nil for a nil Filter.
func (f *Filter) Redactor() func(string) string {
	if f == nil {
		return nil
	}
	return Redact(f.opt.Detector)
}

// hideJSON replaces the values in a JSON text. The result may alias raw.
func (f *Filter) hideJSON(ctx context.Context, s Scope, from Origin, raw json.RawMessage, sent []Token) (json.RawMessage, error) {
	text := string(raw)
	switch trimmed := strings.TrimLeft(text, " \t\r\n"); {
	case trimmed != "" && (trimmed[0] == '{' || trimmed[0] == '['):
		plain := plainEscapes(text)
		spans, tokens, err := f.tokenize(ctx, s, from, plain, true, sent)
		switch {
		case err != nil:
			return nil, err
		case len(spans) == 0 && len(plain) == len(raw): // no escape was decoded
			return raw, nil
		}
		hidden := splice(plain, spans, tokens)
		switch {
		case !escaped(plain, spans) || json.Valid(hidden):
			return hidden, nil
		case json.Valid(raw):
			return f.eachString(ctx, s, from, raw, sent) // a value ends within an escape sequence
		}
		fallthrough
	case !json.Valid(raw):
		hidden, err := f.hide(ctx, s, from, text, sent)
		return json.RawMessage(hidden), err
	case trimmed[0] == '"':
		var value string
		if err := json.Unmarshal(raw, &value); err != nil {
			return nil, err
		}
		hidden, err := f.hide(ctx, s, from, value, sent)
		if err != nil || hidden == value {
			return raw, err
		}
		return journal.Encode(hidden)
	case trimmed[0] == '-' || trimmed[0] >= '0' && trimmed[0] <= '9':
		spans, tokens, err := f.tokenize(ctx, s, from, "["+text+"]", true, sent) // the detector finds numbers only in JSON
		if err != nil || len(spans) == 0 {
			return raw, err
		}
		hidden := splice("["+text+"]", spans, tokens)
		return hidden[1 : len(hidden)-1], nil
	}
	return raw, nil
}

// eachString replaces the values in each string of a JSON text separately. It is slower than hideJSON's normal path and ignores numbers.
func (f *Filter) eachString(ctx context.Context, s Scope, from Origin, raw json.RawMessage, sent []Token) (json.RawMessage, error) {
	var failed error
	changed, err := changeStrings(raw, func(text string) string {
		hidden, err := f.hide(ctx, s, from, text, sent)
		failed = errors.Join(failed, err)
		return hidden
	})
	return changed, errors.Join(failed, err)
}

// largeText is the size in bytes above which a text waits for a slot. Such a text takes a millisecond or more, so users take turns.
const largeText = 128 << 10

// hide replaces the values in a text that is not JSON.
func (f *Filter) hide(ctx context.Context, s Scope, from Origin, text string, sent []Token) (string, error) {
	spans, tokens, err := f.tokenize(ctx, s, from, text, false, sent)
	if err != nil || len(spans) == 0 {
		return text, err
	}
	return string(splice(text, spans, tokens)), nil
}

// escaped reports whether a span may contain or overlap a JSON escape sequence.
func escaped(text string, spans []detect.Span) bool {
	for _, span := range spans {
		if strings.IndexByte(text[max(0, span.Start-len(`\u000`)):span.End], '\\') >= 0 {
			return true
		}
	}
	return false
}

// tokenize finds the values of a text and their tokens. If the text contains values of fields that are new to the session, a second pass finds
// their other occurrences in the text.
func (f *Filter) tokenize(
	ctx context.Context, s Scope, from Origin, text string, isJSON bool, sent []Token,
) (spans []detect.Span, tokens []string, err error) {
	if len(text) > largeText {
		release, err := f.large.Acquire(ctx, s.User, 1)
		if err != nil {
			return nil, nil, err
		}
		defer release()
	}
	known, err := f.known(ctx, s, from, sent)
	if err != nil {
		return nil, nil, err
	}
	for pass, again := 0, true; again && pass < 2; pass++ {
		if spans, err = f.find(ctx, s, from, text, known); len(spans) == 0 || err != nil {
			return nil, nil, err
		}
		words := known.Words.Len()
		if tokens, err = f.tokens(ctx, s, from, text, spans, isJSON); err != nil {
			return nil, nil, err
		}
		again = len(known.Fields) > 0 && known.Words.Len() > words
	}
	return spans, tokens, nil
}

// known returns the values and fields that the detector looks for in a text in addition to its own types.
func (f *Filter) known(ctx context.Context, s Scope, from Origin, sent []Token) (known detect.Known, err error) {
	known.Sent = dictionary(sent)
	if len(f.opt.Fields) == 0 {
		return known, nil
	}
	for _, field := range f.opt.Fields {
		if field.From(from) {
			known.Fields = append(known.Fields, field.Field)
		}
	}
	err = f.use(ctx, s, func(t *table) error { known.Words = t.words; return nil })
	return known, err
}

// find finds the values of a text.
func (f *Filter) find(ctx context.Context, s Scope, from Origin, text string, known detect.Known) (spans []detect.Span, err error) {
	spans = f.opt.Detector.FindWith(text, known)
	if from == FromCode && known.Words != nil {
		spans = slices.DeleteFunc(spans, func(span detect.Span) bool { return f.words[span.Type] && mayBeIdentifier(text, span) })
	}
	if !from.foreign() { // an address with a natural token in it, in any encoding, stays: a program composed it from the token
		spans = slices.DeleteFunc(spans, func(span detect.Span) bool {
			return (span.Type == addressKind || span.Type == ipKind) && f.hasNatural(span.Value)
		})
	}
	if local := func(span detect.Span) bool { return span.Type == ipKind && isLocal(span.Value) }; slices.ContainsFunc(spans, local) {
		err = f.use(ctx, s, func(t *table) error {
			if t.natural() { // local addresses stay: they reveal nothing, and programs compare values with them
				spans = slices.DeleteFunc(spans, local)
			}
			return nil
		})
	}
	if mayHaveToken(text) {
		spans = f.withTokens(text, spans, from)
	}
	return spans, err
}

// mayBeIdentifier reports whether a value in a program may be an identifier: a single word that is not a whole string literal.
func mayBeIdentifier(text string, span detect.Span) bool {
	for _, c := range []byte(text[span.Start:span.End]) {
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	if span.Start == 0 || span.End == len(text) {
		return true
	}
	quote := text[span.Start-1]
	return quote != text[span.End] || strings.IndexByte("'\"`", quote) < 0
}

// tokens returns the tokens for the values of a text.
func (f *Filter) tokens(ctx context.Context, s Scope, from Origin, text string, spans []detect.Span, isJSON bool) ([]string, error) {
	tokens := make([]string, 0, len(spans))
	err := f.use(ctx, s, func(t *table) error {
		tokens = tokens[:0]
		natural := t.natural()
		for i, span := range spans {
			raw := text[span.Start:span.End]
			// In a regular expression, the dots of an address have backslashes. They are removed, so that the address gets a natural token: a
			// token in brackets would be a character class.
			if from == FromCode && natural && (span.Type == addressKind || span.Type == ipKind) {
				raw = strings.ReplaceAll(raw, `\`, "")
			}
			v, raw := valueOf(raw, span, isJSON, natural)
			tok, ok := span.Ref.(*token)
			if !ok && len(span.Within) == 0 {
				text, in, err := t.inPercent(v, raw, from, span.Value)
				if err != nil {
					return err
				}
				if in {
					tokens = append(tokens, text)
					continue
				}
			}
			if !ok || v.form != tok.form {
				of := span.Within
				if ok {
					of = append(of, tok)
				}
				var err error
				if len(of) > 0 {
					tok, err = t.derived(v, from, of)
				} else {
					tok, err = t.token(v, from)
				}
				if err != nil {
					return err
				}
			}
			name, err := t.spell(tok, raw)
			if err != nil {
				return err
			}
			after := text[span.End:min(len(text), span.End+maxName)]
			if i+1 < len(spans) && spans[i+1].Start == span.End {
				after = "0"
			}
			if name != tok.text && mayRunOn(tok.kind, name) && !f.endsAt(name, after) ||
				natural && tok.form == asText && name == tok.text && raw != tok.spelling { // a token in brackets would lose this spelling
				v.form, v.canonical, v.spelling = asSpelled, raw, raw
				if tok, err = t.derived(v, from, []any{tok}); err != nil {
					return err
				}
				name = tok.text
			}
			tokens = append(tokens, name)
		}
		return nil
	})
	return tokens, err
}

// dictionary returns the sent values in the spellings that an answer may use.
func dictionary(sent []Token) *detect.Dictionary {
	if len(sent) == 0 {
		return nil
	}
	words := make([]detect.Word, 0, 5*len(sent))
	for _, t := range sent {
		spelling := t.of.spelling
		texts := [...]string{
			spelling, t.of.canonical, strings.ReplaceAll(spelling, " ", "+"), hex.EncodeToString([]byte(spelling)), onlyDigits(spelling),
		}
		for i, text := range texts {
			if i == 0 || text != spelling {
				words = append(words, detect.Word{Text: text, Type: t.of.kind, Ref: t.of})
			}
		}
		for _, text := range t.others {
			words = append(words, detect.Word{Text: text, Type: t.of.kind, Ref: t.of})
		}
	}
	return detect.NewDictionary(words)
}

// onlyDigits removes the separators between the digits of a number; it returns any other text unchanged.
func onlyDigits(spelling string) string {
	if strings.Trim(spelling, "0123456789 -.()+/") != "" {
		return spelling
	}
	return strings.Map(func(c rune) rune {
		if c < '0' || c > '9' {
			return -1
		}
		return c
	}, spelling)
}

// splice replaces spans by texts. The spans are in order and do not overlap.
func splice(text string, spans []detect.Span, texts []string) []byte {
	size := len(text)
	for i, span := range spans {
		size += len(texts[i]) + 2*len(span.Quote) - (span.End - span.Start)
	}
	out := make([]byte, 0, size)
	done := 0
	for i, span := range spans {
		out = append(out, text[done:span.Start]...)
		out = append(out, span.Quote...)
		out = append(out, texts[i]...)
		out = append(out, span.Quote...)
		done = span.End
	}
	return append(out, text[done:]...)
}

// withTokens adds tokens to the spans of a text. In a text from outside, each part that looks like a token becomes a span of the type literal.
// In other texts, tokens stay, and a span that overlaps tokens is reduced to the parts before and after them.
func (f *Filter) withTokens(text string, spans []detect.Span, from Origin) []detect.Span {
	found := f.tokensIn(text)
	if len(found) == 0 {
		return spans
	}
	merged := make([]detect.Span, 0, len(spans)+len(found))
	for _, span := range spans {
		for len(found) > 0 && found[0].start < span.Start {
			if from.foreign() {
				merged = append(merged, found[0].literal(text))
			}
			if found[0].end > span.Start { // the span, which is the value of a field, begins within a token
				span = part(text, span, min(found[0].end, span.End), span.End)
			}
			found = found[1:]
		}
		inside := false
		for len(found) > 0 && found[0].start < span.End {
			inside = true
			switch {
			case !from.foreign():
				before := text[span.Start:found[0].start]
				if span.Type != ipKind && !(found[0].part == secretPart && detect.IsKeyPrefix(before)) {
					merged = appendPart(merged, text, span, span.Start, found[0].start)
				}
				span = part(text, span, min(found[0].end, span.End), span.End)
				found = found[1:]
			case found[0].end > span.End: // another token may begin in the rest
				found = f.tokensIn(text[span.End:])
				for i := range found {
					found[i] = found[i].shifted(span.End)
				}
			default:
				found = found[1:]
			}
		}
		if inside && span.Type == ipKind && !from.foreign() { // text beside the token of an address is not an address
			continue
		}
		merged = appendPart(merged, text, span, span.Start, span.End)
	}
	for _, t := range found {
		if from.foreign() {
			merged = append(merged, t.literal(text))
		}
	}
	return merged
}

func part(text string, span detect.Span, start, end int) detect.Span {
	if start != span.Start || end != span.End {
		span.Start, span.End, span.Value = start, end, text[start:end]
	}
	return span
}

// appendPart appends a part of a span, unless the part consists only of separators.
func appendPart(spans []detect.Span, text string, span detect.Span, start, end int) []detect.Span {
	if strings.Trim(text[start:end], " \t\r\n\"'\\,;:=") == "" {
		return spans
	}
	return append(spans, part(text, span, start, end))
}

// maxTables is the number of tokens in memory above which the tables of idle sessions are dropped.
const maxTables = 500_000

// use loads the table of a session if needed, calls do with the table, and stores what do has added to the table.
func (f *Filter) use(ctx context.Context, s Scope, do func(*table) error) error {
	for range maxConflicts {
		t := f.table(s)
		err := t.use(ctx, do)
		switch {
		case errors.Is(err, errDropped):
		case errors.Is(err, ErrConflict):
			f.mu.Lock()
			f.drop(t)
			f.mu.Unlock()
		default:
			return err
		}
	}
	return ErrConflict
}

const maxConflicts = 20 // maximum number of attempts if other processes add tokens to the session at the same time

func (f *Filter) table(s Scope) *table {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.tables[s]
	if t == nil {
		t = &table{f: f, scope: s}
		f.tables[s] = t
		f.makeRoom(t)
	}
	t.used = f.opt.Now()
	return t
}

// makeRoom drops the least recently used tables until no limit is exceeded. The parameter but is a table that it keeps. The caller holds f.mu.
func (f *Filter) makeRoom(but *table) {
	for f.size > maxTables || len(f.tables) > maxTables/100 {
		var oldest *table
		for _, t := range f.tables {
			if t != but && (oldest == nil || t.used.Before(oldest.used)) {
				oldest = t
			}
		}
		if oldest == nil || !oldest.mu.TryLock() { // do not wait for a table that is in use
			return
		}
		f.drop(oldest)
		oldest.mu.Unlock()
	}
}

// drop removes a table from memory. A goroutine that is using the table loads it again. The caller holds f.mu.
func (f *Filter) drop(t *table) {
	if f.tables[t.scope] == t {
		delete(f.tables, t.scope)
		f.size -= t.counted
	}
	t.dropped.Store(true)
}

// grown counts n tokens that were added to a table.
func (f *Filter) grown(t *table, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.tables[t.scope] == t {
		t.counted += n
		f.size += n
		f.makeRoom(t)
	}
}

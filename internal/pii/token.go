package pii

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/jsontext"
	"mcp-code-exec-harness/internal/pii/detect"
)

// literal is the type of texts from outside that look like tokens.
const literal = "LITERAL"

// maxName is the maximum length of a text that may be a token.
const maxName = 80

// found is a text that looks like a token or like a part of a natural token.
type found struct {
	start, end int
	name       name
	part       addressPart
	letters    letterCase
	joins      bool // the text is the domain of an address: the first part of the address and a separator precede it
	percent    bool // the brackets are percent-encoded, as in a URL
	form       bool // the brackets are %5b and %5d, as URLSearchParams writes them: the value is form-encoded
	ip         tokenIP
	networkEnd int // end of the network of an IP address
}

// shifted returns t with its offsets increased by the given number of bytes.
func (t found) shifted(by int) found {
	t.start, t.end, t.networkEnd = t.start+by, t.end+by, t.networkEnd+by
	return t
}

func (t found) literal(text string) detect.Span {
	return detect.Span{Start: t.start, End: t.end, Type: literal, Value: text[t.start:t.end]}
}

// mayHaveToken is a quick check whether a text may contain a token. False is certain; true may be wrong.
func mayHaveToken(text string) bool {
	return (strings.Contains(text, "[") || strings.Contains(text, "%5")) && strings.Contains(text, "_") || strings.Contains(text, `\u00`) || mayHaveNatural(text)
}

// tokensIn finds the texts that look like tokens of the filter's types.
func (f *Filter) tokensIn(text string) []found { return tokensIn(text, f.types) }

// tokensIn finds the texts that look like tokens: [EMAIL_1], [PII_EMAIL_1], %5BEMAIL_1%5D, and the parts of pii_1e@d1.pii.invalid. types are the
// permitted types of tokens in brackets; nil means any type.
func tokensIn(text string, types map[string]bool) (all []found) {
	starts := "["
	if mayHaveNatural(text) {
		starts += "_."
		if mayHaveIP6(text) {
			starts += "3"
		}
	}
	if strings.Contains(text, "%5") {
		starts += "%"
	}
	done := 0
	for at := 0; ; at++ {
		i := strings.IndexAny(text[at:], starts)
		if i < 0 {
			return all
		}
		at += i
		var next found
		switch text[at] {
		case '[', '%':
			n, size := parseToken(text[at:])
			if size == 0 || types != nil && !types[n.kind] {
				continue
			}
			next = found{start: at, end: at + size, name: n, percent: text[at] == '%', form: strings.HasPrefix(text[at:], "%5b")}
		case '_':
			next = localAt(text, at)
		case '.':
			if next = domainAt(text, at); next.end == 0 {
				next = ip4At(text, at)
			}
		case '3':
			next = ip6At(text, at)
		}
		if next.end == 0 || next.start < done {
			continue
		}
		if len(all) > 0 && next.part == domainPart {
			last := all[len(all)-1]
			next.joins = last.part == localPart && slices.Contains(separators[:], text[last.end:next.start])
		}
		all = append(all, next)
		done = next.end
		at = next.end - 1
	}
}

// Tokens finds the texts in value that look like tokens. For each type except LITERAL, it returns the offset of the first such text. Parts of
// natural tokens count as EMAIL or IP_ADDRESS.
func (s Session) Tokens(value []byte) map[string]int {
	if s.filter == nil {
		return nil
	}
	text := string(value)
	if !mayHaveToken(text) {
		return nil
	}
	first := map[string]int{}
	for _, t := range s.filter.tokensIn(text) {
		kind := t.name.kind
		switch kind {
		case domainKind:
			kind = addressKind
		case placeKind, networkKind:
			kind = ipKind
		}
		if _, known := first[kind]; !known && kind != literal {
			first[kind] = t.start
		}
	}
	return first
}

// maxQuote is the maximum length of a quote beside a token, its backslashes included. The function between leaves room for it.
const maxQuote = 16

// between returns an offset that lies neither in a token nor in the quotes around a token. The offset is not greater than at.
func (f *Filter) between(text string, at int) int {
	at -= maxQuote
	if at <= 0 {
		return 0
	}
	from := max(0, at-4*maxName)
	all := f.tokensIn(text[from:])
	for i := len(all) - 1; i >= 0; i-- {
		start, end := unquoted(text, from+all[i].start, from+all[i].end)
		if all[i].joins {
			start = from + all[i-1].start
		}
		if start = max(start, from+all[i].start-maxName); start < at && at < end {
			at = start
		}
	}
	return at
}

// parseToken parses the token at the start of a text. end is 0 if there is none.
func parseToken(text string) (n name, end int) {
	open, closed := "[", "]"
	if strings.HasPrefix(text, "%") {
		if open, closed = "%5B", "%5D"; !strings.HasPrefix(text, open) {
			open, closed = "%5b", "%5d"
		}
	}
	end = strings.Index(text[:min(len(text), maxName)], closed)
	if end < 0 || !strings.HasPrefix(text, open) {
		return n, 0
	}
	inner := strings.TrimPrefix(text[len(open):end], "PII_")
	under := strings.LastIndexByte(inner, '_')
	digits, last := number(inner, under+1)
	if under < 1 || digits == 0 || last != len(inner) {
		return n, 0
	}
	for _, c := range []byte(inner[:under]) {
		if (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' {
			return n, 0
		}
	}
	return name{inner[:under], digits}, end + len(closed)
}

// restorer replaces the tokens of one session.
type restorer struct {
	f     *Filter
	table *table
	used  map[*token][]string // restored tokens, each with its restored texts that differ from its first spelling
	order []*token

	unknown string // first text that looks like a token but is not one of the session
}

// restorer returns a restorer for the tokens in text. If one of them is unknown, or other processes may add tokens to the session, it
// refreshes the table first.
func (f *Filter) restorer(ctx context.Context, s Scope, text string) (*restorer, error) {
	r := &restorer{f: f, used: map[*token][]string{}}
	return r, f.use(ctx, s, func(t *table) error {
		r.table = t
		return t.current(ctx, f.tokensIn(plainEscapes(text)))
	})
}

// current refreshes the table if a token is unknown or may have new origins.
func (t *table) current(ctx context.Context, tokens []found) error {
	unknown := slices.ContainsFunc(tokens, func(of found) bool { return t.byName[of.name] == nil })
	if !unknown && (len(tokens) == 0 || !t.vault.Shared()) {
		return nil
	}
	return t.refresh(ctx)
}

// place is a token in a text, and its replacement.
type place struct {
	start, end int
	tok        *token
	text       string // the value in the spelling for this place
	number     bool   // the token stands for a JSON number; a string that consists only of the token becomes a number
}

// places finds the session's tokens in a text. The two adjacent parts of an address are one place.
func (r *restorer) places(text string) []place {
	all := r.f.tokensIn(text)
	if len(all) == 0 {
		return nil
	}
	r.table.mu.Lock()
	defer r.table.mu.Unlock()
	places := make([]place, 0, len(all))
	for i, found := range all {
		at := found
		tok := r.table.byName[at.name]
		restored, ok := "", false
		switch {
		case at.ip != tokenIP{}:
			tok, restored, at.end = r.table.restoredIP(at, text)
			ok = tok != nil
		case tok != nil:
			restored, ok = at.restored(tok)
			if at.part == localPart && strings.HasPrefix(text[at.end:], separators[1]) && !(i+1 < len(all) && all[i+1].joins) {
				restored = encodeComponent(restored)
			}
		}
		if !ok {
			if r.unknown == "" {
				r.unknown = text[found.start:found.end]
			}
			continue
		}
		if last := len(places) - 1; at.joins && last >= 0 && r.table.hasDomain(places[last].tok, at.name) {
			// found is the domain of an address. If the session knows the first part of the address, that part is the last element of places.
			if separator := text[places[last].end:at.start]; slices.Contains(separators[:], separator) {
				places[last].join(separator, restored, at.end)
				continue
			}
		}
		places = append(places, place{at.start, at.end, tok, restored, tok.form == asNumber && !at.percent})
	}
	for _, p := range places {
		if _, ok := r.used[p.tok]; !ok {
			r.order, r.used[p.tok] = append(r.order, p.tok), nil
		}
		if p.text != p.tok.spelling && !slices.Contains(r.used[p.tok], p.text) {
			r.used[p.tok] = append(r.used[p.tok], p.text)
		}
	}
	return places
}

// join extends the place of an address's first part to the whole address.
func (p *place) join(separator, domain string, end int) {
	if separator != "@" {
		p.text = encodeComponent(p.text)
	}
	p.text, p.end = p.text+separator+domain, end
}

// restored returns the value of tok, or the part of the value for which t stands. ok is false if t stands for nothing.
func (t found) restored(tok *token) (text string, ok bool) {
	switch {
	case t.form:
		return inForm.Replace(encodeComponent(tok.spelling)), true
	case t.percent:
		return encodeComponent(tok.spelling), true
	}
	switch t.part {
	case wholePart:
		return tok.spelling, true
	case secretPart:
		_, text, ok = tok.secretRest()
		return text, ok
	}
	text, ok = tok.in(t.letters)
	return text, ok && text != "" && tok.form == asText
}

// inForm converts a text encoded by encodeComponent to form encoding.
var inForm = strings.NewReplacer("%20", "+", "!", "%21", "'", "%27", "(", "%28", ")", "%29", "~", "%7E")

// tokens returns the tokens that were replaced.
func (r *restorer) tokens() []Token {
	r.table.mu.Lock()
	defer r.table.mu.Unlock()
	all := make([]Token, len(r.order))
	for i, tok := range r.order {
		all[i] = Token{r.table.name(tok, tok.spelling), tok.kind, tok.judged(), tok, r.used[tok]}
	}
	return all
}

// text restores the tokens in a text. It removes the quotes around the token of a number, because they were added for the token.
func (r *restorer) text(text string) string {
	var out strings.Builder
	done := 0
	for _, p := range r.places(text) {
		start, end := p.start, p.end
		if p.number {
			start, end = unquoted(text, start, end)
		}
		out.WriteString(text[done:max(done, start)])
		out.WriteString(p.text)
		done = end
	}
	if done == 0 {
		return text
	}
	out.WriteString(text[done:])
	return out.String()
}

// translate replaces the tokens of one session by those of another.
func (f *Filter) translate(ctx context.Context, from, to Scope, text string) (string, error) {
	r, err := f.restorer(ctx, from, text)
	if err != nil {
		return "", err
	}
	places := r.places(text)
	spans, texts := make([]detect.Span, len(places)), make([]string, len(places))
	if err := f.use(ctx, to, func(t *table) error {
		for i, p := range places {
			tok, err := t.copy(p.tok)
			if err != nil {
				return err
			}
			spans[i] = detect.Span{Start: p.start, End: p.end}
			if texts[i], err = t.spell(tok, p.text); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return "", err
	}
	return string(splice(text, spans, texts)), nil
}

// unquoted extends the range of a token by equal quotes on both sides, if there are any.
func unquoted(text string, start, end int) (int, int) {
	from := start
	if from == 0 || text[from-1] != '"' {
		return start, end
	}
	for from--; from > 0 && text[from-1] == '\\'; from-- {
	}
	quote := text[from:start]
	if !strings.HasPrefix(text[end:], quote) {
		return start, end
	}
	return from, end + len(quote)
}

// json restores the tokens in the strings of a JSON text. If a string that is not a key consists of one token and the token stands for a number,
// the number replaces the string.
func (r *restorer) json(raw string) []byte {
	text := plainEscapes(raw)
	isJSON := sync.OnceValue(func() bool { return json.Valid([]byte(raw)) })
	out := make([]byte, 0, len(text)+len(text)/4)
	done := 0
	for _, p := range r.places(text) {
		start, end, spelling := p.start, p.end, p.text
		if p.number && !(isKey(text, end+1) && isJSON()) {
			start, end = unquoted(text, start, end)
		} else if quoted := quote(spelling); quoted != spelling && isJSON() {
			spelling = quoted
		}
		out = append(out, text[done:max(done, start)]...)
		out = append(out, spelling...)
		done = end
	}
	return append(out, text[done:]...)
}

// quote encodes a text as a part of a JSON string.
func quote(text string) string {
	for _, c := range []byte(text) {
		if c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			encoded, _ := journal.Encode(text) // a string can always be encoded
			return string(encoded[1 : len(encoded)-1])
		}
	}
	return text
}

// isKey reports whether the string that ends at i is a key of a JSON object.
func isKey(text string, i int) bool {
	rest := strings.TrimLeft(text[min(i, len(text)):min(len(text), i+64)], " \t\r\n")
	return rest != "" && rest[0] == ':'
}

// changeStrings replaces each string of a valid JSON text by the result of change. All other bytes stay, including the order of keys and
// the form of numbers.
func changeStrings(raw []byte, change func(string) string) ([]byte, error) {
	var out []byte // nil until something changes
	done := 0      // length of the part of raw that is in out
	for at := 0; ; {
		from := bytes.IndexByte(raw[at:], '"')
		if from < 0 {
			break
		}
		from += at
		at = jsontext.End(raw, from)
		var text string
		if err := json.Unmarshal(raw[from:at], &text); err != nil {
			return nil, fmt.Errorf("read a string: %w", err)
		}
		changed := change(text)
		if changed == text {
			continue
		}
		encoded, err := journal.Encode(changed)
		if err != nil {
			return nil, fmt.Errorf("write a string: %w", err)
		}
		out = append(append(out, raw[done:from]...), encoded...)
		done = at
	}
	if out == nil {
		return raw, nil
	}
	return append(out, raw[done:]...), nil
}

// unquote decodes a part of a JSON string. It returns an invalid part unchanged.
func unquote(raw string) string {
	if !strings.Contains(raw, `\`) {
		return raw
	}
	var text string
	if json.Unmarshal([]byte(`"`+raw+`"`), &text) != nil {
		return raw
	}
	return text
}

// plainEscapes decodes the escapes of visible ASCII characters in a JSON text, so that tokens become visible. Quotes and backslashes stay
// escaped.
func plainEscapes(raw string) string {
	if !strings.Contains(raw, `\u00`) {
		return raw
	}
	var out strings.Builder
	done := 0
	for i := 0; i+6 <= len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		if raw[i+1] == 'u' {
			c, err := strconv.ParseUint(raw[i+2:i+6], 16, 16)
			if err == nil && c >= ' ' && c < 0x7F && c != '"' && c != '\\' {
				out.WriteString(raw[done:i])
				out.WriteByte(byte(c))
				done = i + 6
				i += 5
				continue
			}
		}
		i++ // skip the character after the backslash, which may be a backslash
	}
	if done == 0 {
		return raw
	}
	out.WriteString(raw[done:])
	return out.String()
}

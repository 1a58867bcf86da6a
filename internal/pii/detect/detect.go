package detect

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// Options configures what a Detector looks for. The zero Options select the types that are on by default.
type Options struct {
	Types []string // opt-in types, such as ZIP_CODE; types that are on by default are permitted too
	// Countries are the ISO 3166 codes of countries whose personal numbers are looked for; see Countries. Their case does not matter.
	Countries []string
	Custom    map[string]string // regular expressions in RE2 syntax, by the name of their type
}

// Span is a value in a text, which can be replaced from Start to End.
type Span struct {
	Start, End int // offsets into the bytes of the text; both are at the border of a character
	Type       string
	// Value is the canonical form: it is the same for all spellings of a value, such as +12025550123 for (202) 555-0123.
	Value string
	// Number is true if the value is a complete JSON number, so that its replacement needs quotes around it. Quote is the text of each of these
	// quotes: ", or \" in a JSON text within a string.
	Number bool
	Quote  string
	Ref    any // Ref of the Word that was found; nil if the value is no Word
	// Within are the Refs of the Words that the value contains. If the value is base64, these are the Words in the decoded text.
	Within []any
}

// Detector finds values. It is safe for concurrent use.
type Detector struct {
	on      [kindCount]bool
	persons bool     // some types of personal numbers are on
	names   []string // names of kinds; custom patterns come last
	custom  []*regexp.Regexp
}

// New creates a Detector and compiles the custom patterns. An error names the option that is wrong.
func New(o Options) (*Detector, error) {
	d := &Detector{names: slices.Clone(kindNames[:])}
	for k := range firstOptIn {
		d.on[k] = true
	}
	for _, name := range o.Types {
		k := slices.Index(kindNames[:], name)
		if k < 0 {
			return nil, fmt.Errorf("unknown type %q; types are %s", name, strings.Join(kindNames[:], ", "))
		}
		d.on[k] = true
	}
	for _, code := range o.Countries {
		kinds, ok := ofCountry[strings.ToUpper(code)]
		if !ok {
			return nil, fmt.Errorf("unknown country %q; countries are %s", code, strings.Join(Countries(), ", "))
		}
		for _, k := range kinds {
			d.on[k] = true
		}
	}
	for k := brCPF; k <= trID; k++ {
		d.persons = d.persons || d.on[k]
	}
	for _, name := range slices.Sorted(maps.Keys(o.Custom)) {
		pattern, err := compile(name, o.Custom[name])
		if err != nil {
			return nil, fmt.Errorf("custom pattern %q: %w", name, err)
		}
		d.names = append(d.names, name)
		d.custom = append(d.custom, pattern)
	}
	return d, nil
}

// maxTypeName is the maximum length of a type's name. A token with a longer name would not be recognized.
const maxTypeName = 60

// CheckName returns an error if name cannot be the name of a type that is not built in.
func CheckName(name string) error {
	switch {
	case name == "" || strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != "":
		return errors.New("the name consists of A-Z, 0-9 and _")
	case len(name) > maxTypeName:
		return fmt.Errorf("the name is longer than %d letters", maxTypeName)
	case slices.Contains(kindNames[:], name), name == "LITERAL":
		return errors.New("the name is that of a built-in type")
	}
	return nil
}

func compile(name, pattern string) (*regexp.Regexp, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	for _, text := range []string{"", "a 1"} {
		if m := re.FindStringIndex(text); m != nil && m[0] == m[1] {
			return nil, errors.New("it matches the empty text")
		}
	}
	return re, nil
}

// Find returns the values in a text in order and without overlaps. A text that is a JSON object or array is read as JSON: its strings, keys and
// numbers are texts of their own, and the keys above a value are its context.
func (d *Detector) Find(text string) []Span { return d.FindWith(text, Known{}) }

// Known is what a Detector looks for in a text in addition to its types. If several values occupy the same range of the text, the values of Sent come
// first, then the values of Words and Fields, then the values of the detector's types.
type Known struct {
	Sent   *Dictionary // values that were sent before and that the text may repeat
	Words  *Words      // values, such as names, that are found as whole words
	Fields []Field     // fields whose values are found if the text is JSON
	Name   string      // name of the text, which counts like the key of a value in JSON
}

// FindWith does the same as Find, and also finds the known values.
func (d *Detector) FindWith(text string, known Known) []Span {
	f := finders.Get().(*finder)
	defer f.release()
	f.Detector, f.dictionary, f.words, f.fields = d, known.Sent, known.Words, known.Fields
	if known.Words != nil {
		known.Words.mu.RLock()
		defer known.Words.mu.RUnlock()
		if len(f.words.types) == 0 {
			f.words = nil
		}
	}
	around := surroundings{}
	if known.Name != "" {
		around.key.words = words(known.Name)
	}
	f.find(text, around, 0)
	if len(f.hits) == 0 {
		return nil
	}
	spans := make([]Span, 0, len(f.hits))
	for _, h := range resolve(text, f.hits) {
		s := Span{Start: h.start, End: h.end, Type: d.name(h.kind), Value: h.value, Number: h.number > 0, Within: h.within}
		if h.kind == knownWord {
			s.Type, s.Ref = h.word.Type, h.word.Ref
		}
		if s.Number {
			s.Quote = strings.Repeat(`\`, 1<<(h.number-1)-1) + `"`
		}
		spans = append(spans, s)
	}
	return spans
}

// name returns the name of a kind.
func (d *Detector) name(k kind) string {
	if k == knownWord {
		return ""
	}
	return d.names[k]
}

// Types returns the names of all types that the detector may find.
func (d *Detector) Types() []string { return d.names }

// hit is a value found in a text. Its offsets refer to the text that is being read. If that text is a part of another one, or its decoded form, the
// caller translates the offsets.
type hit struct {
	start, end int
	kind       kind
	value      string
	word       *Word
	within     []any // Refs of words
	number     int   // nesting depth of the JSON text, from 1, if the hit is a complete JSON number; else 0
}

// refs returns the Refs of the hit's word and of the words within the hit.
func (h *hit) refs() []any {
	if h.word == nil || h.word.Ref == nil {
		return h.within
	}
	return append(h.within, h.word.Ref)
}

// finder collects the hits of one Find.
type finder struct {
	*Detector
	dictionary *Dictionary
	words      *Words
	fields     []Field
	hits       []hit
	names      *knownNames
}

// finders is a pool of finders. It reuses the memory of their hits and their cached names.
var finders = sync.Pool{New: func() any { return &finder{names: &knownNames{}} }}

// maxKept is the maximum number of hits for which a finder keeps memory.
const maxKept = 10_000

func (f *finder) release() {
	f.drop(0)
	if cap(f.hits) > maxKept {
		f.hits = nil
	}
	*f = finder{hits: f.hits, names: f.names}
	finders.Put(f)
}

// drop removes the hits from first on.
func (f *finder) drop(first int) {
	clear(f.hits[first:])
	f.hits = f.hits[:first]
}

// maxDepth is the maximum depth of texts within texts: JSON in strings, and base64.
const maxDepth = 4

// find reads a text, as JSON if it is JSON.
func (f *finder) find(text string, around surroundings, depth int) {
	if depth < maxDepth && f.json(text, around, depth) {
		return
	}
	first := len(f.hits)
	v := normalize(text)
	if v.units == nil || depth == maxDepth {
		f.scan(v.text, around, depth)
	} else { // The decoded text may contain escapes or be JSON.
		f.find(v.text, around, depth+1)
	}
	for i := first; v.units != nil && i < len(f.hits); i++ {
		f.hits[i].start, f.hits[i].end = v.start(f.hits[i].start), v.end(f.hits[i].end)
	}
}

// resolve sorts hits and removes overlaps. A hit that lies within another one is dropped. Of two hits that overlap otherwise, the one whose kind
// comes first stays whole. The other keeps its remaining part, which is part of a value too.
func resolve(text string, hits []hit) []hit {
	slices.SortStableFunc(hits, func(a, b hit) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end), cmp.Compare(a.kind, b.kind))
	})
	kept := hits[:0]
	for _, h := range hits {
		if len(kept) == 0 || kept[len(kept)-1].end <= h.start {
			kept = append(kept, h)
			continue
		}
		last := &kept[len(kept)-1]
		switch {
		case h.end <= last.end:
			last.within = append(last.within, h.refs()...)
		case h.kind < last.kind:
			h.within = append(h.within, last.refs()...)
			if h.start < last.start { // This is so if last has already been shortened.
				h.shorten(text, last.start, h.end)
			}
			if last.shorten(text, last.start, h.start) {
				kept = append(kept, h)
			} else {
				*last = h
			}
		default:
			last.within = append(last.within, h.refs()...)
			if h.shorten(text, last.end, h.end) {
				kept = append(kept, h)
			}
		}
	}
	return kept
}

// shorten reduces a hit to the range from start to end. It reports whether the range contains a letter or a digit.
func (h *hit) shorten(text string, start, end int) bool {
	if h.word != nil {
		h.within, h.word = h.refs(), &Word{Type: h.word.Type}
	}
	h.start, h.end, h.value = start, end, text[start:end]
	return strings.IndexFunc(h.value, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) >= 0
}

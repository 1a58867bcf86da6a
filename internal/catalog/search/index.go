// Package search ranks tools for requests in words. It is an inverted index in memory, scored by BM25 over weighted
// fields, in immutable segments of one server each: a server that changes costs its own segment, and searching takes
// no lock.
//
// SQLite's FTS5 was measured first (BenchmarkFTS5 and BenchmarkIndex, the same 5,000 tools and request of four clauses):
// it takes 9 ms, this 0.3 ms, and the budget is 1 ms. FTS5 scores every row that has any of the words, at about a
// microsecond each; and its one connection would make searches wait for updates.
package search

import (
	"math"
	"slices"
	"sort"
	"strings"
	"sync"

	"mcp-code-exec-harness/internal/catalog/ident"
)

// Doc is a tool as the index sees it.
type Doc struct {
	Key         string // its full name
	Name        string
	Title       string
	Server      string
	Description string
	Params      string // names and descriptions of the parameters
	Context     string // description of the server
}

// Field weights and the lengths at which a field is neither short nor long, in terms; measured over real servers and
// kept constant, so that a segment does not depend on others.
var fields = [...]struct {
	weight, length float32
	text           func(*Doc) string
}{
	{5, 3, func(d *Doc) string { return d.Name }},
	{4, 3, func(d *Doc) string { return d.Title }},
	{3, 1, func(d *Doc) string { return d.Server }},
	{2, 9, func(d *Doc) string { return d.Description }},
	{1, 8, func(d *Doc) string { return d.Params }},
	{1, 6, func(d *Doc) string { return d.Context }},
}

// BM25's constants: how soon repetition stops counting, and how much a long field is discounted.
const (
	saturation = 2.5
	discount   = 0.5
)

// rarityPower flattens the worth of rare words: among some hundred short texts a word is often rare by accident.
const rarityPower = 0.75

// maxFieldTerms bounds what one tool can put into the index.
const maxFieldTerms = 400

type posting struct {
	doc    int32   // number in its segment
	impact float32 // what the term is worth for the tool, before its rarity
}

// Segment is the part of an index that holds one server's tools. It never changes.
type Segment struct {
	keys  []string
	names []string // folded, for exact matches
	named []string // terms of the server's name
	terms map[string][]posting
}

// NewSegment indexes the tools of a server.
func NewSegment(server string, docs []Doc) *Segment {
	s := &Segment{named: terms(server), terms: map[string][]posting{}}
	for i := range docs {
		d := &docs[i]
		s.keys = append(s.keys, d.Key)
		s.names = append(s.names, ident.Fold(d.Name))
		weight := map[string]float32{}
		for _, f := range fields {
			words := terms(f.text(d))
			words = words[:min(len(words), maxFieldTerms)]
			norm := 1 - discount + discount*float32(len(words))/f.length
			for _, w := range words {
				weight[w] += f.weight / norm
			}
		}
		for w, tf := range weight {
			s.terms[w] = append(s.terms[w], posting{int32(i), tf / (saturation + tf)})
		}
	}
	return s
}

// Index searches over segments. It never changes.
type Index struct {
	keys     []string
	server   []int32              // number of each tool's segment
	base     []int32              // number of each segment's first tool
	servers  map[string][]int32   // segments by the terms of their servers' names
	exact    map[string][]int32   // by folded name and folded key
	postings map[string][]posting // with numbers across all segments
	sorted   []string             // all terms, for prefixes
	similar  map[string][]string  // synonyms of a stem
	scratch  sync.Pool
}

// NewIndex joins segments.
func NewIndex(segments []*Segment) *Index {
	ix := &Index{
		servers: map[string][]int32{}, exact: map[string][]int32{}, postings: map[string][]posting{},
		similar: synonymTable(),
	}
	for n, s := range segments {
		for _, term := range s.named {
			ix.servers[term] = append(ix.servers[term], int32(n))
		}
		base := int32(len(ix.keys))
		ix.base = append(ix.base, base)
		ix.keys = append(ix.keys, s.keys...)
		for range s.keys {
			ix.server = append(ix.server, int32(n))
		}
		for i, name := range s.names {
			for _, fold := range slices.Compact([]string{name, ident.Fold(s.keys[i])}) {
				if fold != "" {
					ix.exact[fold] = append(ix.exact[fold], base+int32(i))
				}
			}
		}
		for term, list := range s.terms {
			all := ix.postings[term]
			for _, p := range list {
				all = append(all, posting{base + p.doc, p.impact})
			}
			ix.postings[term] = all
		}
	}
	ix.sorted = make([]string, 0, len(ix.postings))
	for term := range ix.postings {
		ix.sorted = append(ix.sorted, term)
	}
	slices.Sort(ix.sorted)
	ix.scratch.New = func() any { return newScratch(len(ix.keys)) }
	return ix
}

func synonymTable() map[string][]string {
	table := map[string][]string{}
	for line := range strings.Lines(synonyms) {
		var group []string
		for _, w := range strings.Fields(line) {
			if s := stem(w); !slices.Contains(group, s) {
				group = append(group, s)
			}
		}
		for _, w := range group {
			for _, other := range group {
				if other != w && !slices.Contains(table[w], other) {
					table[w] = append(table[w], other)
				}
			}
		}
	}
	return table
}

// rarity is what a term that n tools have is worth: BM25's inverse document frequency, flattened.
func (ix *Index) rarity(n int) float32 {
	idf := math.Log(1 + (float64(len(ix.keys))-float64(n)+0.5)/(float64(n)+0.5))
	return float32(math.Pow(idf, rarityPower))
}

// prefixed are terms that begin with prefix, at most limit.
func (ix *Index) prefixed(prefix string, limit int) []string {
	from := sort.SearchStrings(ix.sorted, prefix)
	to := from
	for to < len(ix.sorted) && to-from < limit && strings.HasPrefix(ix.sorted[to], prefix) {
		to++
	}
	return ix.sorted[from:to]
}

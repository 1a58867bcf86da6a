// Package search ranks tools for requests in words. It has an inverted index in memory, and scores by BM25 over weighted fields. The index consists of
// immutable segments of one server each. So a change of a server requires a new segment for this server only, and searching takes no lock. SQLite's
// FTS5 takes thirty times as long (BenchmarkFTS5, BenchmarkIndex).
package search

import (
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"mcp-code-exec-harness/internal/catalog/ident"
)

// Doc is a tool as the index sees it.
type Doc struct {
	Key         string // full name of the tool
	Name        string
	Title       string
	Server      string
	Description string
	Params      string // names and descriptions of the parameters
	Context     string // description of the server
	Requests    string // requests of the user in which programs used it
}

// fields has the weight of each field and its usual length in terms. The lengths were measured over real servers and are constant, so that a segment does
// not depend on other segments. The weight of earlier requests was chosen with a half of the pairs of TestRankUses in package skills.
var fields = [...]struct {
	weight, length float32
	text           func(*Doc) string
}{
	{4, 3, func(d *Doc) string { return d.Name }},
	{4, 3, func(d *Doc) string { return d.Title }},
	{3, 1, func(d *Doc) string { return d.Server }},
	{2, 9, func(d *Doc) string { first, _ := firstSentence(d.Description); return first }},
	{1, 20, func(d *Doc) string { _, rest := firstSentence(d.Description); return rest }},
	{1.5, 8, func(d *Doc) string { return d.Params }},
	{0.5, 6, func(d *Doc) string { return d.Context }},
	{0.75, 6, func(d *Doc) string { return about(d.Server) }},
	{1, 20, func(d *Doc) string { return d.Requests }},
}

// firstSentence splits a description after its first sentence. The first sentence of a long description says what the tool does; the rest says how,
// when and when not.
func firstSentence(text string) (first, rest string) {
	end := len(text)
	for _, mark := range []string{". ", ".\n", "\n\n", ":\n"} {
		if i := strings.Index(text, mark); i >= 0 {
			end = min(end, i+1)
		}
	}
	return text[:end], text[end:]
}

// Constants of BM25: how soon repetition stops counting, and how much a long field is discounted.
const (
	saturation = 2
	discount   = 0.6
)

// rarityPower reduces the weight of rare words: among some hundred short texts a word is often rare by accident.
const rarityPower = 0.45

// maxFieldTerms is the maximum number of terms of a field that are indexed.
const maxFieldTerms = 400

type posting struct {
	doc    int32   // number of the tool: in a Segment within the segment, in an Index across all segments
	impact float32 // weight of the term for the tool, not multiplied by the rarity yet
	share  float32 // share of the tool's name that the term makes up
}

// postings lists the tools that contain a term. rarity is the weight of the term; a rare term has a high weight.
type postings struct {
	list   []posting
	rarity float32
}

// Segment is the part of an index that holds one server's tools. It never changes.
type Segment struct {
	keys   []string
	names  []string // folded names, for exact matches
	does   []action
	server map[string]bool // stems of the server's name
	terms  map[string][]posting
}

// NewSegment indexes the tools of a server.
func NewSegment(docs []Doc) *Segment {
	s := &Segment{terms: map[string][]posting{}, server: map[string]bool{}}
	for i := range docs {
		d := &docs[i]
		if i == 0 {
			for _, w := range terms(d.Server) {
				s.server[w] = true
			}
		}
		s.keys = append(s.keys, d.Key)
		s.names = append(s.names, ident.Fold(d.Name))
		s.does = append(s.does, actionOf(d.Name))
		weight, shares := map[string]float32{}, nameShares(d.Name, s.server)
		for _, f := range fields {
			words := terms(f.text(d))
			words = words[:min(len(words), maxFieldTerms)]
			norm := 1 - discount + discount*float32(len(words))/f.length
			for _, w := range words {
				weight[w] += f.weight / norm
			}
		}
		for w, tf := range weight {
			s.terms[w] = append(s.terms[w], posting{int32(i), tf / (saturation + tf), shares[w]})
		}
	}
	return s
}

// verbShare is the weight of a verb in a name; a noun has the weight 1.
const verbShare = 0.5

// nameShares returns the share of each term in a tool's name. Terms of the server's name are left out.
func nameShares(name string, server map[string]bool) map[string]float32 {
	shares, sum := map[string]float32{}, float32(0)
	for _, w := range terms(name) {
		if server[w] || shares[w] != 0 {
			continue
		}
		shares[w] = 1
		if lang().actions[w] != 0 {
			shares[w] = verbShare
		}
		sum += shares[w]
	}
	for w := range shares {
		shares[w] /= sum
	}
	return shares
}

// Index searches over segments. It never changes.
type Index struct {
	server   []int32             // number of each tool's segment
	does     []action            // actions of each tool
	servers  map[string][]int32  // segments by the stems of their server's name
	base     []int32             // number of each segment's first tool
	exact    map[string][]int32  // tools by folded name and folded key
	postings map[string]postings // tools by term
	sorted   []string            // all terms in order, for prefixes
	rarest   float32             // rarity of a term that only one tool has
	used     sync.Pool           // pool of *[]float32 for the method numbers
}

// NewIndex builds an index of segments.
func NewIndex(segments []*Segment) *Index {
	ix := &Index{exact: map[string][]int32{}, postings: map[string]postings{}, servers: map[string][]int32{}}
	for n, s := range segments {
		base := int32(len(ix.server))
		ix.base = append(ix.base, base)
		for w := range s.server {
			ix.servers[w] = append(ix.servers[w], int32(n))
		}
		ix.server = append(ix.server, slices.Repeat([]int32{int32(n)}, len(s.keys))...)
		ix.does = append(ix.does, s.does...)
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
				all.list = append(all.list, posting{base + p.doc, p.impact, p.share})
			}
			ix.postings[term] = all
		}
	}
	for term, all := range ix.postings {
		all.rarity = ix.rarity(len(all.list))
		ix.postings[term] = all
	}
	ix.rarest = ix.rarity(1)
	ix.sorted = slices.Sorted(maps.Keys(ix.postings))
	return ix
}

// rarity returns the weight of a term that n tools have: BM25's inverse document frequency, flattened.
func (ix *Index) rarity(n int) float32 {
	idf := math.Log(1 + (float64(len(ix.server))-float64(n)+0.5)/(float64(n)+0.5))
	return float32(math.Pow(idf, rarityPower))
}

// prefixed returns terms that begin with prefix, at most limit.
func (ix *Index) prefixed(prefix string, limit int) []string {
	from, _ := slices.BinarySearch(ix.sorted, prefix)
	found := ix.sorted[from:min(from+limit, len(ix.sorted))]
	if end := slices.IndexFunc(found, func(term string) bool { return !strings.HasPrefix(term, prefix) }); end >= 0 {
		found = found[:end]
	}
	return found
}

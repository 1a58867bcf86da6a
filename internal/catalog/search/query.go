package search

import (
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/catalog/ident"
)

// Result is one tool found.
type Result struct {
	Segment, Doc int // its segment in the index, and its number there
}

// What a request may cost; the rest of a longer one is left out.
const (
	maxQuery    = 4000 // bytes
	maxClauses  = 8
	maxWords    = 96
	maxPrefixed = 12 // terms that one prefix stands for
)

// What a term is worth that the request does not name itself, or a word that says little about what is wanted.
const (
	synonymWeight = 0.6
	prefixWeight  = 0.5
	vagueWeight   = 0.3
)

// How the parts of a request and of the catalog influence one another. These numbers, and those above and of the
// fields, are the middle of a plateau over the committed requests: each can be changed by half without much effect.
const (
	// wholeWeight is how much of a tool's worth for the rest of the request counts for a clause: "look at GitHub for
	// bugs and comment on each" means GitHub in both.
	wholeWeight = 0.5
	// namedBoost multiplies the worth of a tool for a clause that names its server.
	namedBoost = 1.25
	// serverWeight is how much the best tool of a server speaks for its others: a request mostly stays in a few servers.
	serverWeight = 0.5
	// covered is how much of a word's worth goes when the tool that it finds best has been taken, and served how much goes
	// from all words of the clause that a tool was taken for, so that the next place goes to what is still asked for.
	covered = 0.15
	served  = 0.3
	// spare is how many tools of each clause are considered beyond the limit.
	spare = 10
)

// word is one word of a request: the terms that it stands for and what they are worth.
type word struct {
	clause int
	terms  []weighted
}

type weighted struct {
	list  []posting
	worth float32 // of a whole impact
}

// scratch is the working memory of one search, one element for each tool; all zero between searches.
type scratch struct {
	whole   []float32             // worth for the whole request
	clause  [maxClauses][]float32 // worth for each clause; made when first needed
	of      []int32               // number of the last word that counted, from 1
	value   []float32             // what it counted
	member  []int32               // number in the pool, from 1
	touched []int32
}

func newScratch(n int) *scratch {
	return &scratch{
		whole: make([]float32, n), of: make([]int32, n), value: make([]float32, n), member: make([]int32, n),
	}
}

// Search ranks the tools for a request, the best first, at most limit. Where the request asks for several things, there
// are tools for each. Every character of the query is taken as text.
func (ix *Index) Search(query string, limit int) []Result {
	if limit <= 0 || len(ix.keys) == 0 {
		return nil
	}
	query = query[:min(len(query), maxQuery)]
	words, servers := ix.words(query)
	s := ix.scratch.Get().(*scratch)
	defer ix.scratch.Put(s)
	ix.score(s, words)
	var p pool
	for c := range servers {
		ix.nominate(s, &p, c, servers[c], limit+spare)
	}
	attribute(s, &p, words)
	out := ix.choose(s, &p, words, servers, ix.exact[ident.Fold(query)], limit)
	for _, d := range s.touched {
		s.whole[d], s.of[d], s.member[d] = 0, 0, 0
		for c := range servers {
			s.clause[c][d] = 0
		}
	}
	s.touched = s.touched[:0]
	return out
}

// words are the words of a request, and for each clause the servers that it names.
func (ix *Index) words(query string) (words []word, servers [][]int32) {
	for _, clause := range clauses(query) {
		found := terms(clause)
		if len(found) == 0 {
			continue
		}
		if len(servers) < maxClauses { // what is beyond the last clause belongs to it
			servers = append(servers, nil)
		}
		c := len(servers) - 1
		for _, term := range found {
			if len(words) == maxWords {
				break
			}
			servers[c] = append(servers[c], ix.servers[term]...)
			words = append(words, ix.word(term, c))
		}
	}
	return words, servers
}

func (ix *Index) word(term string, clause int) word {
	w := word{clause: clause}
	own := float32(1)
	if isVague(term) {
		own = vagueWeight
	}
	add := func(term string, weight float32) {
		if list := ix.postings[term]; len(list) > 0 {
			w.terms = append(w.terms, weighted{list, weight * ix.rarity(len(list))})
		}
	}
	add(term, own)
	for _, other := range ix.similar[term] {
		add(other, own*synonymWeight)
	}
	if len(term) >= 3 && len(ix.postings[term]) == 0 {
		for _, longer := range ix.prefixed(term, maxPrefixed) {
			add(longer, own*prefixWeight)
		}
	}
	return w
}

// score adds up what every word is worth for every tool. Where several terms of a word find a tool, the best counts.
func (ix *Index) score(s *scratch, words []word) {
	for i, w := range words {
		if s.clause[w.clause] == nil {
			s.clause[w.clause] = make([]float32, len(ix.keys))
		}
		clause, number := s.clause[w.clause], int32(i)+1
		for _, t := range w.terms {
			for _, p := range t.list {
				v := t.worth * p.impact
				more := v
				if s.of[p.doc] == number {
					if more = v - s.value[p.doc]; more <= 0 {
						continue
					}
				} else if s.of[p.doc] == 0 {
					s.touched = append(s.touched, p.doc)
				}
				s.of[p.doc], s.value[p.doc] = number, v
				s.whole[p.doc] += more
				clause[p.doc] += more
			}
		}
	}
}

// pool is the tools that are considered for the result.
type pool []candidate

type candidate struct {
	doc    int32
	values []value
	taken  bool
}

// value is what a word is worth for a candidate.
type value struct {
	word int
	v    float32
}

// nominate puts the n tools that are worth most for a clause into the pool.
func (ix *Index) nominate(s *scratch, p *pool, clause int, servers []int32, n int) {
	type ranked struct {
		doc   int32
		score float32
	}
	var top []ranked
	scores := s.clause[clause]
	for _, d := range s.touched {
		own := scores[d]
		if own == 0 {
			continue
		}
		r := ranked{d, own + wholeWeight*(s.whole[d]-own)}
		if slices.Contains(servers, ix.server[d]) {
			r.score *= namedBoost
		}
		if len(top) == n && r.score < top[n-1].score {
			continue
		}
		at, _ := slices.BinarySearchFunc(top, r, func(a, b ranked) int {
			if a.score > b.score || a.score == b.score && ix.keys[a.doc] < ix.keys[b.doc] {
				return -1
			}
			return 1
		})
		if at < n {
			top = slices.Insert(top[:min(len(top), n-1)], at, r)
		}
	}
	for _, r := range top {
		if s.member[r.doc] == 0 {
			*p = append(*p, candidate{doc: r.doc})
			s.member[r.doc] = int32(len(*p))
		}
	}
}

// attribute works out what each word is worth for each candidate.
func attribute(s *scratch, p *pool, words []word) {
	for i, w := range words {
		for _, t := range w.terms {
			for _, post := range t.list {
				at := s.member[post.doc]
				if at == 0 {
					continue
				}
				c := &(*p)[at-1]
				v := t.worth * post.impact
				if last := len(c.values) - 1; last >= 0 && c.values[last].word == i {
					c.values[last].v = max(c.values[last].v, v)
				} else {
					c.values = append(c.values, value{i, v})
				}
			}
		}
	}
}

// isVague reports whether a term says when, how many or how well, which tells tools apart by accident only.
func isVague(term string) bool {
	switch term {
	case "best", "big", "day", "earli", "earlier", "end", "even", "ever", "exist", "far", "few", "first", "friday", "go",
		"good", "hour", "last", "late", "latest", "left", "long", "look", "minut", "monday", "month", "morn", "name", "new",
		"next", "night", "old", "part", "peopl", "place", "put", "quarter", "same", "saturday", "second", "see", "side",
		"sunday", "sure", "take", "thing", "think", "third", "thursday", "time", "today", "tomorrow", "tuesday", "turn", "way",
		"wednesday", "week", "work", "year", "yesterday":
		return true
	}
	return strings.Trim(term, "0123456789") == ""
}

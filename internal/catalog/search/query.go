package search

import (
	"cmp"
	"slices"
	"sort"
	"strings"

	"mcp-code-exec-harness/internal/catalog/ident"
)

// Result is a tool that was found.
type Result struct {
	Segment, Doc int     // number of the segment in the index, and number of the tool in it
	Words        float32 // score in the step that the tool suits best, in rare words of which a tool says nothing else
}

// Limits of a request. What exceeds them is ignored.
const (
	maxQuery    = 4000 // maximum length of a request in bytes
	maxClauses  = 8
	maxWords    = 96
	maxPrefixed = 12 // maximum number of terms that one prefix stands for
)

// Weights of terms that the request does not contain, and of words that distinguish tools only by accident (isVague).
const (
	synonymWeight = 0.5
	prefixWeight  = 0.5
	vagueWeight   = 0.4
)

// Weights of the other parts of a request, and of the catalog, in the score of a tool. If any of these numbers, of the weights above or of the weights
// of the fields is changed by half, the results for the requests in the catalog's testdata hardly change.
const (
	// wholeWeight is the share of a tool's score for the other clauses that is added to its score for one clause. In "look at GitHub for bugs and
	// comment on each", GitHub is meant in both clauses.
	wholeWeight = 0.5
	// serverWeight is the share by which the scores of all tools of the best server rise. The best server is the one with the best tool. The scores
	// of another server's tools rise less, in proportion to the score of its best tool. A request mostly needs tools of few servers.
	serverWeight = 0.65
	// served is the share of its weight that a clause loses when a tool is chosen for it, so that the next tool is for another clause.
	served = 0.4
)

// Favour is a tool that the user has called after earlier searches with the words of a step. Weight is at most 1; it grows with the tool's share of
// these calls.
type Favour struct {
	Result
	Weight float32
}

// favourWeight is the bonus of a tool whose Favour has the weight 1, as a multiple of the best tool's score.
const favourWeight = 1

// Steps returns, for each step of a request, the stems of its words, without those that distinguish tools only by accident.
func Steps(query string) (all [][]string) {
	for _, s := range steps(query[:min(len(query), maxQuery)]) {
		all = append(all, telling(s.terms))
	}
	return all
}

func telling(terms []string) (left []string) {
	for _, w := range terms[:min(len(terms), maxWords)] {
		if !isVague(w) {
			left = append(left, w)
		}
	}
	return left
}

// Search ranks the tools for a request, the best first, and returns at most limit tools. If the request asks for several things, there are tools for
// each. Every character of the query is taken as text.
func (ix *Index) Search(query string, limit int) []Result {
	return ix.SearchFavouring(query, limit, nil)
}

// SearchFavouring does the same as Search, but prefers the tools that the function favours returns for each step. favours receives the stems of a
// step, as Steps returns them; it may be nil.
func (ix *Index) SearchFavouring(query string, limit int, favours func(step []string) []Favour) []Result {
	if limit <= 0 || len(ix.server) == 0 {
		return nil
	}
	query = query[:min(len(query), maxQuery)]
	var out []Result
	clauses := ix.score(query, favours)
	for _, d := range ix.choose(clauses, ix.exact[ident.Fold(query)], limit) {
		segment := ix.server[d]
		r := Result{Segment: int(segment), Doc: int(d - ix.base[segment])}
		for _, c := range clauses {
			r.Words = max(r.Words, c.worth[d]/(ix.rarest*fullImpact))
		}
		out = append(out, r)
	}
	for i := range clauses {
		ix.recycle(clauses[i].worth)
	}
	return out
}

// numbers returns an array with a zero for each tool. Searches reuse these arrays, which are most of the memory that a search needs.
func (ix *Index) numbers() []float32 {
	if used, ok := ix.used.Get().(*[]float32); ok {
		clear(*used)
		return *used
	}
	return make([]float32, len(ix.server))
}

// recycle returns an array of numbers to the pool; the caller must not use it any more.
func (ix *Index) recycle(numbers []float32) { ix.used.Put(&numbers) }

// clause is a clause of a request with its scores.
type clause struct {
	does  action
	gain  []float32 // factor for the scores of each segment's tools: more than 1 if the request names the server
	worth []float32 // score of each tool
	most  float32   // highest score of a tool; 0 if there is none
}

// score returns the score of every tool for each clause of a request.
func (ix *Index) score(query string, favours func([]string) []Favour) (clauses []clause) {
	all := steps(query)
	named := make([]float32, len(ix.base))
	for _, s := range all {
		for _, seg := range ix.named(s.terms) {
			named[seg] = wholeNamedWeight
		}
	}
	r := &reading{ix: ix, best: ix.numbers(), covered: ix.numbers(), seen: map[string]bool{}}
	words := 0
	for _, s := range all {
		found, does := understand(s, maxWords-words)
		if len(found) == 0 {
			break
		}
		words += len(found)
		c := clause{does: does, gain: make([]float32, len(named)), worth: r.read(s, found)}
		for seg, whole := range named {
			c.gain[seg] = 1 + whole
		}
		for _, seg := range ix.named(s.terms) {
			c.gain[seg] += namedWeight
		}
		clauses = append(clauses, c)
	}
	for i := range clauses {
		c := &clauses[i]
		for d, w := range c.worth {
			if w > 0 {
				w *= suits(c.does, ix.does[d]) * c.gain[ix.server[d]]
				if r.covered[d] < 1 {
					w *= 1 - unsaidWeight*(1-r.covered[d])
				}
				c.worth[d] = w
				if w > c.most {
					c.most = w
				}
			}
		}
		if favours != nil {
			ix.favour(c, favours(telling(all[i].terms)))
		}
	}
	ix.recycle(r.best)
	ix.recycle(r.covered)
	return clauses
}

// favour adds the bonus of the given tools to their scores for a clause.
func (ix *Index) favour(c *clause, favours []Favour) {
	best := c.most
	if best == 0 {
		best = 1
	}
	for _, f := range favours {
		d := ix.base[f.Segment] + int32(f.Doc)
		c.worth[d] += favourWeight * f.Weight * best
		c.most = max(c.most, c.worth[d])
	}
}

// unsaidWeight is the share of its score that a tool loses if the request contains no word of the tool's name. A name says what the tool is for: a
// request that does not mention reports seldom means create_refund_report.
const unsaidWeight = 0.3

// reading is the state that the steps of a request share while they are scored.
type reading struct {
	ix      *Index
	best    []float32       // score of the best term of one word, for each tool
	most    float32         // highest score of a tool for one step
	covered []float32       // share of each tool's name that the request contains
	seen    map[string]bool // terms that are counted in covered
}

// read returns the score of every tool for the words of a step. If the best tool explains only a small part of the step, other meanings of the step
// count more.
func (r *reading) read(s step, found []word) (worth []float32) {
	worth = r.ix.numbers()
	r.most = 0
	possible := float32(0)
	for _, w := range found {
		possible += r.add(w, worth)
	}
	unexplained := 1 - min(1, r.most/possible)
	for _, w := range lang().meanings.resembling(s.terms) {
		if !says(found, w) {
			w.weight *= unexplained * unexplained
			r.add(w, worth)
		}
	}
	return worth
}

// fullImpact is the approximate impact of a term in a tool that is about nothing else.
const fullImpact = 0.8

// add adds the score of a word to the scores of tools. It returns the most that a tool could gain.
func (r *reading) add(w word, worth []float32) (possible float32) {
	clear(r.best)
	for _, alt := range r.ix.alternatives(w.stem, !w.exact) {
		first := !r.seen[alt.term]
		r.seen[alt.term] = true
		weight := w.weight * alt.weight
		possible = max(possible, weight*fullImpact)
		for _, p := range alt.list {
			if first {
				r.covered[p.doc] += p.share
			}
			if more := weight*p.impact - r.best[p.doc]; more > 0 {
				r.best[p.doc] += more
				worth[p.doc] += more
				if worth[p.doc] > r.most {
					r.most = worth[p.doc]
				}
			}
		}
	}
	return cmp.Or(possible, w.weight*r.ix.rarest*fullImpact)
}

// namedWeight is the bonus of a tool for a clause that names the tool's server. wholeNamedWeight is the bonus of a tool for every clause of a
// request, if any clause names the tool's server.
const (
	namedWeight      = 0.5
	wholeNamedWeight = 0.2
)

// named returns the segments of servers whose names contain one of the terms.
func (ix *Index) named(terms []string) (segments []int32) {
	for _, w := range terms {
		segments = append(segments, ix.servers[w]...)
	}
	slices.Sort(segments)
	return slices.Compact(segments)
}

// Factors for the score of a tool whose action differs from that of the clause. Reading often comes before the other actions.
const (
	otherAction = 0.9
	readsFirst  = 0.95
)

func suits(asked, tool action) float32 {
	switch {
	case asked == 0 || tool == 0 || asked&tool != 0:
		return 1
	case tool == actionRead:
		return readsFirst
	default:
		return otherAction
	}
}

// alternative is a term that a word of a request stands for.
type alternative struct {
	term   string
	list   []posting
	weight float32
}

func (ix *Index) alternatives(word string, synonyms bool) (all []alternative) {
	add := func(term string, weight float32) {
		if of, known := ix.postings[term]; known {
			all = append(all, alternative{term, of.list, weight * of.rarity})
		}
	}
	own := float32(1)
	if isVague(word) {
		own = vagueWeight
	}
	add(word, own)
	if !synonyms {
		return all
	}
	for _, other := range lang().similar[word] {
		add(other, own*synonymWeight)
	}
	if len(word) >= 3 && len(ix.postings[word].list) == 0 {
		for _, longer := range ix.prefixed(word, maxPrefixed) {
			add(longer, own*prefixWeight)
		}
	}
	return all
}

// choose chooses tools one by one. Each choice lowers the weight of the clause that the tool serves, so that the next tool serves another clause. Tools
// that the query names come first.
func (ix *Index) choose(clauses []clause, named []int32, limit int) []int32 {
	left := make([]float32, len(clauses)) // weight left; the best tool of each clause starts with the score 1, so that all clauses count alike
	scores := make([][]float32, len(clauses))
	for i, c := range clauses {
		scores[i] = c.worth
		if c.most > 0 {
			left[i] = 1 / c.most
		}
	}
	pool := nominate(scores, limit)
	best := map[int32]float32{} // best score by server
	var most float32
	for _, d := range pool {
		worth, _ := worthOf(d, scores, left)
		best[ix.server[d]] = max(best[ix.server[d]], worth)
		most = max(most, worth)
	}
	chosen := slices.Clone(named[:min(len(named), limit)])
	for len(chosen) < limit {
		next, highest, clause := int32(-1), float32(0), 0
		for _, d := range pool {
			worth, c := worthOf(d, scores, left)
			worth *= 1 + serverWeight*best[ix.server[d]]/most
			if worth > highest && !slices.Contains(chosen, d) {
				next, highest, clause = d, worth, c
			}
		}
		if next < 0 {
			break
		}
		chosen = append(chosen, next)
		left[clause] *= 1 - served
	}
	return chosen
}

// worthOf returns the clause that a tool suits best, and its score for this clause plus a part of its score for the other clauses.
func worthOf(doc int32, scores [][]float32, left []float32) (worth float32, clause int) {
	var own, all float32
	for c, of := range scores {
		v := of[doc] * left[c]
		all += v
		if v > own {
			own, clause = v, c
		}
	}
	return own + wholeWeight*(all-own), clause
}

// nominate returns the tools with the highest scores for each clause, at most n for one clause.
func nominate(scores [][]float32, n int) (pool []int32) {
	for _, worth := range scores {
		pool = append(pool, best(worth, n)...)
	}
	slices.Sort(pool)
	return slices.Compact(pool)
}

// best returns the tools with the highest scores, at most n: the best first, equal ones in the order of the index.
func best(worth []float32, n int) (top []int32) {
	for d, own := range worth {
		if own <= 0 || len(top) == n && own <= worth[top[n-1]] {
			continue
		}
		at := sort.Search(len(top), func(i int) bool { return worth[top[i]] < own })
		top = slices.Insert(top[:min(len(top), n-1)], at, int32(d))
	}
	return top
}

// isVague reports whether a term says when, how many or how well, which distinguishes tools only by accident.
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

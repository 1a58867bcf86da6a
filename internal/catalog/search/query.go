package search

import (
	"slices"
	"sort"
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

// Weights of terms that the request does not contain, and of words that tell tools apart by accident only (isVague).
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
	// serverWeight is how much the best tool of a server speaks for its others: a request mostly stays in a few servers.
	serverWeight = 0.5
	// served is how much of a clause's worth goes when a tool is chosen for it, so that the next tool is for another clause.
	served = 0.3
)

// Search ranks the tools for a request, the best first, at most limit. Where the request asks for several things, there
// are tools for each. Every character of the query is taken as text.
func (ix *Index) Search(query string, limit int) []Result {
	if limit <= 0 || len(ix.server) == 0 {
		return nil
	}
	query = query[:min(len(query), maxQuery)]
	var out []Result
	for _, d := range ix.choose(ix.score(query), ix.exact[ident.Fold(query)], limit) {
		segment := ix.server[d]
		out = append(out, Result{Segment: int(segment), Doc: int(d - ix.base[segment])})
	}
	return out
}

// score is what every tool is worth for each clause of a request.
func (ix *Index) score(query string) (scores [][]float32) {
	best := make([]float32, len(ix.server)) // what the best term of one word is worth for each tool
	words := 0
	for _, clause := range clauses(query) {
		found := terms(clause)
		found = found[:min(len(found), maxWords-words)]
		if len(found) == 0 {
			continue
		}
		words += len(found)
		if len(scores) < maxClauses { // what is beyond the last clause belongs to it
			scores = append(scores, make([]float32, len(ix.server)))
		}
		worth := scores[len(scores)-1]
		for _, word := range found {
			clear(best)
			for _, alt := range ix.alternatives(word) {
				for _, p := range alt.list {
					if more := alt.weight*p.impact - best[p.doc]; more > 0 {
						best[p.doc] += more
						worth[p.doc] += more
					}
				}
			}
		}
	}
	return scores
}

// alternative is a term that a word of a request stands for.
type alternative struct {
	list   []posting
	weight float32
}

func (ix *Index) alternatives(word string) (all []alternative) {
	add := func(term string, weight float32) {
		if list := ix.postings[term]; len(list) > 0 {
			all = append(all, alternative{list, weight * ix.rarity(len(list))})
		}
	}
	own := float32(1)
	if isVague(word) {
		own = vagueWeight
	}
	add(word, own)
	for _, other := range ix.similar[word] {
		add(other, own*synonymWeight)
	}
	if len(word) >= 3 && len(ix.postings[word]) == 0 {
		for _, longer := range ix.prefixed(word, maxPrefixed) {
			add(longer, own*prefixWeight)
		}
	}
	return all
}

// choose takes tools one by one, each time the one that is worth most for what is still asked for. Tools that the query
// names come first.
func (ix *Index) choose(scores [][]float32, named []int32, limit int) []int32 {
	left := make([]float32, len(scores)) // of each clause's worth
	for c := range left {
		left[c] = 1
	}
	pool := ix.nominate(scores, limit)
	best := map[int32]float32{} // by server
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

// worthOf is what a tool is worth for the clause that it suits best, with a part of what it is worth for the rest, and
// which clause that is.
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

// nominate is the tools that are worth most for each clause, n at most for one.
func (ix *Index) nominate(scores [][]float32, n int) (pool []int32) {
	type ranked struct {
		doc   int32
		worth float32
	}
	whole := make([]float32, len(ix.server))
	for _, clause := range scores {
		for d, own := range clause {
			whole[d] += own
		}
	}
	for _, clause := range scores {
		var top []ranked // the best first, equal ones in the order of the index
		for d, own := range clause {
			if own == 0 {
				continue
			}
			worth := own + wholeWeight*(whole[d]-own)
			if len(top) == n && worth <= top[n-1].worth {
				continue
			}
			at := sort.Search(len(top), func(i int) bool { return top[i].worth < worth })
			top = slices.Insert(top[:min(len(top), n-1)], at, ranked{int32(d), worth})
		}
		for _, r := range top {
			pool = append(pool, r.doc)
		}
	}
	slices.Sort(pool)
	return slices.Compact(pool)
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

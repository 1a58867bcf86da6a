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
	vagueWeight   = 0.4
)

// How the parts of a request and of the catalog influence one another. These numbers, and those above and of the
// fields, are the middle of a plateau over the committed requests: each can be changed by half without much effect.
const (
	// wholeWeight is how much of a tool's worth for the rest of the request counts for a clause: "look at GitHub for
	// bugs and comment on each" means GitHub in both.
	wholeWeight = 0.5
	// serverWeight is how much the best tool of a server speaks for its others: a request mostly stays in a few servers.
	serverWeight = 0.65
	// served is how much of a clause's worth goes when a tool is chosen for it, so that the next tool is for another clause.
	served = 0.4
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

// score is what every tool is worth for each clause of a request: 1 at most, so that every clause counts alike, however
// many words it has.
func (ix *Index) score(query string) (scores [][]float32) {
	all := steps(query)
	named := make([]float32, len(ix.base)) // what each segment gains because the request names its server
	for _, s := range all {
		for _, seg := range ix.named(s.terms) {
			named[seg] = wholeNamedWeight
		}
	}
	best := make([]float32, len(ix.server)) // what the best term of one word is worth for each tool
	gain := make([]float32, len(ix.base))
	words := 0
	for _, s := range all {
		found, does := understand(s, maxWords-words)
		if len(found) == 0 {
			break
		}
		words += len(found)
		worth := make([]float32, len(ix.server))
		for _, word := range found {
			clear(best)
			for _, alt := range ix.alternatives(word.stem) {
				weight := word.weight * alt.weight
				for _, p := range alt.list {
					if more := weight*p.impact - best[p.doc]; more > 0 {
						best[p.doc] += more
						worth[p.doc] += more
					}
				}
			}
		}
		for seg, whole := range named {
			gain[seg] = 1 + whole
		}
		for _, seg := range ix.named(s.terms) {
			gain[seg] = 1 + wholeNamedWeight + namedWeight
		}
		most := float32(0)
		for d, w := range worth {
			if w > 0 {
				worth[d] = w * suits(does, ix.does[d]) * gain[ix.server[d]]
				most = max(most, worth[d])
			}
		}
		if most > 0 {
			for d := range worth {
				worth[d] /= most
			}
		}
		scores = append(scores, worth)
	}
	return scores
}

// How much more a tool is worth if the clause, or another one, names its server.
const (
	namedWeight      = 0.5
	wholeNamedWeight = 0.2
)

// named is the segments of servers whose names contain one of the terms.
func (ix *Index) named(terms []string) (segments []int32) {
	for _, w := range terms {
		segments = append(segments, ix.servers[w]...)
	}
	slices.Sort(segments)
	return slices.Compact(segments)
}

// What is left of a tool's worth for a clause that asks for something else to be done. Reading often comes before the rest.
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
	for _, other := range lang().similar[word] {
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
	pool := nominate(scores, limit)
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
func nominate(scores [][]float32, n int) (pool []int32) {
	for _, worth := range scores {
		var top []int32 // the best first, equal ones in the order of the index
		for d, own := range worth {
			if own == 0 || len(top) == n && own <= worth[top[n-1]] {
				continue
			}
			at := sort.Search(len(top), func(i int) bool { return worth[top[i]] < own })
			top = slices.Insert(top[:min(len(top), n-1)], at, int32(d))
		}
		pool = append(pool, top...)
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

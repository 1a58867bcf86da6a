package catalog

import (
	"math/bits"
	"slices"

	"mcp-code-exec-harness/internal/catalog/ident"
)

// closest is the number of names that an error suggests.
const closest = 3

// suggest returns the full names of the tools that resemble name most, the closest first. It takes about 10 ns for each tool.
func (s *snapshot) suggest(name string) []string {
	known := make([][]pairs, len(s.servers))
	for i, e := range s.servers {
		known[i] = e.pairs()
	}
	return nearest(name, closest, 0, known...)
}

func (s *snapshot) suggestServers(name string) []string {
	known := make([]pairs, len(s.servers))
	for i, e := range s.servers {
		known[i] = pairsOf(e.Name)
	}
	return nearest(name, closest, 0, known)
}

// nearest returns the n names that have the most pairs of letters in common with name. Names whose score is below the argument least are left out;
// names with equal scores keep their order.
func nearest(name string, n int, least float64, known ...[]pairs) []string {
	want := pairsOf(name)
	var names []string
	var scores []float64
	for _, list := range known {
		for i := range list {
			score := want.common(&list[i])
			if score < least || len(names) == n && score <= scores[n-1] {
				continue
			}
			at := slices.IndexFunc(scores, func(s float64) bool { return s < score })
			if at < 0 {
				at = len(scores)
			}
			names, scores = slices.Insert(names, at, list[i].name), slices.Insert(scores, at, score)
			names, scores = names[:min(n, len(names))], scores[:min(n, len(scores))]
		}
	}
	return names
}

// pairs is a name with the set of its pairs of neighbouring letters, folded.
type pairs struct {
	name  string
	set   [4]uint64 // a bit for the hash of each pair
	count int       // number of bits that are set
}

func pairsOf(name string) pairs {
	p := pairs{name: name}
	fold := []rune(ident.Fold(name))
	for i := range len(fold) - 1 {
		bit := (uint32(fold[i])*31 + uint32(fold[i+1])) * 2654435761 >> 24
		p.set[bit/64] |= 1 << (bit % 64)
	}
	for _, word := range p.set {
		p.count += bits.OnesCount64(word)
	}
	return p
}

// common returns the share of pairs that two names have in common: Dice's coefficient, from 0 to 1.
func (p *pairs) common(other *pairs) float64 {
	both := 0
	for i, word := range p.set {
		both += bits.OnesCount64(word & other.set[i])
	}
	return float64(2*both) / float64(max(1, p.count+other.count))
}

// Similar returns the known name that most resembles a misspelt one, or an empty string if none does.
func Similar(name string, known []string) string { return similar(name, known) }

// similar returns the known name that most resembles a misspelt one, or an empty string if none does.
func similar(name string, known []string) string {
	found := ident.Closest(name, known)
	if len(found) == 0 {
		all := make([]pairs, len(known))
		for i, k := range known {
			all[i] = pairsOf(k)
		}
		found = nearest(name, 1, 0.5, all)
	}
	if len(found) == 0 {
		return ""
	}
	return found[0]
}

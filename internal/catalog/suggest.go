package catalog

import (
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/catalog/ident"
)

// closest is how many names an error suggests.
const closest = 3

// maxCompared bounds the quadratic edit distance; no sensible name is longer.
const maxCompared = 80

// Suggest is the full names of the n tools whose names come closest to name, the closest first.
func (c *Catalog) Suggest(name string, n int) []string { return c.now.Load().suggest(name, n) }

func (s *snapshot) suggest(name string, n int) []string {
	tools := s.tools()
	names := make([]string, len(tools))
	for i, t := range tools {
		names[i] = t.FullName()
	}
	return nearest(name, names, n)
}

func (s *snapshot) suggestServers(name string, n int) []string {
	names := make([]string, len(s.servers))
	for i, e := range s.servers {
		names[i] = e.Name
	}
	return nearest(name, names, n)
}

// nearest ranks names by nearness, and equally near ones in their order.
func nearest(name string, names []string, n int) []string {
	type scored struct {
		name  string
		score float64
	}
	want := newNearness(name)
	all := make([]scored, len(names))
	for i, candidate := range names {
		all[i] = scored{candidate, want.to(candidate)}
	}
	slices.SortStableFunc(all, func(a, b scored) int {
		switch {
		case a.score > b.score:
			return -1
		case a.score < b.score:
			return 1
		}
		return 0
	})
	var out []string
	for _, s := range all[:max(0, min(n, len(all)))] {
		out = append(out, s.name)
	}
	return out
}

// nearness compares one name with many: half by edit distance, half by the words they share.
type nearness struct {
	fold  []rune
	words []string
}

func newNearness(name string) nearness {
	fold := []rune(ident.Fold(name))
	return nearness{fold: fold[:min(len(fold), maxCompared)], words: lowerWords(name)}
}

func (l nearness) to(name string) float64 {
	other := newNearness(name)
	longest := max(len(l.fold), len(other.fold))
	if longest == 0 {
		return 0
	}
	edit := 1 - float64(ident.Distance(l.fold, other.fold))/float64(longest)
	shared := 0.0
	for _, w := range l.words {
		best := 0.0
		for _, o := range other.words {
			switch {
			case w == o:
				best = 1
			case len(w) > 2 && len(o) > 2 && (strings.HasPrefix(w, o) || strings.HasPrefix(o, w)):
				best = max(best, 0.7)
			}
		}
		shared += best
	}
	overlap := 0.0
	if most := max(len(l.words), len(other.words)); most > 0 {
		overlap = shared / float64(most)
	}
	return edit/2 + overlap/2
}

func lowerWords(name string) []string {
	words := ident.Words(name)
	words = words[:min(len(words), maxCompared)]
	for i, w := range words {
		words[i] = strings.ToLower(w)
	}
	return words
}

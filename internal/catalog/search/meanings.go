package search

import (
	"cmp"
	_ "embed"
	"math"
	"slices"
	"strings"
)

// sayings is a dictionary from the words of people to the words of tools; the first lines of the file describe its format.
//
//go:embed meanings.txt
var sayings string

// meanings holds the parsed sayings.
type meanings struct {
	terms   [][]string          // words that tools use, for each line
	lines   map[string][]int32  // numbers of the lines that contain a stem
	rarity  map[string]float32  // rarity of a stem among the lines
	unknown float32             // rarity of a stem that no line contains
	phrases map[string][]phrase // phrases by first word
}

func readMeanings(text string) *meanings {
	m := &meanings{lines: map[string][]int32{}, rarity: map[string]float32{}, phrases: map[string][]phrase{}}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "//") {
			continue
		}
		left, right, _ := strings.Cut(line, ":")
		called, number := stems(left), int32(len(m.terms))
		m.terms = append(m.terms, called)
		for _, w := range terms(right) {
			if on := m.lines[w]; len(on) == 0 || on[len(on)-1] != number {
				m.lines[w] = append(on, number)
			}
		}
		for said := range strings.SplitSeq(right, ",") {
			if words := strings.Fields(said); len(words) > 1 {
				m.phrases[words[0]] = append(m.phrases[words[0]], phrase{words, called})
			}
		}
	}
	for w, on := range m.lines {
		m.rarity[w] = float32(math.Log(float64(len(m.terms)) / (float64(len(on)) + 0.5)))
	}
	m.unknown = float32(math.Log(2 * float64(len(m.terms))))
	return m
}

// maxResembling is the maximum number of lines that are used for a step. minResembling is the minimum share of the step's words, weighted by rarity,
// that each of these lines contains.
const (
	maxResembling = 3
	minResembling = 0.15
)

// resembling finds the lines that contain the largest shares of a step, and returns the words that tools use for them. The weight of a returned word is
// the share of the step that its line contains.
func (m *meanings) resembling(said []string) (means []word) {
	type match struct {
		line  int32
		share float32
	}
	shares, total := map[int32]float32{}, float32(0)
	said = said[:min(len(said), maxWords)]
	for i, w := range said {
		if slices.Contains(said[:i], w) {
			continue
		}
		rarity, known := m.rarity[w]
		if !known {
			rarity = m.unknown
		}
		total += rarity
		for _, line := range m.lines[w] {
			shares[line] += rarity
		}
	}
	var best []match
	for line, share := range shares {
		if share /= total; share >= minResembling {
			best = append(best, match{line, share})
		}
	}
	slices.SortFunc(best, func(a, b match) int { return cmp.Or(cmp.Compare(b.share, a.share), cmp.Compare(a.line, b.line)) })
	for _, b := range best[:min(len(best), maxResembling)] {
		for _, stem := range m.terms[b.line] {
			if w := (word{stem, b.share, true}); !says(means, w) { // lines that resemble the step more come first
				means = append(means, w)
			}
		}
	}
	return means
}

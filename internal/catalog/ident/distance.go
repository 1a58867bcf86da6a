package ident

import "slices"

// maxCompared is the maximum number of letters of a name that Closest compares; no sensible name is longer.
const maxCompared = 80

// Closest returns the candidates that are closest to a misspelt name, sorted. They differ from the name in at most a third of its letters, and in at
// most 3 letters; a difference of 1 letter is always allowed. Case is ignored, and so is everything but letters and digits.
func Closest(name string, candidates []string) (found []string) {
	fold := func(s string) []rune {
		letters := []rune(Fold(s))
		return letters[:min(len(letters), maxCompared)]
	}
	want := fold(name)
	least := max(1, min(3, len(want)/3))
	for _, c := range candidates {
		switch d := Distance(want, fold(c)); {
		case d < least:
			least, found = d, []string{c}
		case d == least:
			found = append(found, c)
		}
	}
	slices.Sort(found)
	return found
}

// Distance returns the number of insertions, deletions, replacements and swaps of neighbours that make a into b. It takes time in proportion to the
// product of their lengths.
func Distance(a, b []rune) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

package config

import (
	"fmt"
	"slices"
	"strings"
)

// Error is one thing that is wrong in the configuration.
type Error struct {
	Source  string // what to correct: path of a file, "environment variable X", "flag"; empty if nothing is set
	Line    int    // in a file, from 1; 0 if unknown
	Column  int    // in characters, from 1
	Key     string // "sandbox.timeout"; empty if the whole file is meant
	Problem string
	Hint    string // what to do; may be empty
}

func (e *Error) Error() string {
	var parts []string
	switch {
	case e.Line > 0:
		parts = append(parts, fmt.Sprintf("%s:%d:%d", e.Source, e.Line, e.Column))
	case e.Source != "":
		parts = append(parts, e.Source)
	}
	if e.Key != "" {
		parts = append(parts, e.Key)
	}
	var b strings.Builder
	b.WriteString(strings.Join(append(parts, e.Problem), ": "))
	if e.Hint != "" {
		b.WriteString("; " + e.Hint)
	}
	return b.String()
}

// closest returns the candidates most like a misspelt name, best first; none if nothing is alike. Case and the
// separators '_', '-' and '.' do not count.
func closest(name string, candidates []string) []string {
	fold := func(s string) string {
		return strings.ToLower(strings.NewReplacer("_", "", "-", "", ".", "").Replace(s))
	}
	name = fold(name)
	limit := max(1, min(3, len(name)/3))
	var found []string
	for d := 0; d <= limit && len(found) == 0; d++ {
		for _, c := range candidates {
			if distance(name, fold(c)) == d {
				found = append(found, c)
			}
		}
	}
	slices.Sort(found)
	return found
}

// distance is the number of single-character edits between two strings, a swap of neighbours counting as one.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	rows := [3][]int{make([]int, len(y)+1), make([]int, len(y)+1), make([]int, len(y)+1)}
	for j := range rows[1] {
		rows[1][j] = j
	}
	for i := 1; i <= len(x); i++ {
		before, last, row := rows[(i-1)%3], rows[i%3], rows[(i+1)%3]
		row[0] = i
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return rows[(len(x)+1)%3][len(y)]
}

func didYouMean(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "did you mean " + strings.Join(names, " or ") + "?"
}

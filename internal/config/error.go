package config

import (
	"fmt"
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

// meantOrKnown is a hint: the names that were probably meant, else the names that are known.
func meantOrKnown(meant, known []string) string {
	if len(meant) > 0 || len(known) == 0 {
		return didYouMean(meant)
	}
	return "known keys are " + strings.Join(known, ", ")
}

func didYouMean(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "did you mean " + strings.Join(names, " or ") + "?"
}

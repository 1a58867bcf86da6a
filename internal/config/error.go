package config

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/token"
)

// position is where a value is written; the zero value is the position of a default.
type position struct {
	source string // what the user has to correct: path of a file, "environment variable X", "flag"
	line   int    // line in a file, from 1; 0 without a file
	column int    // column in characters, from 1
}

func (p position) String() string {
	if p.line == 0 {
		return p.source
	}
	return fmt.Sprintf("%s:%d:%d", p.source, p.line, p.column)
}

// origin returns the position in the form that Entry shows.
func (p position) origin() string {
	switch {
	case p.source == "":
		return "default"
	case p.line > 0:
		return fmt.Sprintf("%s:%d", p.source, p.line)
	}
	return strings.Replace(strings.Replace(p.source, "environment", "env", 1), " variable ", " ", 1)
}

// at returns the position of a token if p is in a file, else p.
func (p position) at(t *token.Token) position {
	if p.line > 0 && t != nil && t.Position != nil {
		p.line, p.column = t.Position.Line, t.Position.Column
	}
	return p
}

func (p position) errorf(key, hint, format string, args ...any) *Error {
	return &Error{position: p, Key: key, Problem: withHint(fmt.Sprintf(format, args...), hint)}
}

// Error is one mistake in the configuration or, as a warning, one value that is probably not intended.
type Error struct {
	position
	Key     string // such as "sandbox.timeout"; empty if the mistake concerns the whole file or variable
	Problem string // the mistake and how to correct it
}

func (e *Error) Error() string {
	text := e.Problem
	for _, before := range [...]string{e.Key, e.position.String()} {
		if before != "" {
			text = before + ": " + text
		}
	}
	return text
}

// withHint appends a hint to a problem; hint may be empty.
func withHint(problem, hint string) string {
	if hint == "" {
		return problem
	}
	return problem + "; " + hint
}

// meantOrKnown returns a hint with the names that were probably meant or, if there are none, the known names.
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

// Place returns the line and column of a mistake in a file, each from 1; 0 means that the mistake is in no file or concerns all of it.
func (e *Error) Place() (line, column int) { return e.line, e.column }

// Package linediff compares two texts by lines.
package linediff

import (
	"errors"
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

// Limits of a comparison. The library stops looking for the shortest difference after 100 changes, so its time grows only with the size of
// the texts.
const (
	MaxText  = 256 << 10 // maximum size of each text in bytes
	MaxLines = 10_000    // maximum number of lines in each text
)

// ErrLarge reports texts that exceed the limits.
var ErrLarge = errors.New("the texts are too large to compare")

// Of returns a unified diff with three lines of context and without file names. It is empty for equal texts. For texts that exceed the limits, the error
// is ErrLarge.
func Of(before, after string) (string, error) {
	switch {
	case before == after:
		return "", nil
	case large(before), large(after):
		return "", ErrLarge
	}
	text, err := udiff.ToUnified("", "", before, udiff.Lines(before, after), udiff.DefaultContextLines)
	if _, hunks, ok := strings.Cut(text, "+++ \n"); ok {
		text = hunks
	}
	return text, err
}

func large(s string) bool { return len(s) > MaxText || strings.Count(s, "\n") > MaxLines }

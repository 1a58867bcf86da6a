// Package linediff compares two texts by lines.
package linediff

import (
	"errors"
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

// Bounds of a comparison. The library gives up looking for the shortest difference after 100 changes, so that its time grows with the size alone.
const (
	MaxText  = 256 << 10 // bytes of each text
	MaxLines = 10_000    // lines of each text
)

// ErrLarge reports texts beyond the bounds.
var ErrLarge = errors.New("the texts are too large to compare")

// Of returns a unified difference with three lines of context and without the names of files. It is empty for equal texts. The error is ErrLarge.
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

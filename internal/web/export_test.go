package web

import (
	"maps"
	"slices"
)

// Patterns returns the patterns of all pages.
func Patterns() []string {
	return slices.Concat(slices.Collect(maps.Keys(openPages)), slices.Collect(maps.Keys(readerPages)))
}

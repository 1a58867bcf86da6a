package model

import "strings"

// contextWindow is how many tokens a model can read and write in all, where its provider's documentation says so; 0
// otherwise. https://platform.claude.com/docs/en/about-claude/models/overview, October 2026.
func contextWindow(name string) int {
	for _, known := range []struct {
		prefix string
		tokens int
	}{
		{"claude-fable-5", 1_000_000},
		{"claude-opus-5", 1_000_000},
		{"claude-sonnet-5", 1_000_000},
		{"claude-haiku-5", 1_000_000},
		{"claude-haiku-4-5", 200_000},
	} {
		if strings.HasPrefix(name, known.prefix) {
			return known.tokens
		}
	}
	return 0
}

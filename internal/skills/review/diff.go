package review

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/linediff"
)

// The kinds of changes.
const (
	Added   = "added"
	Changed = "changed"
	Removed = "removed"
)

// Change is a file in which two contents of a skill differ.
type Change struct {
	Path string `json:"path"`
	Kind string `json:"kind"` // Added, Changed or Removed
	// Text is the difference for people, with visible hidden characters: the whole text of an added file, a unified diff of a changed one. It is a
	// sentence for a file that is no text.
	Text string `json:"text,omitempty"`
}

// Changes returns the files in which two contents differ, SKILL.md first, then by path.
func Changes(before, after map[string][]byte) (all []Change) {
	paths := maps.Clone(before)
	if paths == nil {
		paths = map[string][]byte{}
	}
	maps.Copy(paths, after)
	for _, p := range slices.Sorted(maps.Keys(paths)) {
		was, had := before[p]
		is, has := after[p]
		c := Change{Path: p, Kind: Changed}
		switch {
		case had && has && bytes.Equal(was, is):
			continue
		case !has:
			c.Kind = Removed
		case !had:
			c.Kind = Added
			c.Text = text(p, is)
		default:
			c.Text = changed(p, was, is)
		}
		if p == "SKILL.md" {
			all = slices.Insert(all, 0, c)
		} else {
			all = append(all, c)
		}
	}
	return all
}

// text returns a file as text for people.
func text(p string, data []byte) string {
	if kindOf(p, data) == binary {
		return fmt.Sprintf("%d bytes that are no text\n", len(data))
	}
	shown := clip.Visible(string(data))
	if shown != "" && !strings.HasSuffix(shown, "\n") {
		shown += "\n"
	}
	return shown
}

func changed(p string, was, is []byte) string {
	before, after := text(p, was), text(p, is)
	diff, err := linediff.Of(before, after)
	switch {
	case err != nil: // too large to compare: the whole new text
		return fmt.Sprintf("the texts are too large to compare; this is the new one:\n%s", after)
	case diff == "":
		return fmt.Sprintf("the bytes differ and the texts look alike: %d bytes now, %d before\n", len(is), len(was))
	}
	return diff
}

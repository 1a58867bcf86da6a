// Package modelview renders a run for a model: its output and console lines, or its error, within a limit of model tokens. If a text does not
// fit, the package saves the text as a file and includes the path in the view.
package modelview

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/run"
)

// DefaultLimit is the maximum number of model tokens that a run may add to a model's context.
const DefaultLimit = 8000

// prettyMost is the maximum size in bytes of output that is indented.
const prettyMost = 1000

// Save stores the full version of a shortened text, and returns the path at which programs find it. View uses the names output.json,
// warnings.txt, logs.txt and error.txt.
type Save func(name string, data []byte) (path string, err error)

// View returns the text for a model, which is always valid UTF-8. The text has at most limit tokens of the o200k vocabulary, or DefaultLimit if
// limit is 0 or less. Counts with the vocabularies of other models differ by up to some tens of percent. A part that is too long is reduced to its
// head and tail. A line between them says how much is missing, and where the full text is or why it was not saved. save may be nil.
func View(out *run.Outcome, limit int, save Save) string {
	return fit(outline(out), limit, save)
}

// Fit shortens a text for a model as View does. If it shortens the text, it saves the full text under name.
func Fit(text string, limit int, name string, save Save) string {
	return fit([]section{newSection("", text, name, []byte(text))}, limit, save)
}

func fit(sections []section, limit int, save Save) string {
	if limit <= 0 {
		limit = DefaultLimit
	}
	for i := range sections {
		sections[i].save = save
	}
	whole := join(sections)
	if within(whole, limit) {
		return whole
	}
	// The number of tokens in the whole differs slightly from the sum of its parts. So the result is measured, and the parts are shortened
	// until it fits.
	for target := limit; target > limit/2; target -= max(limit/20, 1) {
		if text := shorten(sections, target); within(text, limit) {
			return text
		}
	}
	// The limit is too low even for the lines that report what is missing. Each token has at least one byte.
	return clip.Head(whole, limit)
}

// section is one part of the view.
type section struct {
	label string
	text  string // shown text, valid UTF-8
	name  string // name of the file for the full text
	whole []byte
	save  Save
	where string // clause that says where the full text is; empty until it is needed
}

func newSection(label, text, name string, whole []byte) section {
	return section{label: label, text: strings.ToValidUTF8(text, "\ufffd"), name: name, whole: whole}
}

// outline returns the view before shortening: the error or the output, then the warnings, then the console lines.
func outline(out *run.Outcome) []section {
	var all []section
	if out.Error != nil {
		text := Failure(out)
		all = append(all, newSection(out.Status+"\n", text, "error.txt", []byte(text)))
	} else {
		all = append(all, newSection("output:\n", indent(out.Output)+"\n", "output.json", out.Output))
	}
	if len(out.Warnings) > 0 {
		text := strings.Join(out.Warnings, "\n") + "\n"
		all = append(all, newSection("warnings, found before the program ran:\n", text, "warnings.txt", []byte(text)))
	}
	if len(out.Logs) > 0 {
		var b strings.Builder
		for _, l := range out.Logs {
			b.WriteString(Line(l) + "\n")
		}
		all = append(all, newSection("logs:\n", b.String(), "logs.txt", []byte(b.String())))
	}
	return all
}

// Line formats a console line. It adds the level unless that is log or info.
func Line(l run.Log) string {
	if l.Level == "log" || l.Level == "info" {
		return l.Text
	}
	return l.Level + ": " + l.Text
}

// indent formats short JSON on several lines.
func indent(raw json.RawMessage) string {
	var b bytes.Buffer
	if len(raw) > prettyMost || json.Indent(&b, raw, "", "  ") != nil || b.Len() > prettyMost {
		return string(raw)
	}
	return b.String()
}

func join(sections []section) string {
	var b strings.Builder
	for i, s := range sections {
		if i > 0 {
			b.WriteString("\n")
		}
		b.WriteString(s.label + s.text)
	}
	return b.String()
}

// labelTokens is the number of tokens reserved for a section's label and the empty line before it.
const labelTokens = 8

// shorten reduces the sections to about target tokens in total: short sections stay complete, and long ones share the rest.
func shorten(sections []section, target int) string {
	left := target
	sizes, order := make([]int, len(sections)), make([]int, len(sections))
	for i, s := range sections {
		if s.label != "" {
			left -= labelTokens
		}
		sizes[i], order[i] = tokens(s.text, target), i
	}
	slices.SortStableFunc(order, func(a, b int) int { return sizes[a] - sizes[b] })
	cut := slices.Clone(sections)
	for n, i := range order {
		if share := left / (len(order) - n); sizes[i] > share {
			for _, j := range order[n:] {
				cut[j].text = sections[j].cut(share)
			}
			break
		}
		left -= sizes[i]
	}
	return join(cut)
}

// cut returns two thirds of the room from the head of a section and one third from its tail, with the marker on a separate line between
// them.
func (s *section) cut(room int) string {
	if s.where == "" {
		s.where = s.saveWhole()
	}
	// With the final numbers, the marker can only be shorter.
	room = max(room-tokens(s.marker(len(s.text)), max(room, 0)), 0)
	head := headOf(s.text, room*2/3)
	tail := tailOf(s.text[len(head):], room-room*2/3)
	marker := s.marker(len(s.text)-len(head)-len(tail)) + "\n"
	if head != "" && !strings.HasSuffix(head, "\n") {
		head += "\n"
	}
	return head + marker + tail
}

// marker returns the text that replaces the missing bytes.
func (s *section) marker(bytes int) string {
	return fmt.Sprintf("[… %d of %d bytes are left out here; %s …]", bytes, len(s.text), s.where)
}

// saveWhole saves the full text and returns a clause that tells where it is.
func (s *section) saveWhole() string {
	if s.save == nil {
		return "they were not kept, because the run has no session: return or print less"
	}
	path, err := s.save(s.name, s.whole)
	if err != nil {
		reason, _, _ := strings.Cut(err.Error(), "\n")
		return "they could not be kept (" + clip.Head(strings.ToValidUTF8(reason, "\ufffd"), 200) + ")"
	}
	return "the whole is in " + path
}

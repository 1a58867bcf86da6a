// Package modelview renders what a model is given of a run: its output and console lines, or why it failed, within a
// number of model tokens. What does not fit is kept as a file, and the text says where.
package modelview

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"mcp-code-exec-harness/internal/run"
)

// DefaultLimit is how many model tokens a run may put into a model's context.
const DefaultLimit = 8000

// prettyMost is the size in bytes up to which output is indented: beyond, the white space costs more than it helps.
const prettyMost = 1000

// Save keeps the whole of a text that was cut, and returns the path under which programs find it. name is output.json,
// logs.txt or error.txt.
type Save func(name string, data []byte) (path string, err error)

// View is the text for a model: at most limit tokens of the o200k vocabulary (DefaultLimit if limit is 0 or less; other
// models' tokens differ by some tenths), always valid UTF-8. Of what is too long, head and tail are shown, with a line
// between them that says how much is missing and where the whole is. Without save nothing is kept, and the text says
// so; a save that fails is said in the text too.
func View(out *run.Outcome, limit int, save Save) (string, error) {
	if limit <= 0 {
		limit = DefaultLimit
	}
	sections := outline(out)
	whole := join(sections)
	if fits, err := within(whole, limit); err != nil || fits {
		return whole, err
	}
	for i := range sections {
		sections[i].save = save
	}
	// Tokens of a whole differ from the sum of its parts by a few, so the result is measured, and the parts are cut
	// shorter until it fits.
	for target := limit; target > limit/2; target -= max(limit/20, 1) {
		text, err := shorten(sections, target)
		if err != nil {
			return "", err
		}
		if fits, err := within(text, limit); err != nil || fits {
			return text, err
		}
	}
	// Too few tokens even for the lines that say what is missing. A token has a byte at least.
	return firstBytes(whole, limit), nil
}

// Fit is a text for a model, cut as View cuts: at most limit tokens of it, and if that is not all of it, the whole is saved
// under name.
func Fit(text string, limit int, name string, save Save) (string, error) {
	if limit <= 0 {
		limit = DefaultLimit
	}
	s := section{text: strings.ToValidUTF8(text, "\ufffd"), name: name, whole: []byte(text), save: save}
	if fits, err := within(s.text, limit); err != nil || fits {
		return s.text, err
	}
	for room := limit; room > limit/2; room -= max(limit/20, 1) {
		cut, err := s.cut(room)
		if err != nil {
			return "", err
		}
		if fits, err := within(cut, limit); err != nil || fits {
			return cut, err
		}
	}
	return firstBytes(s.text, limit), nil
}

// section is one part of the view.
type section struct {
	label string
	text  string // as shown, valid UTF-8
	name  string // of the file that keeps the whole
	whole []byte
	save  Save
	where string // what became of the whole; empty until it was needed
}

// outline is the view before anything is cut: the error, or the output; then the console lines.
func outline(out *run.Outcome) []section {
	var all []section
	if out.Error != nil {
		text := Failure(out)
		all = append(all, section{label: out.Status + "\n", text: text, name: "error.txt", whole: []byte(text)})
	} else {
		all = append(all, section{label: "output:\n", text: indent(out.Output) + "\n", name: "output.json", whole: out.Output})
	}
	if len(out.Logs) > 0 {
		var b strings.Builder
		for _, l := range out.Logs {
			if l.Level != "log" && l.Level != "info" {
				b.WriteString(l.Level + ": ")
			}
			b.WriteString(l.Text + "\n")
		}
		all = append(all, section{label: "logs:\n", text: b.String(), name: "logs.txt", whole: []byte(b.String())})
	}
	for i := range all {
		all[i].text = strings.ToValidUTF8(all[i].text, "\ufffd")
	}
	return all
}

// indent makes short JSON readable.
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

// labelTokens is room for a section's label and the empty line before it.
const labelTokens = 8

// shorten cuts the sections so that together they have about target tokens: short ones stay whole, and long ones share
// what those leave.
func shorten(sections []section, target int) (string, error) {
	cut := make([]section, len(sections))
	copy(cut, sections)
	left, open := target-labelTokens*len(sections), len(sections)
	done := make([]bool, len(sections))
	for open > 0 {
		settled := false
		for i := range sections {
			if done[i] {
				continue
			}
			size, err := tokens(sections[i].text, left/open)
			if err != nil {
				return "", err
			}
			if size <= left/open {
				done[i], settled = true, true
				left, open = left-size, open-1
			}
		}
		if settled {
			continue
		}
		for i := range sections {
			if done[i] {
				continue
			}
			text, err := sections[i].cut(left / open)
			if err != nil {
				return "", err
			}
			cut[i].text = text
		}
		break
	}
	return join(cut), nil
}

// cut keeps head and tail of a section, two thirds and one third of what there is room for.
func (s *section) cut(room int) (string, error) {
	if s.where == "" {
		s.where = s.saveWhole()
	}
	// With the final numbers the line can only be shorter.
	marker, err := tokens(s.marker(len(s.text)), max(room, 0))
	if err != nil {
		return "", err
	}
	room = max(room-marker, 0)
	head, err := headOf(s.text, room*2/3)
	if err != nil {
		return "", err
	}
	tail, err := tailOf(s.text[len(head):], room-room*2/3)
	if err != nil {
		return "", err
	}
	return wholeLines(head, tail, s.marker(len(s.text)-len(head)-len(tail))), nil
}

// marker stands for what was left out.
func (s *section) marker(bytes int) string {
	return fmt.Sprintf("[… %d of %d bytes are left out here; %s …]", bytes, len(s.text), s.where)
}

// saveWhole saves the whole and returns a clause that says where it is.
func (s *section) saveWhole() string {
	if s.save == nil {
		return "they were not kept, because the run has no session: return or print less"
	}
	path, err := s.save(s.name, s.whole)
	if err != nil {
		reason, _, _ := strings.Cut(err.Error(), "\n")
		return "they could not be kept (" + firstBytes(strings.ToValidUTF8(reason, "\ufffd"), 200) + ")"
	}
	return "the whole is in " + path
}

// wholeLines puts the marker on a line of its own.
func wholeLines(head, tail, marker string) string {
	if head != "" && !strings.HasSuffix(head, "\n") {
		head += "\n"
	}
	if tail == "" {
		return head + marker + "\n"
	}
	return head + marker + "\n" + tail
}

// firstBytes is the beginning of a text, of at most n bytes, ending between two characters.
func firstBytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

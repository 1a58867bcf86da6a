package runs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/jsontext"
	"mcp-code-exec-harness/internal/linediff"
)

// Limits of the comparisons for one request.
const (
	maxSearched  = 5000     // calls of the run that are searched for a read
	maxCompared  = 20       // texts of a call that are compared
	maxShownDiff = 64 << 10 // bytes of a difference
)

// Compared returns r with comparisons, which show how each call changes what the run has read before. A call is compared with the latest read whose
// arguments, such as the path of a file or the id of a record, are all among the arguments of the call. Both texts are as in the journal, with tokens
// in place of personal data.
func (s *Service) Compared(ctx context.Context, r approval.Request) (approval.Request, error) {
	r.Calls = slices.Clone(r.Calls)
	all := make([]comparing, len(r.Calls))
	for i, c := range r.Calls {
		args := c.Args
		if args == nil && c.ArgsBytes > 0 {
			call, err := s.Call(ctx, r.Run, c.N, "")
			if err != nil && !errors.Is(err, journal.ErrNotFound) { // A request outlives the journal of a run that was deleted.
				return r, err
			}
			args = call.Arguments
		}
		all[i] = newComparing(c.N, args)
	}
	searched, err := s.calls(ctx, r.Run, "", maxSearched, func(c *Call) {
		related := false
		for i := range all {
			related = all[i].see(c) || related
		}
		if !related || c.Answered != nil {
			c.Arguments, c.Result = nil, nil
		}
	})
	if err != nil {
		return r, err
	}
	for i := range all {
		r.Calls[i].Compared = all[i].texts()
		if searched.full {
			r.Calls[i].Compared = append(r.Calls[i].Compared, approval.Comparison{Problem: fmt.Sprintf("the run has made more calls than the %d among which a read is looked for", maxSearched)})
		}
	}
	return r, nil
}

// comparing is a call that waits for an approval, with the latest earlier read of what the call would change.
type comparing struct {
	n     int
	args  []member
	read  Call // latest read; its N is 0 if there is no read
	since int  // number of a later call that may have changed what was read; 0 if there is none
	whole any  // decoded arguments; nil if they are too large
}

func newComparing(n int, args json.RawMessage) comparing {
	w := comparing{n: n, args: members(args)}
	if len(args) <= 4*linediff.MaxText {
		_ = json.Unmarshal(args, &w.whole) // arguments are JSON
	}
	return w
}

// member is a member of a JSON object.
type member struct {
	name  string
	value json.RawMessage
}

// members returns the members of an object, and none for any other value.
func members(text json.RawMessage) (all []member) {
	for name, v := range jsontext.Members(text) {
		all = append(all, member{name, text[v.From:v.End]})
	}
	return all
}

// find returns the value of a member, or nil if there is none.
func find(all []member, name string) json.RawMessage {
	if i := slices.IndexFunc(all, func(m member) bool { return m.name == name }); i >= 0 {
		return all[i].value
	}
	return nil
}

// within reports whether a call has arguments and others contains all of them: each argument must be a text or a number, and others must have the
// same value under the same name.
func within(args, others []member) bool {
	for _, a := range args {
		other := find(others, a.name)
		text, isText := jsontext.String(a.value)
		otherText, otherIsText := jsontext.String(other)
		isNumber := len(a.value) > 0 && strings.IndexByte("-0123456789", a.value[0]) >= 0
		if !isText && !isNumber || isText != otherIsText || text != otherText || isNumber && !bytes.Equal(a.value, other) {
			return false
		}
	}
	return len(args) > 0
}

// see receives a call of the journal twice: when the program makes the call, and when the call has its answer. It reports whether this call is
// related to the waiting call.
func (w *comparing) see(c *Call) bool {
	if c.N >= w.n {
		return false
	}
	args := members(c.Arguments)
	reads := c.Sent == nil && within(args, w.args)
	writes := w.read.N != 0 && within(members(w.read.Arguments), args)
	switch {
	case c.Answered == nil:
		return reads || w.read.N != 0 && writes
	case reads && c.Error == "":
		w.read, w.since = *c, 0
	case writes && c.Sent != nil:
		w.since = c.N
	}
	return true
}

// texts compares the arguments of the call with what was read. It ignores arguments whose names the read has too. If a text was read and one text
// argument remains, the two texts are compared. If a record was read, the remaining arguments are compared with the members of the same names.
// texts also compares pairs of an old and a new text within the arguments.
func (w *comparing) texts() (all []approval.Comparison) {
	if w.read.N != 0 {
		known := members(w.read.Arguments)
		args := slices.DeleteFunc(slices.Clone(w.args), func(m member) bool { return find(known, m.name) != nil })
		of := approval.Comparison{Tool: w.read.Name, Call: w.read.N, Since: w.since}
		if before, ok := jsontext.String(w.read.Result); ok {
			args = slices.DeleteFunc(args, func(m member) bool { _, text := jsontext.String(m.value); return !text })
			if len(args) == 1 {
				all = append(all, difference(of, memberPath("$", args[0].name), before, readable(args[0].value)))
			}
		} else {
			all = records(all, of, "$", args, members(w.read.Result), 1)
		}
	}
	return pairs(all, "$", w.whole)
}

// records compares the members of an object with the members of the same names in a record. If the record lacks a member, records compares the
// members of that member instead, at most levels deep.
func records(all []approval.Comparison, of approval.Comparison, path string, args, record []member, levels int) []approval.Comparison {
	for _, m := range args {
		at := memberPath(path, m.name)
		if before := find(record, m.name); before != nil && len(all) < maxCompared {
			all = append(all, difference(of, at, readable(before), readable(m.value)))
		} else if before == nil && levels > 0 {
			all = records(all, of, at, members(m.value), record, levels-1)
		}
	}
	return all
}

// pairs compares two members of an object whose names differ in old and new, such as oldText and newText, or old_string and new_string.
func pairs(all []approval.Comparison, path string, value any) []approval.Comparison {
	switch value := value.(type) {
	case []any:
		for i, item := range value {
			all = pairs(all, fmt.Sprintf("%s[%d]", path, i), item)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			after, ok := value[name].(string)
			if !ok {
				all = pairs(all, memberPath(path, name), value[name])
				continue
			}
			old := strings.NewReplacer("new", "old", "New", "Old").Replace(name)
			if before, ok := value[old].(string); ok && old != name && len(all) < maxCompared {
				all = append(all, difference(approval.Comparison{Old: memberPath(path, old)}, memberPath(path, name), before, after))
			}
		}
	}
	return all
}

// difference completes a comparison with the path of the new text and with the difference between the two texts.
func difference(of approval.Comparison, path, before, after string) approval.Comparison {
	of.Path = path
	text, err := linediff.Of(before, after)
	if err != nil {
		of.Problem = err.Error()
	}
	if of.Diff = text; len(text) > maxShownDiff {
		of.Diff = text[:strings.LastIndexByte(text[:maxShownDiff], '\n')+1]
		of.Problem = fmt.Sprintf("this is the beginning: the difference has %d bytes", len(text))
	}
	return of
}

// readable returns the text of a string, and any other value as indented JSON.
func readable(value json.RawMessage) string {
	if text, ok := jsontext.String(value); ok {
		return text
	}
	var b bytes.Buffer
	if len(value) > linediff.MaxText || json.Indent(&b, value, "", "  ") != nil {
		return string(value)
	}
	return b.String()
}

// memberPath returns the path of a member of an object.
func memberPath(path, name string) string {
	if name == "" || strings.ContainsFunc(name, func(c rune) bool { return c != '_' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') }) {
		return fmt.Sprintf("%s[%q]", path, name)
	}
	return path + "." + name
}

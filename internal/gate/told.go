package gate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/jsontext"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/run"
)

// notes records the notices that a run's program has received, so that it gets each only once.
type notes struct {
	mu   sync.Mutex
	said map[[2]string]bool
}

// first reports whether a notice about a trait of a source is the first one for the program, and records the notice.
func (n *notes) first(source, trait string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	key := [2]string{source, trait}
	if n.said[key] {
		return false
	}
	if n.said == nil {
		n.said = map[[2]string]bool{}
	}
	n.said[key] = true
	return true
}

// tell notifies the program of parts of a value that JavaScript represents differently from what the source wrote, such as large integers. value
// is the value that the program gets. If the source wrote only a part of value, prefix is the path of that part; notices leave prefix out of
// paths. beside is content in addition to value; it may be nil.
func (r *Run) tell(call run.InFlight, source string, value json.RawMessage, prefix string, beside json.RawMessage) {
	traits := jsontext.Look(value)
	told := run.Told{Exact: traits.Big != "" || traits.Huge != "", Beside: beside}
	if beside != nil {
		more := jsontext.Look(beside)
		told.Exact = told.Exact || more.Big != "" || more.Huge != ""
		if r.told.first(source, "beside") {
			told.Notes = append(told.Notes, fmt.Sprintf("%s: %s", source, besideNote(source, value)))
		}
	}
	for _, trait := range [...]struct{ name, path, means string }{
		{"big", traits.Big, "is an integer beyond 2^53: such integers are BigInt (123n), with all digits; tools and JSON.stringify get the digits"},
		{"huge", traits.Huge, "is beyond the range of JavaScript numbers: such numbers are strings, with all digits"},
		{"rounded", traits.Rounded, "has more digits than a JavaScript number holds: such numbers are rounded"},
		{"reordered", traits.Reordered, "has integer keys: JavaScript objects have these first and in ascending order, whatever the order they were written in"},
		{"equal", traits.Equal, "is a key that its object has twice: the last value counts"},
	} {
		if trait.path != "" && r.told.first(source, trait.name) {
			path := "$" + strings.TrimPrefix(strings.TrimPrefix(trait.path, "$"), prefix)
			told.Notes = append(told.Notes, fmt.Sprintf("%s: %s %s", source, path, trait.means))
		}
	}
	if told.Tokens = r.tokens(source, value, prefix); told.Exact || told.Beside != nil || told.Notes != nil || told.Tokens != nil {
		call.Tell(told)
	}
}

// tokens returns the types of the tokens in a value, with the place of the first token of each type. It leaves out types of which the program has
// already received a token from this source.
func (r *Run) tokens(source string, value []byte, prefix string) (places map[string]string) {
	for kind, at := range r.scope.Privacy.Tokens(value) {
		if !r.told.first(source, "token "+kind) {
			continue
		}
		if places == nil {
			places = map[string]string{}
		}
		places[kind] = source
		if path := strings.TrimPrefix(strings.TrimPrefix(jsontext.Path(value, at), "$"), prefix); path != "" {
			places[kind] += " $" + path
		}
	}
	return places
}

// besideNote explains how a program gets the content that an answer has in addition to its value.
func besideNote(name string, value json.RawMessage) string {
	if len(value) > 0 && (value[0] == '{' || value[0] == '[') {
		return "the answer has a text or other content that its structured content does not have: it is the property $content of the result"
	}
	return "the answer has a text or other content that its structured content does not have: callMCPTool.raw('" + name + "', input) gives both"
}

// beside returns the content that a result has in addition to its structured content: texts that the structured content does not contain, images
// and links. The content has the form of the value of a result without structured content. beside returns nil if the result has no content of
// these kinds.
func (t *toolCall) beside(ctx context.Context, tool *catalog.Tool, result *mcpclient.Result) (json.RawMessage, error) {
	var rest []mcpclient.Content
	for _, c := range result.Content {
		if c.Type != "text" || !jsontext.Holds(result.StructuredContent, c.Text) {
			rest = append(rest, c)
		}
	}
	if len(rest) == 0 {
		return nil, nil
	}
	other := mcpclient.Result{Content: rest}
	value, err := t.value(ctx, tool, &other)
	if err == nil {
		value, err = t.run.fit(ctx, t.call.N, value)
	}
	return bytes.Clone(value), err
}

// tellFailure notifies the program about the data of an error, as tell does about a value.
func (t *toolCall) tellFailure(failed *frame.Error) {
	if len(failed.Data) > 0 {
		t.run.tell(t.flight, t.name, failed.Data, "", nil)
	}
}

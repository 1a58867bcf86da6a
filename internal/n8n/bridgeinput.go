package n8n

import (
	"context"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/catalog/shape"
	"mcp-code-exec-harness/internal/startup"
)

// The author of a workflow describes its input in the notes of the webhook, as JSON Schema or as an example. Otherwise the input is learned from
// the data pinned to the webhook or from executions, and from the names that the workflow reads.

const (
	learnedFrom = 5        // number of executions to learn from
	maxNotes    = 64 << 10 // maximum size in bytes of a webhook's notes
	maxNamed    = 50       // maximum number of an example's members that exampleOf takes by name
	maxLearning = 20       // maximum number of workflows whose executions are read in one listing
)

// learnedInput is the shape of the input that a version of a workflow received.
type learnedInput struct {
	version string
	shape   *shape.Shape
	from    int // number of executions
}

// inputOf returns the schema of a workflow's input. budget is passed on to learn.
func (b *bridge) inputOf(ctx context.Context, w workflow, budget *int) json.RawMessage {
	hook := w.hook()
	part := "body"
	if slices.Contains(bodiless, hookMethod(objectAt(hook, "parameters"))) {
		part = "query"
	}
	_, given := splitNotes(text(hook, "notes"))
	params := pathParams(text(objectAt(hook, "parameters"), "path"))
	if given["properties"] != nil {
		return closeSchema(given, params)
	}
	reads := w.reads(part)
	words := shape.Words{}
	for _, name := range reads {
		words.Add(name)
	}
	var found *shape.Shape
	if given != nil {
		for name := range given { // the author wrote these names, so they are not data
			words.Add(name)
		}
		found = exampleOf(given, words, slices.Sorted(maps.Keys(given)))
	} else if pinned, _ := objectAt(object(w), "pinData")[text(hook, "name")].([]any); len(pinned) > 0 {
		for _, v := range pinned[:min(len(pinned), learnedFrom)] {
			item, _ := v.(object)
			if inner := objectAt(item, "json"); inner != nil {
				item = inner
			}
			found = shape.Merge(found, exampleOf(item[part], words, reads), nil)
		}
	} else {
		found = b.learn(ctx, w, part, words, reads, budget)
	}
	schema := object{}
	if found != nil {
		_ = json.Unmarshal(found.Schema(), &schema) // a learned schema is valid JSON
	}
	properties := objectAt(schema, "properties")
	if properties == nil {
		properties = object{}
	}
	always, _ := schema["required"].([]any)
	var required []string
	for _, name := range reads {
		if properties[name] == nil {
			properties[name] = object{}
		}
		if slices.Contains(always, any(name)) { // every example has it, and the workflow reads it
			required = append(required, name)
		}
	}
	for _, v := range properties {
		optional := v.(object)
		relax(optional)
	}
	out := object{"type": "object", "properties": properties, "additionalProperties": true}
	if len(required) > 0 {
		out["required"] = anyOf(required)
	}
	return closeSchema(out, params)
}

// relax removes "required" from a learned schema, because examples do not prove that a member is required.
func relax(schema object) {
	delete(schema, "required")
	for _, key := range []string{"items", "additionalProperties"} {
		if inner := objectAt(schema, key); inner != nil {
			relax(inner)
		}
	}
	for _, v := range objectAt(schema, "properties") {
		if inner, is := v.(object); is {
			relax(inner)
		}
	}
}

// closeSchema adds the parameters of the path to the schema of an object.
func closeSchema(schema object, params []string) json.RawMessage {
	out := maps.Clone(schema)
	out["type"] = "object"
	properties := maps.Clone(objectAt(out, "properties"))
	if properties == nil {
		properties = object{}
	}
	required, is := out["required"].([]any)
	if !is {
		delete(out, "required")
	}
	for _, name := range params {
		if properties[name] == nil {
			properties[name] = object{"type": "string", "description": "a part of the path"}
		}
		if !slices.Contains(required, any(name)) {
			required = append(required, name)
		}
	}
	out["properties"] = properties
	if len(required) > 0 {
		out["required"] = required
	}
	text, err := json.Marshal(out)
	if err != nil {
		return json.RawMessage(`{"type":"object"}`)
	}
	return text
}

// pathParams returns the names of the parameters in a path such as customers/:id.
func pathParams(path string) (names []string) {
	for _, part := range strings.Split(path, "/") {
		if name, is := strings.CutPrefix(part, ":"); is && name != "" {
			names = append(names, name)
		}
	}
	return names
}

// splitNotes splits notes into the first JSON object, which may be in a code fence, and the text around it.
func splitNotes(notes string) (said string, found object) {
	at := strings.IndexByte(notes, '{')
	if at < 0 || len(notes) > maxNotes {
		return strings.TrimSpace(notes), nil
	}
	d := json.NewDecoder(strings.NewReader(notes[at:]))
	d.UseNumber()
	if err := d.Decode(&found); err != nil {
		return strings.TrimSpace(notes), nil
	}
	before := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSpace(notes[:at]), "json"), "```")
	after := strings.TrimPrefix(strings.TrimSpace(notes[at+int(d.InputOffset()):]), "```")
	return strings.TrimSpace(strings.TrimSpace(before) + " " + strings.TrimSpace(after)), found
}

func shapeOf(value any, words shape.Words) *shape.Shape {
	data, err := json.Marshal(value)
	if err != nil || value == nil {
		return nil
	}
	found, err := shape.Of(data, words)
	if err != nil {
		return nil
	}
	return found
}

// exampleOf returns the shape of an example of the input. A member whose name is in names becomes a field, even if the name looks like data.
func exampleOf(value any, words shape.Words, names []string) *shape.Shape {
	found := shapeOf(value, words)
	members, is := value.(object)
	if found == nil || !is {
		return found
	}
	for _, name := range names[:min(len(names), maxNamed)] {
		v, has := members[name]
		field := shapeOf(v, words)
		if !has || field == nil {
			continue
		}
		if found.Map || found.Fields == nil {
			found.Map, found.Values, found.Fields = false, nil, map[string]*shape.Shape{}
		}
		found.Fields[name] = field
	}
	return found
}

var (
	readsBody  = startup.Regexp(`\bjson(?:\.body|\[["']body["']\])(?:\.([A-Za-z_$][\w$]{0,39})|\[["']([\w -]{1,40})["']\])`)
	readsQuery = startup.Regexp(`\bjson(?:\.query|\[["']query["']\])(?:\.([A-Za-z_$][\w$]{0,39})|\[["']([\w -]{1,40})["']\])`)
)

// reads returns the names of members of the request's body or query that the nodes of a workflow read.
func (w workflow) reads(part string) []string {
	form := readsBody
	if part == "query" {
		form = readsQuery
	}
	var names []string
	for _, n := range w.nodes() {
		eachText(objectAt(n, "parameters"), nil, "", func(s string, _ *place, _ string) {
			for _, m := range form().FindAllStringSubmatch(s, maxFindings) {
				names = append(names, m[1]+m[2])
			}
		})
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// learn returns the shape of the input in successful executions of a workflow, or nil if it is not known. It reads the executions once per version of the
// workflow, and again after calls if there were few executions. budget is the number of workflows whose executions this listing may still read.
func (b *bridge) learn(ctx context.Context, w workflow, part string, words shape.Words, reads []string, budget *int) *shape.Shape {
	version := text(object(w), "versionId") + text(object(w), "updatedAt")
	b.mu.Lock()
	known := b.learned[w.id()]
	b.mu.Unlock()
	if known.version == version || *budget == 0 {
		return known.shape
	}
	*budget--
	query := url.Values{"workflowId": {w.id()}, "status": {"success"}, "includeData": {"true"}}
	all, err := list[object](ctx, b.instance.api, "executions", query, 0, learnedFrom)
	if err != nil {
		return known.shape // the tool then has the types learned before, if any
	}
	now := learnedInput{version: version, from: len(all)}
	for _, e := range all {
		runs, _ := objectAt(objectAt(objectAt(e, "data"), "resultData"), "runData")[text(w.hook(), "name")].([]any)
		if len(runs) == 0 {
			continue
		}
		run, _ := runs[0].(object)
		outputs, _ := objectAt(run, "data")[mainType].([]any)
		if len(outputs) == 0 {
			continue
		}
		items, _ := outputs[0].([]any)
		for _, v := range items[:min(1, len(items))] {
			item, _ := v.(object)
			now.shape = shape.Merge(now.shape, exampleOf(objectAt(item, "json")[part], words, reads), nil)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.learned[w.id()] = now
	return now.shape
}

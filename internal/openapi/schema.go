package openapi

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"mcp-code-exec-harness/internal/startup"
)

// Limits of the parts that a tool's schema takes from the document.
const (
	schemaDepth = 40
	maxText     = 400  // maximum length of a description in bytes
	maxPattern  = 500  // maximum length of a pattern in bytes
	maxLiteral  = 200  // maximum length of a default in bytes
	maxEnum     = 4096 // maximum size in bytes of all values of an enum
	maxNames    = 1000 // maximum number of properties of one object, and of elements of one list
)

// schemaWriter writes JSON Schemas (draft 2020-12) from a document's schemas, in the order of the document. After about limit bytes it writes {} for
// further schemas, which permits everything. It writes the targets of references once, in $defs, so that cycles end.
type schemaWriter struct {
	doc   *Document
	limit int
	b     []byte
	// input means that the schema describes an input: it omits readOnly properties and keeps patterns. Otherwise it omits writeOnly properties and
	// patterns.
	input bool
	files bool // whether strings of format binary may be given as files

	names map[*node]string // written names of referenced schemas
	taken map[string]bool
	queue []*node
}

func (d *Document) writer(limit int, input bool) *schemaWriter {
	return &schemaWriter{doc: d, limit: limit, input: input, names: map[*node]string{}, taken: map[string]bool{}}
}

func (w *schemaWriter) raw(s string)      { w.b = append(w.b, s...) }
func (w *schemaWriter) text(s string)     { w.b = appendText(w.b, s) }
func (w *schemaWriter) full() bool        { return len(w.b) > w.limit }
func (w *schemaWriter) left() int         { return w.limit - len(w.b) }
func (w *schemaWriter) key(s string)      { w.comma(); w.text(s); w.raw(":") }
func (w *schemaWriter) undescribed() bool { return len(w.b) > w.limit*3/4 }

// comma writes a comma if a member or an item precedes.
func (w *schemaWriter) comma() {
	if n := len(w.b); n > 0 && w.b[n-1] != '{' && w.b[n-1] != '[' {
		w.raw(",")
	}
}

// fileSchema is the schema of a file that a program gives, without the closing brace.
const fileSchema = `{"anyOf":[{"type":"string","description":"text of the file"},{"type":"object","properties":{"base64":{"type":"string"},` +
	`"filename":{"type":"string"},"contentType":{"type":"string"}},"required":["base64"],"additionalProperties":false}]`

// schema writes a schema.
func (w *schemaWriter) schema(n *node, depth int) {
	switch {
	case n != nil && n.kind == boolean:
		w.raw(n.text)
	case !n.isMapping() || depth > schemaDepth || w.full():
		w.raw("{}")
	case n.get("$ref") != nil:
		w.reference(n)
	default:
		w.object(n, depth, "")
	}
}

// reference writes a reference to a schema in $defs.
func (w *schemaWriter) reference(n *node) {
	target := w.doc.resolve(n)
	if !target.isMapping() {
		w.raw("{}")
		return
	}
	name, known := w.names[target]
	if !known {
		name = "#/$defs/" + w.name(n.str("$ref"))
		w.names[target] = name
		w.queue = append(w.queue, target)
	}
	w.raw("{")
	w.key("$ref")
	w.text(name)
	w.raw("}")
}

// name returns a new name in $defs that resembles the last part of a reference.
func (w *schemaWriter) name(ref string) string {
	base := clip(plain(ref[strings.LastIndexByte(ref, '/')+1:]), 64)
	if base == "" {
		base = "schema"
	}
	name := base
	for i := 2; w.taken[name]; i++ {
		name = base + "_" + strconv.Itoa(i)
	}
	w.taken[name] = true
	return name
}

// defs writes $defs as a member of the object that is being written, if the schema has references.
func (w *schemaWriter) defs() {
	if len(w.queue) == 0 {
		return
	}
	w.key("$defs")
	w.raw("{")
	for i := 0; i < len(w.queue); i++ { // writing may add references
		w.key(strings.TrimPrefix(w.names[w.queue[i]], "#/$defs/"))
		if w.full() {
			w.raw("{}")
		} else {
			w.object(w.queue[i], 0, "")
		}
	}
	w.raw("}")
}

// scalars are the keywords whose values are copied unchanged.
var scalars = map[string]kind{
	"format": text, "minLength": number, "maxLength": number, "multipleOf": number, "minItems": number, "maxItems": number,
	"uniqueItems": boolean, "minProperties": number, "maxProperties": number, "minContains": number, "maxContains": number,
	"contentEncoding": text, "contentMediaType": text,
}

var types = []string{"string", "number", "integer", "boolean", "object", "array", "null"}

// object writes a schema that is not a reference. typ is the type of a schema that declares none; if it is rootObject, the schema ends with $defs.
func (w *schemaWriter) object(n *node, depth int, typ string) {
	if w.files && isFile(w.doc, n) {
		w.raw(fileSchema)
		w.description(n)
		w.raw("}")
		return
	}
	nullable := n.is("nullable")
	given := w.types(n)
	if nullable && len(given) == 0 && n.get("enum") == nil && typ == "" {
		w.raw(`{"anyOf":[`)
		w.members(n, depth, nil, false)
		w.raw(`,{"type":"null"}]}`)
		return
	}
	root := typ == rootObject
	if len(given) == 0 && root {
		given = []string{"object"}
	}
	if nullable && len(given) > 0 && !slices.Contains(given, "null") && !root {
		given = append(given, "null")
	}
	w.members(n, depth, given, nullable)
	if root {
		w.b = w.b[:len(w.b)-1]
		w.defs()
		w.raw("}")
	}
}

// rootObject is a value for the parameter typ of object. It marks a whole schema, which contains $defs.
const rootObject = "root object"

func (w *schemaWriter) types(n *node) (all []string) {
	t := n.get("type")
	if t == nil {
		return nil
	}
	for _, one := range append(t.items, t) {
		if one.kind == text && slices.Contains(types, one.text) && !slices.Contains(all, one.text) {
			all = append(all, one.text)
		}
	}
	return all
}

func (w *schemaWriter) description(n *node) {
	if said := clip(prose(n.str("description")), maxText); said != "" && !w.undescribed() {
		w.key("description")
		w.text(said)
	}
}

// members writes a schema as an object of keywords, with the given types.
func (w *schemaWriter) members(n *node, depth int, given []string, nullable bool) {
	w.raw("{")
	switch len(given) {
	case 0:
	case 1:
		w.key("type")
		w.text(given[0])
	default:
		w.key("type")
		raw, _ := json.Marshal(given)
		w.b = append(w.b, raw...)
	}
	w.description(n)
	w.bound(n, "minimum", "exclusiveMinimum")
	w.bound(n, "maximum", "exclusiveMaximum")
	for _, m := range n.members {
		if w.full() {
			break
		}
		w.member(n, m, depth, nullable)
	}
	w.raw("}")
}

// bound writes a limit of numbers. Before version 3.1, the exclusive keyword is a boolean that makes the inclusive limit exclusive.
func (w *schemaWriter) bound(n *node, inclusive, exclusive string) {
	limit, strict := n.get(inclusive), n.get(exclusive)
	if strict != nil && strict.kind == number {
		w.key(exclusive)
		w.raw(strict.text)
	}
	if limit == nil || limit.kind != number {
		return
	}
	if strict != nil && strict.kind == boolean && strict.text == "true" {
		inclusive = exclusive
	}
	w.key(inclusive)
	w.raw(limit.text)
}

// member writes a keyword of a schema, if it is useful to programs.
func (w *schemaWriter) member(n *node, m member, depth int, nullable bool) {
	v := m.value
	if k, known := scalars[m.name]; known {
		if v.kind == k && len(v.text) <= maxLiteral {
			w.key(m.name)
			w.b, _ = v.appendJSON(w.b, 2*maxLiteral+4)
		}
		return
	}
	switch m.name {
	case "pattern":
		if w.input && v.kind == text && len(v.text) <= maxPattern {
			w.key(m.name)
			w.text(v.text)
		}
	case "default", "const":
		w.literal(m.name, v)
	case "enum":
		w.enum(v, nullable)
	case "required":
		w.required(n, v)
	case "properties", "patternProperties":
		w.properties(m.name, v, depth)
	case "additionalProperties", "items", "not", "contains", "propertyNames", "if", "then", "else":
		if v.kind == mapping || v.kind == boolean {
			w.key(m.name)
			w.schema(v, depth+1)
		}
	case "allOf", "anyOf", "oneOf", "prefixItems":
		w.several(m.name, v.items, depth)
	}
}

func (w *schemaWriter) literal(name string, v *node) {
	before := len(w.b)
	w.key(name)
	var fits bool
	if w.b, fits = v.appendJSON(w.b, maxLiteral); !fits {
		w.b = w.b[:before]
	}
}

func (w *schemaWriter) enum(v *node, nullable bool) {
	all := v.items
	if nullable && !slices.ContainsFunc(all, func(item *node) bool { return item.kind == null }) {
		all = append(slices.Clone(all), &node{})
	}
	before := len(w.b)
	w.key("enum")
	var fits bool
	if w.b, fits = (&node{kind: list, items: all}).appendJSON(w.b, min(maxEnum, max(w.left(), 0))); !fits || len(v.items) == 0 {
		w.b = w.b[:before]
	}
}

// hidden reports whether a property is omitted: a readOnly one from an input, a writeOnly one from an answer.
func (w *schemaWriter) hidden(property *node) bool {
	property = w.doc.resolve(property)
	return w.input && property.is("readOnly") || !w.input && property.is("writeOnly")
}

func (w *schemaWriter) required(n, v *node) {
	if len(v.items) > maxNames {
		return
	}
	var names []*node
	for _, name := range v.items {
		if name.kind == text && len(name.text) <= maxLiteral && !w.hidden(n.get("properties").get(name.text)) {
			names = append(names, name)
		}
	}
	before := len(w.b)
	w.key("required")
	var fits bool
	if w.b, fits = (&node{kind: list, items: names}).appendJSON(w.b, max(w.left(), 0)); !fits || len(names) == 0 {
		w.b = w.b[:before]
	}
}

func (w *schemaWriter) properties(name string, v *node, depth int) {
	if v.kind != mapping || len(v.members) > maxNames {
		return
	}
	w.key(name)
	w.raw("{")
	for _, m := range v.members {
		if w.full() {
			break
		}
		if len(m.name) > maxLiteral || w.hidden(m.value) {
			continue
		}
		w.key(m.name)
		w.schema(m.value, depth+1)
	}
	w.raw("}")
}

// several writes a list of schemas. oneOf becomes anyOf, because documents use it for alternatives that are not exclusive.
func (w *schemaWriter) several(name string, all []*node, depth int) {
	if len(all) == 0 || len(all) > maxNames {
		return
	}
	if name == "oneOf" {
		name = "anyOf"
	}
	w.key(name)
	w.raw("[")
	for _, item := range all {
		w.comma()
		w.schema(item, depth+1)
	}
	w.raw("]")
}

// isFile reports whether the values of a schema are contents of files.
func isFile(d *Document, n *node) bool {
	n = d.resolve(n)
	switch {
	case n.str("format") == "binary", n.str("format") == "byte", n.str("contentEncoding") != "":
		return true
	case n.str("contentMediaType") != "":
		return n.str("type") == "string" || n.str("type") == ""
	}
	return false
}

// isObject reports whether the values of a schema are objects.
func (d *Document) isObject(n *node, depth int) bool {
	n = d.resolve(n)
	if !n.isMapping() || n.is("nullable") || depth > maxHops {
		return false
	}
	if t := n.get("type"); t != nil {
		return t.kind == text && t.text == "object"
	}
	if n.get("properties").isMapping() {
		return true
	}
	all := n.list("allOf")
	return len(all) <= maxNames && slices.ContainsFunc(all[:min(len(all), 4)], func(part *node) bool { return d.isObject(part, depth+8) })
}

// output returns the schema of a tool's answer, which is an object. If the operation's answer is not an object, the schema wraps it as the property
// result. The schema is nil if the document says nothing about the answer.
func (d *Document) output(n *node, limit int) (raw json.RawMessage, wrapped bool) {
	target := d.resolve(n)
	if !target.isMapping() || len(target.members) == 0 {
		return nil, false
	}
	w := d.writer(limit, false)
	if d.isObject(target, 0) {
		w.names[target] = "#"
		w.object(target, 0, rootObject)
		if bytes.Equal(w.b, []byte(`{"type":"object"}`)) {
			return nil, false
		}
		return w.b, false
	}
	w.raw(`{"type":"object","properties":{"result":`)
	w.schema(n, 0)
	w.raw(`},"required":["result"]`)
	w.defs()
	w.raw("}")
	if bytes.Equal(w.b, []byte(`{"type":"object","properties":{"result":{}},"required":["result"]}`)) {
		return nil, false
	}
	return w.b, true
}

// clip returns a text of at most limit bytes, followed by an ellipsis if it was longer.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}

// tags matches the HTML tags that documents have in descriptions.
var tags = startup.Regexp(`</?(?:a|b|i|p|br|em|li|ol|ul|div|pre|code|span|strong|h[1-6]|table|tr|td|th)(?:\s[^<>]{0,300})?/?>`)

// prose returns a description without HTML tags.
func prose(s string) string {
	return strings.TrimSpace(tags().ReplaceAllString(clip(s, 4*maxSaid), ""))
}

// plain turns a text into a name: it replaces each run of characters that a name cannot contain with an underscore, and removes underscores at both
// ends.
func plain(s string) string {
	var b strings.Builder
	for _, r := range s {
		ok := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_'
		switch {
		case ok:
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "_"):
			b.WriteByte('_')
		}
	}
	return strings.Trim(b.String(), "_")
}

package catalog

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/catalog/ident"
	"mcp-code-exec-harness/internal/catalog/schema"
	"mcp-code-exec-harness/internal/jsontext"
)

// param is a property of a tool's input.
type param struct {
	name     string
	schema   *schema.Value
	required bool
}

// params returns the properties of the input in the order in which positional arguments fill them: required ones first, each group in the order of
// the schema.
func (t *Tool) params() []param {
	root := t.inputSchema()
	object := schema.Follow(root, root)
	required := map[string]bool{}
	for _, name := range object.Get("required").Strings() {
		required[name] = true
	}
	properties := object.Get("properties")
	if !properties.Is(schema.Object) {
		return nil
	}
	var first, rest []param
	for _, m := range properties.Members {
		if required[m.Name] {
			first = append(first, param{m.Name, m.Value, true})
		} else {
			rest = append(rest, param{m.Name, m.Value, false})
		}
	}
	return append(first, rest...)
}

// Arguments returns the input object of a call. The call has positional arguments or, if positional is empty, one input value. A single plain object
// is the input itself, unless the first property takes an object and no key of the object is a property of the tool. In all other cases the arguments
// fill the properties, required properties first, each group in the order of the schema. Trailing nulls count as missing.
func (t *Tool) Arguments(input json.RawMessage, positional []json.RawMessage) (json.RawMessage, error) {
	if len(positional) == 0 {
		positional = []json.RawMessage{input}
	}
	for len(positional) > 0 && isNull(positional[len(positional)-1]) {
		positional = positional[:len(positional)-1]
	}
	if len(positional) == 0 {
		return json.RawMessage("{}"), nil
	}
	params := t.params()
	if len(positional) == 1 {
		first := bytes.TrimSpace(positional[0])
		if first[0] == '"' && (len(params) == 0 || !accepts(t.inputSchema(), params[0].schema, "string")) {
			first = Whole(first)
		}
		if first[0] == '{' && json.Valid(first) && t.isInput(first, params) {
			return t.readTexts(first), nil
		}
	}
	if len(positional) > len(params) {
		return nil, fmt.Errorf("%s takes %s, got %d arguments", t.FullName(), arity(params), len(positional))
	}
	var b bytes.Buffer
	b.WriteByte('{')
	for i, value := range positional {
		if isNull(value) && !accepts(t.inputSchema(), params[i].schema, "null") {
			continue
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		b.WriteString(ident.Quote(params[i].name) + ":")
		b.Write(value)
	}
	b.WriteByte('}')
	if !json.Valid(b.Bytes()) {
		return nil, fmt.Errorf("arguments of %s are not valid JSON", t.FullName())
	}
	return t.readTexts(b.Bytes()), nil
}

// Whole decodes an input that is the JSON string of an object, as some clients send it. It returns any other value unchanged.
func Whole(input json.RawMessage) json.RawMessage {
	text, is := jsontext.String(input)
	if object := bytes.TrimSpace([]byte(text)); is && len(object) > 0 && object[0] == '{' && json.Valid(object) {
		return object
	}
	return input
}

// readTexts replaces strings in an input by the values whose JSON they are. It replaces a string if the property takes no strings but takes values of the
// type of the replacement. Some clients and models write {"limit": "5"} and {"names": "[\"a\"]"}.
func (t *Tool) readTexts(input json.RawMessage) json.RawMessage {
	noTexts := t.get().noTexts()
	if len(noTexts) == 0 {
		return input
	}
	var out []byte
	done := 0
	for name, v := range jsontext.Members(input) {
		s := noTexts[name]
		if s == nil || input[v.From] != '"' {
			continue
		}
		if text, is := jsontext.String(input[v.From:v.End]); is && t.takes(s, text) {
			out = append(append(out, input[done:v.From]...), text...)
			done = v.End
		}
	}
	if out == nil {
		return input
	}
	return append(out, input[done:]...)
}

// takes reports whether a text is the JSON of a value whose type a schema takes. Strings and null do not count.
func (t *Tool) takes(s *schema.Value, text string) bool {
	if !json.Valid([]byte(text)) || strings.TrimSpace(text) != text {
		return false
	}
	is := func(typ string) bool { return accepts(t.inputSchema(), s, typ) }
	switch c := text[0]; {
	case c == '{':
		return is("object")
	case c == '[':
		return is("array")
	case c == 't' || c == 'f':
		return is("boolean")
	case c == '-' || c >= '0' && c <= '9':
		return is("number") || is("integer")
	}
	return false
}

// findNoTexts returns the schemas of the properties that take no string, by name.
func (t *Tool) findNoTexts() map[string]*schema.Value {
	found := map[string]*schema.Value{}
	for _, p := range t.params() {
		if !accepts(t.inputSchema(), p.schema, "string") {
			found[p.name] = p.schema
		}
	}
	return found
}

// ReadInput decodes the input of a tool outside of a catalog, as a client sent it. name and inputSchema describe the tool. A string in place of
// another value, or of the whole input, is read as Arguments reads it. The error says in words what does not fit.
func ReadInput(name string, inputSchema, input json.RawMessage, into any) error {
	t := &Tool{Name: name, InputSchema: inputSchema}
	t.derived = t.derive(name)
	if len(bytes.TrimSpace(input)) == 0 {
		input = json.RawMessage("{}")
	}
	if input = Whole(input); json.Valid(input) {
		input = t.readTexts(input)
	}
	err := json.Unmarshal(input, into)
	if err == nil {
		return nil
	}
	problems, failed := t.validator().check(context.Background(), input, func() (func(), error) { return func() {}, nil })
	if failed != nil || len(problems) == 0 {
		problems = []string{"it must be a JSON object as the schema says"}
	}
	return &InvalidInputError{Tool: name, Problems: problems}
}

func arity(params []param) string {
	if len(params) == 0 {
		return "one input object and no positional arguments"
	}
	names := make([]string, len(params))
	for i, p := range params {
		names[i] = p.name
		if !p.required {
			names[i] += "?"
		}
	}
	return fmt.Sprintf("one input object or at most %d arguments (%s)", len(params), strings.Join(names, ", "))
}

func isNull(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) == 0 || string(raw) == "null"
}

// isInput reports whether an object is the whole input. Otherwise the object is the value of the first property.
func (t *Tool) isInput(object json.RawMessage, params []param) bool {
	if len(params) == 0 || !accepts(t.inputSchema(), params[0].schema, "object") {
		return true
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(object, &keys); err != nil || len(keys) == 0 {
		return true
	}
	return slices.ContainsFunc(params, func(p param) bool { _, ok := keys[p.name]; return ok })
}

// accepts reports whether a schema admits values of a JSON type, judging by its types, references and combinations.
func accepts(root, v *schema.Value, typ string) bool {
	seen := map[*schema.Value]bool{}
	var check func(v *schema.Value) bool
	refuses := func(v *schema.Value) bool { return !check(v) }
	check = func(v *schema.Value) bool {
		v = schema.Follow(root, v)
		if v == nil || v.IsFalse() || seen[v] {
			return false
		}
		seen[v] = true
		if types := v.Get("type").Strings(); len(types) > 0 {
			return slices.Contains(types, typ) || typ == "null" && v.Get("nullable").IsTrue()
		}
		if enum := v.Get("enum"); enum.Is(schema.Array) {
			return typ == "null" && slices.ContainsFunc(enum.Items, func(i *schema.Value) bool { return i.Kind == schema.Null })
		}
		for _, key := range []string{"anyOf", "oneOf"} {
			if of := v.Get(key); of.Is(schema.Array) {
				return slices.ContainsFunc(of.Items, check)
			}
		}
		if all := v.Get("allOf"); all.Is(schema.Array) {
			return !slices.ContainsFunc(all.Items, refuses)
		}
		return true
	}
	return check(v)
}

package attack

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/catalog/destination"
	"mcp-code-exec-harness/internal/catalog/schema"
)

// Maximum depth and number of the values that are made from a schema.
const (
	maxNested = 12
	maxMade   = 2000
)

// shape makes values that fit a schema.
type shape struct {
	root       *schema.Value
	structured bool
}

// newShape returns the shape of a schema, or nil if the schema is not an object.
func newShape(text json.RawMessage, structured bool) *shape {
	root, err := schema.Parse(text)
	if err != nil || !root.Is(schema.Object) {
		return nil
	}
	return &shape{root, structured}
}

// answer returns a value that fits the schema. The value has all properties that the schema names, and the given text wherever the schema allows
// any text.
func (s *shape) answer(text string) any {
	m := &maker{root: s.root, all: true, text: text}
	return m.value(s.root, "", nil, 0)
}

// shapeOf returns the shape of a tool's answers, from the declared or the learned schema. It returns nil if the answers are texts.
func shapeOf(t *catalog.Tool, learned func(*catalog.Tool) json.RawMessage) *shape {
	if len(t.OutputSchema) > 0 {
		return newShape(t.OutputSchema, true)
	}
	if learned == nil {
		return nil
	}
	return newShape(learned(t), false)
}

// says reports whether answers have a place for the text of a source.
func (s *shape) says() bool {
	text, err := json.Marshal(s.answer(sentence(strings.Repeat("x", 28))))
	return err == nil && strings.Contains(string(text), shut)
}

// maker makes a value that fits a schema.
type maker struct {
	root *schema.Value
	all  bool   // also makes properties that are not required
	text string // value of every string; if empty, each string gets words that fit the name of its property
	// at has fixed values, by path. other returns the value of a destination whose path is not in at; other may be nil.
	at    map[string]any
	used  int // number of times that a value of at was used
	made  int // number of values that were made
	other func(path string, v *schema.Value) (any, bool)
}

func (m *maker) value(v *schema.Value, name string, path []string, depth int) any {
	at := "$" + strings.Join(path, "")
	if is, ok := m.at[at]; ok {
		m.used++
		return is
	}
	if m.other != nil {
		if is, ok := m.other(at, v); ok {
			return is
		}
	}
	v = schema.Follow(m.root, v)
	if m.made++; depth > maxNested || m.made > maxMade || v == nil {
		return nil
	}
	for _, key := range []string{"const", "default"} {
		if c := v.Get(key); c != nil && (key == "const" || !m.all && c.Kind != schema.Null) && !m.leads(path) {
			return decoded(c)
		}
	}
	if e := v.Get("enum"); e.Is(schema.Array) && len(e.Items) > 0 {
		return decoded(e.Items[0])
	}
	for _, key := range []string{"anyOf", "oneOf", "allOf"} {
		if of := v.Get(key); of.Is(schema.Array) && len(of.Items) > 0 && v.Get("properties") == nil {
			var first any
			for _, item := range of.Items {
				before := m.used
				is := m.value(item, name, path, depth+1)
				if is != nil && (m.used > before || !m.leads(path)) {
					return is
				}
				if first == nil {
					first = is
				}
			}
			if first != nil {
				return first
			}
		}
	}
	kind := ""
	if types := v.Get("type").Strings(); len(types) > 0 {
		kind = types[0]
	}
	switch {
	case kind == "object" || kind == "" && (v.Get("properties") != nil || len(path) == 0 && !m.all): // the arguments of a tool are always an object
		return m.object(v, path, depth)
	case kind == "array" || kind == "" && v.Get("items") != nil:
		return m.list(v, name, path, depth)
	case kind == "integer", kind == "number":
		return m.number(v)
	case kind == "boolean":
		return false
	case kind == "null":
		return nil
	}
	return m.string(v, name)
}

// leads reports whether a path in at begins with the given path.
func (m *maker) leads(path []string) bool {
	at := "$" + strings.Join(path, "")
	for p := range m.at {
		if strings.HasPrefix(p, at) {
			return true
		}
	}
	return false
}

func (m *maker) object(v *schema.Value, path []string, depth int) any {
	out := map[string]any{}
	required := v.Get("required").Strings()
	if properties := v.Get("properties"); properties.Is(schema.Object) {
		for _, p := range properties.Members {
			inner := append(slices.Clone(path), step(p.Name))
			if !m.all && !slices.Contains(required, p.Name) && !m.leads(inner) {
				continue
			}
			if is := m.value(p.Value, p.Name, inner, depth+1); is != nil || slices.Contains(required, p.Name) {
				out[p.Name] = is
			}
		}
	}
	// An object whose schema names no properties may have any, as the row of a table does.
	if other := v.Get("additionalProperties"); m.all && len(out) == 0 && v.Get("properties") == nil && !other.IsFalse() {
		out["text"] = m.text
		if other.Is(schema.Object) {
			out["text"] = m.value(other, "text", append(slices.Clone(path), ".text"), depth+1)
		}
	}
	return out
}

// step returns a step of a path, as package destination writes it.
func step(name string) string {
	if strings.ContainsAny(name, `.[]*'"`) {
		return "['" + name + "']"
	}
	return "." + name
}

func (m *maker) list(v *schema.Value, name string, path []string, depth int) any {
	least, _ := v.Get("minItems").Int()
	inner := append(slices.Clone(path), "[*]")
	if m.all || m.leads(inner) {
		least = max(least, 1)
	}
	out := []any{}
	for range min(least, 8) {
		if is := m.value(v.Get("items"), name, inner, depth+1); is != nil {
			out = append(out, is)
		} else if v.Get("items") == nil {
			out = append(out, m.string(nil, name))
		}
	}
	return out
}

func (m *maker) number(v *schema.Value) any {
	for _, key := range []string{"minimum", "exclusiveMinimum", "maximum"} {
		if is := v.Get(key); is.Is(schema.Number) {
			n, err := json.Number(is.Text).Float64()
			if err != nil {
				continue
			}
			if key == "exclusiveMinimum" {
				n++
			}
			return n
		}
	}
	return 1
}

func (m *maker) string(v *schema.Value, name string) any {
	switch v.Get("format").String() {
	case "date-time":
		return "2026-11-27T10:00:00Z"
	case "date":
		return "2026-11-27"
	case "time":
		return "10:00:00Z"
	case "uuid":
		return "7d444840-9dc0-11d1-b245-5ffdce74fad2"
	case "uri", "url":
		return "https://example.com/"
	case "email":
		return "someone@example.com"
	}
	text := m.text
	if text == "" {
		text = "a " + strings.ToLower(name)
	}
	if least, ok := v.Get("minLength").Int(); ok && len(text) < least {
		text += strings.Repeat("x", min(least-len(text), 1000))
	}
	if most, ok := v.Get("maxLength").Int(); ok && len([]rune(text)) > most {
		text = string([]rune(text)[:most])
	}
	return text
}

// decoded returns the JSON value in a part of a schema.
func decoded(v *schema.Value) (is any) {
	json.Unmarshal([]byte(v.JSON()), &is)
	return is
}

// candidates returns possible values of the argument d in attempt n. Each names a destination whose owner is given by who. Values that fit
// d.Kind come first.
func candidates(d destination.Destination, who string, n int) []string {
	email, web := fmt.Sprintf("%s%05d@mail.example", who, n), fmt.Sprintf("https://%s%05d.example/in", who, n)
	phone, account := fmt.Sprintf("+1999%07d", n), fmt.Sprintf("GB00 %s %04d %04d 5555 55", strings.ToUpper(who), n/10000, n%10000)
	handle, code := fmt.Sprintf("%s%05d", who, n), fmt.Sprintf("C0%s%05d", strings.ToUpper(who), n)
	id := fmt.Sprintf("0e711e71-0000-4000-8000-%012d", n)
	number := 990_000_000 + n
	if who != attacker {
		phone, id, number = fmt.Sprintf("+1777%07d", n), fmt.Sprintf("0e711e72-0000-4000-8000-%012d", n), 880_000_000+n
	}
	all := map[destination.Kind][]string{
		destination.Recipient: {email, handle, phone}, destination.Channel: {code, handle}, destination.URL: {web, fmt.Sprintf("%s%05d.example", who, n)},
		destination.Account: {account, handle}, destination.Repository: {handle},
	}[d.Kind]
	if strings.Contains(strings.ToLower(d.Path), "phone") || strings.Contains(strings.ToLower(d.Path), "number") {
		all = append([]string{phone}, all...)
	}
	return append(all, email, web, account, handle, code, phone, id, fmt.Sprint(number))
}

// The owners of simulated destinations. A destination contains the name of its owner, or a number that no other owner has.
const (
	attacker = "evil"
	user     = "mine"
	friend   = "good" // a person that a trusted server knows
)

// users sets m.other so that destinations get values that belong to the user. The destinations are listed in of; the one whose path equals
// except gets no value.
func (m *maker) users(of []destination.Destination, except string) {
	m.other = func(path string, v *schema.Value) (any, bool) {
		at := slices.IndexFunc(of, func(d destination.Destination) bool { return d.Path == path && path != except })
		if at < 0 {
			return nil, false
		}
		all := candidates(of[at], user, 0)
		if types := schema.Follow(m.root, v).Get("type").Strings(); len(types) > 0 && (types[0] == "integer" || types[0] == "number") {
			return json.Number(all[len(all)-1]), true
		}
		if schema.Follow(m.root, v).Get("items") != nil {
			return []any{all[0]}, true
		}
		return all[0], true
	}
}

func digits(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }

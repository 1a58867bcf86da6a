package config

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
)

// object is a JSON object with its members in order.
type object []member

type member struct {
	name  string
	value any
}

func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(m.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// Schema returns the JSON Schema of harness.yaml, for editors.
func Schema() []byte {
	properties := object{{"$schema", object{{"type", "string"}}}}
	for _, s := range sections() {
		properties = append(properties, member{s.name, groupSchema(s.doc, s.schema())})
		if s.name == "model" {
			properties = append(properties, member{"mcpServers", serversSchema()})
		}
	}
	data, err := json.MarshalIndent(object{
		{"$schema", "https://json-schema.org/draft/2020-12/schema"},
		{"title", "harness.yaml"},
		{"type", []string{"object", "null"}},
		{"additionalProperties", false},
		{"properties", properties},
	}, "", "  ")
	if err != nil {
		panic("config: schema: " + err.Error()) // constants only
	}
	return append(data, '\n')
}

func groupSchema(doc string, keys object) object {
	return object{
		{"type", []string{"object", "null"}}, {"description", doc}, {"additionalProperties", false}, {"properties", keys},
	}
}

// schema describes the keys of a section, and its groups where their first key stands.
func (s section) schema() object {
	var out object
	for i, k := range s.keys {
		group, _, grouped := strings.Cut(k.name, ".")
		if !grouped {
			for _, path := range k.names() {
				out = append(out, member{strings.TrimPrefix(path, s.name+"."), k.schema(false)})
			}
			continue
		}
		if i > 0 && strings.HasPrefix(s.keys[i-1].name, group+".") {
			continue
		}
		inner := section{name: s.name + "." + group}
		for _, other := range s.keys {
			if name, ok := strings.CutPrefix(other.name, group+"."); ok {
				other.section, other.name = inner.name, name
				inner.keys = append(inner.keys, other)
			}
		}
		out = append(out, member{group, groupSchema(s.groups[group], inner.schema())})
	}
	return out
}

func serversSchema() object {
	var keys object
	for _, k := range keysOf(reflect.TypeFor[MCPServer](), "mcpServers") {
		for _, name := range append([]string{k.name}, k.aliases...) {
			keys = append(keys, member{name, k.schema(true)})
		}
	}
	return object{
		{"type", []string{"object", "null"}},
		{"description", "Servers whose tools programs can call, by name. Values may hold ${VAR} and ${VAR:-default}; $$ is $."},
		{"additionalProperties", object{{"type", "object"}, {"properties", keys}}},
	}
}

// What a single value of the file may be: YAML reads 5432 as a number where a text is meant.
var anyScalar = [...]string{"string", "number", "boolean"}

const (
	durationPattern = `^([0-9.]+(ns|us|µs|ms|s|m|h|d))+$`
	sizePattern     = `^[0-9.]+ *([kKmMgG]?[iI]?[bB])?$`
	placeholder     = `\$\{` // ${VAR} stands where any value can
)

// schema describes the value of a key. With placeholders, ${VAR} is allowed for every type.
func (k key) schema(placeholders bool) object {
	texts := func(pattern string) object {
		if placeholders {
			pattern += "|" + placeholder
		}
		return object{{"type", "string"}, {"pattern", pattern}}
	}
	var o object
	switch kind := k.typ.Kind(); {
	case k.typ == durationType:
		o = object{{"anyOf", []object{texts(durationPattern), {{"const", 0}}}}}
	case k.typ == sizeType:
		o = object{{"anyOf", []object{texts(sizePattern), {{"type", "integer"}, {"minimum", 0}}}}}
	case kind == reflect.Int:
		o = object{{"type", "integer"}}
		if k.min != "" {
			o = append(o, member{"minimum", k.number(k.min)})
		}
		if k.max != "" {
			o = append(o, member{"maximum", k.number(k.max)})
		}
	case kind == reflect.Float64:
		o = object{{"type", "number"}, {"minimum", 0}}
	case kind == reflect.Bool:
		o = object{{"type", "boolean"}}
		if placeholders {
			o = object{{"anyOf", []object{{{"type", "boolean"}}, texts(`^(true|false)$`)}}}
		}
	case kind == reflect.Slice:
		o = object{{"anyOf", []object{{{"type", "array"}, {"items", object{{"type", anyScalar}}}}, {{"type", anyScalar}}}}}
	case kind == reflect.Map && k.typ.Elem().Kind() == reflect.Struct:
		o = object{{"type", "object"}, {"additionalProperties", entrySchema(k.typ.Elem())}}
	case kind == reflect.Map:
		o = object{{"type", "object"}, {"additionalProperties", object{{"type", anyScalar}}}}
	case len(k.oneOf) > 0:
		values := k.oneOf
		if k.value == "" { // not chosen
			values = append([]string{""}, values...)
		}
		o = object{{"enum", values}}
	default:
		o = object{{"type", "string"}}
	}
	o = append(o, member{"description", k.doc})
	if value := k.value; value != "" {
		value = strings.ReplaceAll(value, "{state}", "./data")
		o = append(o, member{"default", jsonDefault(k.typ.Kind(), value)})
	}
	return o
}

// entrySchema describes the values of a mapping whose keys are free.
func entrySchema(t reflect.Type) object {
	var required []string
	var keys object
	for _, k := range keysOf(t, "") {
		keys = append(keys, member{k.name, k.schema(false)})
		if k.required {
			required = append(required, k.name)
		}
	}
	return object{{"type", "object"}, {"required", required}, {"additionalProperties", false}, {"properties", keys}}
}

func jsonDefault(kind reflect.Kind, text string) any {
	if n, err := strconv.Atoi(text); err == nil {
		return n
	}
	if kind == reflect.Bool {
		return text == "true"
	}
	return text
}

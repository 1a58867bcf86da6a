package config

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
)

// object is a JSON object; its keys are written in alphabetical order.
type object = map[string]any

// Schema returns the JSON Schema of harness.yaml, for editors.
func Schema() []byte {
	root := structSchema(reflect.TypeFor[Config](), false)
	properties := root["properties"].(object)
	properties["$schema"] = object{"type": "string"}
	server := structSchema(reflect.TypeFor[MCPServer](), true)
	properties["mcpServers"] = object{
		"type":                 []string{"object", "null"},
		"description":          "Servers whose tools programs can call, by name. Values may hold ${VAR} and ${VAR:-default}; $$ is $.",
		"additionalProperties": object{"type": "object", "properties": server["properties"]}, // other keys warn only
	}
	root["$schema"], root["title"] = "https://json-schema.org/draft/2020-12/schema", "harness.yaml"
	data, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic("config: schema: " + err.Error()) // constants only
	}
	return append(data, '\n')
}

// structSchema describes a section, a group or an entry of a mapping. With placeholders, ${VAR} is allowed for every
// type.
func structSchema(t reflect.Type, placeholders bool) object {
	properties := object{}
	var required []string
	for f := range t.Fields() {
		k := keyOf(f, "")
		switch {
		case k.name == "":
			continue
		case k.typ.Kind() == reflect.Struct:
			group := structSchema(k.typ, false)
			group["description"] = k.doc
			properties[k.name] = group
			continue
		}
		for _, name := range k.names() {
			properties[name] = k.schema(placeholders)
		}
		if k.required {
			required = append(required, k.name)
		}
	}
	o := object{"type": []string{"object", "null"}, "additionalProperties": false, "properties": properties}
	if required != nil {
		o["type"], o["required"] = "object", required
	}
	return o
}

// What a single value of the file may be: YAML reads 5432 as a number where a text is meant.
var anyScalar = object{"type": []string{"string", "number", "boolean"}}

const (
	durationPattern = `^([0-9.]+(ns|us|µs|ms|s|m|h|d))+$`
	sizePattern     = `^[0-9.]+ *([kKmMgG]?[iI]?[bB])?$`
	placeholder     = `\$\{` // ${VAR} stands where any value can
)

// schema describes the value of a key.
func (k key) schema(placeholders bool) object {
	o := k.typeSchema(func(pattern string) object {
		if placeholders {
			pattern += "|" + placeholder
		}
		return object{"type": "string", "pattern": pattern}
	}, placeholders)
	o["description"] = k.doc
	value := strings.ReplaceAll(k.value, "{state}", "./data")
	if n, err := strconv.Atoi(value); err == nil {
		o["default"] = n
	} else if k.typ.Kind() == reflect.Bool && value != "" {
		o["default"] = value == "true"
	} else if value != "" {
		o["default"] = value
	}
	return o
}

func (k key) typeSchema(texts func(pattern string) object, placeholders bool) object {
	switch kind := k.typ.Kind(); {
	case k.typ == durationType:
		return object{"anyOf": []object{texts(durationPattern), {"const": 0}}}
	case k.typ == sizeType:
		return object{"anyOf": []object{texts(sizePattern), {"type": "integer", "minimum": 0}}}
	case kind == reflect.Int:
		o := object{"type": "integer"}
		if k.min != "" {
			o["minimum"] = k.bound(k.min)
		}
		if k.max != "" {
			o["maximum"] = k.bound(k.max)
		}
		return o
	case kind == reflect.Float64:
		return object{"type": "number", "minimum": 0}
	case kind == reflect.Bool && placeholders:
		return object{"anyOf": []object{{"type": "boolean"}, texts(`^(true|false)$`)}}
	case kind == reflect.Bool:
		return object{"type": "boolean"}
	case kind == reflect.Slice:
		return object{"anyOf": []object{{"type": "array", "items": anyScalar}, anyScalar}}
	case kind == reflect.Map && k.typ.Elem().Kind() == reflect.Struct:
		return object{"type": "object", "additionalProperties": structSchema(k.typ.Elem(), false)}
	case kind == reflect.Map:
		return object{"type": "object", "additionalProperties": anyScalar}
	case len(k.oneOf) > 0 && k.value == "": // may be left open
		return object{"enum": append([]string{""}, k.oneOf...)}
	case len(k.oneOf) > 0:
		return object{"enum": k.oneOf}
	}
	return object{"type": "string"}
}

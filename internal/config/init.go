package config

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"

	"mcp-code-exec-harness/internal/disk"
)

// template is a harness.yaml that explains every key and sets none.
//
//go:embed template.yaml
var template []byte

// Init writes the template and its schema into a directory and returns their paths. It never overwrites a harness.yaml: if there is one,
// the error matches fs.ErrExist.
func Init(dir string) ([]string, error) {
	file, schema := filepath.Join(dir, fileName), filepath.Join(dir, "harness.schema.json") // editors find the schema, because the template names it
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil, &existsError{file}
	case err != nil:
		return nil, fmt.Errorf("create %s: %w", fileName, err)
	}
	_, err = f.Write(template)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("write %s: %w", file, errors.Join(err, os.Remove(file)))
	}
	return []string{file, schema}, disk.Replace(schema, jsonSchema(), 0o644)
}

// object is a JSON object; its keys are written in alphabetical order.
type object = map[string]any

// jsonSchema returns the JSON Schema of harness.yaml, for editors.
func jsonSchema() []byte {
	root := groupSchema(configKeys(&Config{}), "")
	properties := root["properties"].(object)
	properties["$schema"] = object{"type": "string"}
	short := properties["policy"].(object)
	properties["policy"] = object{"description": short["description"], "anyOf": []object{short, short["properties"].(object)["rules"].(object)}}
	root["$schema"], root["title"] = "https://json-schema.org/draft/2020-12/schema", "harness.yaml"
	data, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic("config: schema: " + err.Error()) // the schema consists of constants
	}
	return append(data, '\n')
}

// groupSchema describes a mapping with the given keys. orElse is appended to the pattern of every string value; it is empty or begins with |.
func groupSchema(keys []key, orElse string) object {
	properties := object{}
	var required []string
	for _, k := range keys {
		for _, name := range k.names {
			properties[name] = k.schema(orElse)
		}
		if k.required {
			required = append(required, k.name())
		}
	}
	o := object{"type": []string{"object", "null"}, "additionalProperties": false, "properties": properties}
	if required != nil {
		o["type"], o["required"] = "object", required
	}
	return o
}

func (k key) schema(orElse string) object {
	o := k.typeSchema(orElse)
	o["description"] = k.doc
	value := strings.ReplaceAll(k.value, "{state}", "./data")
	switch _, err := strconv.Atoi(value); {
	case err == nil || k.typ.Kind() == reflect.Bool && value != "":
		o["default"] = json.RawMessage(value)
	case value != "":
		o["default"] = value
	}
	return o
}

func (k key) typeSchema(orElse string) object {
	texts := func(pattern string) object { return object{"type": "string", "pattern": pattern + orElse} }
	// Any scalar is accepted for a string, because YAML reads 5432 as a number.
	anyScalar := object{"type": []string{"string", "number", "boolean"}}
	switch kind := k.typ.Kind(); {
	case k.typ == serversType:
		server := groupSchema(keysOf(reflect.ValueOf(&MCPServer{}).Elem(), ""), `|\$\{`) // ${VAR} may replace any value
		server["type"] = "object"
		delete(server, "additionalProperties") // unknown keys cause only a warning
		return object{"type": []string{"object", "null"}, "additionalProperties": server}
	case k.isRules():
		return object{"type": "array", "items": k.elem().typeSchema("")}
	case kind == reflect.Pointer:
		return k.elem().typeSchema(orElse)
	case kind == reflect.Struct:
		return groupSchema(k.members(), orElse)
	case k.typ == durationType:
		return object{"anyOf": []object{texts(`^([0-9.]+(ns|us|µs|ms|s|m|h|d))+$`), {"const": 0}}}
	case k.typ == sizeType:
		return object{"anyOf": []object{texts(`^[0-9.]+ *([kKmMgG]?[iI]?[bB])?$`), {"type": "integer", "minimum": 0}}}
	case kind == reflect.Int:
		o := object{"type": "integer"}
		if k.min != "" {
			o["minimum"] = k.bound(k.min)
		}
		if k.max != "" {
			o["maximum"] = k.bound(k.max)
		}
		return o
	case kind == reflect.Float64 && k.negative:
		return object{"type": "number"}
	case kind == reflect.Float64:
		return object{"type": "number", "minimum": 0}
	case kind == reflect.Bool && orElse != "":
		return object{"anyOf": []object{{"type": "boolean"}, texts(`^(true|false)$`)}}
	case kind == reflect.Bool:
		return object{"type": "boolean"}
	case kind == reflect.Slice:
		return object{"anyOf": []object{{"type": "array", "items": anyScalar}, anyScalar}}
	case kind == reflect.Map && k.typ.Elem().Kind() == reflect.Struct:
		return object{"type": "object", "additionalProperties": groupSchema(k.elem().members(), "")}
	case kind == reflect.Map && k.typ.Elem().Kind() == reflect.Map:
		return object{"type": "object", "additionalProperties": k.elem().typeSchema("")}
	case kind == reflect.Map:
		return object{"type": "object", "additionalProperties": anyScalar}
	case len(k.oneOf) > 0 && k.value == "": // the key may be left empty
		return object{"enum": append([]string{""}, k.oneOf...)}
	case len(k.oneOf) > 0:
		return object{"enum": k.oneOf}
	}
	return object{"type": "string"}
}

// existsError reports that a harness.yaml exists, which Init does not overwrite.
type existsError struct{ file string }

func (e *existsError) Error() string { return e.file + " exists already; edit it, or remove it first" }

func (e *existsError) Unwrap() error { return fs.ErrExist }

package skills

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Bounds of a drafted schema.
const (
	maxSchemaDepth = 5
	maxProperties  = 50
)

// SchemaOf drafts the JSON schema of an input from an example. It contains no values. The keys of an object are its properties, which are all required,
// unless a key looks like a token or there are many keys.
func SchemaOf(example json.RawMessage) json.RawMessage {
	var value any
	if json.Unmarshal(example, &value) != nil {
		return nil
	}
	text, _ := json.Marshal(schemaOf([]any{value}, 0)) // maps and strings always encode
	return text
}

// schemaOf returns the schema that fits all values.
func schemaOf(values []any, depth int) map[string]any {
	kinds := map[string][]any{}
	for _, v := range values {
		kinds[kindOf(v)] = append(kinds[kindOf(v)], v)
	}
	if len(kinds["integer"]) > 0 && len(kinds["number"]) > 0 {
		delete(kinds, "integer")
	}
	names := slices.Sorted(maps.Keys(kinds))
	switch {
	case len(names) == 0 || depth == maxSchemaDepth:
		return map[string]any{}
	case len(names) > 1:
		return map[string]any{"type": names}
	}
	is := map[string]any{"type": names[0]}
	switch names[0] {
	case "array":
		var items []any
		for _, v := range kinds["array"] {
			items = append(items, v.([]any)...)
		}
		if len(items) > 0 {
			is["items"] = schemaOf(items, depth+1)
		}
	case "object":
		objects := kinds["object"]
		of := map[string][]any{}
		for _, v := range objects {
			for key, value := range v.(map[string]any) {
				of[key] = append(of[key], value)
			}
		}
		if len(of) > maxProperties || slices.ContainsFunc(slices.Collect(maps.Keys(of)), likeToken) {
			return is
		}
		properties, required := map[string]any{}, []string{}
		for _, key := range slices.Sorted(maps.Keys(of)) {
			properties[key] = schemaOf(of[key], depth+1)
			if len(of[key]) == len(objects) {
				required = append(required, key)
			}
		}
		if is["properties"] = properties; len(required) > 0 {
			is["required"] = required
		}
	}
	return is
}

// likeToken reports whether a key may have personal data or a token in it.
func likeToken(key string) bool { return strings.ContainsAny(key, "[]@:%") || oneLine(key) != key }

func kindOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case float64:
		if v == float64(int64(v)) {
			return "integer"
		}
		return "number"
	case []any:
		return "array"
	}
	return "object"
}

package mcpserver

import (
	"encoding/json"
	"maps"
	"slices"
)

// loosened is an output schema that answers still have the form of once tokens stand for personal data in their texts, numbers and keys:
// clients refuse structured content that has not. It is nil where there is no such schema.
func loosened(schema json.RawMessage) json.RawMessage {
	var root map[string]any
	if len(schema) == 0 || json.Unmarshal(schema, &root) != nil || !loosen(root) {
		return nil
	}
	out, err := json.Marshal(root)
	if err != nil {
		return nil
	}
	return out
}

// loosen changes a schema. It reports false for one with keywords under which a looser schema is a stricter one, or that bind keys.
func loosen(schema map[string]any) bool {
	for _, word := range []string{"format", "pattern", "minLength", "maxLength"} {
		delete(schema, word)
	}
	for _, word := range []string{"not", "if", "patternProperties", "propertyNames", "contains", "unevaluatedProperties", "unevaluatedItems"} {
		if schema[word] != nil {
			return false
		}
	}
	switch typ := schema["type"].(type) {
	case string:
		if typ == "number" || typ == "integer" {
			schema["type"] = []any{typ, "string"}
		}
	case []any:
		if (slices.Contains(typ, any("number")) || slices.Contains(typ, any("integer"))) && !slices.Contains(typ, any("string")) {
			schema["type"] = append(typ, "string")
		}
	}
	if choice, ok := schema["oneOf"]; ok { // looser choices may match both
		delete(schema, "oneOf")
		if _, both := schema["anyOf"]; both {
			return false
		}
		schema["anyOf"] = choice
	}
	below := []any{schema["items"], schema["additionalProperties"], schema["additionalItems"]}
	for _, word := range []string{"anyOf", "allOf", "prefixItems"} {
		if list, ok := schema[word].([]any); ok {
			below = append(below, list...)
		}
	}
	for _, word := range []string{"properties", "$defs", "definitions", "dependentSchemas"} {
		if named, ok := schema[word].(map[string]any); ok {
			below = slices.AppendSeq(below, maps.Values(named))
		}
	}
	return !slices.ContainsFunc(below, func(part any) bool {
		inner, ok := part.(map[string]any)
		return ok && !loosen(inner)
	})
}

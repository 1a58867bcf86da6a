package mcpserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/startup"
)

// offeredInput returns a tool's input schema in a form that strict clients and providers of models accept. Strict clients drop the whole list of tools
// because of one unusual keyword in one schema. The gate validates calls with the server's own schema, so the returned schema may allow more.
func offeredInput(schema json.RawMessage) json.RawMessage {
	root := decoded(schema)
	if root == nil {
		return json.RawMessage(`{"type":"object"}`)
	}
	changed := mend(root)
	changed = flatten(root) || changed
	changed = plainKeys(root) || changed
	if root["type"] != "object" {
		root["type"], changed = "object", true
	}
	if !changed {
		return schema
	}
	return encoded(root)
}

// offeredOutput returns an output schema that answers still match after tokens have replaced personal data in their texts, numbers and keys:
// clients refuse structured content that does not match. It returns nil if no such schema exists.
func offeredOutput(schema json.RawMessage) json.RawMessage {
	root := decoded(schema)
	if root == nil {
		return nil
	}
	mend(root)
	if _, named := root["properties"]; named && root["type"] == nil {
		root["type"] = "object"
	}
	if root["type"] != "object" || !loosen(root) {
		return nil
	}
	return encoded(root)
}

func decoded(schema json.RawMessage) (root map[string]any) {
	d := json.NewDecoder(bytes.NewReader(schema))
	d.UseNumber()
	if d.Decode(&root) != nil {
		return nil
	}
	return root
}

func encoded(root map[string]any) json.RawMessage {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if e.Encode(root) != nil {
		return nil
	}
	return bytes.TrimSpace(out.Bytes())
}

// Keywords of JSON Schema, by the types of their values.
var (
	textWords   = []string{"title", "description", "format", "pattern", "$ref", "$schema", "$id", "$comment", "contentEncoding", "contentMediaType"}
	numberWords = []string{
		"minimum", "maximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties",
		"minContains", "maxContains", "exclusiveMinimum", "exclusiveMaximum",
	}
	listWords   = []string{"anyOf", "oneOf", "allOf", "prefixItems"}
	namedWords  = []string{"properties", "$defs", "definitions", "patternProperties", "dependentSchemas"}
	singleWords = []string{"items", "additionalItems", "additionalProperties", "contains", "not", "if", "then", "else", "propertyNames", "unevaluatedItems", "unevaluatedProperties"}
)

// mend changes a schema so that it is valid JSON Schema 2020-12 and strict clients accept it, and reports whether it changed anything.
// It removes keywords without a valid value, and replaces keywords of older versions by those of 2020-12.
func mend(schema map[string]any) (changed bool) {
	drop := func(word string) { delete(schema, word); changed = true }
	for word, value := range schema {
		if value == nil && word != "const" && word != "default" {
			drop(word)
		}
	}
	for word, limit := range map[string]string{"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"} {
		if exclusive, old := schema[word].(bool); old { // draft 4 of JSON Schema
			if bound, ok := schema[limit]; exclusive && ok {
				schema[word] = bound
				drop(limit)
			} else {
				drop(word)
			}
		}
	}
	if list, old := schema["items"].([]any); old { // drafts before 2020-12
		schema["prefixItems"] = list
		drop("items")
		if rest, ok := schema["additionalItems"]; ok {
			schema["items"] = rest
			drop("additionalItems")
		}
	}
	keepIf(schema, textWords, &changed, func(value any) bool { _, ok := value.(string); return ok })
	keepIf(schema, numberWords, &changed, func(value any) bool { _, ok := value.(json.Number); return ok })
	keepIf(schema, []string{"enum"}, &changed, func(value any) bool { list, ok := value.([]any); return ok && len(list) > 0 })
	keepIf(schema, []string{"type"}, &changed, func(value any) bool {
		list, ok := value.([]any)
		if ok && len(list) == 1 {
			schema["type"], changed = list[0], true
		}
		_, text := schema["type"].(string)
		return text || ok && len(list) > 1 && !slices.ContainsFunc(list, func(one any) bool { _, text := one.(string); return !text })
	})
	if required, ok := schema["required"]; ok {
		list, _ := required.([]any)
		names := slices.DeleteFunc(slices.Clone(list), func(name any) bool { _, text := name.(string); return !text })
		if len(names) != len(list) {
			schema["required"], changed = names, true
		}
		if len(names) == 0 && (list == nil || len(list) > 0) {
			drop("required")
		}
	}
	for _, word := range namedWords {
		named, ok := schema[word].(map[string]any)
		if _, there := schema[word]; there && !ok {
			drop(word)
		}
		for name, value := range named {
			inner, mended := subschema(value, false)
			if mended {
				named[name], changed = inner, true
			}
		}
	}
	for _, word := range listWords {
		list, ok := schema[word].([]any)
		if _, there := schema[word]; there && (!ok || len(list) == 0) {
			drop(word)
		}
		for i, value := range list {
			inner, mended := subschema(value, false)
			if mended {
				list[i], changed = inner, true
			}
		}
	}
	for _, word := range singleWords {
		if value, there := schema[word]; there {
			inner, mended := subschema(value, true)
			if mended {
				schema[word], changed = inner, true
			}
		}
	}
	if schema["type"] == "array" && schema["items"] == nil { // some providers refuse an array without items
		schema["items"], changed = map[string]any{}, true
	}
	return changed
}

// keepIf removes each of the given keywords from a schema if the function right returns false for the keyword's value.
func keepIf(schema map[string]any, words []string, changed *bool, right func(value any) bool) {
	for _, word := range words {
		if value, there := schema[word]; there && !right(value) {
			delete(schema, word)
			*changed = true
		}
	}
}

// subschema mends a part of a schema. It keeps a boolean only if boolean is set: strict clients accept no boolean as a property's schema or in
// lists.
func subschema(value any, boolean bool) (inner any, mended bool) {
	switch v := value.(type) {
	case map[string]any:
		return v, mend(v)
	case bool:
		switch {
		case boolean:
			return v, false
		case v:
			return map[string]any{}, true
		}
		return map[string]any{"not": map[string]any{}}, true
	}
	return map[string]any{}, true
}

// flatten turns a root with choices or references, which providers refuse there, into one object schema, and reports whether it changed
// anything. The schema has the properties of all parts, and requires what every choice requires.
func flatten(root map[string]any) (changed bool) {
	for _, word := range []string{"not", "if", "then", "else", "enum", "const"} {
		if _, there := root[word]; there {
			delete(root, word)
			changed = true
		}
	}
	for range maxRefs { // a part may have choices and references, too
		ref, refers := root["$ref"].(string)
		all, _ := root["allOf"].([]any)
		either := [][]any{nil, nil}
		either[0], _ = root["anyOf"].([]any)
		either[1], _ = root["oneOf"].([]any)
		if !refers && len(all)+len(either[0])+len(either[1]) == 0 {
			return changed
		}
		changed = true
		for _, word := range rootChoices {
			delete(root, word)
		}
		if refers {
			all = append(all, map[string]any{"$ref": ref})
		}
		for _, part := range all {
			require(root, merge(root, part))
		}
		for _, choices := range either {
			var common []any
			for i, choice := range choices {
				names := merge(root, choice)
				if i == 0 {
					common = names
				}
				common = slices.DeleteFunc(common, func(name any) bool { return !slices.Contains(names, name) })
			}
			require(root, common)
		}
	}
	for _, word := range rootChoices {
		delete(root, word)
	}
	return true
}

// rootChoices are the keywords for choices and references that flatten removes from a root.
var rootChoices = []string{"$ref", "allOf", "anyOf", "oneOf"}

// maxRefs is the maximum number of levels of choices and references that are followed from a root.
const maxRefs = 8

// target returns a part of a schema, or the schema that the part refers to.
func target(root map[string]any, part any) map[string]any {
	schema, _ := part.(map[string]any)
	if ref, ok := schema["$ref"].(string); ok {
		return resolved(root, ref)
	}
	return schema
}

// resolved returns the schema that a reference such as #/$defs/name refers to, or nil if there is none.
func resolved(root map[string]any, ref string) map[string]any {
	schema := root
	path, local := strings.CutPrefix(ref, "#/")
	if !local {
		return nil
	}
	for name := range strings.SplitSeq(path, "/") {
		schema, _ = schema[strings.NewReplacer("~1", "/", "~0", "~").Replace(name)].(map[string]any)
	}
	return schema
}

// merge adds the properties, choices and references of a part to a root. It returns the properties that the part requires.
func merge(root map[string]any, part any) (needs []any) {
	schema := target(root, part)
	own, _ := root["properties"].(map[string]any)
	added, _ := schema["properties"].(map[string]any)
	if own == nil {
		own = map[string]any{}
	}
	for name, property := range added {
		if _, there := own[name]; !there {
			own[name] = property
		}
	}
	if len(own) > 0 {
		root["properties"] = own
	}
	if root["additionalProperties"] == false && len(added) == 0 {
		delete(root, "additionalProperties")
	}
	for _, word := range rootChoices {
		if value, there := schema[word]; there && root[word] == nil {
			root[word] = value
		}
	}
	return required(schema)
}

func required(schema map[string]any) []any {
	list, _ := schema["required"].([]any)
	return slices.Clone(list)
}

func require(root map[string]any, names []any) {
	list := required(root)
	for _, name := range names {
		if !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	if len(list) > 0 {
		root["required"] = list
	}
}

// propertyKey matches the names that providers accept for properties of an input.
var propertyKey = startup.Regexp(`^[a-zA-Z0-9_.-]{1,64}$`)

// plainKeys moves properties whose names providers refuse into the description of a root, and reports whether there were any.
func plainKeys(root map[string]any) bool {
	properties, _ := root["properties"].(map[string]any)
	var odd []string
	for name := range properties {
		if !propertyKey().MatchString(name) {
			odd = append(odd, name)
		}
	}
	if len(odd) == 0 {
		return false
	}
	slices.Sort(odd)
	needed := required(root)
	text, _ := root["description"].(string)
	for _, name := range odd {
		property, _ := properties[name].(map[string]any)
		about, _ := property["description"].(string)
		must := ""
		if slices.Contains(needed, any(name)) {
			must = " (required)"
		}
		text = strings.TrimSpace(fmt.Sprintf("%s\nIt also takes %q%s. %s", text, name, must, about))
		delete(properties, name)
	}
	needed = slices.DeleteFunc(needed, func(name any) bool { return slices.Contains(odd, name.(string)) })
	if delete(root, "required"); len(needed) > 0 {
		root["required"] = needed
	}
	root["description"] = text
	if root["additionalProperties"] == false {
		delete(root, "additionalProperties")
	}
	return true
}

// loosen makes a schema accept tokens. It returns false if the schema has keywords that restrict keys, or under which a looser subschema makes
// the schema stricter.
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
	if choice, ok := schema["oneOf"]; ok { // after loosening, several choices may match
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

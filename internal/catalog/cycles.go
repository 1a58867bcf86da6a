package catalog

import (
	"net/url"
	"reflect"
	"strconv"
	"strings"
)

// inPlace lists the keywords whose subschemas apply to the value itself.
var inPlace = []string{"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"}

// cutCycles removes references that lead back to a schema which is being applied to the same value. Such a reference adds no rule, and the library
// refuses every value when it meets one. doc is a decoded schema, which is changed.
func cutCycles(doc any) {
	root, is := doc.(map[string]any)
	if !is {
		return
	}
	version, _ := root["$schema"].(string)
	c := cycles{root: root, anchors: map[string]map[string]any{}, seen: map[uintptr]visit{}}
	for _, draft := range []string{"draft-04", "draft-06", "draft-07"} {
		c.alone = c.alone || strings.Contains(version, draft)
	}
	c.collect(doc)
	for _, s := range c.all {
		c.follow(s)
	}
}

// visit is the state of the search of a schema.
type visit uint8

const (
	visiting visit = iota + 1
	visited
)

// cycles finds references among schemas that apply to one value.
type cycles struct {
	root    map[string]any
	alone   bool // reports that a reference disables the keywords beside it, as before draft 2019-09
	all     []map[string]any
	anchors map[string]map[string]any
	seen    map[uintptr]visit // visits by the address of a map
}

// collect collects all objects of the schema, because references can lead to any of them.
func (c *cycles) collect(v any) {
	switch v := v.(type) {
	case map[string]any:
		c.all = append(c.all, v)
		if name, is := v["$anchor"].(string); is {
			c.anchors[name] = v
		}
		for _, member := range v {
			c.collect(member)
		}
	case []any:
		for _, item := range v {
			c.collect(item)
		}
	}
}

// follow searches the schemas that apply to the same value as s. It reports whether the search of s is already under way, so that a reference has led
// back to s.
func (c *cycles) follow(s map[string]any) (back bool) {
	at := reflect.ValueOf(s).Pointer()
	switch c.seen[at] {
	case visiting:
		return true
	case visited:
		return false
	}
	c.seen[at] = visiting
	if ref, is := s["$ref"].(string); is {
		if target := c.target(ref); target != nil && c.follow(target) {
			c.cut(s)
		}
	}
	for _, keyword := range inPlace {
		switch of := s[keyword].(type) {
		case []any:
			for _, item := range of {
				if sub, is := item.(map[string]any); is {
					c.follow(sub)
				}
			}
		case map[string]any:
			if keyword == "dependentSchemas" || keyword == "dependencies" {
				for _, item := range of {
					if sub, is := item.(map[string]any); is {
						c.follow(sub)
					}
				}
				continue
			}
			c.follow(of)
		}
	}
	c.seen[at] = visited
	return false
}

// cut removes the reference of a schema, together with the keywords that the reference disabled.
func (c *cycles) cut(s map[string]any) {
	delete(s, "$ref")
	if !c.alone {
		return
	}
	for key := range s {
		if key != "definitions" && key != "$defs" {
			delete(s, key)
		}
	}
}

// target returns the object that a reference within the document leads to, or nil if it leads to no object.
func (c *cycles) target(ref string) map[string]any {
	fragment, local := strings.CutPrefix(ref, "#")
	if !local {
		return nil
	}
	fragment, err := url.PathUnescape(fragment)
	if err != nil {
		return nil
	}
	if fragment == "" {
		return c.root
	}
	if !strings.HasPrefix(fragment, "/") {
		return c.anchors[fragment]
	}
	var at any = c.root
	for _, key := range strings.Split(fragment[1:], "/") {
		key = strings.NewReplacer("~1", "/", "~0", "~").Replace(key)
		switch of := at.(type) {
		case map[string]any:
			at = of[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(of) {
				return nil
			}
			at = of[i]
		default:
			return nil
		}
	}
	found, _ := at.(map[string]any)
	return found
}

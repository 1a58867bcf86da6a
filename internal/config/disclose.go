package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Setting is a setting as a stranger may see it: the name of its key, and its value only if the value cannot hold a text of the user.
type Setting struct {
	Key    string `json:"key"`
	Value  string `json:"value"`  // a number, a duration, a size, true, false or a word of the documentation; for others the kind: "text", "2 entries"
	Origin string `json:"origin"` // default, file, env, .env or flag
}

// Disclosed lists every setting without secrets and personal data. Servers are mcpServers.1, mcpServers.2 and so on, in the order of MCPServers, with the keys
// that are set.
func (c *Config) Disclosed() (all []Setting) {
	for _, k := range leaves(configKeys(c)) {
		if k.typ != serversType {
			all = append(all, Setting{k.path, k.disclosed(), c.originOf(k.path)})
		}
	}
	for i, s := range c.MCPServers {
		all = append(all, disclosedOf(reflect.ValueOf(s).Elem(), fmt.Sprintf("mcpServers.%d.", i+1))...)
	}
	return all
}

func disclosedOf(v reflect.Value, prefix string) (all []Setting) {
	for _, k := range keysOf(v, prefix) {
		switch {
		case k.dst.IsZero():
		case k.typ.Kind() == reflect.Pointer:
			all = append(all, disclosedOf(k.dst.Elem(), k.path+".")...)
		default:
			all = append(all, Setting{k.path, k.disclosed(), "file"})
		}
	}
	return all
}

func (k key) disclosed() string {
	switch v := k.dst.Interface().(type) {
	case time.Duration:
		return formatDuration(v)
	case Size:
		return v.String()
	}
	switch k.typ.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int64, reflect.Float64:
		return fmt.Sprint(k.dst.Interface())
	case reflect.Slice, reflect.Map:
		return fmt.Sprintf("%d entries", k.dst.Len())
	}
	switch text := k.dst.String(); {
	case text == "":
		return "empty"
	case slices.Contains(k.oneOf, text):
		return text
	}
	return "text"
}

// originOf returns the kind of source that sets a key.
func (c *Config) originOf(path string) string {
	for _, e := range c.entries {
		if rest, ok := strings.CutPrefix(e.Key, path); !ok || rest != "" && rest[0] != '.' && rest[0] != '[' {
			continue
		}
		kind, _, _ := strings.Cut(e.Origin, " ")
		if slices.Contains([]string{"default", "env", ".env", "flag"}, kind) {
			return kind
		}
		return "file"
	}
	return "default"
}

// KnownKey returns the names in the path of a mistake that the documentation has; * stands for names that users choose, and for what is not known.
func (e *Error) KnownKey() string {
	path, t := []string{}, reflect.TypeFor[Config]()
	for _, name := range strings.Split(e.Key, ".") {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		switch t.Kind() {
		case reflect.Map, reflect.Slice: // mcpServers is a mapping in the file
			path, t = append(path, "*"), t.Elem()
			continue
		case reflect.Struct:
			keys := described(t)
			if i := slices.IndexFunc(keys, func(k key) bool { return slices.Contains(k.names, name) }); i >= 0 {
				path, t = append(path, name), keys[i].typ
				continue
			}
		}
		return strings.Join(append(path, "*"), ".")
	}
	return strings.Join(path, ".")
}

package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Text writes the policy in the form that ParsePolicy reads, one rule per line.
func (p Policy) Text() string {
	var b strings.Builder
	preset := p.Preset
	if preset == "" {
		preset = "open"
	}
	fmt.Fprintf(&b, "preset: %s\n", preset)
	lines := func(key string, rules reflect.Value) {
		if rules.Len() == 0 {
			return
		}
		fmt.Fprintf(&b, "%s:\n", key)
		for i := range rules.Len() {
			fmt.Fprintf(&b, "  - %s\n", flow(rules.Index(i)))
		}
	}
	lines("rules", reflect.ValueOf(p.Rules))
	lines("runs", reflect.ValueOf(p.Runs))
	return b.String()
}

// flow writes a value in YAML on one line. It omits members with zero values, and writes a list of one string as the string.
func flow(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case time.Duration:
		return formatDuration(x)
	case Size:
		return fmt.Sprint(x)
	case []string:
		if len(x) == 1 {
			return plainText(x[0])
		}
	}
	switch v.Kind() {
	case reflect.Pointer:
		return flow(v.Elem())
	case reflect.String:
		return plainText(v.String())
	case reflect.Slice:
		items := make([]string, v.Len())
		for i := range items {
			items[i] = flow(v.Index(i))
		}
		return "[" + strings.Join(items, ", ") + "]"
	case reflect.Map:
		var members []string
		for _, name := range slices.SortedFunc(v.Seq(), func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) }) {
			members = append(members, plainText(name.String())+": "+flow(v.MapIndex(name)))
		}
		return "{" + strings.Join(members, ", ") + "}"
	case reflect.Struct:
		var members []string
		for i := range v.NumField() {
			name, of := v.Type().Field(i).Tag.Get("key"), v.Field(i)
			if name != "" && !of.IsZero() {
				members = append(members, name+": "+flow(of))
			}
		}
		return "{" + strings.Join(members, ", ") + "}"
	}
	return fmt.Sprint(v.Interface())
}

// simpleText matches strings that need no quotes in YAML. It also matches the strings in otherWords, which do need quotes.
var simpleText = lazy(`^[A-Za-z_][A-Za-z0-9_.-]*$`)

var otherWords = []string{"null", "true", "false", "yes", "no", "on", "off", "y", "n"}

// plainText writes a string in YAML, with quotes if it needs them.
func plainText(text string) string {
	if simpleText().MatchString(text) && !slices.Contains(otherWords, strings.ToLower(text)) {
		return text
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(text) // encoding a string cannot fail
	return strings.TrimSuffix(b.String(), "\n")
}

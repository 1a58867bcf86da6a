package n8n

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// setting is the context of a property: the values at the top level, the values beside the property, the node's version, and whether the node is a
// tool.
type setting struct {
	root    object
	beside  object
	version float64
	tool    bool
}

// shows reports whether a property with these options is shown. As in n8n, every key of show must match, and no key of hide. An expression
// matches every condition in show.
func (s setting) shows(d display) bool {
	for key, want := range d.Hide {
		value, known := s.value(key)
		if known && matchesAny(value, want) {
			return false
		}
	}
	for key, want := range d.Show {
		value, known := s.value(key)
		if isExpression(value) {
			continue
		}
		if !known && !hasCondition(want, "exists") || !matchesAny(value, want) {
			return false
		}
	}
	return true
}

// value returns the value for a key of display options: @version, @tool, /path from the top, or a path beside the property.
func (s setting) value(key string) (any, bool) {
	switch key {
	case "@version":
		return s.version, true
	case "@tool":
		return s.tool, true
	}
	from := s.beside
	if rest, top := strings.CutPrefix(key, "/"); top {
		key, from = rest, s.root
	}
	var value any = from
	for _, part := range strings.Split(key, ".") {
		o, is := value.(object)
		if !is {
			return nil, false
		}
		if value, is = o[part]; !is {
			return nil, false
		}
	}
	if locator, is := value.(object); is && locator["__rl"] != nil {
		value = locator["value"]
	}
	return value, true
}

func hasCondition(want []any, name string) bool {
	for _, w := range want {
		if cond, is := w.(object); is && objectAt(cond, "_cnd")[name] != nil {
			return true
		}
	}
	return false
}

// matchesAny reports whether a value matches one of the wanted values. If the value is a list, one of its elements has to match.
func matchesAny(value any, want []any) bool {
	values, is := value.([]any)
	if !is {
		values = []any{value}
	}
	for _, w := range want {
		for _, v := range values {
			if matches(v, w) {
				return true
			}
		}
	}
	return false
}

func matches(value, want any) bool {
	cond, is := want.(object)
	if !is || cond["_cnd"] == nil {
		return equal(value, want)
	}
	for name, to := range objectAt(cond, "_cnd") {
		a, aIs := version(value)
		b, bIs := version(to)
		s, _ := value.(string)
		t, _ := to.(string)
		var ok bool
		switch name {
		case "eq":
			ok = equal(value, to)
		case "not":
			ok = !equal(value, to)
		case "exists":
			ok = value != nil && value != ""
		case "gte":
			ok = aIs && bIs && a >= b
		case "lte":
			ok = aIs && bIs && a <= b
		case "gt":
			ok = aIs && bIs && a > b
		case "lt":
			ok = aIs && bIs && a < b
		case "between":
			from, _ := version(objectAt(cond["_cnd"].(object), "between")["from"])
			until, _ := version(objectAt(cond["_cnd"].(object), "between")["to"])
			ok = aIs && a >= from && a <= until
		case "startsWith":
			ok = strings.HasPrefix(s, t)
		case "endsWith":
			ok = strings.HasSuffix(s, t)
		case "includes":
			ok = strings.Contains(s, t)
		case "regex":
			re, err := regexp.Compile(t)
			ok = err != nil || re.MatchString(s) // if Go cannot compile the JavaScript regular expression, the property is shown
		default:
			ok = true // a condition that only later versions of n8n know
		}
		if !ok {
			return false
		}
	}
	return true
}

// equal compares scalars; it compares numbers by value.
func equal(a, b any) bool {
	x, isX := version(a)
	y, isY := version(b)
	if isX && isY {
		return x == y
	}
	switch a.(type) {
	case nil, bool, string:
		return a == b
	}
	return false
}

// isExpression reports whether a parameter is an expression, which n8n evaluates for each item.
func isExpression(v any) bool {
	s, is := v.(string)
	return is && strings.HasPrefix(s, "=")
}

// filled returns a copy of params. As in n8n, each shown property that params omits has its default.
func (t *nodeType) filled(params object, v float64, tool bool) object {
	return fill(t.Properties, params, setting{version: v, tool: tool})
}

// fillRounds is the maximum number of rounds of filling in defaults: a default may show a property whose default shows another one.
const fillRounds = 6

func fill(properties []property, params object, at setting) object {
	out := make(object, len(params))
	for key, value := range params {
		out[key] = value
	}
	at.beside = out
	if at.root == nil {
		at.root = out
	}
	for range fillRounds {
		changed := false
		for i := range properties {
			p := &properties[i]
			if _, has := out[p.Name]; !has && p.Type != "notice" && p.Type != "callout" && at.shows(p.Display) {
				out[p.Name] = p.Default
				changed = true
			}
		}
		if !changed {
			break
		}
	}
	return out
}

// visible returns the properties that are shown for parameters with their defaults filled in.
func (t *nodeType) visible(filled object, v float64, tool bool) (shown []*property) {
	at := setting{root: filled, beside: filled, version: v, tool: tool}
	for i := range t.Properties {
		p := &t.Properties[i]
		if p.Type != "notice" && p.Type != "callout" && p.Type != "button" && at.shows(p.Display) {
			shown = append(shown, p)
		}
	}
	return shown
}

// shownValue formats a value for a message.
func shownValue(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	if len(data) > 60 {
		return string(data[:60]) + "…"
	}
	return string(data)
}

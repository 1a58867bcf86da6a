package config

import (
	"fmt"
	"strings"
)

// expand replaces ${VAR}, ${VAR:-default} and ${env:VAR} by the values of variables; $$ is $. Everything else,
// $VAR and a backslash of a Windows path included, stays. The default is used for a variable that is not set or is
// empty; without a default an unset variable is an error, an empty one is not.
func expand(text string, lookup func(string) (string, bool)) (string, error) {
	if !strings.Contains(text, "$") {
		return text, nil
	}
	var out strings.Builder
	for {
		before, rest, ok := strings.Cut(text, "$")
		out.WriteString(before)
		switch {
		case !ok:
			return out.String(), nil
		case strings.HasPrefix(rest, "$"):
			out.WriteByte('$')
			text = rest[1:]
			continue
		case !strings.HasPrefix(rest, "{"):
			out.WriteByte('$')
			text = rest
			continue
		}
		inner, after, ok := strings.Cut(rest[1:], "}")
		if !ok {
			return "", fmt.Errorf("a ${ is not closed; write $${ for the characters themselves")
		}
		value, err := substitute(inner, lookup)
		if err != nil {
			return "", err
		}
		out.WriteString(value)
		text = after
	}
}

func substitute(inner string, lookup func(string) (string, bool)) (string, error) {
	inner, fallback, hasDefault := strings.Cut(inner, ":-")
	name := strings.TrimPrefix(inner, "env:")
	if kind, id, ok := strings.Cut(name, ":"); ok {
		return "", fmt.Errorf("${%s:%s} is not known here; set a variable and write ${NAME}", kind, id)
	}
	if !isVariable(name) {
		return "", fmt.Errorf("${%s} does not name a variable; write $${ for the characters themselves", name)
	}
	value, set := lookup(name)
	switch {
	case value == "" && hasDefault:
		return fallback, nil
	case !set:
		return "", fmt.Errorf("the variable %s is not set; set it in the environment or in .env, or write ${%[1]s:-default}", name)
	}
	return value, nil
}

func isVariable(name string) bool {
	for i, r := range name {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}

// expandNode expands every single value in n.
func expandNode(n node, lookup func(string) (string, bool)) (node, error) {
	var err error
	switch n.kind {
	case scalar:
		text, err := expand(n.text, lookup)
		if err != nil {
			return n, err
		}
		n.text = text
	case list:
		items := make([]node, len(n.list))
		for i, item := range n.list {
			if items[i], err = expandNode(item, lookup); err != nil {
				return n, err
			}
		}
		n.list = items
	case mapping:
		keys := make([]field, len(n.keys))
		for i, f := range n.keys {
			keys[i] = f
			if keys[i].value, err = expandNode(f.value, lookup); err != nil {
				return n, fmt.Errorf("%s: %w", f.name, err)
			}
		}
		n.keys = keys
	}
	return n, err
}

package n8n

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mcp-code-exec-harness/internal/startup"
)

// steps matches one step in the path of a parameter: a name, ["any name"] or [0].
var steps = startup.Regexp(`^(?:\.?([^.\[\]]+)|\[(\d+)\]|\["([^"]*)"\])`)

// parsePath parses the path of a parameter. Each step is a string or an int.
func parsePath(path string) ([]any, error) {
	rest := strings.TrimPrefix(path, "parameters.")
	var all []any
	for rest != "" {
		m := steps().FindStringSubmatch(rest)
		switch {
		case m == nil:
			return nil, fmt.Errorf("the path %q cannot be read at %q; write such as options.timeout or rules.values[0].outputKey", clipped(path), clipped(rest))
		case m[2] != "":
			index, err := strconv.Atoi(m[2])
			if err != nil || index > 10_000 {
				return nil, fmt.Errorf("the index %s in the path is too large", m[2])
			}
			all = append(all, index)
		default:
			all = append(all, m[1]+m[3])
		}
		rest = rest[len(m[0]):]
	}
	if _, name := firstOf(all).(string); !name {
		return nil, fmt.Errorf("path is missing; write such as options.timeout")
	}
	return all, nil
}

func firstOf(all []any) any {
	if len(all) == 0 {
		return nil
	}
	return all[0]
}

// setParameter sets the parameter at a path, or removes it if the value is nil. It creates missing objects on the way; a list can grow by one element.
func setParameter(n object, op operation) error {
	path, err := parsePath(op.Path)
	if err != nil {
		return err
	}
	params := objectAt(n, "parameters")
	if params == nil {
		params = object{}
	}
	changed, err := setAt(params, path, op.Value)
	if err != nil {
		return fmt.Errorf("%s: %w", clipped(op.Path), err)
	}
	n["parameters"] = changed
	return nil
}

// setAt sets value at path within a JSON value, the parameter in. It returns the changed JSON value. If value is nil, setAt removes what is at path.
func setAt(in any, path []any, value any) (any, error) {
	if len(path) == 0 {
		return value, nil
	}
	switch step := path[0].(type) {
	case string:
		o, is := in.(object)
		if !is && in != nil {
			return nil, fmt.Errorf("%q is a member of what is no object: %s", step, shownValue(in))
		}
		inner, err := setAt(o[step], path[1:], value)
		if err != nil {
			return nil, err
		}
		if o == nil {
			o = object{}
		}
		if inner == nil {
			delete(o, step)
		} else {
			o[step] = inner
		}
		return o, nil
	default:
		at := step.(int)
		list, is := in.([]any)
		if !is && in != nil {
			return nil, fmt.Errorf("[%d] is an element of what is no list: %s", at, shownValue(in))
		}
		if at > len(list) || at == len(list) && value == nil {
			return nil, fmt.Errorf("the list has %d elements, so [%d] cannot be set", len(list), at)
		}
		if at == len(list) {
			list = append(list, nil)
		}
		inner, err := setAt(list[at], path[1:], value)
		if err != nil {
			return nil, err
		}
		if inner == nil {
			return slices.Delete(list, at, at+1), nil
		}
		list[at] = inner
		return list, nil
	}
}

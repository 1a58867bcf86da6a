package mcpclient

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// mirror is a tool's argument that has x-mcp-header in its schema. From protocol version 2026-07-28 on, calls over HTTP repeat the argument in a
// header, and servers refuse calls without this header.
type mirror struct {
	path   []string // names of properties
	header string   // header name without its prefix
}

const (
	mirrorKeyword = "x-mcp-header"
	mirrorPrefix  = "Mcp-Param-"
	maxMirrors    = 64 // maximum number of mirrored headers of a tool
	maxMirrorDeep = 16 // maximum depth of nested properties
)

// mirrorsOf returns the mirrored arguments of a tool. An error is the reason why clients must not use the tool over HTTP.
func mirrorsOf(schema json.RawMessage) ([]mirror, error) {
	if !bytes.Contains(schema, []byte(mirrorKeyword)) {
		return nil, nil
	}
	var all []mirror
	seen := map[string]bool{}
	var walk func(schema json.RawMessage, path []string) error
	walk = func(schema json.RawMessage, path []string) error {
		var of struct {
			Properties map[string]json.RawMessage `json:"properties"`
		}
		if len(path) > maxMirrorDeep || json.Unmarshal(schema, &of) != nil {
			return nil
		}
		for name, property := range of.Properties {
			var p struct {
				Type   any             `json:"type"`
				Header json.RawMessage `json:"x-mcp-header"`
			}
			path := append(path[:len(path):len(path)], name)
			if json.Unmarshal(property, &p) != nil {
				continue // Only an object can have the keyword.
			}
			if p.Header != nil {
				var header string
				switch err := json.Unmarshal(p.Header, &header); {
				case err != nil || !isToken(header):
					return fmt.Errorf("%s of %q is no name of a header", mirrorKeyword, strings.Join(path, "."))
				case p.Type != "string" && p.Type != "integer" && p.Type != "boolean":
					return fmt.Errorf("%q has %s, and is no string, integer or boolean", strings.Join(path, "."), mirrorKeyword)
				case seen[strings.ToLower(header)]:
					return fmt.Errorf("two arguments have the %s %q", mirrorKeyword, header)
				case len(all) == maxMirrors:
					return errors.New("too many arguments have " + mirrorKeyword)
				}
				seen[strings.ToLower(header)] = true
				all = append(all, mirror{path, header})
			}
			if err := walk(property, path); err != nil {
				return err
			}
		}
		return nil
	}
	err := walk(schema, nil)
	return all, err
}

// mirrorsByTool returns the mirrored arguments of all tools that have some.
func mirrorsByTool(tools []Tool) map[string][]mirror {
	var all map[string][]mirror
	for _, t := range tools {
		if mirrors, err := mirrorsOf(t.InputSchema); err == nil && len(mirrors) > 0 {
			if all == nil {
				all = map[string][]mirror{}
			}
			all[t.Name] = mirrors
		}
	}
	return all
}

// headersOf returns the mirrored headers of a call with args; names and values alternate. An argument that is absent, null or of another type
// gives no header.
func headersOf(mirrors []mirror, args json.RawMessage) []string {
	var decoded any
	if len(mirrors) == 0 || json.Unmarshal(args, &decoded) != nil {
		return nil
	}
	var headers []string
	for _, m := range mirrors {
		at := decoded
		for _, name := range m.path {
			object, _ := at.(map[string]any)
			at = object[name]
		}
		if text, ok := headerText(at); ok {
			headers = append(headers, mirrorPrefix+m.header, text)
		}
	}
	return headers
}

// headerText encodes a decoded value for a header, in base64 if a header cannot hold the plain text.
func headerText(value any) (string, bool) {
	var text string
	switch v := value.(type) {
	case string:
		text = v
	case bool:
		text = strconv.FormatBool(v)
	case float64:
		const maxSafe = 1<<53 - 1
		if v != math.Trunc(v) || math.Abs(v) > maxSafe {
			return "", false
		}
		text = strconv.FormatInt(int64(v), 10)
	default:
		return "", false
	}
	encoded := strings.HasPrefix(text, "=?base64?") && strings.HasSuffix(text, "?=")
	if encoded || strings.TrimSpace(text) != text || strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c > '~' }) {
		return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(text)) + "?=", true
	}
	return text, true
}

// isToken reports whether a string is a valid header name.
func isToken(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && !strings.ContainsRune("!#$%&'*+-.^_`|~", c)
	})
}

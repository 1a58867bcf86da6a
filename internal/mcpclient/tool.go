package mcpclient

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"mcp-code-exec-harness/internal/clip"
)

// Tool is a tool as its server describes it. The schemas keep the server's order of keys.
type Tool struct {
	Name         string          `json:"name"`
	Title        string          `json:"title,omitempty"`
	Description  string          `json:"description,omitempty"`
	InputSchema  json.RawMessage `json:"inputSchema"`
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
	Annotations  Annotations     `json:"annotations,omitzero"`
}

// Annotations are the server's claims about a tool. A nil field was not sent; MCP's defaults then apply (not read-only,
// destructive, not idempotent, open world).
type Annotations struct {
	Title       string `json:"title,omitempty"`
	ReadOnly    *bool  `json:"readOnlyHint,omitempty"`
	Destructive *bool  `json:"destructiveHint,omitempty"`
	Idempotent  *bool  `json:"idempotentHint,omitempty"`
	OpenWorld   *bool  `json:"openWorldHint,omitempty"`
}

// Limits of a tool definition, in bytes. Real definitions stay far below.
const (
	maxToolBytes = 1 << 20
	maxToolName  = 256
)

// decodeTools decodes one page of a tools/list answer with at most the given number of tools. It omits a tool that cannot be used
// and reports it in bad, so that one wrong definition does not affect the others.
func decodeTools(raw json.RawMessage, most int) (tools []Tool, next *string, bad []error, err error) {
	var page struct {
		Tools      json.RawMessage `json:"tools"`
		NextCursor *string         `json:"nextCursor"`
	}
	if err := decodeLoosely(raw, &page); err != nil {
		return nil, nil, nil, err
	}
	defs, err := decodeList[json.RawMessage](page.Tools, most)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("tools: %w", err)
	}
	for i, def := range defs {
		var t Tool
		if err := t.decode(def); err != nil {
			bad = append(bad, fmt.Errorf("tool %d (%q) is not usable: %w", i+1, clip.Text(t.Name, maxToolName), err))
			continue
		}
		tools = append(tools, t)
	}
	return tools, page.NextCursor, bad, nil
}

func (t *Tool) decode(def json.RawMessage) error {
	if len(def) > maxToolBytes {
		return fmt.Errorf("its definition takes %d bytes; at most %d are read", len(def), maxToolBytes)
	}
	if json.Unmarshal(def, t) != nil {
		*t = Tool{}
		if !isObject(def) || json.Unmarshal(mended(def, reflect.TypeFor[Tool]()), t) != nil {
			return errors.New("it is no definition of a tool: " + excerpt(def))
		}
	}
	switch {
	case t.Name == "":
		return errors.New("it has no name")
	case len(t.Name) > maxToolName:
		return fmt.Errorf("its name is longer than %d bytes", maxToolName)
	}
	t.InputSchema, t.OutputSchema = compact(t.InputSchema), compact(t.OutputSchema)
	if t.InputSchema == nil {
		t.InputSchema = json.RawMessage(`{"type":"object"}`)
	}
	return nil
}

func isObject(raw json.RawMessage) bool {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	return len(raw) > 0 && raw[0] == '{'
}

// compact returns a schema without white space, nil if it is not an object. raw is valid JSON or empty.
func compact(raw json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	if !isObject(raw) || json.Compact(&b, raw) != nil {
		return nil
	}
	return b.Bytes()
}

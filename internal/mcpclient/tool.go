package mcpclient

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Tool is a tool as its server describes it. The schemas are the server's own bytes: the order of keys is kept.
type Tool struct {
	Name         string          `json:"name"`
	Title        string          `json:"title,omitempty"`
	Description  string          `json:"description,omitempty"`
	InputSchema  json.RawMessage `json:"inputSchema"`
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
	Annotations  *Annotations    `json:"annotations,omitempty"`
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

// anyObject is the input schema of a tool that sent none.
const anyObject = `{"type":"object"}`

// What a tool may take. Real ones stay far below.
const (
	maxToolBytes = 1 << 20
	maxToolName  = 256
)

// decodeTools reads one page of a tools/list answer with at most the given number of tools. A tool that cannot be used
// is left out and named in bad: one wrong definition must not cost the others.
func decodeTools(raw json.RawMessage, most int) (tools []Tool, next string, bad []error, err error) {
	var page struct {
		Tools      json.RawMessage `json:"tools"`
		NextCursor string          `json:"nextCursor"`
	}
	if err := json.Unmarshal(raw, &page); err != nil {
		return nil, "", nil, fmt.Errorf("read tools/list answer: %w", err)
	}
	defs, err := decodeList[json.RawMessage](page.Tools, most)
	if err != nil {
		return nil, "", nil, fmt.Errorf("read tools/list answer: tools: %w", err)
	}
	for i, def := range defs {
		var t Tool
		if err := t.decode(def); err != nil {
			bad = append(bad, fmt.Errorf("tool %d (%q) is not usable: %w", i+1, clip(t.Name, maxToolName), err))
			continue
		}
		if isObject(t.InputSchema) {
			t.InputSchema = compact(t.InputSchema)
		} else {
			t.InputSchema = json.RawMessage(anyObject)
		}
		if isObject(t.OutputSchema) {
			t.OutputSchema = compact(t.OutputSchema)
		} else {
			t.OutputSchema = nil
		}
		tools = append(tools, t)
	}
	return tools, page.NextCursor, bad, nil
}

func (t *Tool) decode(def json.RawMessage) error {
	if len(def) > maxToolBytes {
		return fmt.Errorf("its definition takes %d bytes; at most %d are read", len(def), maxToolBytes)
	}
	if err := json.Unmarshal(def, t); err != nil {
		return err
	}
	switch {
	case t.Name == "":
		return errors.New("it has no name")
	case len(t.Name) > maxToolName:
		return fmt.Errorf("its name is longer than %d bytes", maxToolName)
	}
	return nil
}

func isObject(raw json.RawMessage) bool {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	return len(raw) > 0 && raw[0] == '{'
}

// compact removes white space and keeps everything else as it is. raw is valid JSON.
func compact(raw json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return raw
	}
	return b.Bytes()
}

func sameTools(a, b []Tool) bool {
	return slices.EqualFunc(a, b, func(x, y Tool) bool {
		return x.Name == y.Name && x.Title == y.Title && x.Description == y.Description &&
			bytes.Equal(x.InputSchema, y.InputSchema) && bytes.Equal(x.OutputSchema, y.OutputSchema) &&
			x.Annotations.equal(y.Annotations)
	})
}

func (a *Annotations) equal(b *Annotations) bool {
	if a == nil || b == nil {
		return a == b
	}
	same := func(x, y *bool) bool { return (x == nil) == (y == nil) && (x == nil || *x == *y) }
	return a.Title == b.Title && same(a.ReadOnly, b.ReadOnly) && same(a.Destructive, b.Destructive) &&
		same(a.Idempotent, b.Idempotent) && same(a.OpenWorld, b.OpenWorld)
}

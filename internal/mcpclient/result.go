package mcpclient

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Result is the answer to a tool call.
type Result struct {
	Content           []Content
	StructuredContent json.RawMessage // as the server wrote it; nil if absent or null
	IsError           bool
	Raw               json.RawMessage // the whole result object
	Conn              int64           // the connection that answered
}

// Content is one block of a result. Which fields are set depends on Type: text (Text), image and audio (Data,
// MIMEType), resource (Resource), resource_link (URI, Name, Title, Description, MIMEType, Size). A type that is not
// known has only Type and Raw.
type Content struct {
	Type        string            `json:"type"`
	Text        string            `json:"text,omitempty"`
	Data        string            `json:"data,omitempty"` // base64
	MIMEType    string            `json:"mimeType,omitempty"`
	URI         string            `json:"uri,omitempty"`
	Name        string            `json:"name,omitempty"`
	Title       string            `json:"title,omitempty"`
	Description string            `json:"description,omitempty"`
	Size        *int64            `json:"size,omitempty"`
	Resource    *ResourceContents `json:"resource,omitempty"`
	Raw         json.RawMessage   `json:"-"` // the whole block
}

// ResourceContents is what a resource holds: text, or a blob in base64.
type ResourceContents struct {
	URI      string `json:"uri"`
	MIMEType string `json:"mimeType,omitempty"`
	Text     string `json:"text,omitempty"`
	Blob     string `json:"blob,omitempty"`
}

// Resource is a resource that a server offers.
type Resource struct {
	Server      string `json:"server"`
	URI         string `json:"uri"`
	Name        string `json:"name,omitempty"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	MIMEType    string `json:"mimeType,omitempty"`
}

// decodeResult reads the result of tools/call.
func decodeResult(raw json.RawMessage) (*Result, error) {
	var wire struct {
		Content           []json.RawMessage `json:"content"`
		StructuredContent json.RawMessage   `json:"structuredContent"`
		IsError           bool              `json:"isError"`
		ResultType        string            `json:"resultType"`
		ToolResult        json.RawMessage   `json:"toolResult"` // of 2024-10-07 servers that still exist
	}
	if !isObject(raw) {
		return nil, fmt.Errorf("the result is not an object: %s", excerpt(raw))
	}
	if err := json.Unmarshal(raw, &wire); err != nil {
		return nil, fmt.Errorf("the result has a wrong shape: %w", err)
	}
	if wire.ResultType == "input_required" {
		return nil, errors.New("the server asks for input from a person (elicitation or sampling), which is not offered")
	}
	res := &Result{IsError: wire.IsError, Raw: raw}
	if present(wire.StructuredContent) {
		res.StructuredContent = wire.StructuredContent
	} else if present(wire.ToolResult) && wire.Content == nil {
		res.StructuredContent = wire.ToolResult
	}
	for i, block := range wire.Content {
		var c Content
		if err := json.Unmarshal(block, &c); err != nil {
			return nil, fmt.Errorf("content block %d has a wrong shape: %w", i, err)
		}
		if c.Type == "" {
			return nil, fmt.Errorf("content block %d has no type: %s", i, excerpt(block))
		}
		c.Raw = block
		res.Content = append(res.Content, c)
	}
	return res, nil
}

func present(raw json.RawMessage) bool {
	return len(raw) > 0 && !bytes.Equal(raw, []byte("null"))
}

// excerpt is a short quotation of wire data for a message.
func excerpt(data []byte) string {
	const limit = 120
	if len(data) > limit {
		return fmt.Sprintf("%q...", data[:limit])
	}
	return fmt.Sprintf("%q", data)
}

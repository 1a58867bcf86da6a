package mcpclient

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"mcp-code-exec-harness/internal/clip"

	segment "github.com/segmentio/encoding/json"
)

// Result is the answer to a tool call.
type Result struct {
	Content           []Content
	StructuredContent json.RawMessage // as the server wrote it; nil if absent or null
	IsError           bool
	Raw               json.RawMessage // the whole result object
	Conn              int64           // the connection that answered

	charge *charge
}

// Release gives back what the result is charged to its owner's memory budget. Call it once the result is no longer
// used; calling it again does nothing.
func (r *Result) Release() { r.charge.free() }

// Content is one block of a result. Which fields are set depends on Type: text (Text), image and audio (Data,
// MIMEType), resource (Resource). Any other type has only Type and Raw.
type Content struct {
	Type     string            `json:"type"`
	Text     string            `json:"text"`
	Data     string            `json:"data"` // base64
	MIMEType string            `json:"mimeType"`
	Resource *ResourceContents `json:"resource"`
	Raw      json.RawMessage   `json:"-"` // the whole block
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

// ResourceTemplate describes resources that a server offers by a URI template (RFC 6570).
type ResourceTemplate struct {
	Server      string `json:"server"`
	URITemplate string `json:"uriTemplate"`
	Name        string `json:"name,omitempty"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	MIMEType    string `json:"mimeType,omitempty"`
}

// Prompt is a prompt that a server offers.
type Prompt struct {
	Server      string           `json:"server"`
	Name        string           `json:"name"`
	Title       string           `json:"title,omitempty"`
	Description string           `json:"description,omitempty"`
	Arguments   []PromptArgument `json:"arguments,omitempty"`
}

// PromptArgument is a text that a prompt takes.
type PromptArgument struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	Required    bool   `json:"required,omitempty"`
}

// zeroCopy makes texts and raw values views of the message: a result can be large, and is not changed.
const zeroCopy = segment.ZeroCopy | segment.DontMatchCaseInsensitiveStructFields

// decodeResult reads the result of tools/call. What it returns are views of raw.
func decodeResult(raw json.RawMessage) (*Result, error) {
	var wire struct {
		Content           json.RawMessage `json:"content"`
		StructuredContent json.RawMessage `json:"structuredContent"`
		IsError           bool            `json:"isError"`
		ResultType        string          `json:"resultType"`
		InputRequests     json.RawMessage `json:"inputRequests"`
		ToolResult        json.RawMessage `json:"toolResult"` // of 2024-10-07 servers that still exist
	}
	if !isObject(raw) {
		return nil, fmt.Errorf("the result is not an object: %s", excerpt(raw))
	}
	if _, err := segment.Parse(raw, &wire, zeroCopy); err != nil {
		return nil, fmt.Errorf("the result has a wrong shape: %w", err)
	}
	if wire.ResultType == "input_required" || present(wire.InputRequests) {
		return nil, errors.New("the server asks for input from a person (elicitation or sampling), which is not offered")
	}
	blocks, err := decodeList[json.RawMessage](wire.Content, maxBlocks)
	if err != nil {
		return nil, fmt.Errorf("the result's content has a wrong shape: %w", err)
	}
	res := &Result{Content: make([]Content, len(blocks)), IsError: wire.IsError, Raw: raw}
	if present(wire.StructuredContent) {
		res.StructuredContent = wire.StructuredContent
	} else if present(wire.ToolResult) && !present(wire.Content) {
		res.StructuredContent = wire.ToolResult
	}
	for i, block := range blocks {
		c := &res.Content[i]
		if _, err := segment.Parse(block, c, zeroCopy); err != nil {
			return nil, fmt.Errorf("the result's content has a wrong shape: %w", err)
		}
		if c.Type == "" {
			return nil, fmt.Errorf("content block %d has no type: %s", i, excerpt(block))
		}
		c.Raw, c.Text = block, strings.ToValidUTF8(c.Text, "\uFFFD")
	}
	return res, nil
}

// maxBlocks is how many blocks of content a result or resource may have: decoded, one takes many times its size.
const maxBlocks = 10_000

// decodeList reads a JSON array of at most the given number of elements, which are counted before they take memory. raw
// is valid JSON or empty; the list holds views of it.
func decodeList[T any](raw json.RawMessage, most int) ([]T, error) {
	if !present(raw) {
		return nil, nil
	}
	commas := 0
	for t := segment.NewTokenizer(raw); t.Next(); {
		if t.Delim == ',' && t.Depth == 1 {
			commas++
		}
		if commas >= most {
			return nil, fmt.Errorf("it has more than %d elements", most)
		}
	}
	var list []T
	_, err := segment.Parse(raw, &list, zeroCopy)
	return list, err
}

func present(raw json.RawMessage) bool {
	return len(raw) > 0 && !bytes.Equal(raw, []byte("null"))
}

const (
	maxExcerpt = 120      // bytes of wire data in a message
	maxSaid    = 16 << 10 // bytes of what a server says to people: errors, reasons, progress
)

// excerpt is a short quotation of wire data for a message.
func excerpt(data []byte) string {
	if len(data) > maxExcerpt {
		return fmt.Sprintf("%q...", data[:maxExcerpt])
	}
	return fmt.Sprintf("%q", data)
}

var (
	addressParams = regexp.MustCompile(`(https?://[^\s"?#]*)[?#][^\s"]*`)
	addressUser   = regexp.MustCompile(`(https?://)[^\s"/?#@]*@`)
)

// withoutSecrets takes from the addresses in a text what may be secret.
func withoutSecrets(text string) string {
	return addressUser.ReplaceAllString(addressParams.ReplaceAllString(text, "$1?..."), "$1")
}

// brief is an error with a text of bounded length: the SDK quotes what servers send. Of addresses in it, which may hold
// secrets, it shows neither users nor parameters.
type brief struct{ error }

func (e brief) Error() string { return clip.Words(withoutSecrets(e.error.Error()), maxSaid) }
func (e brief) Unwrap() error { return e.error }

package mcpclient

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/startup"

	segment "github.com/segmentio/encoding/json"
)

// Result is the answer to a tool call.
type Result struct {
	Content           []Content
	StructuredContent json.RawMessage // text as the server wrote it; nil if absent or null
	IsError           bool
	Raw               json.RawMessage // the whole result object
	Conn              int64           // number of the connection that answered

	charge *charge
}

// Release returns the memory of the result to its owner's budget. Call it once the result is no longer
// used; further calls do nothing.
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

// ResourceContents is the content of a resource: text, or a blob in base64.
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

// PromptArgument describes an argument of a prompt; its value is a string.
type PromptArgument struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	Required    bool   `json:"required,omitempty"`
}

// zeroCopy makes strings and raw values views of the message, because a result can be large and is not changed.
const zeroCopy = segment.ZeroCopy | segment.DontMatchCaseInsensitiveStructFields

// plainMembers are the members of a result that MCP defines.
var plainMembers = []string{"_meta", "content", "structuredContent", "isError", "resultType", "inputRequests", "requestState", "ttlMs", "cacheScope"}

var errAsksForInput = errors.New("the server asks for input from a person (elicitation or sampling), which is not offered")

// ParseResult reads a result that was kept as Raw. It needs no Release.
func ParseResult(raw json.RawMessage) (*Result, error) { return decodeResult(raw) }

// decodeResult decodes the result of tools/call; the Result holds views of raw. If raw has no content, but has members that MCP does not define,
// raw itself becomes the structured content.
func decodeResult(raw json.RawMessage) (*Result, error) {
	var wire struct {
		Content           json.RawMessage `json:"content"`
		StructuredContent json.RawMessage `json:"structuredContent"`
		IsError           json.RawMessage `json:"isError"`
		ResultType        json.RawMessage `json:"resultType"`
		InputRequests     json.RawMessage `json:"inputRequests"`
		ToolResult        json.RawMessage `json:"toolResult"` // result in the form of 2024-10-07, which some servers still send
	}
	if !present(raw) {
		raw = json.RawMessage("{}")
	}
	if !isObject(raw) {
		return nil, fmt.Errorf("the result is not an object: %s", excerpt(raw))
	}
	if _, err := segment.Parse(raw, &wire, zeroCopy); err != nil {
		return nil, fmt.Errorf("the result cannot be read: %s", excerpt(raw))
	}
	if asText(wire.ResultType) == "input_required" || present(wire.InputRequests) {
		return nil, errAsksForInput
	}
	blocks, err := decodeList[json.RawMessage](wire.Content, maxBlocks)
	if err != nil {
		return nil, fmt.Errorf("the result's content cannot be read: %w", err)
	}
	res := &Result{Content: make([]Content, 0, len(blocks)), IsError: present(wire.IsError) && asFlag(wire.IsError), Raw: raw}
	switch {
	case present(wire.StructuredContent):
		res.StructuredContent = wire.StructuredContent
	case present(wire.Content):
	case present(wire.ToolResult):
		res.StructuredContent = wire.ToolResult
	case wire.Content == nil && wire.StructuredContent == nil && hasOther(raw, plainMembers):
		res.StructuredContent = raw
	}
	for _, block := range blocks {
		if !present(block) {
			continue
		}
		c, err := decodeContent(block)
		if err != nil {
			return nil, fmt.Errorf("the result's content cannot be read: %w", err)
		}
		res.Content = append(res.Content, c)
	}
	return res, nil
}

// hasOther reports whether an object has a member other than the given ones.
func hasOther(raw json.RawMessage, names []string) bool {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		return false
	}
	for name, value := range members {
		if present(value) && !slices.Contains(names, name) {
			return true
		}
	}
	return false
}

// decodeContent decodes a content block. It derives a missing type from the other members; a bare string becomes a text block.
func decodeContent(block json.RawMessage) (c Content, err error) {
	if !isObject(block) {
		c = Content{Raw: block}
		if !isList(block) {
			c.Type, c.Text = "text", asText(block)
		}
		return c, nil
	}
	if err := decodeLoosely(block, &c); err != nil {
		return c, err
	}
	if c.Type == "" {
		c.Type = c.kind(block)
	}
	c.Raw, c.Text = block, strings.ToValidUTF8(c.Text, "\uFFFD")
	c.Data, c.MIMEType = plainBase64(c.Data, c.MIMEType)
	if r := c.Resource; r != nil {
		r.Blob, r.MIMEType = plainBase64(r.Blob, r.MIMEType)
	}
	return c, nil
}

// kind derives the missing type of a block from the block's other members. It returns "" if they fit no type that MCP defines.
func (c *Content) kind(block json.RawMessage) string {
	switch {
	case c.Resource != nil:
		return "resource"
	case c.Data != "" && strings.HasPrefix(c.MIMEType, "audio/"):
		return "audio"
	case c.Data != "":
		return "image"
	case !hasOther(block, []string{"type", "text", "annotations", "_meta"}):
		return "text"
	}
	return ""
}

// plainBase64 converts a data URL, base64 with white space or base64url to base64 as MCP defines it. It returns all other data unchanged.
func plainBase64(data, mimeType string) (string, string) {
	const scheme = "data:"
	if len(data) > len(scheme) && strings.EqualFold(data[:len(scheme)], scheme) {
		head, content, ok := strings.Cut(data[len(scheme):], ",")
		if !ok {
			return data, mimeType
		}
		kind, inBase64 := head, false
		if i := strings.LastIndexByte(head, ';'); i >= 0 && strings.EqualFold(strings.TrimSpace(head[i+1:]), "base64") {
			kind, inBase64 = head[:i], true
		}
		if strings.Contains(content, "%") {
			if plain, err := url.PathUnescape(content); err == nil {
				content = plain
			}
		}
		if mimeType == "" {
			mimeType = strings.TrimSpace(kind)
		}
		if data = content; !inBase64 {
			return base64.StdEncoding.EncodeToString([]byte(content)), mimeType
		}
	}
	if strings.ContainsAny(data, " \t\r\n-_") {
		data = base64Letters.Replace(data)
	}
	return data, mimeType
}

var base64Letters = strings.NewReplacer(" ", "", "\t", "", "\r", "", "\n", "", "-", "+", "_", "/")

func present(raw json.RawMessage) bool {
	return len(raw) > 0 && !bytes.Equal(raw, []byte("null"))
}

const (
	maxExcerpt = 120      // maximum number of bytes of wire data in an error message
	maxSaid    = 16 << 10 // maximum number of bytes of a server's text for people: errors, reasons, progress
)

// excerpt quotes the beginning of wire data for an error message.
func excerpt(data []byte) string {
	if len(data) > maxExcerpt {
		return fmt.Sprintf("%q...", data[:maxExcerpt])
	}
	return fmt.Sprintf("%q", data)
}

var (
	addressParams = startup.Regexp(`(https?://[^\s"?#]*)[?#][^\s"]*`)
	addressUser   = startup.Regexp(`(https?://)[^\s"/?#@]*@`)
)

// withoutSecrets removes the parts of addresses in a text that may be secret: users, passwords and parameters.
func withoutSecrets(text string) string {
	return addressUser().ReplaceAllString(addressParams().ReplaceAllString(text, "$1?..."), "$1")
}

// brief is an error with a text of bounded length, because the SDK quotes what servers send. It removes users and parameters,
// which may be secret, from addresses in the text.
type brief struct{ error }

func (e brief) Error() string { return clip.Words(withoutSecrets(e.error.Error()), maxSaid) }
func (e brief) Unwrap() error { return e.error }

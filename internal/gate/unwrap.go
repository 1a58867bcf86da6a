package gate

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/url"
	"path"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/jsontext"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/startup"
)

// maxToolError is how many bytes of a server's words about a failure are passed on.
const maxToolError = 64 << 10

// resultsFolder has the files of answers, by run and call.
const resultsFolder = "/workspace/results/"

// handle stands in the guest for what was saved as a file.
type handle struct {
	File     string `json:"file"` // path below /workspace
	MIMEType string `json:"mimeType,omitempty"`
	Bytes    int    `json:"bytes"`
	Note     string `json:"note,omitempty"`
}

// unwrap makes the value that a program gets of a result; raw is the whole result. A result that is an error gives what
// the server said.
func (t *toolCall) unwrap(ctx context.Context, tool *catalog.Tool, result *mcpclient.Result, raw bool) (json.RawMessage, *frame.Error) {
	if !raw && result.IsError {
		failed := toolError(t.name, errorText(result))
		if len(result.StructuredContent) <= maxToolError {
			failed.Data = bytes.Clone(result.StructuredContent)
		}
		return nil, failed
	}
	var value, beside json.RawMessage
	var err error
	if raw {
		value, err = t.hideJSON(ctx, result.Raw)
	} else {
		value, err = t.value(ctx, tool, result)
		if err == nil && result.StructuredContent != nil {
			beside, err = t.beside(ctx, tool, result)
		}
		if hook := t.run.gate.opt.Answered; hook != nil && err == nil && t.whole(result) {
			hook(ctx, t.run.scope.User, tool, value)
		}
	}
	if err == nil {
		value, err = t.run.fit(ctx, t.call.N, value)
	}
	if err != nil {
		return nil, undelivered(t.name, err.Error(), t.write)
	}
	t.run.tell(t.flight, t.name, value, "", beside)
	if !result.IsError {
		t.run.gate.opt.Catalog.Used(t.run.scope.User, tool)
	}
	return bytes.Clone(value), nil // the result, which it may be a view of, is released
}

// value is the value of a result:
//
//   - structuredContent, if there is one; its property "result" alone if the tool's results are {"result": ...} and it has no other.
//     Other blocks mostly repeat it; what they say besides is kept beside the value;
//   - else what a single text block says, parsed if that is a JSON object or array, else as a string; a text that is
//     larger than a program may hold becomes a file, and one with half of a surrogate pair is a string;
//   - else an array with the text of each text block, in order;
//   - images, audio and embedded resources become files, with a handle in their place; links to resources stay objects;
//   - null for a result without content.
//
// What the server wrote is hidden here: the handles of files, which have tokens in their names, are not.
func (t *toolCall) value(ctx context.Context, tool *catalog.Tool, result *mcpclient.Result) (json.RawMessage, error) {
	switch {
	case result.StructuredContent != nil && tool.WrapsResult():
		return t.hideJSON(ctx, onlyResult(result.StructuredContent))
	case result.StructuredContent != nil:
		return t.hideJSON(ctx, result.StructuredContent)
	case len(result.Content) == 1 && result.Content[0].Type == "text" && half(result.Content[0]) == nil:
		return t.text(ctx, result.Content[0].Text)
	}
	parts := make([][]byte, len(result.Content))
	files := 0
	for i, c := range result.Content {
		name, kind, content := fileOf(c, files+1)
		switch {
		case name != "":
			files++
			saved, err := t.saveText(ctx, fmt.Sprintf("%d-%s", files, name), kind, content, false)
			if err != nil {
				return nil, err
			}
			parts[i] = saved
		default:
			part := c.Raw
			if c.Type == "text" {
				if part = half(c); part == nil {
					part = quote(c.Text)
				}
			}
			hidden, err := t.hideJSON(ctx, part)
			if err != nil {
				return nil, err
			}
			parts[i] = hidden
		}
	}
	switch len(parts) {
	case 0:
		return json.RawMessage("null"), nil
	case 1:
		return parts[0], nil
	}
	return slices.Concat([]byte("["), bytes.Join(parts, []byte(",")), []byte("]")), nil
}

// half is the JSON string of a text that has half of a surrogate pair, which the decoded text has not; nil for any other text.
func half(c mcpclient.Content) json.RawMessage {
	if !bytes.Contains(c.Raw, []byte(`\ud`)) && !bytes.Contains(c.Raw, []byte(`\uD`)) {
		return nil
	}
	for name, v := range jsontext.Members(c.Raw) {
		if text := c.Raw[v.From:v.End]; name == "text" && jsontext.HasHalf(text) {
			return text
		}
	}
	return nil
}

// whole reports whether the value of a result is what the server said, and no handle of a file.
func (t *toolCall) whole(result *mcpclient.Result) bool {
	return result.StructuredContent != nil ||
		len(result.Content) == 1 && result.Content[0].Type == "text" && len(result.Content[0].Text) <= t.run.scope.MaxValue
}

func (t *toolCall) text(ctx context.Context, text string) (json.RawMessage, error) {
	trimmed := strings.TrimSpace(text)
	isJSON := trimmed != "" && (trimmed[0] == '{' || trimmed[0] == '[') && json.Valid([]byte(trimmed))
	switch {
	case len(text) > t.run.scope.MaxValue && isJSON:
		return t.saveText(ctx, "result.json", "application/json", trimmed, true)
	case len(text) > t.run.scope.MaxValue:
		return t.saveText(ctx, "result.txt", "text/plain", text, true)
	case isJSON:
		return t.hideJSON(ctx, json.RawMessage(trimmed))
	}
	return t.hideJSON(ctx, quote(text))
}

// hideJSON hides personal data in what the server answered: step 9. An answer that came is journaled, also when the run is being
// cancelled.
func (t *toolCall) hideJSON(ctx context.Context, value json.RawMessage) (json.RawMessage, error) {
	value, err := t.run.scope.Privacy.HideJSON(context.WithoutCancel(ctx), pii.Origin(t.name), value, t.sent...)
	if err != nil {
		return nil, fmt.Errorf("the answer cannot be shown: %w", err)
	}
	t.saidBy(ctx, value)
	return value, nil
}

func quote(s string) json.RawMessage {
	raw, _ := journal.Encode(s) // a string can always be encoded
	return raw
}

// onlyResult takes the inner value out of {"result": ...}, if there is nothing beside it. It reads token by token: an
// object with other properties may have millions.
func onlyResult(value json.RawMessage) json.RawMessage {
	dec := json.NewDecoder(bytes.NewReader(value))
	start, err := dec.Token()
	if err != nil || start != json.Delim('{') || !dec.More() {
		return value
	}
	var inner json.RawMessage
	if name, err := dec.Token(); err != nil || name != "result" || dec.Decode(&inner) != nil || dec.More() {
		return value
	}
	return inner
}

// errorText is what the server says about the failure, in its own words.
func errorText(res *mcpclient.Result) string {
	var texts []string
	for _, c := range res.Content {
		switch {
		case c.Type == "text" && c.Text != "":
			texts = append(texts, c.Text)
		case c.Resource != nil && c.Resource.Text != "":
			texts = append(texts, c.Resource.Text)
		}
	}
	switch {
	case len(texts) > 0:
		return clip.Words(strings.Join(texts, "\n"), maxToolError)
	case res.StructuredContent != nil:
		return clip.Words(string(res.StructuredContent), maxToolError)
	}
	return "the tool failed without saying why"
}

// fileOf returns the file that a block is, with a plain file name; name is empty for a block that is none. n numbers
// files to which the server gave no name.
func fileOf(c mcpclient.Content, n int) (name, kind, content string) {
	switch {
	case (c.Type == "image" || c.Type == "audio") && c.Data != "":
		return fileName(c.Type, c.MIMEType, n), c.MIMEType, decodeBase64(c.Data)
	case c.Type == "resource" && c.Resource != nil:
		r := c.Resource
		if name, content = nameOfURI(r.URI), r.Text; name == "" {
			name = fileName("resource", r.MIMEType, n)
		}
		if r.Blob != "" {
			content = decodeBase64(r.Blob)
		}
		return name, r.MIMEType, content
	}
	return "", "", ""
}

// fileName makes a name such as image-1.png.
func fileName(kind, mimeType string, n int) string {
	base, _, _ := mime.ParseMediaType(mimeType)
	extension, known := map[string]string{
		"image/jpeg": ".jpg", // some systems name .jfif first
		"text/plain": ".txt", "audio/wav": ".wav", "audio/x-wav": ".wav", "audio/mpeg": ".mp3",
	}[base]
	if _, sub, ok := strings.Cut(base, "/"); !known && ok && plainName(sub) {
		extension = "." + strings.TrimSuffix(sub, "+xml")
	}
	return fmt.Sprintf("%s-%d%s", kind, n, extension)
}

// nameOfURI returns the last element of a URI's path if it can be a file name.
func nameOfURI(uri string) string {
	u, err := url.Parse(uri)
	if err != nil {
		return ""
	}
	if name := path.Base(u.Path); plainName(name) {
		return name
	}
	return ""
}

// plain is a file name, also where it is followed by an extension; device is a special one on Windows.
var (
	plain  = startup.Regexp(`^[A-Za-z0-9._+-]{0,99}[A-Za-z0-9_+-]$`)
	device = startup.Regexp(`^(?i:con|prn|aux|nul|com[^.]|lpt[^.])(\.|$)`)
)

// plainName allows only what is a file name, and no special one, on every system.
func plainName(name string) bool { return plain().MatchString(name) && !device().MatchString(name) }

// decodeBase64 accepts the variants that servers send. What is none of them is passed on as it came, so that it is not
// lost.
func decodeBase64(s string) string {
	enc := base64.RawStdEncoding
	if strings.ContainsAny(s, "-_") {
		enc = base64.RawURLEncoding
	}
	var b strings.Builder
	b.Grow(enc.DecodedLen(len(s)))
	if _, err := io.Copy(&b, base64.NewDecoder(enc, strings.NewReader(strings.TrimRight(s, "=\r\n")))); err != nil {
		return s
	}
	return b.String()
}

// saveText saves a file, without the personal data in it, if it is a text, and in its name. It returns its handle.
func (t *toolCall) saveText(ctx context.Context, name, kind, content string, large bool) (json.RawMessage, error) {
	done := context.WithoutCancel(ctx)
	name, err := t.run.scope.Privacy.Hide(done, pii.Origin(t.name), name, t.sent...)
	if err == nil {
		content, err = t.run.scope.Privacy.HideContent(done, pii.Origin(t.name), content, t.sent...)
	}
	if err != nil {
		return nil, fmt.Errorf("the answer cannot be saved: %w", err)
	}
	t.saidInFile(ctx, name, content)
	return t.run.save(ctx, t.call.N, name, kind, len(content), strings.NewReader(content), large)
}

// save writes what does not enter the guest into the workspace and returns its handle.
func (r *Run) save(ctx context.Context, n int, name, kind string, size int, content io.Reader, large bool) (json.RawMessage, error) {
	h := handle{File: fmt.Sprintf("%s%s/%d/%s", resultsFolder, r.scope.Run, n, name), MIMEType: kind, Bytes: size}
	if large {
		h.Note = fmt.Sprintf("the answer is larger than %d bytes: read the file in parts with fs.readFile(file, {offset, length})", r.scope.MaxValue)
	}
	err := r.scope.Files.WriteFrom(ctx, h.File, int64(size), content)
	switch {
	case err != nil && large:
		return nil, fmt.Errorf("the answer has %d bytes, more than a program may hold (sandbox.maxValue), and cannot be saved: %w",
			size, err)
	case err != nil:
		return nil, fmt.Errorf("a file of the answer cannot be saved: %w", err)
	}
	raw, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("encode the answer: %w", err)
	}
	return raw, nil
}

// fit passes a value that is small enough; a larger one is saved, and the program gets its handle.
func (r *Run) fit(ctx context.Context, n int, value json.RawMessage) (json.RawMessage, error) {
	if len(value) <= r.scope.MaxValue {
		return value, nil
	}
	return r.save(ctx, n, "result.json", "application/json", len(value), bytes.NewReader(value), true)
}

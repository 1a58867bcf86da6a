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

// maxToolError is the maximum number of bytes of a server's error message that a program gets.
const maxToolError = 64 << 10

// resultsFolder is the folder for files with answers or parts of answers. It has a folder for each run, which has a folder for each call.
const resultsFolder = "/workspace/results/"

// handle is the value that stands for a saved file in the guest.
type handle struct {
	File     string `json:"file"` // path below /workspace
	MIMEType string `json:"mimeType,omitempty"`
	Bytes    int    `json:"bytes"`
	Note     string `json:"note,omitempty"`
}

// unwrap returns the value of a result for the program. If raw is set, the value is the whole result, even of a failed call. Otherwise a result
// that is an error becomes an error with the server's message.
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
	return bytes.Clone(value), nil // value may refer to memory of the result, which is released
}

// value returns the value of a result:
//
//   - structuredContent, if there is any; only its inner value if the server wraps every result of the tool as {"result": ...}.
//     Other blocks mostly repeat structuredContent; the rest of their content is kept beside the value;
//   - otherwise the text of a single text block: parsed if it is a JSON object or array, otherwise as a string. A text that is
//     larger than a program may hold becomes a file, and one with half of a surrogate pair is a string;
//   - otherwise an array with the text of each text block, in order;
//   - images, audio and embedded resources become files and are replaced by handles; links to resources stay objects;
//   - null for a result without content.
//
// Personal data is hidden in what the server wrote, but not in the handles of files, whose names already contain tokens.
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

// half returns the JSON string of a text with half of a surrogate pair, because decoding the string would lose that half. It returns nil for
// any other text.
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

// whole reports whether the value of a result is what the server wrote, not a handle of a file.
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

// hideJSON hides personal data in the server's answer: step 9. It ignores the end of ctx, so that an answer is journaled even if the run is
// being cancelled.
func (t *toolCall) hideJSON(ctx context.Context, value json.RawMessage) (json.RawMessage, error) {
	value, err := t.run.scope.Privacy.HideJSON(context.WithoutCancel(ctx), pii.Origin(t.name), value, t.sent...)
	if err != nil {
		return nil, fmt.Errorf("the answer cannot be shown: %w", err)
	}
	t.saidBy(ctx, value)
	return value, nil
}

func quote(s string) json.RawMessage {
	raw, _ := journal.Encode(s) // A string can always be encoded.
	return raw
}

// onlyResult returns the inner value of {"result": ...} if the object has no other property; otherwise it returns value. It reads token by token,
// because an object with other properties may have millions of them.
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

// errorText returns the server's own message about a failure.
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

// fileOf returns the file in a content block, with a plain file name. name is empty if the block is not a file. n numbers files to which the
// server gave no name.
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

// fileName returns a name such as image-1.png.
func fileName(kind, mimeType string, n int) string {
	base, _, _ := mime.ParseMediaType(mimeType)
	extension, known := map[string]string{
		"image/jpeg": ".jpg", // Some systems list .jfif before .jpg.
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

// plain matches file names that stay valid if an extension is appended; device matches names with a special meaning on Windows.
var (
	plain  = startup.Regexp(`^[A-Za-z0-9._+-]{0,99}[A-Za-z0-9_+-]$`)
	device = startup.Regexp(`^(?i:con|prn|aux|nul|com[^.]|lpt[^.])(\.|$)`)
)

// plainName reports whether a name is, on every system, a file name without special meaning.
func plainName(name string) bool { return plain().MatchString(name) && !device().MatchString(name) }

// decodeBase64 decodes the variants of base64 that servers send. It returns any other text unchanged, so that nothing is lost.
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

// saveText saves a file and returns its handle. It hides personal data in the file's name and, if the file is a text, in its content.
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

// save writes content that is not passed to the guest into a file of the workspace, and returns its handle.
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

// fit returns a small enough value unchanged. It saves a larger value as a file and returns its handle.
func (r *Run) fit(ctx context.Context, n int, value json.RawMessage) (json.RawMessage, error) {
	if len(value) <= r.scope.MaxValue {
		return value, nil
	}
	return r.save(ctx, n, "result.json", "application/json", len(value), bytes.NewReader(value), true)
}

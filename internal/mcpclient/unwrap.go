package mcpclient

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/url"
	"path"
	"strings"
)

// File is a part of a result that is not for the program's memory: an image, audio, an embedded resource, or a text that
// is too large.
type File struct {
	Name     string // a plain file name with an extension, made up where the server gave none
	MIMEType string
	Content  string
	// At is where in the unwrapped value the handle of the file belongs: AtRoot is the value itself, anything else an
	// index of the array that the value is. The value has null there.
	At    int
	Large bool // it is a file for its size only
}

// AtRoot is the index of a file that is the whole value.
const AtRoot = -1

// Unwrap turns a result into the value a program gets:
//
//   - structuredContent, if there is one; its property "result" alone if wrapped says that the tool's results are
//     {"result": ...}, and it has no other;
//   - else what a single text block says, parsed if that is a JSON object or array, else as a string; a text of more
//     than limit bytes becomes a file;
//   - else an array with the text of each text block, in order;
//   - images, audio and embedded resources become files, null in their place; links to resources stay objects;
//   - null for a result without content.
//
// toolErr is what the server said if the result is an error, never empty then; value and files are empty.
// With structuredContent the other blocks only repeat it and are left out.
func Unwrap(res *Result, wrapped bool, limit int) (value json.RawMessage, files []File, toolErr string) {
	if res.IsError {
		return nil, nil, errorText(res)
	}
	if res.StructuredContent != nil {
		if wrapped {
			return onlyResult(res.StructuredContent), nil, ""
		}
		return res.StructuredContent, nil, ""
	}
	if len(res.Content) == 1 && res.Content[0].Type == "text" {
		return unwrapText(res.Content[0].Text, limit)
	}
	var parts []json.RawMessage
	for _, c := range res.Content {
		part := json.RawMessage("null")
		switch file, isFile := fileOf(c, len(files)); {
		case isFile:
			file.At = len(parts)
			files = append(files, file)
		case c.Type == "text":
			part = quote(c.Text)
		default:
			part = c.Raw
		}
		parts = append(parts, part)
	}
	switch {
	case len(parts) == 0:
		return json.RawMessage("null"), nil, ""
	case len(parts) > 1:
		return joinArray(parts), files, ""
	case len(files) == 1:
		files[0].At = AtRoot
	}
	return parts[0], files, ""
}

func unwrapText(text string, limit int) (value json.RawMessage, files []File, toolErr string) {
	trimmed := strings.TrimSpace(text)
	isJSON := trimmed != "" && (trimmed[0] == '{' || trimmed[0] == '[') && json.Valid([]byte(trimmed))
	switch {
	case len(text) > limit && isJSON:
		return json.RawMessage("null"), []File{{Name: "result.json", MIMEType: "application/json", Content: trimmed, At: AtRoot, Large: true}}, ""
	case len(text) > limit:
		return json.RawMessage("null"), []File{{Name: "result.txt", MIMEType: "text/plain", Content: text, At: AtRoot, Large: true}}, ""
	case isJSON:
		return json.RawMessage(trimmed), nil, ""
	}
	return quote(text), nil, ""
}

// PlaceFiles puts the handles of files, in their order, into the value that Unwrap returned with them.
func PlaceFiles(value json.RawMessage, files []File, handles []json.RawMessage) (json.RawMessage, error) {
	if len(files) != len(handles) {
		return nil, fmt.Errorf("place files: %d handles for %d files", len(handles), len(files))
	}
	if len(files) == 0 {
		return value, nil
	}
	if files[0].At == AtRoot {
		return handles[0], nil
	}
	var parts []json.RawMessage
	if err := json.Unmarshal(value, &parts); err != nil {
		return nil, fmt.Errorf("place files: %w", err)
	}
	for i, f := range files {
		if f.At < 0 || f.At >= len(parts) {
			return nil, fmt.Errorf("place files: %s belongs at %d of %d", f.Name, f.At, len(parts))
		}
		parts[f.At] = handles[i]
	}
	return joinArray(parts), nil
}

// onlyResult takes the inner value out of {"result": ...}, if there is nothing beside it. It reads token by token: what
// has other properties may have millions.
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

// maxToolError is how many bytes of what a server says about a failure are passed on.
const maxToolError = 64 << 10

// errorText is what the server says about the failure, in its own words.
func errorText(res *Result) string {
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
		return clip(strings.Join(texts, "\n"), maxToolError)
	case res.StructuredContent != nil:
		return clip(string(res.StructuredContent), maxToolError)
	}
	return "the tool failed without saying why"
}

// fileOf makes a file of a block that is one; n numbers files without a name.
func fileOf(c Content, n int) (File, bool) {
	switch {
	case (c.Type == "image" || c.Type == "audio") && c.Data != "":
		return File{Name: fileName(c.Type, c.MIMEType, n), MIMEType: c.MIMEType, Content: decodeBase64(c.Data)}, true
	case c.Type == "resource" && c.Resource != nil:
		r := c.Resource
		f := File{Name: nameOfURI(r.URI), MIMEType: r.MIMEType, Content: r.Text}
		if r.Blob != "" {
			f.Content = decodeBase64(r.Blob)
		}
		if f.Name == "" {
			f.Name = fileName("resource", r.MIMEType, n)
		}
		return f, true
	}
	return File{}, false
}

// fileName makes a name such as image-1.png.
func fileName(kind, mimeType string, n int) string {
	ext := ""
	switch base, _, _ := mime.ParseMediaType(mimeType); base {
	case "image/jpeg":
		ext = ".jpg" // the first that the system's table has may be .jfif
	case "text/plain":
		ext = ".txt"
	case "audio/wav", "audio/x-wav":
		ext = ".wav"
	case "audio/mpeg":
		ext = ".mp3"
	case "application/json":
		ext = ".json"
	case "":
	default:
		if _, sub, ok := strings.Cut(base, "/"); ok && plainName(sub) {
			ext = "." + strings.TrimSuffix(sub, "+xml")
		}
	}
	return fmt.Sprintf("%s-%d%s", kind, n+1, ext)
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

// plainName allows only what is a file name, and no special one, on every system.
func plainName(name string) bool {
	if name == "" || len(name) > 100 || strings.Trim(name, ".") == "" || strings.HasSuffix(name, ".") {
		return false
	}
	stem, _, _ := strings.Cut(strings.ToLower(name), ".")
	switch {
	case stem == "con", stem == "prn", stem == "aux", stem == "nul",
		len(stem) == 4 && (strings.HasPrefix(stem, "com") || strings.HasPrefix(stem, "lpt")):
		return false // devices on Windows
	}
	for _, c := range name {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.ContainsRune("._-+", c):
		default:
			return false
		}
	}
	return true
}

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

func quote(s string) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string can always be encoded
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func joinArray(parts []json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('[')
	for i, p := range parts {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(p)
	}
	b.WriteByte(']')
	return b.Bytes()
}

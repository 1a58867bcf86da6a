package mcpclient

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"mime"
	"net/url"
	"path"
	"strings"
)

// File is a part of a result that is not for the program's memory: an image, audio or an embedded resource.
type File struct {
	Name     string // a plain file name with an extension, made up where the server gave none
	MIMEType string
	Bytes    []byte
	// At is where in the unwrapped value the handle of the file belongs: AtRoot is the value itself, anything else an
	// index of the array that the value is. The value has null there.
	At int
}

// AtRoot is the place of a file that is the whole value.
const AtRoot = -1

// Unwrap turns a result into the value a program gets:
//
//   - structuredContent, if there is one; its inner value if the only property of the output schema is "result", as
//     FastMCP wraps whatever is not an object;
//   - else what a single text block says, parsed if that is a JSON object or array, else as a string;
//   - else an array with the text of each text block, in order;
//   - images, audio and embedded resources become files, null in their place; links to resources stay objects;
//   - null for a result without content.
//
// toolErr is what the server said if the result is an error, never empty then; value and files are empty.
// With structuredContent the other blocks only repeat it and are left out.
func Unwrap(res *Result, outputSchema json.RawMessage) (value json.RawMessage, files []File, toolErr string) {
	if res.IsError {
		return nil, nil, errorText(res)
	}
	if res.StructuredContent != nil {
		return unwrapResult(res.StructuredContent, outputSchema), nil, ""
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
	case res.Content[0].Type == "text":
		if text := strings.TrimSpace(res.Content[0].Text); text != "" && (text[0] == '{' || text[0] == '[') &&
			json.Valid([]byte(text)) {
			return json.RawMessage(text), nil, ""
		}
	}
	return parts[0], files, ""
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

// unwrapResult takes the inner value out of {"result": ...}, if the schema says that this is all there ever is.
func unwrapResult(value, outputSchema json.RawMessage) json.RawMessage {
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(outputSchema, &schema) != nil || len(schema.Properties) != 1 || schema.Properties["result"] == nil {
		return value
	}
	// Read token by token: what has other properties may have millions.
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
		return File{Name: fileName(c.Type, c.MIMEType, n), MIMEType: c.MIMEType, Bytes: decodeBase64(c.Data)}, true
	case c.Type == "resource" && c.Resource != nil:
		r := c.Resource
		f := File{Name: nameOfURI(r.URI), MIMEType: r.MIMEType, Bytes: []byte(r.Text)}
		if r.Blob != "" {
			f.Bytes = decodeBase64(r.Blob)
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

// decodeBase64 accepts the variants that servers send. What is none of them is passed on as it came: losing it helps
// nobody.
func decodeBase64(s string) []byte {
	for _, enc := range []*base64.Encoding{
		base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding,
	} {
		if data, err := enc.DecodeString(s); err == nil {
			return data
		}
	}
	return []byte(s)
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

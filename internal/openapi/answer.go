package openapi

import (
	"bytes"
	"encoding/json"
	"mime"
	"net/http"
	"path"
	"strings"
	"unicode/utf8"

	"mcp-code-exec-harness/internal/startup"
)

// Answer is what a service answered.
type Answer struct {
	Status int
	// Header holds what programs can use of the headers, above all to get further pages, by names in lower case.
	Header map[string]string
	JSON   json.RawMessage // the content, if it is JSON
	Text   string          // the content, if it is another text
	Data   []byte          // any other content
	// MediaType and Name are those of Data and Text; Name may be empty.
	MediaType, Name string
}

// told are the headers that programs get.
var told = startup.Regexp(`^(link|location|content-location|etag|last-modified|retry-after|allow|content-range|` +
	`(x-)?rate-?limit(-[a-z-]+)?|x-[a-z-]*(page|pages|total|count|cursor|next|offset|request-id)[a-z-]*)$`)

const (
	maxHeaders = 32
	maxHeader  = 4 << 10 // bytes
)

// Read reads an answer. body is kept.
func Read(status int, header http.Header, body []byte) Answer {
	a := Answer{Status: status, Header: map[string]string{}}
	for name, values := range header {
		if name = strings.ToLower(name); told().MatchString(name) && len(a.Header) < maxHeaders {
			a.Header[name] = clip(strings.Join(values, ", "), maxHeader)
		}
	}
	a.MediaType, _, _ = mime.ParseMediaType(header.Get("Content-Type"))
	_, params, err := mime.ParseMediaType(header.Get("Content-Disposition"))
	if err == nil {
		a.Name = path.Base(strings.ReplaceAll(params["filename"], `\`, "/"))
	}
	if a.Name == "." || a.Name == "/" {
		a.Name = ""
	}
	trimmed := bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\xef\xbb\xbf")))
	switch {
	case len(trimmed) == 0:
	case (IsJSON(a.MediaType) || a.MediaType == "") && json.Valid(trimmed):
		a.JSON = trimmed
	case isText(a.MediaType) || IsJSON(a.MediaType) || a.MediaType == "" && utf8.Valid(body):
		a.Text = strings.ToValidUTF8(string(body), "\uFFFD")
	default:
		a.Data = body
	}
	return a
}

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

// Answer is the answer of a service.
type Answer struct {
	Status int
	// Header holds the headers that programs can use, mainly for fetching further pages, by names in lower case.
	Header map[string]string
	JSON   json.RawMessage // content, if it is JSON
	Text   string          // content, if it is other text
	Data   []byte          // any other content
	// MediaType and Name describe Data and Text; Name may be empty.
	MediaType, Name string
}

// told matches the names of the headers that programs get.
var told = startup.Regexp(`^(link|location|content-location|etag|last-modified|retry-after|allow|content-range|` +
	`(x-)?rate-?limit(-[a-z-]+)?|x-[a-z-]*(page|pages|total|count|cursor|next|offset|request-id)[a-z-]*)$`)

const (
	maxHeaders = 32
	maxHeader  = 4 << 10 // maximum length of a header in bytes
)

// Read reads an answer. The result may refer to body, which must not be changed.
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

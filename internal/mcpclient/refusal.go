package mcpclient

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/html"

	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/openapi"
)

const (
	// maxErrorBody is the maximum number of bytes that are read from the body of a refusal.
	maxErrorBody = 60 << 10
	// errorBodyWait is the maximum time to read the body of a refusal.
	errorBodyWait = 3 * time.Second
	// maxReason is the maximum number of bytes of a refusal's body in the text of an error; programs get more of it as data.
	maxReason = 2 << 10
)

// Refusal is the HTTP response of a server that did not give an answer.
type Refusal struct {
	Status int
	Header map[string]string // headers that programs may need, by lower-case name
	// Body is the content: a JSON value, or text as a JSON string. It is nil if there is no content or the content is binary.
	Body json.RawMessage
	Said string // content as text for people, without HTML markup; at most maxReason bytes

	body []byte // all content that was read
}

// newRefusal returns the refusal for an answer. body is the content without the secrets of the request.
func newRefusal(a openapi.Answer, body []byte) *Refusal {
	r := &Refusal{Status: a.Status, Header: a.Header, body: body}
	switch {
	case a.JSON != nil:
		r.Body, r.Said = a.JSON, string(a.JSON)
	case a.Text != "":
		text := clip.Words(a.Text, maxErrorBody/2)
		r.Body, _ = json.Marshal(text)
		if r.Said = text; a.MediaType == "text/html" || strings.HasPrefix(strings.TrimSpace(text), "<") {
			r.Said = pageText(a.Text)
		}
	}
	r.Said = clip.Words(strings.TrimSpace(r.Said), maxReason)
	return r
}

// Error returns the status, what to do about it and the content, as text for people.
func (r *Refusal) Error() string {
	text := fmt.Sprintf("it answered HTTP %d %s", r.Status, http.StatusText(r.Status))
	after := r.Header["retry-after"]
	if _, err := strconv.Atoi(after); err == nil {
		after += " seconds"
	}
	switch {
	case r.Status < 400 && r.Header["location"] != "":
		text += fmt.Sprintf(": a redirect to %s, which is not followed", r.Header["location"])
	case after != "":
		text += "; retry after " + after
	case r.Status == http.StatusTooManyRequests:
		text += "; call it less often"
	}
	if r.Said != "" {
		text += ": " + r.Said
	}
	return text
}

// Data returns the refusal in the form that programs get: {status, headers, body}.
func (r *Refusal) Data() json.RawMessage {
	data := map[string]any{"status": r.Status, "headers": r.Header, "body": ""}
	if r.Body != nil {
		data["body"] = r.Body
	}
	raw, _ := json.Marshal(data) // body is valid JSON
	return raw
}

// refusalOf returns the refusal that caused an error, nil if there is none.
func refusalOf(err error) *Refusal {
	if f, ok := errors.AsType[*fault](err); ok {
		return f.refusal
	}
	return nil
}

// leavesOpen reports whether the outcome of a request is unknown after an HTTP status. A 4xx status tells that the request
// was not carried out (RFC 9110, section 15.5), except for 408 and nginx's 499, which a proxy sends when it stops waiting. 501
// and 505 tell the same. After any other failure the server may have carried out the request in part or, behind a gateway, completely.
func leavesOpen(status int) bool {
	switch status {
	case http.StatusRequestTimeout, 499:
		return true
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return false
	}
	return status < 400 || status >= 500
}

// refuse reads the response of a server that refused a request, and returns the fault of the request. It closes the body.
func (r *requester) refuse(res *http.Response) *fault {
	refusal := r.refusal(res)
	f := newFault(KindHTTP, "%s", refusal.Error())
	f.status, f.unsent, f.refusal = refusal.Status, !leavesOpen(refusal.Status), refusal
	if r.credentials == nil && (f.status == http.StatusUnauthorized || f.status == http.StatusForbidden) {
		f.msg += "; give credentials in its headers, or set its auth and log in: harness servers login NAME"
	}
	return f
}

// refusal reads the response of a server that refused a request, and removes the secrets of the request. It closes the body.
func (r *requester) refusal(res *http.Response) *Refusal {
	r.cleanHeader(res.Header)
	body := r.clean(errorBody(res))
	return newRefusal(openapi.Read(res.StatusCode, res.Header, body), body)
}

// cleanHeader applies clean to the headers of a response.
func (r *requester) cleanHeader(header http.Header) {
	for _, values := range header {
		for i, value := range values {
			values[i] = string(r.clean([]byte(value)))
		}
	}
}

// errorBody reads the beginning of a refusal's body, within errorBodyWait, and closes the body.
func errorBody(res *http.Response) []byte {
	defer func() { _ = res.Body.Close() }()
	defer time.AfterFunc(errorBodyWait, func() { _ = res.Body.Close() }).Stop()
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBody)) // a part of the body is better than nothing
	return body
}

// pageText returns the visible text of an HTML page.
func pageText(page string) string {
	var words []string
	hidden := ""
	for z := html.NewTokenizer(strings.NewReader(page)); ; {
		switch z.Next() {
		case html.ErrorToken:
			return strings.Join(words, " ")
		case html.StartTagToken:
			if name, _ := z.TagName(); hidden == "" && (string(name) == "script" || string(name) == "style") {
				hidden = string(name)
			}
		case html.EndTagToken:
			if name, _ := z.TagName(); string(name) == hidden {
				hidden = ""
			}
		case html.TextToken:
			if hidden == "" {
				words = append(words, strings.Fields(string(bytes.ToValidUTF8(z.Text(), []byte("\uFFFD"))))...)
			}
		}
	}
}

package web

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/api"
)

// caller is the person or program who reads a page.
type caller = api.Caller

// refusal is an error response of the API.
type refusal struct {
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Errors []struct {
		Message  string `json:"message"`
		Location string `json:"location"`
	} `json:"errors"`
	after string // value of Retry-After
}

func (r *refusal) Error() string {
	text := r.Detail
	for _, e := range r.Errors {
		text += "; " + strings.TrimPrefix(e.Location, "body.") + ": " + e.Message
	}
	return text
}

// identify finds out who the reader is. The API counts this as a request.
func (v *visit) identify() error { return v.get("/v1/me", &v.me) }

// get reads a resource of the API at a path, with those parameters that are not empty.
func (v *visit) get(path string, into any, parameters ...string) error {
	query := url.Values{}
	for i := 0; i+1 < len(parameters); i += 2 {
		if parameters[i+1] != "" {
			query.Set(parameters[i], parameters[i+1])
		}
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return v.send(http.MethodGet, path, nil, into)
}

// send sends JSON to the API in the name of the reader, and reads the answer. For an error response it returns a *refusal.
func (v *visit) send(method, path string, body, into any) error {
	var sent io.Reader
	size := int64(0)
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		sent, size = bytes.NewReader(text), int64(len(text))
	}
	got := v.answer()
	if err := v.exchange(got, method, path, sent, size, "application/json"); err != nil {
		return err
	}
	if err := got.refused(); err != nil {
		return err
	}
	if into == nil || got.body.Len() == 0 {
		return nil
	}
	if err := json.Unmarshal(got.body.Bytes(), into); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

// request returns a request to the API in the name of the reader.
func (v *visit) request(ctx context.Context, method, path string, body io.Reader) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, path, body)
	if err != nil {
		return nil, &refusal{Status: http.StatusBadRequest, Detail: "the address is not well formed"}
	}
	r.Host, r.RemoteAddr, r.TLS = v.r.Host, v.r.RemoteAddr, v.r.TLS
	for _, header := range []string{"X-Forwarded-For", "X-Forwarded-Proto"} {
		r.Header[header] = v.r.Header.Values(header)
	}
	r.Header.Set("Authorization", "Bearer "+v.reader.Credential)
	return r, nil
}

// exchange sends a request to the API, which writes its answer to w.
func (v *visit) exchange(w http.ResponseWriter, method, path string, body io.Reader, size int64, kind string) error {
	r, err := v.request(v.r.Context(), method, path, body)
	if err != nil {
		return err
	}
	if body != nil {
		r.Header.Set("Content-Type", kind)
		r.ContentLength = size
	}
	handler := v.s.opt.Uncounted
	if v.me.Principal == "" { // the first request identifies the reader, and is counted
		handler = v.s.opt.API
	}
	handler.ServeHTTP(w, r)
	return nil
}

// answer records a response of the API.
type answer struct {
	conn   *http.ResponseController // connection of the browser, on which the API sets a deadline for reading a body
	header http.Header
	status int
	body   bytes.Buffer
}

func (v *visit) answer() *answer {
	return &answer{conn: http.NewResponseController(v.w), header: http.Header{}}
}

// SetReadDeadline lets http.ResponseController limit the time that the browser has to send a body.
func (a *answer) SetReadDeadline(at time.Time) error { return a.conn.SetReadDeadline(at) }

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

// refused returns an error response as a *refusal, or nil if the response is a success.
func (a *answer) refused() error {
	if a.status < 400 {
		return nil
	}
	r := &refusal{}
	if json.Unmarshal(a.body.Bytes(), r) != nil || r.Detail == "" {
		r.Detail = http.StatusText(a.status)
	}
	r.Status, r.after = a.status, a.header.Get("Retry-After")
	return r
}

// Package harness is a client of the HTTP API of mcp-code-exec-harness, with Go's standard library only.
package harness

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	mathrand "math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Client is a server and the key to use. Its methods may be called concurrently.
//
// Tried again are: requests that change nothing twice (GET, PUT, DELETE, and POST with an Idempotency-Key, which the client makes), requests that were not
// accepted (429), and connections that were refused. Retry-After is obeyed. Every error of a request is an *Error, or wraps the context's.
type Client struct {
	URL      string        // address of the server; empty for http://127.0.0.1:3000
	Key      string        // API key (hk_…)
	Patience time.Duration // how long a request, or a stream without a new event, is tried again before it fails; 0 for a minute
	Backoff  time.Duration // first pause between tries, which doubles up to 2 s; 0 for 200 ms
	Silence  time.Duration // how long a stream may be silent before it is opened again; 0 for a minute. The server sends something every 15 s
	HTTP     *http.Client  // nil for http.DefaultClient
}

// Error is a request that failed.
type Error struct {
	Status     int           // HTTP status, or 0 if there was no answer
	Code       string        // a word for programs, such as "not_found" or "unreachable"
	Message    string        // description of the failure
	Fix        string        // advice; empty if Message has it already
	Details    []Detail      // wrong fields of the request
	RetryAfter time.Duration // how long the server asks to wait; negative if it does not say

	cause error
}

// Detail says what is wrong with one field.
type Detail struct {
	Message  string `json:"message"`
	Location string `json:"location,omitempty"`
}

func (e *Error) Error() string {
	if e.Status == 0 {
		return e.Message
	}
	return fmt.Sprintf("%d: %s", e.Status, e.Message)
}

func (e *Error) Unwrap() error { return e.cause }

var fixes = map[int]string{
	0:                          "start harness serve, and check the URL of the client",
	http.StatusUnauthorized:    "make a key with harness keys create, and give it to the client",
	http.StatusForbidden:       "use a key of this user that has the role the message names: harness keys create --user NAME --role ROLE",
	http.StatusNotFound:        "check the id and the key: a key sees what belongs to its user",
	http.StatusTooManyRequests: "wait as long as RetryAfter says, or raise server.rateLimit",
}

// lost returns the error for a request without an answer.
func lost(err error) error {
	var known *Error
	if errors.As(err, &known) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &Error{Code: "unreachable", Message: "no answer of the harness: " + err.Error(), Fix: fixes[0], RetryAfter: -1, cause: err}
}

// refusal returns the error that an answer holds.
func refusal(resp *http.Response) error {
	var problem struct {
		Code, Detail, Fix string
		Errors            []Detail
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	_ = json.Unmarshal(text, &problem) // The fields stay empty if the body is no problem document.
	e := &Error{Status: resp.StatusCode, Code: problem.Code, Message: problem.Detail, Fix: problem.Fix, Details: problem.Errors, RetryAfter: -1}
	if e.Code == "" {
		e.Code = strings.ReplaceAll(strings.ToLower(http.StatusText(e.Status)), " ", "_")
	}
	if e.Message == "" {
		e.Message = http.StatusText(e.Status)
	}
	if e.Fix == "" {
		e.Fix = fixes[e.Status]
	}
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil {
		e.RetryAfter = time.Duration(seconds) * time.Second
	}
	return e
}

// request is a request of the API.
type request struct {
	method, path string
	query        url.Values
	body         any // a []byte as it is, anything else as JSON; nil for none
	header       map[string]string
	safe         bool // whether a POST changes nothing a second time
}

// open sends one request. The caller closes the body of the answer.
func (c *Client) open(ctx context.Context, r request) (*http.Response, error) {
	var body io.Reader
	kind := "application/json"
	if text, raw := r.body.([]byte); raw {
		body, kind = bytes.NewReader(text), "application/octet-stream"
	} else if r.body != nil {
		text, err := json.Marshal(r.body)
		if err != nil {
			return nil, &Error{Code: "bad_request", Message: err.Error(), RetryAfter: -1, cause: err}
		}
		body = bytes.NewReader(text)
	}
	address := strings.TrimRight(c.URL, "/")
	if address == "" {
		address = "http://127.0.0.1:3000"
	}
	if len(r.query) > 0 {
		r.path += "?" + r.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, address+r.path, body)
	if err != nil {
		return nil, &Error{Code: "bad_request", Message: err.Error(), RetryAfter: -1, cause: err}
	}
	if body != nil {
		req.Header.Set("Content-Type", kind)
	}
	if c.Key != "" {
		req.Header.Set("Authorization", "Bearer "+c.Key)
	}
	for name, value := range r.header {
		req.Header.Set(name, value)
	}
	client := c.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < 300 || resp.StatusCode == http.StatusNotModified {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, refusal(resp)
}

// tries decides whether and when a request is tried again.
type tries struct {
	c     *Client
	until time.Time
	n     int
}

func (c *Client) tries() *tries {
	t := &tries{c: c}
	t.progress()
	return t
}

func (t *tries) progress() { t.until, t.n = time.Now().Add(or(t.c.Patience, time.Minute)), 0 }

// next waits before the next try. It returns the error if there is to be none.
func (t *tries) next(ctx context.Context, err error, safe bool) error {
	pause := min(time.Duration(float64(or(t.c.Backoff, 200*time.Millisecond))*math.Pow(2, float64(t.n))), 2*time.Second)
	pause = pause/2 + time.Duration(mathrand.Int64N(int64(pause/2)+1))
	t.n++
	var refused *Error
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &refused):
		gone := refused.Status == http.StatusBadGateway || refused.Status == http.StatusServiceUnavailable || refused.Status == http.StatusGatewayTimeout
		if refused.Status != http.StatusTooManyRequests && !(safe && gone) {
			return err
		}
		if refused.RetryAfter >= 0 {
			pause = refused.RetryAfter
		}
	case !safe && !errors.Is(err, syscall.ECONNREFUSED):
		return lost(err)
	}
	if time.Now().Add(pause).After(t.until) {
		return lost(err)
	}
	return sleep(ctx, pause)
}

func or(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// send sends a request until it is answered, and reads the answer.
func (c *Client) send(ctx context.Context, r request) (resp *http.Response, text []byte, err error) {
	safe := r.safe || r.method != http.MethodPost || r.header["Idempotency-Key"] != ""
	for t := c.tries(); ; {
		resp, err := c.open(ctx, r)
		if err == nil {
			text, err := readAll(resp)
			if err == nil {
				return resp, text, nil
			}
			if err := t.next(ctx, err, safe); err != nil {
				return nil, nil, err
			}
			continue
		}
		if err := t.next(ctx, err, safe); err != nil {
			return nil, nil, err
		}
	}
}

func readAll(resp *http.Response) ([]byte, error) {
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

// do sends a request and decodes the answer.
func do[T any](ctx context.Context, c *Client, r request) (out T, err error) {
	_, text, err := c.send(ctx, r)
	if err != nil || len(text) == 0 {
		return out, err
	}
	if err := json.Unmarshal(text, &out); err != nil {
		return out, &Error{Code: "unreadable_answer", Message: "the answer is no JSON of the known form: " + err.Error(), RetryAfter: -1, cause: err}
	}
	return out, nil
}

// keyed sends a POST with an Idempotency-Key: key, or a new one if key is empty.
func keyed[T any](ctx context.Context, c *Client, path, key string, body any) (T, error) {
	if key == "" {
		var text [16]byte
		_, _ = rand.Read(text[:]) // never fails
		key = hex.EncodeToString(text[:])
	}
	return do[T](ctx, c, request{method: http.MethodPost, path: path, body: body, header: map[string]string{"Idempotency-Key": key}})
}

func get[T any](ctx context.Context, c *Client, path string, query url.Values) (T, error) {
	return do[T](ctx, c, request{method: http.MethodGet, path: path, query: query})
}

func (c *Client) text(ctx context.Context, path string, query url.Values) (string, error) {
	_, text, err := c.send(ctx, request{method: http.MethodGet, path: path, query: query})
	return string(text), err
}

func (c *Client) remove(ctx context.Context, path string) error {
	_, _, err := c.send(ctx, request{method: http.MethodDelete, path: path})
	return err
}

func join(parts ...string) string {
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	return "/v1/" + strings.Join(parts, "/")
}

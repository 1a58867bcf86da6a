package model

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	maxErrorBody = 64 << 10               // maximum number of bytes read from the body of an error
	maxEvent     = 32 << 20               // maximum size of one event of a stream, in bytes
	maxEnd       = 100 * time.Millisecond // maximum time between the last event and the end of the response; if it passes, the connection is not reused
)

// errSilent is the cause with which a request is cancelled if its server was silent for too long.
var errSilent = errors.New("the server was silent for too long")

// post sends a request and passes each event of the answer to take, until take reports that the answer is complete or the
// stream ends. The error is an *Error, or the cause of ctx's end.
func (c *client) post(ctx context.Context, body []byte, take func(event object, data []byte) (done bool, err error)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return c.lost(ctx, err, false)
	}
	req.Header = c.header.Clone()
	silence := time.AfterFunc(c.cfg.Timeout, func() { cancel(errSilent) })
	defer silence.Stop()
	res, err := c.http.Do(req)
	if err != nil {
		return c.lost(ctx, err, false)
	}
	defer res.Body.Close()
	live := liveReader{res.Body, silence, c.cfg.Timeout}
	if kind := res.Header.Get("Content-Type"); res.StatusCode/100 != 2 || kind != "" && !strings.HasPrefix(kind, "text/event-stream") {
		return c.refusal(ctx, res, live)
	}
	var data []byte
	lines := bufio.NewScanner(live)
	lines.Buffer(nil, maxEvent)
	for lines.Scan() {
		line := lines.Bytes()
		if piece, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			data = append(append(data, bytes.TrimPrefix(piece, []byte(" "))...), '\n')
		}
		switch {
		case len(data) > maxEvent:
			return c.cfg.newError(KindCut, fmt.Sprintf("an event of the stream has more than %d bytes", maxEvent))
		case len(line) > 0 || len(data) == 0: // the event continues, or there is no event
			continue
		}
		done, err := c.event(data, take)
		if done { // the connection can be reused only after the end of the response, which follows
			silence.Reset(maxEnd)
			_, _ = io.CopyN(io.Discard, res.Body, maxErrorBody)
		}
		if done || err != nil {
			return err
		}
		data = data[:0]
	}
	if err := lines.Err(); err != nil || ctx.Err() != nil {
		return c.lost(ctx, err, true)
	}
	return nil
}

// event decodes an event and passes it to take. It returns an *Error for an error event, which has the same form in all wire formats.
func (c *client) event(data []byte, take func(object, []byte) (bool, error)) (done bool, err error) {
	if bytes.HasPrefix(data, []byte("[DONE]")) {
		return true, nil
	}
	var event object
	if err = decode(data, &event); err == nil {
		if event["type"] == "error" || event["error"] != nil {
			return false, parseFailure(0, data).newError(c.cfg)
		}
		done, err = take(event, data)
	}
	if said, ok := errors.AsType[failure](err); ok {
		return done, said.newError(c.cfg)
	}
	if err != nil {
		return done, c.cfg.newError(KindCut, clean("read the stream: "+err.Error()))
	}
	return done, nil
}

// liveReader reads a response's body. Each read restarts the timer that ends a silent request.
type liveReader struct {
	io.Reader
	silence *time.Timer
	timeout time.Duration
}

func (r liveReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err == nil {
		r.silence.Reset(r.timeout)
	}
	return n, err
}

// refusal returns the error for a response that is not a stream.
func (c *client) refusal(ctx context.Context, res *http.Response, body io.Reader) error {
	f := failure{status: res.StatusCode}
	location := res.Header.Get("Location")
	switch {
	case res.StatusCode/100 == 2: // the page of a proxy, or a server that does not stream
		f.message = "the server answers with " + clean(res.Header.Get("Content-Type")) + " instead of a stream"
		return f.newError(c.cfg).withRemedy("check " + settings[c.cfg.Provider].url)
	case res.StatusCode/100 == 3 && location != "":
		f.message = "the server redirects to " + withoutSecrets(location)
		return f.newError(c.cfg).withRemedy("set " + settings[c.cfg.Provider].url + " to the address that answers itself")
	}
	text, err := io.ReadAll(io.LimitReader(body, maxErrorBody))
	if err != nil && ctx.Err() != nil && !errors.Is(context.Cause(ctx), errSilent) {
		return context.Cause(ctx)
	}
	f = parseFailure(res.StatusCode, text)
	if after := retryAfter(res.Header, time.Now()); after > 0 {
		f.after = after
	}
	return f.newError(c.cfg)
}

// lost returns the error for a failed connection. begun reports whether the answer had begun.
func (c *client) lost(ctx context.Context, err error, begun bool) error {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errSilent):
		return c.cfg.newError(KindTimeout, fmt.Sprintf("the server was silent for %s", c.cfg.Timeout))
	case cause != nil:
		return cause
	case begun:
		return c.cfg.newError(KindCut, c.reason(err))
	}
	return c.cfg.newError(KindUnavailable, c.reason(err))
}

// reason returns the text of a connection error without addresses: users read it, and must not learn about the harness's network.
func (c *client) reason(err error) string {
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return "the server's name cannot be resolved"
	}
	if connection, ok := errors.AsType[*net.OpError](err); ok {
		err = fmt.Errorf("%s: %w", connection.Op, connection.Err)
	} else if address, ok := errors.AsType[*url.Error](err); ok {
		err = address.Err
	}
	text := clean(err.Error())
	if u, err := url.Parse(c.cfg.BaseURL); err == nil && u.Hostname() != "" {
		text = strings.ReplaceAll(text, u.Hostname(), "the server")
	}
	return text
}

// withoutSecrets returns an address without user, query and fragment.
func withoutSecrets(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "another address"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// object is a JSON object that may have unknown fields. Its numbers are json.Number.
type object = map[string]any

// decode decodes JSON and keeps the digits of numbers.
func decode(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return d.Decode(v)
}

// str returns v if it is a string, or else "".
func str(v any) string {
	s, _ := v.(string)
	return s
}

// obj returns v if it is an object, or else nil.
func obj(v any) object {
	o, _ := v.(object)
	return o
}

// num returns v if it is an integer, or else 0.
func num(v any) int {
	n, _ := v.(json.Number)
	i, _ := n.Int64()
	return int(i)
}

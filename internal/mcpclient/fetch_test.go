package mcpclient_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/mcpclient"
)

func builtIn(allowPrivate bool, hosts ...string) mcpclient.Config {
	return mcpclient.Config{Name: "http", Fetch: &mcpclient.Fetch{Allow: hosts, AllowPrivate: allowPrivate}, StartupTimeout: patience, Timeout: patience}
}

// TestFetch: requests go only to allowed hosts, contain what the program gives, and their answers become JSON values.
func TestFetch(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header()["Date"] = nil
		switch r.URL.Path {
		case "/echo":
			w.Header().Set("Content-Type", "text/plain")
			w.Header().Set("Set-Cookie", "a=b")
			_, _ = fmt.Fprintf(w, "%s %s %s %s %s", r.Method, r.RequestURI, r.Header.Get("Content-Type"), r.Header.Get("X-A"), body)
		case "/json":
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusTeapot)
			_, _ = io.WriteString(w, `{"n": 12345678901234567890}`)
		case "/html":
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, "<html>")
		case "/elsewhere":
			http.Redirect(w, r, "http://169.254.169.254/latest", http.StatusTemporaryRedirect)
		case "/image":
			w.Header().Set("Content-Type", "image/png")
			_, _ = io.WriteString(w, "\x89PNG\x00")
		case "/large":
			for range 3 {
				_, _ = w.Write(make([]byte, 1<<20))
			}
		}
	}))
	t.Cleanup(srv.Close)
	u, _ := url.Parse(srv.URL)
	m := setup(t, mcpclient.Options{MaxResult: 2 << 20}, builtIn(true, u.Host))
	listed := m.EnsureTools(ctxFor(t), "")[0]
	if listed.Transport != "built-in" || len(listed.Tools) != 2 || !strings.Contains(listed.Instructions, u.Host) {
		t.Errorf("%+v", listed)
	}
	for _, c := range []struct{ tool, args, want string }{
		{"fetch", `{"url":"URL/echo?q=1#x","headers":{"X-A":"b"}}`, `{"content":[],"structuredContent":{"body":"GET /echo?q=1  b ","headers":{"content-length":"17","content-type":"text/plain","set-cookie":"a=b"},"status":200}}`},
		{"fetch", `{"url":"URL/echo","method":"HEAD"}`, `{"content":[],"structuredContent":{"body":"","headers":{"content-length":"13","content-type":"text/plain","set-cookie":"a=b"},"status":200}}`},
		{"fetch", `{"url":"URL/json"}`, `{"content":[],"structuredContent":{"body":{"n":12345678901234567890},"headers":{"content-length":"27","content-type":"application/json"},"status":418}}`},
		{"fetch", `{"url":"URL/html"}`, `{"content":[],"structuredContent":{"body":"<html>","headers":{"content-length":"6","content-type":"application/json"},"notJSON":true,"status":500}}`},
		{"fetch", `{"url":"URL/elsewhere"}`, `{"content":[],"structuredContent":{"body":"\u003ca href=\"http://169.254.169.254/latest\"\u003eTemporary Redirect\u003c/a\u003e.\n\n","headers":{"content-length":"65","content-type":"text/html; charset=utf-8","location":"http://169.254.169.254/latest"},"status":307}}`},
		{"fetch", `{"url":"URL/image"}`, `{"content":[{"resource":{"blob":"iVBORwA=","mimeType":"image/png","uri":"URL/image"},"type":"resource"}]}`},
		{"send", `{"url":"URL/echo","body":{"a":[1]}}`, `{"content":[],"structuredContent":{"body":"POST /echo application/json  {\"a\":[1]}","headers":{"content-length":"38","content-type":"text/plain","set-cookie":"a=b"},"status":200}}`},
		{"send", `{"url":"URL/echo","method":"PUT","body":"a\nb","headers":{"content-type":"text/csv"}}`, `{"content":[],"structuredContent":{"body":"PUT /echo text/csv  a\nb","headers":{"content-length":"23","content-type":"text/plain","set-cookie":"a=b"},"status":200}}`},
		{"send", `{"url":"URL/echo","method":"DELETE"}`, `{"content":[],"structuredContent":{"body":"DELETE /echo   ","headers":{"content-length":"15","content-type":"text/plain","set-cookie":"a=b"},"status":200}}`},
		{"send", `{"url":"URL/echo","body":{"base64":"AAE="}}`, `{"content":[],"structuredContent":{"body":"POST /echo application/octet-stream  \u0000\u0001","headers":{"content-length":"39","content-type":"text/plain","set-cookie":"a=b"},"status":200}}`},
	} {
		res, err := m.Call(ctxFor(t), "http", c.tool, json.RawMessage(strings.ReplaceAll(c.args, "URL", srv.URL)), mcpclient.CallOptions{})
		if err != nil {
			t.Errorf("%s: %v", c.args, err)
			continue
		}
		if diff := cmp.Diff(decoded(t, strings.ReplaceAll(c.want, "URL", srv.URL)), decoded(t, string(res.Raw))); diff != "" {
			t.Errorf("%s: %s", c.args, diff)
		}
	}
	_, err := m.Call(ctxFor(t), "http", "fetch", json.RawMessage(`{"url":"`+srv.URL+`/large"}`), mcpclient.CallOptions{})
	if failed, ok := errors.AsType[*mcpclient.CallError](err); !ok || failed.Kind != mcpclient.KindProtocol || !strings.Contains(failed.Message, "larger than 2097152 bytes") {
		t.Errorf("a large answer: %v", err)
	}
}

// decoded decodes JSON and keeps numbers as they are written.
func decoded(t testing.TB, text string) (v any) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}

// TestUnusedConnections: unused connections are closed, both those to servers and those of the built-in server to hosts.
func TestUnusedConnections(t *testing.T) {
	t.Parallel()
	for name, uses := range map[string]func(t *testing.T, m *mcpclient.Manager, url string) error{
		"bad": func(t *testing.T, m *mcpclient.Manager, _ string) error {
			_, err := call(t, m, "echo", `{}`)
			return err
		},
		"http": func(t *testing.T, m *mcpclient.Manager, url string) error {
			_, err := m.Call(ctxFor(t), "http", "send", json.RawMessage(`{"url":"`+url+`"}`), mcpclient.CallOptions{})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewUnstartedServer(newUpstream(t).handler(nil))
			var mu sync.Mutex
			unused, ended := map[net.Conn]bool{}, make(chan struct{}, 1)
			srv.Config.ConnState = func(c net.Conn, state http.ConnState) {
				mu.Lock()
				defer mu.Unlock()
				if state == http.StateClosed && unused[c] {
					select {
					case ended <- struct{}{}:
					default:
					}
				}
				unused[c] = state == http.StateIdle
			}
			srv.Start()
			t.Cleanup(func() {
				srv.CloseClientConnections()
				srv.Close()
			})
			u, _ := url.Parse(srv.URL)
			m := setup(t, mcpclient.Options{}, mcpclient.Config{Name: "bad", URL: srv.URL, StartupTimeout: patience, Timeout: patience}, builtIn(true, u.Host))
			if err := uses(t, m, srv.URL); err != nil {
				t.Fatal(err)
			}
			select {
			case <-ended:
			case <-time.After(45 * time.Second): // half of the 90 s for which Go keeps unused connections by default
				t.Error("a connection is kept for longer than servers keep it")
			}
		})
	}
}

// TestFetchRefuses: no request is sent to an address that is not allowed, however the address is written. This includes host names with addresses of this
// machine and of private networks.
func TestFetchRefuses(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(srv.Close)
	u, _ := url.Parse(srv.URL)
	port := u.Port()
	m := setup(t, mcpclient.Options{}, builtIn(false, "127.0.0.1:"+port, "localhost:"+port, "0x7f.1:"+port, "2130706433:"+port, "[::1]:"+port, "[::ffff:127.0.0.1]:"+port,
		"169.254.169.254", "metadata.test", "*.localhost:"+port, "example.com"))
	for _, c := range []struct{ args, want string }{
		{`{"url":"http://127.0.0.1:PORT/"}`, "loopback and private addresses are refused"},
		{`{"url":"http://localhost:PORT/"}`, "loopback and private addresses are refused"},
		{`{"url":"http://LOCALHOST.:PORT/"}`, "loopback and private addresses are refused"},
		{`{"url":"http://a.localhost:PORT/"}`, "loopback and private addresses are refused"},
		{`{"url":"http://[::ffff:127.0.0.1]:PORT/"}`, "loopback and private addresses are refused"},
		{`{"url":"http://0x7f.1:PORT/"}`, "the request was not made"},
		{`{"url":"http://2130706433:PORT/"}`, "the request was not made"},
		{`{"url":"http://169.254.169.254/latest/meta-data"}`, "loopback and private addresses are refused"},
		{`{"url":"http://127.0.0.2:PORT/"}`, "is not one that network.allow names"},
		{`{"url":"http://example.com:8080/"}`, "is not one that network.allow names"},
		{`{"url":"http://example.com.evil.test/"}`, "is not one that network.allow names"},
		{`{"url":"http://example.com@127.0.0.1:PORT/"}`, "url may not hold a user"},
		{`{"url":"http://example.com\\@127.0.0.1:PORT/"}`, "url is not an http or https address"},
		{`{"url":"file:///etc/passwd"}`, "url is not an http or https address"},
		{`{"url":"http:127.0.0.1"}`, "url is not an http or https address"},
		{`{"url":"http://example.com/","method":"POST"}`, "method must be one of GET, HEAD"},
		{`{"url":"http://example.com/","method":"CONNECT"}`, "method must be one of GET, HEAD"},
		{`{"url":"http://example.com/","headers":{"Host":"127.0.0.1"}}`, `the header \"Host\" cannot be sent`},
		{`{"url":"http://example.com/","headers":{"X-A":"b\r\nHost: c"}}`, `the header \"X-A\" cannot be sent`},
		{`{"url":"http://example.com/","headers":{"Transfer-Encoding":"chunked"}}`, `cannot be sent`},
		{`{"url":7}`, "the input has a wrong shape"},
	} {
		res, err := m.Call(ctxFor(t), "http", "fetch", json.RawMessage(strings.ReplaceAll(c.args, "PORT", port)), mcpclient.CallOptions{})
		if err != nil || !res.IsError || !strings.Contains(string(res.Raw), c.want) {
			t.Errorf("%s: %v %v; want %s", c.args, err, res, c.want)
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("%d requests arrived", n)
	}
	if err := mcpclient.NewManager(mcpclient.Options{}).Add(builtIn(false, "*")); err == nil {
		t.Error("* is taken for a host")
	}
}

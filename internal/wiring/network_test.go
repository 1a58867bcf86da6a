package wiring_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/runs"
)

// TestNetwork: programs make HTTP requests to the hosts of network.allow, behind the gate; without it there is no such tool.
func TestNetwork(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/b" && string(body) != `{"to":"ann@example.com"}` {
			t.Errorf("it got %s", body) // not the token
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"got": %q, "mail": "ann@example.com"}`, r.Method+" "+string(body))
	}))
	t.Cleanup(srv.Close)
	u, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	code := strings.ReplaceAll(`
import * as http from './servers/http'
const got = await http.fetch('URL/a')
const sent = await tools.http.send({url: 'URL/b', body: {to: got.body.mail}})
let refused
try { await http.fetch({url: 'http://127.0.0.2/'}) } catch (e) { refused = e.name }
return [got.status, got.body.got, got.body.mail, sent.body.got, refused]`, "URL", srv.URL)
	f := setup(t, map[string]string{"network.allow": u.Host, "network.allowPrivate": "true"})
	out := f.exec(runs.Request{User: "ann", Code: code})
	// The host gets the value that stands behind the token.
	want := `[200,"GET ","[EMAIL_1]","POST {\"to\":\"[EMAIL_1]\"}","ToolError"]`
	if out.Error != nil || string(out.Output) != want {
		t.Errorf("%+v %s", out.Error, out.Output)
	}
	f = setup(t, map[string]string{"network.allow": u.Host, "network.allowPrivate": "true", "policy.preset": "strict"})
	out = f.exec(runs.Request{User: "ann", Code: "return await callMCPTool('http__send', {url: '" + srv.URL + "'})"})
	if out.Error == nil {
		t.Errorf("policy did not count: %s", out.Output)
	}
	f = setup(t, nil)
	out = f.exec(runs.Request{User: "ann", Code: "return await list_mcp_tools()"})
	if strings.Contains(string(out.Output), "http__") {
		t.Errorf("without network.allow: %s", out.Output)
	}
}

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

// TestNetwork: programs make HTTP requests to the hosts of network.allow through the gate. Without this setting the tool does not exist.
func TestNetwork(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/b" && string(body) != `{"to":"ann@example.com"}` {
			t.Errorf("it got %s", body) // The host must get the value, not the token.
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
	// The host gets the value of the token.
	want := `[200,"GET ","pii_1e@d1.pii.invalid","POST {\"to\":\"pii_1e@d1.pii.invalid\"}","ToolError"]`
	if out.Error != nil || string(out.Output) != want {
		t.Errorf("%+v %s", out.Error, out.Output)
	}
	f = setup(t, map[string]string{"network.allow": u.Host, "network.allowPrivate": "true", "policy.preset": "strict"})
	f.waits("return await callMCPTool('http__send', {url: '" + srv.URL + "'})") // The policy applies.
	f = setup(t, nil)
	out = f.exec(runs.Request{User: "ann", Code: "return await list_mcp_tools()"})
	if strings.Contains(string(out.Output), "http__") {
		t.Errorf("without network.allow: %s", out.Output)
	}
}

// TestFetch: the global function fetch calls tools of a built-in server. So the gate judges each request and each redirect, personal data is hidden in
// responses and restored in requests, and the run can be replayed without the network.
func TestFetch(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch r.URL.Path {
		case "/b":
			if string(body) != `{"to":"ann@example.com"}` || r.Header.Get("Content-Type") != "application/json" {
				t.Errorf("it got %s %s", r.Header.Get("Content-Type"), body)
			}
			http.Redirect(w, r, "/c", http.StatusSeeOther)
		case "/c":
			_, _ = io.WriteString(w, "done")
		case "/elsewhere":
			http.Redirect(w, r, "http://127.0.0.2/", http.StatusFound)
		case "/image":
			w.Header().Set("Content-Type", "image/png")
			_, _ = w.Write([]byte{0x89, 'P', 'N', 'G', 0})
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"mail": "ann@example.com"}`)
		}
	}))
	t.Cleanup(srv.Close)
	u, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	program := strings.ReplaceAll(`
const got = await fetch('URL/a')
const { mail } = await got.json()
const sent = await fetch('URL/b', {method: 'POST', headers: {'Content-Type': 'application/json'}, body: JSON.stringify({to: mail})})
const image = await fetch('URL/image')
const refused = await fetch('URL/elsewhere').catch((e) => e.name + e.message.includes('network.allow'))
return [got.ok, mail, sent.url.endsWith('/c'), sent.redirected, await sent.text(), [...await image.bytes()], refused]`, "URL", srv.URL)
	f := setup(t, map[string]string{"network.allow": u.Host, "network.allowPrivate": "true"})
	out := f.exec(code(program))
	if want := `[true,"pii_1e@d1.pii.invalid",true,true,"done",[137,80,78,71,0],"ToolErrortrue"]`; out.Error != nil || string(out.Output) != want {
		t.Errorf("%+v %s", out.Error, out.Output)
	}
	f = setup(t, map[string]string{"network.allow": u.Host, "network.allowPrivate": "true", "policy.rules": `[{tools: "http__*", action: deny}]`})
	out = f.exec(code("return await fetch('" + srv.URL + "', {method: 'DELETE'}).catch((e) => e.name)"))
	if string(out.Output) == `"TypeError"` || out.Error == nil && string(out.Output) != `"DeniedError"` {
		t.Errorf("policy did not count: %+v %s", out.Error, out.Output)
	}
	f = setup(t, nil)
	out = f.exec(code("return await fetch('" + srv.URL + "').catch((e) => [e.name, e.message])"))
	if !strings.Contains(string(out.Output), "ToolError") || !strings.Contains(string(out.Output), "network.allow") {
		t.Errorf("without network.allow: %+v %s", out.Error, out.Output)
	}
}

package cli_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/testing/npmtest"
)

// TestConformance runs the official suite against /mcp, which passes the tools of the suite's own server through. The exceptions are
// those of testdata/conformance.yml.
func TestConformance(t *testing.T) {
	t.Parallel()
	packages, node := npmtest.Conformance(t)
	f := setup(t)
	upstream := filepath.Join(f.dir, "upstream")
	build := exec.Command("go", "build", "-o", upstream, "github.com/modelcontextprotocol/go-sdk/conformance/everything-server")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the suite's server: %v\n%s", err, out)
	}
	f.write("harness.yaml", "mcp: {mode: direct}\nmcpServers:\n  suite: {command: "+quoted(upstream)+"}\n")
	s := f.serve()
	target, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	token := strings.TrimSpace(f.run("token").want(0).stdout)
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { // the suite sends no credentials
		r.SetURL(target)
		r.Out.Header.Set("Authorization", "Bearer "+token)
	}}
	front := httptest.NewServer(http.Handler(proxy))
	defer front.Close()
	exceptions, err := filepath.Abs("testdata/conformance.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range [][]string{nil, {"--requirements", "2026-07-28"}} {
		args := append([]string{
			filepath.Join(packages, "node_modules", ".bin", "conformance"), "server", "--url", front.URL + "/mcp", "--expected-failures", exceptions,
		}, version...)
		suite := exec.Command(node, args...)
		suite.Dir = f.dir
		out, err := suite.CombinedOutput()
		_, summary, _ := strings.Cut(string(out), "=== SUMMARY ===")
		if err != nil || !strings.Contains(summary, "✓ tools-call-mixed-content: ") {
			t.Errorf("%v\n%s", err, out)
		}
		t.Log(summary)
	}
}

// TestTypeScriptClient is the official TypeScript SDK's client, over stdio and HTTP.
func TestTypeScriptClient(t *testing.T) {
	t.Parallel()
	packages, node := npmtest.Conformance(t)
	script, err := filepath.Abs("testdata/client.mjs")
	if err != nil {
		t.Fatal(err)
	}
	f := setup(t)
	f.write("harness.yaml", "# state lives beside it\n")
	f.addDemo("crm")
	s := f.serve()
	token := strings.TrimSpace(f.run("token").want(0).stdout)
	for _, args := range [][]string{{"stdio", binary(t), "mcp"}, {"http", s.url + "/mcp", token}} {
		client := exec.Command(node, append([]string{script, packages}, args...)...)
		client.Dir, client.Env = f.dir, f.environ
		var stderr bytes.Buffer
		client.Stderr = &stderr
		out, err := client.Output()
		var got struct {
			Tools        []string
			Instructions bool
			Ran          gatewayRun
			Failed       []any
			Found        int
		}
		if err == nil {
			err = json.Unmarshal(out, &got)
		}
		if err != nil || len(got.Tools) != 3 || !got.Instructions || string(got.Ran.Output) != `{"n":42}` || got.Failed[0] != true || got.Found == 0 {
			t.Errorf("%s: %v, %s\n%s", args[0], err, out, &stderr)
		}
	}
}

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
	"regexp"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/testing/npmtest"
)

// TestConformance runs the official suite against /mcp, which passes the tools of the suite's own server through. testdata/conformance.yml lists the
// exceptions.
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

// TestTypeScriptClient uses the client of the official TypeScript SDK, over stdio and HTTP.
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

// oddTools are unusual tool definitions that strict clients and model providers refuse: some that real servers have sent, and similar ones.
var oddTools = []string{
	`{"name":"no_schema"}`, `{"name":"null_schema","inputSchema":null}`, `{"name":"empty_schema","inputSchema":{}}`, `{"name":"true_schema","inputSchema":true}`,
	`{"name":"null_texts","title":null,"description":null,"inputSchema":{"type":"object"},"annotations":null,"outputSchema":null}`,
	`{"name":"null_properties","inputSchema":{"type":"object","properties":null}}`,
	`{"name":"null_required","inputSchema":{"type":"object","required":null}}`,
	`{"name":"list_of_properties","inputSchema":{"type":"object","properties":[]}}`,
	`{"name":"object_required","inputSchema":{"type":"object","required":{}}}`,
	`{"name":"text_required","inputSchema":{"type":"object","properties":{"a":{}},"required":"a"}}`,
	`{"name":"boolean_required","inputSchema":{"type":"object","properties":{"a":{"type":"string","required":false}}}}`,
	`{"name":"true_property","inputSchema":{"type":"object","properties":{"value":true}}}`,
	`{"name":"false_property","inputSchema":{"type":"object","properties":{"value":false}}}`,
	`{"name":"null_property","inputSchema":{"type":"object","properties":{"value":null}}}`,
	`{"name":"text_property","inputSchema":{"type":"object","properties":{"value":"string"}}}`,
	`{"name":"any_of","inputSchema":{"anyOf":[{"type":"object","properties":{"a":{}}},{"type":"object","properties":{"b":{}}}]}}`,
	`{"name":"one_of","inputSchema":{"type":"object","oneOf":[{"required":["a"]},{"required":["b"]}]}}`,
	`{"name":"all_of","inputSchema":{"allOf":[{"type":"object","properties":{"a":true}}]}}`,
	`{"name":"reference","inputSchema":{"$ref":"#/definitions/In","definitions":{"In":{"type":"object","properties":{"a":{"type":"string"}}}}}}`,
	`{"name":"circle","inputSchema":{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/a"}}}}`,
	`{"name":"types","inputSchema":{"type":["object"]}}`, `{"name":"types_with_null","inputSchema":{"type":["object","null"],"properties":{"a":{"type":["string","null"]}}}}`,
	`{"name":"upper_type","inputSchema":{"type":"Object"}}`,
	`{"name":"null_enum","inputSchema":{"type":"object","properties":{"a":{"type":"string","enum":null}}}}`,
	`{"name":"empty_enum","inputSchema":{"type":"object","properties":{"a":{"type":"string","enum":[]}}}}`,
	`{"name":"array_of_anything","inputSchema":{"type":"object","properties":{"a":{"type":"array"}}}}`,
	`{"name":"tuple","inputSchema":{"type":"object","properties":{"a":{"type":"array","items":[{"type":"string"},{"type":"number"}]}}}}`,
	`{"name":"exclusive","inputSchema":{"type":"object","properties":{"a":{"type":"number","minimum":0,"exclusiveMinimum":true}}}}`,
	`{"name":"odata","inputSchema":{"type":"object","properties":{"$filter":{"type":"string"},"@odata.type":{"type":"string"}},"required":["$filter"]}}`,
	`{"name":"number_description","inputSchema":{"type":"object","description":5,"properties":{"a":{"type":"string","description":null,"title":7}}}}`,
	`{"name":"array_output","inputSchema":{"type":"object"},"outputSchema":{"type":"array","items":{}}}`,
	`{"name":"list_output","inputSchema":{"type":"object"},"outputSchema":{"type":"array"}}`,
	`{"name":"output_of_anything","inputSchema":{"type":"object"},"outputSchema":{}}`,
	`{"name":"output_with_nulls","inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":null,"required":null}}`,
	`{"name":"files.read/text","inputSchema":{"type":"object"}}`, `{"name":"get item","inputSchema":{"type":"object"}}`,
	`{"name":"export_all_of_the_records_that_were_changed_between_two_dates_as_csv","inputSchema":{"type":"object"}}`,
	`{"name":"export_all_of_the_records_that_were_changed_between_two_dates_as_json","inputSchema":{"type":"object"}}`,
	`{"name":"日本語","inputSchema":{"type":"object"}}`,
}

// TestTypeScriptClientOddTools checks that the official client, which refuses a whole list because of one odd definition, can list and call all of them.
func TestTypeScriptClientOddTools(t *testing.T) {
	t.Parallel()
	packages, node := npmtest.Conformance(t)
	script, err := filepath.Abs("testdata/odd.mjs")
	if err != nil {
		t.Fatal(err)
	}
	f := setup(t)
	f.write("tools.json", "["+strings.Join(oddTools, ",")+"]")
	f.write("harness.yaml", "mcpServers:\n  odd: {command: "+quoted(node)+", args: ["+quoted(script)+", serve, "+quoted(filepath.Join(f.dir, "tools.json"))+"]}\n")
	client := exec.Command(node, script, packages, binary(t), "mcp", "--mode", "direct")
	client.Dir, client.Env = f.dir, f.environ
	var stderr bytes.Buffer
	client.Stderr = &stderr
	out, err := client.Output()
	var got struct {
		Tools []struct {
			Name        string
			InputSchema map[string]json.RawMessage
		}
		Ran map[string]string
	}
	if err == nil {
		err = json.Unmarshal(out, &got)
	}
	if err != nil || len(got.Tools) != len(oddTools) {
		t.Fatalf("%d of %d tools: %v, %s\n%s", len(got.Tools), len(oddTools), err, out, &stderr)
	}
	name := regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	for _, tool := range got.Tools {
		want := "ran "
		if tool.Name == "odata" || tool.Name == "one_of" { // their own schemas require a property
			want = "invalid input for odd__" + tool.Name
		}
		if !name.MatchString(tool.Name) || !strings.HasPrefix(got.Ran[tool.Name], want) {
			t.Errorf("%q gives %q", tool.Name, got.Ran[tool.Name])
		}
		for _, word := range []string{"anyOf", "oneOf", "allOf", "not", "$ref"} {
			if tool.InputSchema[word] != nil {
				t.Errorf("%s has %s at its root, which providers refuse", tool.Name, word)
			}
		}
	}
}

package cli_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/mcpserver"
	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/n8n"
	"mcp-code-exec-harness/internal/testing/n8nfake"
)

// tokens returns the number of tokens of o200k that values take as JSON.
func tokens(t testing.TB, values ...any) (sum int) {
	t.Helper()
	for _, v := range values {
		text, err := json.Marshal(v)
		n, countErr := model.Vocabulary().Count(string(text))
		if err := errors.Join(err, countErr); err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return sum
}

func definitionTokens(t *testing.T, server string, tool mcpclient.Tool) int {
	t.Helper()
	return tokens(t, map[string]any{"name": server + "__" + tool.Name, "description": tool.Description, "inputSchema": tool.InputSchema})
}

// n8nTokens executes a program of testdata/n8ntokens. code is the number of model tokens of the program and its output. calls is that of the arguments and
// answers of its tool calls, by server.
func (f *fixture) n8nTokens(program string) (code int, calls map[string]int) {
	f.t.Helper()
	text, err := os.ReadFile("testdata/n8ntokens/" + program + ".js")
	if err != nil {
		f.t.Fatal(err)
	}
	var out outcome
	f.run("exec", "--json", f.write(path.Base(program)+".js", string(text))).want(0).value(&out)
	var records []journal.Record
	f.run("runs", "journal", out.RunID, "--json").want(0).value(&records)
	calls = map[string]int{}
	servers := map[int]string{} // servers by call number
	for _, r := range records {
		switch {
		case r.Call != nil && r.Call.Kind == "tool":
			server, _, _ := strings.Cut(r.Call.Name, "__")
			servers[r.Call.N] = server
			calls[server] += tokens(f.t, r.Call.Args)
		case r.Answer != nil && r.Answer.Value != nil && servers[r.Answer.N] != "":
			calls[servers[r.Answer.N]] += tokens(f.t, r.Answer.Value)
		}
	}
	return tokens(f.t, map[string]string{"code": string(text)}, string(out.Output)), calls
}

// TestN8NTokens checks that finding nodes and building, mending and running a workflow take fewer than 3,000 model tokens in code mode, including the gateway's
// own tools, and fewer than with direct calls of the same tools. docs/N8N.md has its figures with a real n8n. If HARNESS_TEST_N8N_MCP is the command of
// n8n-mcp, the test also counts the calls and answers of that server.
func TestN8NTokens(t *testing.T) {
	t.Parallel()
	f := setup(t)
	opts := n8n.Options{
		URL: os.Getenv("HARNESS_TEST_N8N_URL"), APIKey: os.Getenv("HARNESS_TEST_N8N_KEY"), Nodes: os.Getenv("HARNESS_TEST_N8N_NODES"), CacheDir: t.TempDir(), Version: "test",
	}
	least := 1_000_000 // minimum number of tokens of all definitions
	if opts.URL == "" {
		api := n8nfake.NewAPI()
		server := httptest.NewServer(api)
		t.Cleanup(server.Close)
		api.Ends(func(map[string]any) n8nfake.Outcome { return n8nfake.Outcome{Output: map[string]any{"n": 42}} })
		opts.URL, opts.APIKey, opts.Email, opts.Password = server.URL, n8nfake.Key, n8nfake.Email, n8nfake.Password
		least = 3000
	}
	f.environ = append(f.environ, "N8N_API_URL="+opts.URL, "N8N_API_KEY="+opts.APIKey, "HARNESS_N8N_NODES="+opts.Nodes,
		"HARNESS_N8N_EMAIL="+opts.Email, "HARNESS_N8N_PASSWORD="+opts.Password)
	other := strings.Fields(os.Getenv("HARNESS_TEST_N8N_MCP"))
	if len(other) > 0 {
		f.run(append([]string{"servers", "add", "n8n-mcp", "-e", "MCP_MODE=stdio", "-e", "LOG_LEVEL=error", "-e", "DISABLE_CONSOLE_OUTPUT=true", "--"}, other...)...).want(0)
	}
	instance, err := n8n.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	var all, direct int
	for name, server := range instance.Servers() {
		if name == n8n.BridgeServer {
			continue
		}
		tools, err := server.Tools(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range tools {
			direct += definitionTokens(t, name, tool)
			if name == "n8n-workflows" {
				all += definitionTokens(t, name, tool)
			}
		}
	}
	ask := func(tool, args string) json.RawMessage {
		t.Helper()
		text, err := instance.Servers()["n8n-nodes"].Call(t.Context(), tool, json.RawMessage(args), func() {})
		var answer struct {
			Value json.RawMessage `json:"structuredContent"`
		}
		if err = errors.Join(err, json.Unmarshal(text, &answer)); err != nil || answer.Value == nil {
			t.Fatalf("%s %s: %s %v", tool, args, text, err)
		}
		return answer.Value
	}
	var nodes struct{ Result []string }
	if err := json.Unmarshal(ask("list_nodes", "{}"), &nodes); err != nil {
		t.Fatal(err)
	}
	for _, name := range nodes.Result {
		all += tokens(t, ask("get_node_info", fmt.Sprintf(`{"nodeType": %q}`, name)))
	}
	own, guide := mcpserver.ModelContext(false)
	code := tokens(t, own, guide)
	t.Logf("definitions, of %d nodes: all %d, direct %d, code mode %d", len(nodes.Result), all, direct, code)
	for _, step := range []string{"discovery", "building", "mending", "running"} {
		ours, calls := f.n8nTokens(step)
		sum := 0
		for _, n := range calls {
			sum += n
		}
		all, direct, code = all+calls["n8n-workflows"], direct+sum, code+ours
		t.Logf("%s: all %d, direct %d, code mode %d", step, calls["n8n-workflows"], sum, ours)
		if len(other) > 0 && step != "running" {
			_, calls := f.n8nTokens("n8n-mcp/" + step)
			t.Logf("%s: n8n-mcp %d", step, calls["n8n-mcp"])
		}
	}
	if code >= 3000 || code >= direct || all < least {
		t.Errorf("in sum: all %d, direct %d, code mode %d", all, direct, code)
	}
}

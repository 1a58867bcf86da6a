package cli_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/testing/fake"
	"mcp-code-exec-harness/internal/testing/leaktest"
	"mcp-code-exec-harness/internal/testing/oauthtest"
)

// parrot starts an MCP server that repeats the credential of each request in its own description, in those of its tools, in answers and in errors. It returns
// the address.
func parrot(t *testing.T, header string) string {
	t.Helper()
	type in struct {
		How string `json:"how"`
	}
	handler := mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server {
		got := r.Header.Get(header)
		spelled := leaktest.Spellings(strings.TrimPrefix(got, "Bearer "))
		s := mcp.NewServer(&mcp.Implementation{Name: "parrot", Title: "for " + got, Version: "1"}, &mcp.ServerOptions{Instructions: "Your key is " + got + ", or " + spelled["hex"]})
		mcp.AddTool(s, &mcp.Tool{Name: "repeat", Description: "Repeats " + got}, func(_ context.Context, _ *mcp.CallToolRequest, in in) (*mcp.CallToolResult, any, error) {
			return nil, map[string]string{"got": "it is " + spelled[in.How]}, nil
		})
		mcp.AddTool(s, &mcp.Tool{Name: "fail", Description: "Fails with " + spelled["reversed"]}, func(_ context.Context, _ *mcp.CallToolRequest, in in) (*mcp.CallToolResult, any, error) {
			return nil, nil, fmt.Errorf("refused %s", spelled[in.How])
		})
		return s
	}, &mcp.StreamableHTTPOptions{Stateless: true})
	web := httptest.NewServer(handler)
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return web.URL
}

// TestLeakOfCredentials works with servers that repeat their credentials in every spelling. Nothing that the harness prints, sends or stores contains a token,
// code, verifier, client secret or key, or the output of a credential command.
func TestLeakOfCredentials(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the command that prints a credential is cat")
	}
	s := oauthtest.New(t)
	s.Confidential = true
	var traced lockedBuffer
	sink := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(&traced, r.Body) }))
	t.Cleanup(sink.Close)
	f := setup(t)
	key, header, printed := "key-"+rand.Text(), "hdr/"+rand.Text()+"+\"&", "cmd-"+rand.Text()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(printed), 0o600); err != nil {
		t.Fatal(err)
	}
	f.environ = append(f.environ, "KEY_OF_ALL="+key, "HEADER_KEY="+header, "OTEL_EXPORTER_OTLP_ENDPOINT="+sink.URL)
	f.write("harness.yaml", fmt.Sprintf(`mcpServers:
  guarded: {url: %q, auth: {type: oauth}}
  bykey: {url: %q, auth: {type: keys, keys: {"*": "${KEY_OF_ALL}"}}}
  byheader: {url: %q, headers: {X-Api-Key: "${HEADER_KEY}"}}
  bycommand: {url: %q, auth: {type: command, command: cat, args: [%q]}}
`, s.URL, parrot(t, "Authorization"), parrot(t, "X-Api-Key"), parrot(t, "Authorization"), token))
	const program = `
const said = []
for (const server of ['guarded', 'bykey', 'byheader', 'bycommand']) {
  for (const how of HOWS) {
    for (const tool of ['repeat', 'fail']) {
      try { said.push(await callMCPTool(server + '__' + tool, {how})) } catch (e) { said.push(e.name + ': ' + e.message) }
    }
  }
}
try { await callMCPTool('guarded__expire', {}); said.push(await callMCPTool('guarded__repeat', {how: 'plain'})) } catch (e) { said.push(e.message) }
console.log(said)
await fs.writeFile('/workspace/said.json', JSON.stringify(said))
await fs.writeFile('/skills/said.js', 'exports.said = ' + JSON.stringify(said))
return said`
	var hows []string
	for how := range leaktest.Spellings("any") {
		hows = append(hows, how)
	}
	list, err := json.Marshal(hows)
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Replace(program, "HOWS", string(list), 1)
	models := f.modelled(func(r fake.Request) fake.Reply {
		if r.Last().Role == "user" {
			return code(all)
		}
		return fake.Reply{Text: "Done."}
	})
	places := map[string]string{}
	run := func(args ...string) *result {
		r := f.run(append(args, "--log-level", "debug")...)
		places[fmt.Sprint(len(places), " harness ", args)] = r.stdout + r.stderr
		return r
	}

	run("servers", "test")
	server := f.serve("--log-level", "debug")
	auth := "Bearer " + strings.TrimSpace(f.run("token").want(0).stdout)
	do := func(method, path, body string, want int) string {
		t.Helper()
		status, text := server.do(method, path, body, "Authorization", auth, "Accept", "application/json, text/event-stream")
		if status != want {
			t.Errorf("%s %s: %d %s", method, path, status, text)
		}
		places[fmt.Sprint(len(places), " ", method, " ", path)] = text
		return text
	}
	exec, err := json.Marshal(map[string]string{"userId": "ann", "code": all})
	if err != nil {
		t.Fatal(err)
	}
	call, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{
		"name": "execute_code", "arguments": map[string]string{"code": all},
		"_meta": map[string]any{"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientInfo": map[string]string{"name": "t", "version": "1"}, "io.modelcontextprotocol/clientCapabilities": map[string]any{}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	var last struct {
		RunID  string
		Output []any
	}
	everywhere := func() {
		t.Helper()
		if err := json.Unmarshal([]byte(do("POST", "/v1/runs", string(exec), http.StatusOK)), &last); err != nil || len(last.Output) < 8*len(hows) {
			t.Fatalf("the run: %v, %d answers", err, len(last.Output))
		}
		var worked struct{ TaskID, SessionID string }
		if err := json.Unmarshal([]byte(do("POST", "/task", `{"userId":"ann","task":"repeat"}`, http.StatusOK)), &worked); err != nil {
			t.Fatal(err)
		}
		do("POST", "/task/stream", `{"userId":"ann","task":"repeat"}`, http.StatusOK)
		status, text := server.do("POST", "/mcp", string(call), "Authorization", auth, "Accept", "application/json, text/event-stream", "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "execute_code")
		if places[fmt.Sprint(len(places), " /mcp")] = text; status != http.StatusOK {
			t.Errorf("/mcp: %d %s", status, text)
		}
		for _, path := range []string{
			"servers", "servers/guarded", "servers/bykey", "servers/byheader", "servers/bycommand", "servers/bykey/review", "tools", "tools.d.ts", "tools/search?q=repeat",
			"tools/bykey__repeat", "runs", "runs/" + last.RunID, "runs/" + last.RunID + "/journal", "tasks", "tasks/" + worked.TaskID,
			"tasks/" + worked.TaskID + "/events", "sessions", "sessions/" + worked.SessionID,
			"skills?userId=ann", "schedules", "approvals", "doubts", "pii/stats?userId=ann",
		} {
			do("GET", "/v1/"+path, "", http.StatusOK)
		}
		do("GET", "/metrics", "", http.StatusOK)
		for _, args := range [][]string{
			{"servers", "list"},
			{"servers", "list", "--json"},
			{"servers", "test"},
			{"servers", "test", "--json"},
			{"tools", "list"},
			{"tools", "show", "bykey__repeat"},
			{"tools", "types"},
			{"tools", "call", "guarded__repeat", `{"how":"hex"}`},
			{"exec", "--json", "-e", all},
			{"run", "repeat", "--record", "task.json"},
			{"runs", "list"},
			{"runs", "journal", last.RunID},
			{"runs", "show", last.RunID},
			{"tasks", "show", worked.TaskID},
			{"doctor"},
			{"config", "show"},
			{"config", "show", "--json"},
			{"pii", "scan", "task.json"},
		} {
			run(args...)
		}
	}
	everywhere() // before the login
	f.login(s, 0, "guarded")
	everywhere() // the token expires in the middle, and is renewed
	if s.Refreshes() == 0 {
		t.Error("no token was renewed")
	}
	s.Revoke()
	everywhere()
	s.Audience = func(string) string { return "another" }
	f.login(s, 3, "guarded")
	s.Audience = func(resource string) string { return resource }
	login := f.login(s, 0, "guarded")
	places["the login"] = login.stdout + login.stderr
	everywhere()
	run("servers", "logout", "guarded")
	if code := server.stop(); code != 0 {
		t.Errorf("serve exited with %d", code)
	}
	places["the log"], places["the traces"] = server.log.String(), traced.String()
	for i, r := range models.Requests() {
		places[fmt.Sprint("request to the model ", i)] = string(r.Raw)
	}
	err = filepath.WalkDir(f.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		places[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	secrets := append(s.Secrets(), key, header, printed)
	search, size, cleaned := leaktest.NewSearcher(t, secrets), 0, 0
	if len(search.Find([]byte(places["the log"]+printed))) == 0 {
		t.Error("a planted secret is not found")
	}
	for place, text := range places {
		size += len(text)
		cleaned += strings.Count(text, "[credential]")
		for _, found := range search.Find([]byte(text)) {
			t.Errorf("%s has %.300s", place, found)
		}
	}
	if len(secrets) < 15 || len(places) < 150 || cleaned < 1000 || len(models.Requests()) == 0 || traced.String() == "" {
		t.Errorf("%d secrets, %d places, %d texts were cleaned, %d requests to the model", len(secrets), len(places), cleaned, len(models.Requests()))
	}
	t.Logf("%d secrets are not in %d places, %d bytes; %d were taken out", len(secrets), len(places), size, cleaned)
}

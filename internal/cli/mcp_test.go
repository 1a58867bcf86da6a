package cli_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/testing/misbehave"
)

// gateway is a process of harness mcp with a client of the official SDK.
type gateway struct {
	*mcp.ClientSession
	t      testing.TB
	stderr *bytes.Buffer
	cmd    *exec.Cmd
}

// gateway starts harness mcp and connects a client to it.
func (f *fixture) gateway(opt *mcp.ClientOptions, args ...string) *gateway {
	f.t.Helper()
	g := &gateway{t: f.t, stderr: &bytes.Buffer{}, cmd: f.process(append([]string{"mcp"}, args...)...)}
	g.cmd.Stderr = g.stderr
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, opt)
	var err error
	if g.ClientSession, err = client.Connect(f.t.Context(), &mcp.CommandTransport{Command: g.cmd}, nil); err != nil {
		f.t.Fatalf("connect: %v\n%s", err, g.stderr)
	}
	f.t.Cleanup(func() { _ = g.Close() })
	return g
}

// started waits until no upstream server is starting.
func (g *gateway) started() {
	g.t.Helper()
	for {
		var found struct{ Notes []string }
		g.call("search_tools", map[string]any{"query": "x"}, &found)
		if !slices.ContainsFunc(found.Notes, func(note string) bool { return strings.Contains(note, "still starting") }) {
			return
		}
	}
}

// call calls a tool and decodes its structured content into into.
func (g *gateway) call(name string, args map[string]any, into any) (text string, failed bool) {
	g.t.Helper()
	return callTool(g.t, g.t.Context(), g.ClientSession, name, args, into)
}

func callTool(t testing.TB, ctx context.Context, session *mcp.ClientSession, name string, args map[string]any, into any) (text string, failed bool) {
	t.Helper()
	r, err := session.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for _, c := range r.Content {
		if part, ok := c.(*mcp.TextContent); ok {
			text += part.Text
		}
	}
	if into != nil {
		raw, err := json.Marshal(r.StructuredContent)
		if err == nil {
			err = json.Unmarshal(raw, into)
		}
		if err != nil {
			t.Fatalf("%s: %v in %s", name, err, raw)
		}
	}
	return text, r.IsError
}

// gatewayRun is the structured content of execute_code.
type gatewayRun struct {
	RunID, Status, Text string
	Output              json.RawMessage
	Logs                []string
	Error               *struct {
		Kind, Message, Hint string
		Line                int
	}
	Approval *struct{ ID, Decide, Next string }
}

// TestGateway uses a client without knowledge of the harness: it lists three tools, searches, reads definitions, and runs a program that uses two servers.
func TestGateway(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.write("harness.yaml", "# state lives beside it\n")
	f.addDemo("crm", "database")
	g := f.gateway(nil)
	listed, err := g.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range listed.Tools {
		names = append(names, tool.Name)
		if tool.OutputSchema == nil || tool.Annotations == nil || tool.Description == "" {
			t.Errorf("%s lacks output schema, annotations or description", tool.Name)
		}
	}
	if got := strings.Join(names, " "); got != "execute_code get_tool_details search_tools" {
		t.Errorf("the tools are %s", got)
	}
	g.started()
	var hits struct {
		Tools []struct{ Name, Signature string }
		Notes []string
	}
	text, _ := g.call("search_tools", map[string]any{"query": "find customers"}, &hits)
	if len(hits.Tools) == 0 || !strings.HasPrefix(hits.Tools[0].Name, "crm__") || !strings.Contains(text, hits.Tools[0].Signature) {
		t.Fatalf("found %+v\n%s", hits, text)
	}
	var details struct {
		Tools []struct{ Name, Call, TypeScript string }
	}
	text, _ = g.call("get_tool_details", map[string]any{"names": []string{"crm__search", "database__query"}}, &details)
	if len(details.Tools) != 2 || !strings.Contains(details.Tools[0].TypeScript, "function search(") || !strings.Contains(text, "database") {
		t.Fatalf("described %+v\n%s", details, text)
	}
	var out gatewayRun
	text, failed := g.call("execute_code", map[string]any{"code": `
		const [customers, rows] = await Promise.all([tools.crm.search({q: ''}), tools.database.query({query: 'SELECT 42 AS n'})])
		console.log('looked', typeof customers)
		return {customers: customers !== undefined, rows}`}, &out)
	if failed || out.Status != "succeeded" || !strings.Contains(string(out.Output), "42") || len(out.Logs) != 1 || !strings.Contains(text, "42") {
		t.Errorf("ran %+v\n%s", out, text)
	}
	text, failed = g.call("execute_code", map[string]any{"code": "const a = 1\na.b.c"}, &out)
	if !failed || out.Status != "failed" || out.Error == nil || out.Error.Line != 2 || !strings.Contains(text, "program.js:2:") {
		t.Errorf("a failed run is %+v\n%s", out, text)
	}
}

// TestGatewaySize checks the maximum number of model tokens of the gateway's tools and instructions. More upstream tools must not add to it.
func TestGatewaySize(t *testing.T) {
	t.Parallel()
	const most, names = 1500, 20
	var sizes []int
	for _, servers := range [][]string{{"crm"}, {"crm", "database", "mailer"}} {
		f := setup(t)
		f.write("harness.yaml", "# state lives beside it\n")
		f.addDemo(servers...)
		g := f.gateway(nil)
		g.started()
		listed, err := g.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(listed.Tools)
		if err != nil {
			t.Fatal(err)
		}
		n, err := model.Vocabulary().Count(string(text) + g.InitializeResult().Instructions)
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, n)
	}
	t.Logf("%d model tokens", sizes[0])
	if sizes[1] >= most || sizes[1]-sizes[0] > names {
		t.Errorf("with one and with three servers the tools take %d model tokens, want less than %d, and %d more for the names of the servers", sizes, most, names)
	}
}

// TestGatewayIntroduces checks that instructions and descriptions name the servers in a bounded sentence, that a call of a server's tool gets advice to use
// execute_code, and that console lines reach a client of an older protocol version that has not asked for them.
func TestGatewayIntroduces(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.write("harness.yaml", "# state lives beside it\n")
	f.addDemo("crm", "database")
	config := f.read("harness.yaml")
	for i := range 40 {
		config += fmt.Sprintf("  server-number-%d: {command: none}\n", i)
	}
	f.write("harness.yaml", config)
	g := f.gateway(nil)
	listed, err := g.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{g.InitializeResult().Instructions}
	for _, tool := range listed.Tools {
		if tool.Name == "search_tools" {
			texts = append(texts, tool.Description)
		}
	}
	for _, text := range texts {
		if !strings.Contains(text, "Servers: crm, database, server-number-0,") || !strings.HasSuffix(text, " more.") || len(text) > 900 {
			t.Errorf("a model reads %s", text)
		}
	}
	g.started()
	if text, failed := g.call("crm__search", map[string]any{"q": "x"}, nil); !failed || !strings.Contains(text, "execute_code") || !strings.Contains(text, "tools.crm.search(") {
		t.Errorf("a call of a server's tool gives %s", text)
	}
	if text, _ := g.call("get_tool_details", map[string]any{"names": []string{"crm__serch"}}, nil); strings.Contains(text, "list_mcp_tools") || !strings.Contains(text, "search_tools") {
		t.Errorf("a wrong name gives %s", text)
	}
	if text, _ := g.call("search_tools", map[string]any{"query": "domain of a private email"}, nil); !strings.Contains(text, "pii.domain") {
		t.Errorf("a search for what programs can do with private values gives %s", text)
	}
	older := f.process("mcp") // a client of an older version, which does not ask for console lines
	older.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"execute_code","arguments":{"code":"console.log('a line')"}}}
`)
	out, err := older.Output()
	if err != nil || !strings.Contains(string(out), `"method":"notifications/message","params":{"data":"a line"`) {
		t.Errorf("it gets %s, %v", out, err)
	}
}

// TestGatewayHides checks that a client gets tokens in place of personal data, and that the tokens also work in a run of another connection.
func TestGatewayHides(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.write("harness.yaml", "# state lives beside it\n")
	const value = "ada.lovelace@example.org"
	var out gatewayRun
	text, _ := f.gateway(nil).call("execute_code", map[string]any{"code": "console.log('" + value + "'); return {to: '" + value + "'}"}, &out)
	if all := text + string(out.Output) + strings.Join(out.Logs, ""); strings.Contains(all, value) || !strings.Contains(all, "pii_1e@d1.pii.invalid") {
		t.Errorf("the client sees %s", all)
	}
	text, _ = f.gateway(nil).call("execute_code", map[string]any{"code": "return pii.domain('pii_1e@d1.pii.invalid')"}, &out)
	if string(out.Output) != `"example.org"` {
		t.Errorf("another connection gets %+v\n%s", out, text)
	}
}

// TestGatewayEnds checks that the gateway ends when its input ends, and prints nothing but the protocol on standard output.
func TestGatewayEnds(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.write("harness.yaml", "mcpServers:\n  none: {command: /nonexistent/program}\n")
	initialize := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	r := f.runIn(t.Context(), initialize+"\n", "mcp").want(0)
	var answer struct {
		ID     int
		Result struct{ ProtocolVersion string }
	}
	if r.value(&answer); answer.ID != 1 || answer.Result.ProtocolVersion != "2025-06-18" {
		t.Errorf("answered %s", r.stdout)
	}
	if r := f.runIn(t.Context(), initialize+"\nno JSON\n", "mcp").want(1); !strings.Contains(r.stderr, "the client has sent what is no JSON") {
		t.Errorf("it says %s", r.stderr)
	}
}

// TestGatewayNotifies checks that a client gets console lines and the names of called tools during a run, and that cancelling the request cancels the run.
func TestGatewayNotifies(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.write("harness.yaml", "# state lives beside it\n")
	f.addDemo("crm")
	lines, steps := make(chan string, 100), make(chan string, 100)
	g := f.gateway(&mcp.ClientOptions{
		LoggingMessageHandler: func( //nolint:staticcheck // clients of the older versions have it
			_ context.Context, r *mcp.LoggingMessageRequest,
		) {
			lines <- fmt.Sprint(r.Params.Level, " ", r.Params.Data)
		},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { steps <- r.Params.Message },
	})
	ctx, cancel := context.WithCancel(t.Context())
	params := &mcp.CallToolParams{
		Meta: mcp.Meta{"io.modelcontextprotocol/logLevel": "debug"},
		Name: "execute_code", Arguments: map[string]any{"code": "await tools.crm.search({q: ''}); console.warn('waiting'); await utils.sleep(600000)"},
	}
	params.SetProgressToken("p")
	ended := make(chan error, 1)
	go func() {
		_, err := g.CallTool(ctx, params)
		ended <- err
	}()
	step := <-steps
	for strings.HasPrefix(step, "running for ") { // the runner starts slowly
		step = <-steps
	}
	if step != "crm__search" {
		t.Errorf("the first progress of a call is %q", step)
	}
	if line := <-lines; line != "warning waiting" {
		t.Errorf("the first line is %q", line)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the call ends with %v", err)
	}
	var page struct{ Runs []struct{ Status string } }
	for deadline := time.Now().Add(2 * time.Minute); len(page.Runs) != 1 || page.Runs[0].Status != "cancelled"; time.Sleep(5 * time.Millisecond) {
		if f.run("runs", "list", "--json").want(0).value(&page); time.Now().After(deadline) {
			t.Fatalf("the journal has %+v", page.Runs)
		}
	}
}

// TestGatewayFiles checks that the gateway cuts a long result and links to the whole one, that it shows an image that a program returns, and that a client can
// read only files of its own session.
func TestGatewayFiles(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.write("harness.yaml", "# state lives beside it\n")
	g := f.gateway(nil)
	r, err := g.CallTool(t.Context(), &mcp.CallToolParams{Name: "execute_code", Arguments: map[string]any{"code": "return Array.from({length: 20000}, (_, i) => 'row ' + i)"}})
	if err != nil {
		t.Fatal(err)
	}
	text := r.Content[0].(*mcp.TextContent).Text
	structured, _ := json.Marshal(r.StructuredContent)
	if n, _ := model.Vocabulary().Count(text); n > 8100 || len(structured) > 2*len(text) || len(r.Content) != 2 {
		t.Fatalf("%d tokens of text, %d bytes of data, %d parts", n, len(structured), len(r.Content))
	}
	link := r.Content[1].(*mcp.ResourceLink)
	read, err := g.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: link.URI})
	if err != nil || !strings.Contains(read.Contents[0].Text, "row 19999") || !strings.Contains(text, "/workspace/results/") {
		t.Errorf("%s: %v", link.URI, err)
	}
	for _, uri := range []string{"workspace://other/x", link.URI + "x", "workspace://../local/x", "file:///etc/passwd"} {
		if read, err := g.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri}); err == nil {
			t.Errorf("%s reads %+v", uri, read.Contents[0])
		}
	}
	const value = "ada.lovelace@example.org"
	var wrote gatewayRun
	g.call("execute_code", map[string]any{"code": "const text = '\\ufeff" + value + "'; const units = new Uint16Array([...text].map(c => c.charCodeAt(0)));" +
		"await fs.writeFile('/workspace/wide.txt', new Uint8Array(units.buffer))"}, &wrote)
	wide, _, _ := strings.Cut(link.URI, "results/")
	if read, err = g.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: wide + "wide.txt"}); err != nil ||
		strings.ReplaceAll(string(read.Contents[0].Blob), "\x00", "") != "\xff\xfepii_1e@d1.pii.invalid" {
		t.Errorf("the file in UTF-16 reads %+v, %v; %+v", read, err, wrote)
	}
	image := "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
	r, err = g.CallTool(t.Context(), &mcp.CallToolParams{Name: "execute_code", Arguments: map[string]any{
		"code": "await fs.writeFile('/workspace/dot.png', Uint8Array.from(atob('" + image + "'), c => c.charCodeAt(0))); return [{file: '/workspace/dot.png'}]",
	}})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Content) != 2 {
		t.Fatalf("the result has %d parts: %s", len(r.Content), r.Content[0].(*mcp.TextContent).Text)
	}
	if shown, ok := r.Content[1].(*mcp.ImageContent); !ok || shown.MIMEType != "image/png" || base64.StdEncoding.EncodeToString(shown.Data) != image {
		t.Errorf("the image is %+v", r.Content[1])
	}
}

// TestGatewayFilePolicy checks that policy and journal treat a client's read of a file as a call.
func TestGatewayFilePolicy(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.write("harness.yaml", `policy:
  - {tools: "session__resources/read", args: {$.uri: {pattern: "/secret"}}, action: deny, reason: not for clients}
`)
	g := f.gateway(nil)
	if _, failed := g.call("execute_code", map[string]any{
		"code": "await fs.writeFile('/workspace/open.txt', 'seen'); await fs.writeFile('/workspace/secret.txt', 'unseen')", "sessionId": "s",
	}, nil); failed {
		t.Fatal("the files are not written")
	}
	if read, err := g.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "workspace://s/open.txt"}); err != nil || read.Contents[0].Text != "seen" {
		t.Errorf("%+v, %v", read, err)
	}
	if read, err := g.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "workspace://s/secret.txt"}); err == nil || !strings.Contains(err.Error(), "not for clients") {
		t.Errorf("a file that policy denies: %+v, %v", read, err)
	}
	var list struct {
		Runs []struct{ ID, Session string }
	}
	f.run("runs", "list", "--json").want(0).value(&list)
	var journaled int
	for _, r := range list.Runs {
		if text := f.run("runs", "journal", r.ID).want(0).stdout; strings.Contains(text, "session__resources/read") && strings.Contains(text, "workspace://s/") {
			journaled++
		}
	}
	if journaled != 2 {
		t.Errorf("%d of 2 reads are in a journal, of %+v", journaled, list.Runs)
	}
}

// TestGatewayDirect calls tools of the servers directly. The gate still hides personal data, checks inputs and applies the policy.
func TestGatewayDirect(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.asking()
	f.addDemo("crm")
	g := f.gateway(nil, "--mode", "both")
	names := map[string]*mcp.Tool{}
	for deadline := time.Now().Add(2 * time.Minute); names["search"] == nil || names["send"] == nil; time.Sleep(5 * time.Millisecond) { // the servers list their tools
		listed, err := g.ListTools(t.Context(), nil)
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("%v has no tools of the servers: %v", names, err)
		}
		for _, tool := range listed.Tools {
			names[tool.Name] = tool
		}
	}
	if names["execute_code"] == nil || names["search"].Annotations == nil || !names["search"].Annotations.ReadOnlyHint {
		t.Errorf("the tools are %v", names)
	}
	var found any
	text, failed := g.call("search", map[string]any{"q": ""}, &found)
	if failed || strings.Contains(text, ".example.com") || !strings.Contains(text, ".pii.invalid") {
		t.Errorf("search gives %.500s", text)
	}
	if text, failed = g.call("search", map[string]any{"wrong": 1}, nil); !failed || !strings.Contains(text, `missing required property "q"`) {
		t.Errorf("a wrong input gives %s", text)
	}
	if text, failed = g.call("send", map[string]any{"to": "ann@example.com", "subject": "s", "body": "b"}, nil); !failed || !strings.Contains(text, "A person decides") || strings.Contains(text, "harness approvals") || f.mails() != 0 {
		t.Errorf("a call that policy asks about gives %s", text)
	}
	if text, failed = g.call("list_mcp_tools", nil, nil); failed || !strings.Contains(text, "crm__search") {
		t.Errorf("the original's tool gives %s", text)
	}
}

// TestPrintConfig checks the configuration that starts the gateway, for every client.
func TestPrintConfig(t *testing.T) {
	t.Parallel()
	f := setup(t)
	file := f.write("harness.yaml", "# state lives beside it\n")
	for client, key := range map[string]string{
		"claude-code": "mcpServers", "claude-desktop": "mcpServers", "cursor": "mcpServers", "vscode": "servers", "windsurf": "mcpServers",
		"zed": "context_servers", "gemini": "mcpServers",
	} {
		var config map[string]map[string]struct {
			Command string
			Args    []string
		}
		f.run("mcp", "--print-config", client).want(0).value(&config)
		if got := config[key]["harness"]; got.Command != self(t) || !slices.Equal(got.Args, []string{"mcp", "--config", file}) {
			t.Errorf("%s: %+v", client, config)
		}
	}
	if got := f.run("mcp", "--print-config", "codex").want(0).stdout; !strings.HasPrefix(got, "[mcp_servers.harness]\ncommand = \"") || !strings.Contains(got, `args = ["mcp", "--config", "`) {
		t.Errorf("codex: %s", got)
	}
	if r := f.run("mcp", "--print-config", "emacs").want(2); !strings.Contains(r.stderr, "claude-code, claude-desktop, cursor") {
		t.Errorf("an unknown client: %s", r.stderr)
	}
	if r := f.run("mcp", "--print-config", "cursor").want(0); !strings.Contains(r.stderr, "cursor://") {
		t.Errorf("cursor has a link: %s", r.stderr)
	}
}

// TestGatewayStart has 20 servers, of which five are broken in different ways. The gateway answers at once, offers the tools of the others, and names the
// broken servers.
func TestGatewayStart(t *testing.T) {
	t.Parallel()
	f := setup(t)
	var config strings.Builder
	config.WriteString("mcpServers:\n  absent: {command: /nonexistent/program}\n")
	for name, kind := range map[string]string{"exits": misbehave.Dies, "mute": misbehave.Hangs, "deaf": misbehave.Deaf, "floods": misbehave.Floods} {
		env, _ := json.Marshal(misbehave.Env(kind, filepath.Join(f.dir, "pids-"+name)))
		fmt.Fprintf(&config, "  %s: {command: %s, env: %s}\n", name, quoted(self(t)), env)
	}
	for i := range 15 {
		fmt.Fprintf(&config, "  crm%d: {command: %s, args: [__demo-server, crm, %s]}\n", i, quoted(self(t)), quoted(f.dir))
	}
	f.write("harness.yaml", config.String())
	binary(t)
	began := time.Now()
	g := f.gateway(nil)
	t.Logf("it answers after %s", time.Since(began))
	var hits struct {
		Tools []struct{ Name string }
		Notes []string
	}
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		g.call("search_tools", map[string]any{"query": "search customers", "limit": 50}, &hits)
		servers := map[string]bool{}
		for _, hit := range hits.Tools {
			server, _, _ := strings.Cut(hit.Name, "__")
			servers[server] = true
		}
		if len(servers) == 15 {
			t.Logf("all servers that work are there after %s", time.Since(began))
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("found %v, %v", servers, hits.Notes)
		}
	}
	notes := strings.Join(hits.Notes, "\n")
	for _, name := range []string{"absent", "exits", "mute", "deaf", "floods"} {
		if !strings.Contains(notes, "Server "+name+" ") {
			t.Errorf("%s is not missing in\n%s", name, notes)
		}
	}
}

// TestBenchTokens checks that harness bench tokens reports the same cost of code mode for any number of tools.
func TestBenchTokens(t *testing.T) {
	t.Parallel()
	var rows []struct{ Tools, Direct, Code int }
	setup(t).run("bench", "tokens", "--json").want(0).value(&rows)
	if len(rows) != 5 || rows[4].Tools != 5000 || rows[0].Code >= 1500 || rows[0].Code != rows[4].Code || rows[4].Direct < 100*rows[4].Code {
		t.Errorf("%+v", rows)
	}
}

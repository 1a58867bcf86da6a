package wiring_test

import (
	"encoding/json"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/testing/realservers"
)

// entry returns the configuration entry of a real server.
func entry(c mcpclient.Config) *config.MCPServer {
	return &config.MCPServer{
		Name: c.Name, Command: c.Command, Args: c.Args, Env: c.Env, Cwd: c.Cwd, URL: c.URL, Headers: c.Headers, Type: c.Transport,
		StartupTimeout: c.StartupTimeout,
	}
}

// TestSalesAnalysis makes a typical first analysis: discover tools, read descriptions, query, add up, save a skill and use it. The totals must equal those
// that SQL computes.
func TestSalesAnalysis(t *testing.T) {
	f := setup(t, nil, demoServer(t, "database", t.TempDir()))
	var got struct {
		Tools      []string
		Described  string
		Total, SQL float64
		Count      int
		Skill      struct {
			Total float64
			Count int
		}
	}
	f.value(`
const names = await list_mcp_tools();
const details = await get_mcp_tool_details("database__query");
const rows = await callMCPTool("database__query", { query: "SELECT * FROM sales WHERE date > '2024-06-01'" });
const sum = rows.reduce((acc, row) => ({ total: acc.total + row.amount, count: acc.count + 1 }), { total: 0, count: 0 });
await fs.writeFile('/skills/totals.js', `+"`"+`
  module.exports = async (rows) => ({ total: rows.reduce((t, r) => t + r.amount, 0), count: rows.length });
`+"`"+`);
const totals = require('/skills/totals.js');
const [direct] = await callMCPTool("database__query", { query: "SELECT sum(amount) AS s FROM sales WHERE date > '2024-06-01'" });
return { tools: names, described: details.description, total: sum.total, count: sum.count, sql: direct.s, skill: await totals(rows) };
`, &got)
	if got.Total == 0 || got.Total != got.SQL || got.Count == 0 {
		t.Errorf("total %v, by SQL %v, of %d rows", got.Total, got.SQL, got.Count)
	}
	if got.Skill.Total != got.Total || got.Skill.Count != got.Count {
		t.Errorf("the skill says %+v, the program %v of %d", got.Skill, got.Total, got.Count)
	}
	if len(got.Tools) != 3 || got.Described == "" {
		t.Errorf("tools %v, described %q", got.Tools, got.Described)
	}
}

// TestServerModules imports servers as modules, and calls their functions with positional arguments.
func TestServerModules(t *testing.T) {
	dir := t.TempDir()
	f := setup(t, nil, demoServer(t, "n8n-nodes", dir), demoServer(t, "n8n-workflows", dir))
	var got struct {
		Found   []string
		Name    string
		Valid   bool
		ID      string
		Invalid bool
		Status  string
		Fuzzy   bool
	}
	f.value(`
import * as nodes from './servers/n8n-nodes/index.js';
import * as workflows from './servers/n8n-workflows/index.js';
import search from './servers/n8n-nodes/searchNodes';
const found = await nodes.searchNodes('slack');
const info = await nodes.getNodeEssentials(found[0]);
const workflow = { name: 'W', active: true, nodes: [{ name: 'A', type: found[0], position: [0, 0], parameters: {} }], connections: {} };
const check = await workflows.validateWorkflow(workflow);
const broken = await workflows.validateWorkflow({ name: '', nodes: [], connections: {} });
const created = await workflows.createWorkflow(workflow);
const ended = await workflows.executeWorkflow(created.id, { message: 'hello' });
const again = await tools.N8N_Nodes.search_nodes({ query: 'slack' });
return { found, name: info.name, valid: check.valid, invalid: !broken.valid, id: created.id, status: ended.status,
  fuzzy: JSON.stringify(again) === JSON.stringify(await search('slack')) };
`, &got)
	if len(got.Found) == 0 || got.Name == "" || !got.Valid || !got.Invalid || got.ID == "" || got.Status != "success" || !got.Fuzzy {
		t.Errorf("got %+v", got)
	}
}

// TestTypeScriptWithRealServer runs TypeScript with a real npm server: generics, an enum, a namespace import, 100 parallel calls, a caught tool error and a
// skill.
func TestTypeScriptWithRealServer(t *testing.T) {
	f := setup(t, nil, entry(realservers.Everything(t)))
	f.value(`await fs.writeFile('/skills/double.ts', 'export default function double<T extends number>(n: T): number { return n * 2 }'); return 1`, nil)
	var got struct {
		Sum    int
		Caught string
		Color  string
		Echo   string
	}
	f.value(`
import * as everything from './servers/everything';
import double from '/skills/double.ts';
enum Color { Red = 'red', Green = 'green' }
interface Pair<A, B> { a: A; b: B }
const pair = <A, B>(a: A, b: B): Pair<A, B> => ({ a, b });
const texts: string[] = await Promise.all(Array.from({ length: 100 }, (_, i) => everything.getSum({ a: i, b: 1 }) as Promise<string>));
const sum = texts.reduce((total: number, text: string) => total + Number(/-?\d+(?=\.?\s*$)/.exec(text)![0]), 0);
let caught = '';
try { await callMCPTool('everything__get-sum', { a: 'no number' }) } catch (e) { caught = e instanceof ToolError ? e.message : 'other' }
return { sum, caught, color: pair(Color.Green, double(2)).a, echo: await tools.everything.echo({ message: 'hi' }) };
`, &got)
	if want := 99*100/2 + 100; got.Sum != want {
		t.Errorf("sum %d, want %d", got.Sum, want)
	}
	if !strings.Contains(got.Caught, "a") || got.Caught == "other" || got.Color != "green" || !strings.Contains(got.Echo, "hi") {
		t.Errorf("got %+v", got)
	}
}

// TestRealServers lists and calls tools of the real npm servers, over stdio, streamable HTTP and SSE.
func TestRealServers(t *testing.T) {
	dir := t.TempDir()
	http := realservers.EverythingHTTP(t)
	http.Name = "http"
	sse := realservers.EverythingSSE(t)
	sse.Name = "sse"
	f := setup(t, nil, entry(realservers.Filesystem(t, dir)), entry(realservers.Memory(t, dir+"/memory.json")), entry(http), entry(sse))
	var got struct {
		Servers []string
		Text    string
		Graph   json.RawMessage
		HTTP    string
		SSE     string
	}
	path, _ := json.Marshal(dir + "/a.txt")
	f.value(`
await tools.filesystem.write_file({ path: `+string(path)+`, content: 'written' });
const file = await tools.filesystem.read_text_file({ path: `+string(path)+` });
await tools.memory.create_entities({ entities: [{ name: 'x', entityType: 'thing', observations: ['seen'] }] });
return {
  servers: await introspect_servers(), text: JSON.stringify(file), graph: await tools.memory.read_graph(),
  http: await tools.http.echo({ message: 'over http' }), sse: await tools.sse.echo({ message: 'over sse' }),
}`, &got)
	if len(got.Servers) != 4 || !strings.Contains(got.Text, "written") || !strings.Contains(string(got.Graph), "seen") {
		t.Errorf("got %+v", got)
	}
	if !strings.Contains(got.HTTP, "over http") || !strings.Contains(got.SSE, "over sse") {
		t.Errorf("got %+v", got)
	}
}

// TestSkillsSurvive saves a skill in one run and uses it in another run. Another user does not see it.
func TestSkillsSurvive(t *testing.T) {
	f := setup(t, nil)
	f.value(`await fs.writeFile('/home/sandboxuser/skills/add.js', 'exports.add = (a, b) => a + b'); return 1`, nil)
	var n int
	f.value(`import { add } from '/skills/add.js'; return add(1, 2)`, &n)
	if n != 3 {
		t.Errorf("got %d", n)
	}
	out := f.exec(runs.Request{Code: `return require('/skills/add.js').add(1, 2)`, User: "another"})
	if out.Error == nil {
		t.Errorf("another user's skill was found: %s", out.Output)
	}
}

// TestProgress checks that the progress that a server reports during a call is passed on.
func TestProgress(t *testing.T) {
	f := setup(t, nil, entry(realservers.Everything(t)))
	reports := make(chan mcpclient.Progress, 100)
	out := f.exec(runs.Request{
		Code:     `return await tools.everything.triggerLongRunningOperation({ duration: 0.2, steps: 4 })`,
		Progress: func(_ int, p mcpclient.Progress) { reports <- p },
	})
	if out.Error != nil {
		t.Fatalf("%+v", out.Error)
	}
	close(reports)
	var last mcpclient.Progress
	n := 0
	for p := range reports {
		last = p
		n++
	}
	if n == 0 || last.Total != 4 {
		t.Errorf("%d reports, the last %+v", n, last)
	}
}

package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/testing/n8nfake"
)

// exportedWorkflow is what harness n8n export prints.
type exportedWorkflow struct {
	Name  string
	Nodes []struct {
		Name, Type, Notes string
		Parameters        struct{ JSCode, URL, Path string }
		Credentials       map[string]struct{ Name string }
	}
}

type exportResult struct {
	ID, Form string
	Needs    []string
	Compared struct {
		Equal        bool
		Harness, N8N json.RawMessage
	}
}

// runOf executes a program and returns the id of its run.
func (f *fixture) runOf(code string) string {
	f.t.Helper()
	var out outcome
	f.run("exec", "--json", "-e", code).want(0).value(&out)
	return out.RunID
}

const savedSkills = `await fs.writeFile('/skills/pure.ts', 'import { one } from "./one.js"; export const twice = (o: { n: number }) => o.n * 2 + one; export const half = (o: { n: number }) => o.n / 2');
await fs.writeFile('/skills/one.js', 'exports.one = 1');
await fs.writeFile('/skills/count.js', 'export default async function count({ extra }) { return { tools: (await list_mcp_tools()).length >= 0, extra } }');
return 1`

// TestN8NExport prints workflows without an instance of n8n. A program that needs no feature of the harness is part of the workflow. For any other program, the
// workflow calls the harness.
func TestN8NExport(t *testing.T) {
	t.Parallel()
	f := setup(t)
	pure := f.runOf("const xs: number[] = [1, 2, 3]; return xs.map((x) => x * 2)")
	needs := f.runOf("return (await list_mcp_tools()).length")
	f.run("exec", "-e", savedSkills).want(0)

	var w exportedWorkflow
	f.run("n8n", "export", pure).want(0).value(&w)
	if len(w.Nodes) != 2 || w.Nodes[0].Type != "n8n-nodes-base.webhook" || !strings.Contains(w.Nodes[1].Parameters.JSCode, "const xs = [1, 2, 3]") || strings.Contains(w.Nodes[1].Parameters.JSCode, "number[]") {
		t.Errorf("exported %+v", w)
	}
	w = exportedWorkflow{}
	f.run("n8n", "export", pure, "--http", "--harness", "http://harness.test:1/", "--credential", "key", "--name", "Mine").want(0).value(&w)
	if w.Name != "Mine" || len(w.Nodes) != 4 || w.Nodes[2].Parameters.URL != "http://harness.test:1/v1/runs" || w.Nodes[2].Credentials["httpHeaderAuth"].Name != "key" {
		t.Errorf("exported %+v", w)
	}
	r := f.run("n8n", "export", needs).want(0)
	if !strings.Contains(r.stderr, "list_mcp_tools") || !strings.Contains(r.stderr, "keys create") {
		t.Errorf("said %s", r.stderr)
	}
	w = exportedWorkflow{}
	f.run("n8n", "export", "pure", "--function", "twice").want(0).value(&w)
	if len(w.Nodes) != 2 || !strings.Contains(w.Nodes[1].Parameters.JSCode, "/skills/one.js") {
		t.Errorf("exported %+v", w)
	}
	w = exportedWorkflow{}
	f.run("n8n", "export", "count").want(0).value(&w)
	if len(w.Nodes) != 4 || !strings.Contains(w.Nodes[1].Parameters.JSCode, "/skills/count.js") {
		t.Errorf("exported %+v", w)
	}
	failing := f.runIn(t.Context(), "", "exec", "--json", "-e", "throw new Error('no')")
	var failed outcome
	failing.want(1).value(&failed)
	for want, args := range map[string][]string{
		"--function": {"pure"}, "exports half, twice": {"pure", "--function", "third"}, "skills list": {"nothing"}, "no such run": {"run_zzzz"}, "n8n.url": {"count", "--create"},
		"needs --create": {"count", "--run"}, "no JSON object": {"count", "--create", "--run", "--input", "[1]"}, "a run that succeeded": {failed.RunID},
	} {
		if r := f.run(append([]string{"n8n", "export"}, args...)...).want(2); !strings.Contains(r.stderr, want) {
			t.Errorf("%q: said %s, want %q", args, r.stderr, want)
		}
	}
}

// TestN8NExportCreates checks that --create --run stores a workflow, runs it, compares its result with that of the harness, and leaves it inactive.
func TestN8NExportCreates(t *testing.T) {
	t.Parallel()
	f := setup(t)
	api := n8nfake.NewAPI()
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	f.environ = append(f.environ, "N8N_API_URL="+server.URL, "N8N_API_KEY="+n8nfake.Key)
	id := f.runOf("return [1, 2]")
	for output, equal := range map[string]bool{`{"result":[1,2]}`: true, `{"result":[1,3]}`: false} {
		api.Ends(func(map[string]any) n8nfake.Outcome { return n8nfake.Outcome{Output: json.RawMessage(output)} })
		r := f.run("n8n", "export", id, "--create", "--run", "--json")
		code := 0
		if !equal {
			code = 1
		}
		var got exportResult
		r.want(code).value(&got)
		if got.Form != "code" || got.ID == "" || got.Compared.Equal != equal {
			t.Errorf("answered %s: %+v", output, got)
		}
		var stored struct{ Active bool }
		if call(t, server.URL+"/api/v1/workflows/"+got.ID, n8nfake.Key, nil, &stored); stored.Active {
			t.Error("the workflow is still active")
		}
	}
	api.Ends(func(map[string]any) n8nfake.Outcome { return n8nfake.Outcome{Node: "Program", Message: "no memory"} })
	if r := f.run("n8n", "export", id, "--create", "--run").want(1); !strings.Contains(r.stderr, "no memory") || !strings.Contains(r.stderr, "was created") {
		t.Errorf("said %s", r.stderr)
	}
}

// call sends a request to the public API of an n8n: a GET if body is nil, otherwise a POST.
func call(t *testing.T, address, key string, body, into any) {
	t.Helper()
	method, text := http.MethodGet, []byte(nil)
	if body != nil {
		var err error
		if method, text = http.MethodPost, nil; body != nil {
			text, err = json.Marshal(body)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), method, address, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-N8n-Api-Key", key)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode > 299 {
		t.Fatalf("%s %s: %d %s %v", method, address, res.StatusCode, answer, err)
	}
	if err := json.Unmarshal(answer, into); err != nil {
		t.Fatalf("%s: %v: %s", address, err, answer)
	}
}

// TestN8NBothWays uses a real n8n. Exported programs have the same results there as in the harness. A program of the harness calls a workflow as a tool. The
// MCP client of n8n calls the harness.
func TestN8NBothWays(t *testing.T) {
	base, key := os.Getenv("HARNESS_TEST_N8N_URL"), os.Getenv("HARNESS_TEST_N8N_KEY")
	if base == "" {
		t.Skip("needs a real n8n: make n8n")
	}
	f := setup(t)
	f.environ = append(f.environ, "N8N_API_URL="+base, "N8N_API_KEY="+key, "HARNESS_N8N_NODES="+os.Getenv("HARNESS_TEST_N8N_NODES"))
	pure := f.runOf("const xs: number[] = [3, 1, 2]; return { sorted: xs.sort(), text: 'ä ` ${x} }} {{ 1 }}' }")
	needs := f.runOf("const all = await list_mcp_tools(); return { bridge: all.filter((n) => n.startsWith('n8n-nodes')).sort() }")
	f.run("exec", "-e", savedSkills).want(0)
	s := f.serve()
	var made struct{ Key string }
	f.run("keys", "create", "--user", "local", "--json").want(0).value(&made)
	for _, c := range []struct{ kind, name, value string }{{"httpHeaderAuth", "Authorization", "Bearer " + made.Key}} {
		var stored struct{ ID string }
		call(t, base+"/api/v1/credentials", key, map[string]any{"name": "harness", "type": c.kind, "data": map[string]any{"name": c.name, "value": c.value}}, &stored)
	}
	for _, c := range []struct {
		args []string
		form string
	}{
		{[]string{pure}, "code"},
		{[]string{pure, "--http"}, "http"},
		{[]string{needs}, "http"},
		{[]string{"pure", "--function", "twice", "--input", `{"n": 21}`}, "code"},
		{[]string{"count", "--input", `{"extra": "}} {{ $json }} it's"}`}, "http"},
	} {
		var got exportResult
		f.run(append([]string{"n8n", "export", "--create", "--run", "--json", "--harness", s.url}, c.args...)...).want(0).value(&got)
		if got.Form != c.form || !got.Compared.Equal {
			t.Errorf("%q: %+v", c.args, got)
		}
		t.Logf("%q: %s %s", c.args, got.Form, got.Compared.N8N)
	}

	// The MCP client of this workflow calls the harness. A program of the harness calls the workflow as a tool.
	client := map[string]any{
		"name": "Compute in harness", "settings": map[string]any{"executionOrder": "v1"},
		"nodes": []any{
			map[string]any{
				"id": "1", "name": "Webhook", "type": "n8n-nodes-base.webhook", "typeVersion": 2, "position": []int{0, 0}, "webhookId": "0b4b8b1e-6c1f-4e9b-9d4e-1f1f2e3d4c5b",
				"notes":      `Doubles a number. {"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]}`,
				"parameters": map[string]any{"httpMethod": "POST", "path": "compute-in-harness", "responseMode": "lastNode"},
			},
			map[string]any{
				"id": "2", "name": "Harness", "type": "@n8n/n8n-nodes-langchain.mcpClient", "typeVersion": 1, "position": []int{200, 0}, "credentials": map[string]any{"httpHeaderAuth": map[string]any{"id": nil, "name": "harness"}},
				"parameters": map[string]any{
					"serverTransport": "httpStreamable", "endpointUrl": s.url + "/mcp", "authentication": "headerAuth", "tool": map[string]any{"__rl": true, "mode": "id", "value": "execute_code"},
					"inputMode": "json", "jsonInput": `={{ JSON.stringify({ code: "return 2 * " + $json.body.n }) }}`, "options": map[string]any{},
				},
			},
		},
		"connections": map[string]any{"Webhook": map[string]any{"main": []any{[]any{map[string]any{"node": "Harness", "type": "main", "index": 0}}}}},
	}
	program := fmt.Sprintf(`const made = await callMCPTool('n8n-workflows__create_workflow', Object.assign(%s, { active: true, tags: ['harness-tool'] }));
if (made.problem) throw new Error(made.problem);
try {
  for (let i = 0; !(await list_mcp_tools()).includes('n8n-bridge__compute_in_harness'); i++) { if (i > 100) throw new Error('it is no tool'); await utils.sleep(100); }
  const details = await get_mcp_tool_details('n8n-bridge__compute_in_harness');
  return { schema: details.inputSchema, answer: await callMCPTool('n8n-bridge__compute_in_harness', { n: 21 }) };
} finally {
  await callMCPTool('n8n-workflows__delete_workflow', { workflowId: made.id });
}`, mustJSON(t, client))
	var out outcome
	f.run("exec", "--json", "-e", program).want(0).value(&out)
	t.Logf("the bridge and the MCP client: %s", out.Output)
	if !strings.Contains(string(out.Output), "42") || !strings.Contains(string(out.Output), `"required":["n"]`) {
		t.Errorf("got %s", out.Output)
	}
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestN8NSkill checks the skill that builds workflows: its description has no problem, and its functions make valid workflows that can be stored, called as
// tools and diagnosed when they fail. harness n8n skill does not replace a changed copy.
func TestN8NSkill(t *testing.T) {
	t.Parallel()
	f := setup(t)
	base, key, nodes := os.Getenv("HARNESS_TEST_N8N_URL"), os.Getenv("HARNESS_TEST_N8N_KEY"), os.Getenv("HARNESS_TEST_N8N_NODES")
	real := base != ""
	if !real {
		api := n8nfake.NewAPI()
		server := httptest.NewServer(api)
		t.Cleanup(server.Close)
		base, key = server.URL, n8nfake.Key
		api.Ends(func(w map[string]any) n8nfake.Outcome {
			if w["name"] == "Failing" {
				return n8nfake.Outcome{Node: "Code", Message: "no lines"}
			}
			return n8nfake.Outcome{Output: map[string]any{"total": 3}}
		})
	}
	f.environ = append(f.environ, "N8N_API_URL="+base, "N8N_API_KEY="+key, "HARNESS_N8N_NODES="+nodes)
	f.run("n8n", "skill").want(0)
	f.run("n8n", "skill").want(0)
	var shown struct {
		Skill struct{ Problem, Description string }
	}
	f.run("skills", "show", "n8n-workflow-builder", "--json").want(0).value(&shown)
	if shown.Skill.Problem != "" || !strings.Contains(shown.Skill.Description, "workflows") {
		t.Errorf("shown %+v", shown)
	}
	var out outcome
	f.run("exec", "--json", "-e", `
const { buildSlackNotificationWorkflow, buildApiProcessingWorkflow } = require('/skills/n8n-workflow-builder/skill.js');
import { buildTool, deploy, diagnose } from '/skills/n8n-workflow-builder/skill.js';
import * as workflows from './servers/n8n-workflows/index.js';
const slack = await buildSlackNotificationWorkflow({ channel: '#alerts', webhookPath: 'skill-alerts', name: 'Alerts', credential: 'Slack' });
const api = await buildApiProcessingWorkflow({ apiUrl: 'https://example.com/items', method: 'get' });
const checks = await Promise.all([slack, api].map((workflow) => workflows.validateWorkflow(workflow)));
const stored = await workflows.createWorkflow(api);
await workflows.deleteWorkflow(stored.id);
const order = (name, path, code) => buildTool({ name, description: 'Adds up.', webhookPath: path, code,
  input: { type: 'object', properties: { lines: { type: 'array', items: { type: 'number' } } }, required: ['lines'] } });
const made = await deploy(order('Order total', 'skill-order', 'return { total: input.lines.reduce((a, b) => a + b, 0) };'));
const failing = await deploy(order('Failing', 'skill-failing', "throw new Error('no lines');"));
try {
  const ended = await workflows.executeWorkflow(made.id, { lines: [1, 2] });
  const failed = await workflows.executeWorkflow(failing.id, {});
  const fault = await diagnose(failing.id);
  const refused = await deploy({ name: '', nodes: [], connections: {} }).catch((error) => error.message);
  const missing = await Promise.resolve().then(() => buildSlackNotificationWorkflow({ channel: '#a' })).catch((error) => error.message);
  return { checks, made, total: ended.data.total, failed: failed.error, fault, none: await diagnose(made.id), refused, missing };
} finally {
  await workflows.deleteWorkflow(made.id);
  await workflows.deleteWorkflow(failing.id);
}`).want(0).value(&out)
	var got struct {
		Checks []struct {
			Valid  bool
			Errors []string
		}
		Made    struct{ Active bool }
		Total   int
		Failed  string
		Fault   struct{ Node, Message, Type string }
		None    any
		Refused string
		Missing string
	}
	if err := json.Unmarshal(out.Output, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Checks) != 2 || !got.Made.Active || got.Total != 3 || !strings.Contains(got.Failed, "no lines") || got.Fault.Node != "Code" ||
		got.Fault.Type != "n8n-nodes-base.code" || got.None != nil || !strings.Contains(got.Refused, "not valid") || !strings.Contains(got.Missing, "webhookPath is missing") {
		t.Errorf("got %s", out.Output)
	}
	for i, check := range got.Checks {
		for _, e := range check.Errors {
			if i == 0 && strings.Contains(e, "credentials") { // there are none named Slack
				continue
			}
			t.Errorf("workflow %d: %s", i, e)
		}
	}
	f.run("exec", "-e", "await fs.writeFile('/skills/n8n-workflow-builder/skill.js', 'mine'); return 1").want(0)
	if r := f.run("n8n", "skill").want(2); !strings.Contains(r.stderr, "--force") {
		t.Errorf("said %s", r.stderr)
	}
	f.run("n8n", "skill", "--force").want(0)
}

package wiring_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/testing/n8nfake"
)

// n8nHarness opens a harness with a fake n8n in its configuration.
func n8nHarness(t *testing.T, flags map[string]string) (*fixture, *n8nfake.API) {
	t.Helper()
	api := n8nfake.NewAPI()
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	all := map[string]string{
		"n8n.url": server.URL, "n8n.apiKey": n8nfake.Key, "n8n.email": n8nfake.Email, "n8n.password": n8nfake.Password, "n8n.templates": t.TempDir(), "n8n.templateLibrary": "off",
	}
	for key, value := range flags {
		all[key] = value
	}
	return setup(t, all), api
}

// n8nTools are the tools of the built-in servers, by server, with the names of the original servers.
var n8nTools = map[string][]string{
	"n8n-nodes":      {"list_nodes", "search_nodes", "get_node_info", "get_node_essentials", "validate_node_config", "validate_node_minimal", "validate_node_operation"},
	"n8n-templates":  {"list_templates", "search_templates", "get_template", "search_by_metadata", "list_node_templates"},
	"n8n-workflows":  {"create_workflow", "update_workflow", "get_workflow", "delete_workflow", "list_workflows", "validate_workflow", "execute_workflow", "get_workflow_structure", "update_partial_workflow"},
	"n8n-executions": {"trigger_webhook", "list_executions", "retry_execution", "get_execution", "delete_execution"},
}

// TestN8NNames: every tool is found by its long and its short name, and is a function of its server's module.
func TestN8NNames(t *testing.T) {
	t.Parallel()
	f, _ := n8nHarness(t, nil)
	var names []string
	var imports, functions strings.Builder
	for server, tools := range n8nTools {
		module := strings.ReplaceAll(server, "-", "_")
		fmt.Fprintf(&imports, "import * as %s from './servers/%s/index.js';\n", module, server)
		for _, tool := range tools {
			names = append(names, module+"__"+tool, "n8n_"+tool)
			fmt.Fprintf(&functions, "typeof %s.%s, ", module, camel(tool))
		}
	}
	list, _ := json.Marshal(names)
	var got struct {
		Unknown   []string
		Functions []string
	}
	f.value(imports.String()+`
const unknown = [];
for (const name of `+string(list)+`) {
  try { const d = await get_mcp_tool_details(name); if (!d.description || !d.inputSchema) unknown.push(name); } catch (e) { unknown.push(name + ': ' + e.message); }
}
return { unknown, functions: [`+functions.String()+`] };`, &got)
	if len(got.Unknown) > 0 || slices.ContainsFunc(got.Functions, func(kind string) bool { return kind != "function" }) {
		t.Errorf("got %+v", got)
	}
}

func camel(name string) string {
	parts := strings.Split(name, "_")
	for i, part := range parts[1:] {
		parts[i+1] = strings.ToUpper(part[:1]) + part[1:]
	}
	return strings.Join(parts, "")
}

// TestN8NProgram creates, changes and deletes workflows in a program, with positional arguments and with both names of tools.
func TestN8NProgram(t *testing.T) {
	t.Parallel()
	f, api := n8nHarness(t, nil)
	api.Ends(func(w map[string]any) n8nfake.Outcome {
		if strings.Contains(fmt.Sprint(w["nodes"]), "throw") {
			return n8nfake.Outcome{Node: "Greet", Item: 1, Message: "no such guest"}
		}
		return n8nfake.Outcome{Output: map[string]any{"greeting": "Hello Ada"}}
	})
	var got struct {
		Found, Servers                []string
		Slack, Structure, Same, Again any
		Checked, Broken, Judged       bool
		Errors                        []string
		Greeting                      string
		Failure                       string
		Retried, Mended               string
		Listed, Executions            int
		Gone                          any
		Template                      string
	}
	f.value(`
import * as nodes from './servers/n8n-nodes/index.js';
import * as workflows from './servers/n8n-workflows/index.js';
import * as executions from './servers/n8n-executions/index.js';
import * as templates from './servers/n8n-templates/index.js';
import search from './servers/n8n-nodes/searchNodes';

const servers = (await introspect_servers()).map(s => s.name ?? s);
const found = await nodes.searchNodes('slack');
const slack = (await nodes.getNodeEssentials(found[0])).name;
const config = await nodes.validateNodeConfig('n8n-nodes-base.slack', { resource: 'message', operation: 'post' });
const workflow = {
  name: 'Greeter',
  active: false,
  nodes: [
    { name: 'Webhook', type: 'n8n-nodes-base.webhook', position: [250, 300], parameters: { path: '/greet', httpMethod: 'POST', responseMode: 'lastNode' } },
    { name: 'Greet', type: 'n8n-nodes-base.code', position: [450, 300], parameters: { jsCode: 'return $("Webhook").all()' } }
  ],
  connections: { Webhook: { main: [[{ node: 'Greet', type: 'main', index: 0 }]] } }
};
const checked = await workflows.validateWorkflow(workflow);
const broken = await callMCPTool('n8n_validate_workflow', { workflow: { ...workflow, connections: {} } });
const created = await workflows.createWorkflow(workflow);
const judged = await callMCPTool('n8n_validate_workflow', { workflowId: created.id });
await callMCPTool('n8n_update_workflow', { workflowId: created.id, active: true });

const ran = await workflows.executeWorkflow(created.id, { names: ['Ada'] });
await callMCPTool('n8n_workflows__update_partial_workflow', { workflowId: created.id, operations: [{ type: 'setParameter', node: 'Greet', path: 'jsCode', value: 'throw 1' }] });
const failed = await callMCPTool('n8n_execute_workflow', { workflowId: created.id, inputData: {} });
await workflows.updatePartialWorkflow(created.id, [{ type: 'setParameter', node: 'Greet', path: 'jsCode', value: 'return []' }, { type: 'rename', node: 'Webhook', name: 'Guests' }]);
const retried = await executions.retryExecution(failed.executionId);
const hook = await executions.triggerWebhook('greet', { names: [] });
const mended = (await executions.getExecution(ran.executionId)).status + ' ' + hook.status;

const stored = await workflows.getWorkflow(created.id);
stored.nodes.push({ name: 'Log', type: 'n8n-nodes-base.noOp', position: [650, 300], parameters: {} });
stored.connections['Greet'] = { main: [[{ node: 'Log', type: 'main', index: 0 }]] };
const again = await workflows.validateWorkflow(stored);
if (again.valid) await workflows.updateWorkflow(stored.id, stored);
const structure = (await workflows.getWorkflowStructure(created.id)).connections.length;
const [model] = await templates.searchTemplates('greeter');
const copied = await workflows.createWorkflow({ name: 'From a template', nodes: model.nodes, connections: model.connections });
const template = [model.name, (await templates.listTemplates()).filter(t => t.nodes.some(n => n.type.includes('webhook'))).length, copied.nodes.length,
  (await workflows.validateWorkflow({})).valid].join();
await workflows.deleteWorkflow(copied.id);
const listed = (await workflows.listWorkflows()).length;
const all = (await executions.listExecutions(created.id)).length;
await workflows.deleteWorkflow(created.id);
let gone;
try { await workflows.deleteWorkflow(created.id) } catch (e) { gone = [e.name, e instanceof ToolError, e.data?.status, e.message.includes('not found')] }
return {
  servers, found, slack, checked: checked.valid, broken: !broken.valid, judged: judged.valid, errors: config.errors, greeting: ran.data.greeting, failure: failed.error,
  retried: retried.status, mended, structure, listed, executions: all, gone, template, again: again.errors,
  same: JSON.stringify(await search('slack')) === JSON.stringify(await tools.N8N_Nodes.search_nodes({ query: 'slack' })),
};`, &got)
	switch {
	case !slices.Contains(got.Servers, "n8n-workflows") || len(got.Found) == 0 || got.Slack != "n8n-nodes-base.slack" || got.Same != true:
		t.Errorf("finding: %+v", got)
	case !got.Checked || !got.Broken || !got.Judged || !strings.Contains(strings.Join(got.Errors, "\n"), "select"):
		t.Errorf("checking: %+v", got)
	case got.Greeting != "Hello Ada" || got.Failure != `node "Greet", item 1: no such guest` || got.Retried != "success" || got.Mended != "success 200":
		t.Errorf("executing: %+v", got)
	case got.Structure != 2.0 || got.Listed != 1 || got.Executions != 4 || got.Template != "Greeter,2,3,false" || fmt.Sprint(got.Gone) != "[ToolError true 404 true]":
		t.Errorf("storing: %+v", got)
	}
}

// TestN8NApproval: a destructive call needs an approval, even by its short name. A call that only reads does not.
func TestN8NApproval(t *testing.T) {
	t.Parallel()
	f, api := n8nHarness(t, map[string]string{"policy.preset": "guarded"})
	out := f.waits(`
const w = await callMCPTool('n8n_create_workflow', { name: 'w', nodes: [{ name: 'A', type: 'n8n-nodes-base.manualTrigger' }], connections: {} });
await callMCPTool('n8n_get_workflow', { workflowId: w.id });
try { await callMCPTool('n8n_delete_workflow', { workflowId: w.id }) } catch (e) { return e.name }
return 'deleted'`)
	if calls := out.Approval.Calls; len(calls) != 1 || calls[0].Tool != "n8n-workflows__delete_workflow" {
		t.Errorf("asked about %+v", calls)
	}
	if _, workflows := api.Writes(); workflows != 1 {
		t.Errorf("%d workflows while the call waits", workflows)
	}
	denied := f.decide(out, approval.Decision{})
	if _, workflows := api.Writes(); workflows != 1 || decoded[string](t, denied) != "DeniedError" {
		t.Errorf("%d workflows, %s", workflows, denied.Output)
	}
	for _, call := range []string{
		`callMCPTool('n8n_workflows__delete_workflow', {workflowId: 'x'})`, `callMCPTool('n8n_update_workflow', {workflowId: 'x', name: 'y'})`,
		`callMCPTool('n8n_update_partial_workflow', {workflowId: 'x', operations: [{type: 'setName', name: 'y'}]})`, `callMCPTool('n8n_delete_execution', {executionId: '1'})`,
	} {
		f.waits("await " + call)
	}
	agreed := f.decide(f.waits(`
const [w] = await callMCPTool('n8n_list_workflows', {});
return (await callMCPTool('n8n_delete_workflow', { workflowId: w.id })).deleted`), approve)
	if _, workflows := api.Writes(); workflows != 0 || !decoded[bool](t, agreed) {
		t.Errorf("%d workflows, %s, %+v", workflows, agreed.Output, agreed.Error)
	}
}

// TestN8NPrivacy: programs see tokens in place of the secrets and addresses in parameters of workflows, and n8n gets the values.
func TestN8NPrivacy(t *testing.T) {
	t.Parallel()
	f, api := n8nHarness(t, map[string]string{"policy.preset": "strict", "policy.rules": `[{tools: "n8n-*", action: allow}]`})
	const secret, mail = "ghp_a8Kd03mQz7RtYw2LpXs9VbNc4EfGh6JiUoTy", "ada.lovelace@example.org"
	id := api.Store(map[string]any{
		"name": "Mirror of " + mail, "connections": map[string]any{},
		"nodes": []any{map[string]any{"id": "a", "name": "Call", "type": "n8n-nodes-base.httpRequest", "typeVersion": 4.2, "position": []any{0, 0}, "parameters": map[string]any{
			"url": "https://example.com", "headers": map[string]any{"Authorization": "Bearer " + secret}, "to": mail,
		}}},
		"settings": map[string]any{},
	})
	out := f.exec(runs.Request{Code: fmt.Sprintf(`
import * as workflows from './servers/n8n-workflows/index.js';
const w = await workflows.getWorkflow(%q);
const copy = await workflows.createWorkflow({ name: 'Copy', nodes: w.nodes, connections: w.connections });
console.log(w, copy);
const found = await workflows.validateWorkflow(w);
return [w, copy, found, JSON.stringify(w).includes(%q)];`, id, secret[:10])})
	if out.Error != nil {
		t.Fatalf("%+v", out.Error)
	}
	records, err := f.Runs().Journal(t.Context(), out.RunID)
	if err != nil {
		t.Fatal(err)
	}
	journal, _ := json.Marshal(records)
	for name, text := range map[string]string{"output": string(out.Output), "journal": string(journal), "logs": fmt.Sprint(out.Logs)} {
		if strings.Contains(text, secret) || strings.Contains(text, mail) {
			t.Errorf("a value is in the %s: %s", name, text)
		}
	}
	if !strings.Contains(string(out.Output), "ghp_pii_1s") || !strings.Contains(string(out.Output), "pii_1e@d1.pii.invalid") || !strings.HasSuffix(string(out.Output), "false]") {
		t.Errorf("got %s", out.Output)
	}
	copied, _ := json.Marshal(api.Stored()[1])
	if !strings.Contains(string(copied), "Bearer "+secret) || !strings.Contains(string(copied), mail) {
		t.Errorf("the copy is %s", copied)
	}
}

// TestN8NFailures: programs get a fitting error for each failure of the instance, and nothing is created twice.
func TestN8NFailures(t *testing.T) {
	t.Parallel()
	said := func(status int, kind, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}
	}
	for name, c := range map[string]struct {
		with        http.HandlerFunc
		read, write string // kind of the error, and a part of its message
	}{
		"401":  {said(401, "application/json", `{"message":"unauthorized"}`), "ToolError n8n.apiKey 401", "ToolError n8n.apiKey 401"},
		"429":  {said(429, "application/json", `{"message":"slow down"}`), "ToolError less often 429", "ToolError less often 429"},
		"500":  {said(500, "application/json", `{"message":"db is down"}`), "ToolError db is down 500", "InDoubtError db is down undefined"},
		"html": {said(502, "text/html", "<html>Bad gateway</html>"), "ToolError page of HTML 502", "InDoubtError page of HTML undefined"},
		"dead": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "ToolError connection was lost undefined", "InDoubtError connection was lost undefined"},
		"slow": {func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // Otherwise the server does not notice that the caller is gone.
			<-r.Context().Done()
		}, "ToolError no answer within undefined", "InDoubtError no answer within undefined"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			flags := map[string]string{}
			if name == "slow" {
				flags["sandbox.callTimeout"] = "5s" // The listing below takes less than this, even on a busy machine.
			}
			f, api := n8nHarness(t, flags)
			f.value(`return (await callMCPTool('n8n_list_nodes', {})).length`, nil) // lists the tools first, so that creating a workflow takes one request
			api.Fail(c.with)
			out, err := f.Runs().Execute(t.Context(), runs.Request{Code: `
const told = [];
for (const [name, input] of [['n8n_list_workflows', {}], ['n8n_create_workflow', { name: 'w', nodes: [{ name: 'A', type: 'n8n-nodes-base.manualTrigger' }], connections: {} }]]) {
  try { await callMCPTool(name, input); told.push(['none']) } catch (e) { told.push([e.name, e.message, e.data?.status]) }
}
return told.map(t => t.map(String));`})
			if err != nil {
				t.Fatal(err)
			}
			for i, told := range decoded[[][]string](t, out) {
				want := []string{c.read, c.write}[i]
				kind, rest, _ := strings.Cut(want, " ")
				at := strings.LastIndexByte(rest, ' ')
				if len(told) != 3 || told[0] != kind || !strings.Contains(told[1], rest[:at]) || told[2] != rest[at+1:] {
					t.Errorf("told %q, want %s", told, want)
				}
			}
			if requests, workflows := api.Created(); requests != 1 || workflows != 0 {
				t.Errorf("%d requests to create, %d workflows", requests, workflows)
			}
		})
	}
}

package n8n

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Program is a program of the harness that becomes a workflow. The workflow's webhook receives the program's input. It answers with the program's
// value: an object unchanged, any other value as {result: …}.
type Program struct {
	Name   string // name of the workflow
	Origin string // description of the program's source, for people
	// Plain is a JavaScript expression whose value is an async function of the input. A Code node calls the function. If Plain is empty, the harness
	// runs Code.
	Plain string
	Code  string
	// TakesInput means that Code reads the input of the webhook from the variable input.
	TakesInput    bool
	User, Session string // owner and session of the runs; an empty session gives each run its own
	URL           string // address at which n8n reaches the harness
	Credential    string // name of Header Auth credentials in n8n that contain a key of the harness
}

// answered is JavaScript at the end of a Code node. It returns the value as an item, because webhooks answer with items.
const answered = "return [{ json: value !== null && typeof value === 'object' && !Array.isArray(value) ? value : { result: value ?? null } }];\n"

// Workflow returns the workflow in the form that n8n's editor and API accept.
func (p Program) Workflow() map[string]any {
	nodes := []object{{
		"name": "Webhook", "type": webhookType, "typeVersion": 2, "webhookId": uuid(), "notes": "Calls " + p.Origin + " of mcp-code-exec-harness.",
		"parameters": object{"httpMethod": "POST", "path": "harness-" + uuid()[:8], "responseMode": "lastNode", "options": object{}},
	}}
	code := func(name, text string) object {
		return object{"name": name, "type": "n8n-nodes-base.code", "typeVersion": 2, "parameters": object{"jsCode": text}}
	}
	if p.Plain != "" {
		nodes = append(nodes, code("Program", "// "+p.Origin+" of mcp-code-exec-harness. It needs nothing of the harness.\n"+
			"const input = $input.first().json.body ?? {};\nconst program = "+p.Plain+";\nlet value = await program(input);\n"+
			"if (typeof value === 'function') value = await value();\n"+answered))
	} else {
		nodes = append(nodes,
			code("Request", p.request()),
			object{
				"name": "Harness", "type": "n8n-nodes-base.httpRequest", "typeVersion": 4.2, "credentials": object{"httpHeaderAuth": object{"name": p.Credential}},
				"parameters": object{
					"method": "POST", "url": strings.TrimRight(p.URL, "/") + "/v1/runs", "authentication": "genericCredentialType", "genericAuthType": "httpHeaderAuth",
					"sendHeaders": true, "headerParameters": object{"parameters": []any{
						object{"name": "Idempotency-Key", "value": "={{ $workflow.id }}-{{ $execution.id }}"}, // a retry starts no second run
					}},
					"sendBody": true, "specifyBody": "json", "jsonBody": "={{ JSON.stringify($json) }}", "options": object{"timeout": 600_000},
				},
			},
			code("Output", "// Fails as the run did.\nconst run = $input.first().json;\nif (run.status !== 'succeeded') {\n"+
				"  throw new Error(`${run.runId} ${run.status}: ${run.error?.message ?? 'harness approvals list'}`);\n}\nconst value = run.output;\n"+answered))
	}
	connections := object{}
	for n := range nodes {
		nodes[n]["id"], nodes[n]["position"] = uuid(), []any{220 * n, 0}
		if n > 0 {
			connections[text(nodes[n-1], "name")] = object{mainType: []any{[]any{object{"node": nodes[n]["name"], "type": mainType, "index": 0}}}}
		}
	}
	var w object
	if err := reshape(object{"name": p.Name, "nodes": nodes, "connections": connections, "settings": object{"executionOrder": "v1"}}, &w); err != nil {
		panic(err) // texts, numbers and lists can always be converted
	}
	return w
}

// request returns code that builds the body of a request to the harness. The program is not part of an expression, because braces would end the expression.
func (p Program) request() string {
	text, _ := json.Marshal(p.Code) // a text can always be marshalled
	fields := []string{"code"}
	out := "// " + p.Origin + ", which the harness executes.\nlet code = " + string(text) + ";\n"
	if p.TakesInput {
		out += "const input = $input.first().json.body ?? {};\ncode = `const input = ${JSON.stringify(input)};\\n` + code;\n"
	}
	for _, f := range [][2]string{{"userId", p.User}, {"sessionId", p.Session}} {
		if f[1] != "" {
			value, _ := json.Marshal(f[1])
			fields = append(fields, f[0]+": "+string(value))
		}
	}
	return out + "return [{ json: { " + strings.Join(fields, ", ") + " } }];\n"
}

// Created is a workflow that was created from a program.
type Created struct {
	ID       string   `json:"id"`
	Name     string   `json:"name"`
	Address  string   `json:"address"` // address of its page in the editor
	Findings []string `json:"findings,omitempty"`
}

// Check returns the problems of a workflow, errors first. If valid is true, all of them are warnings.
func (i *Instance) Check(ctx context.Context, w map[string]any) (valid bool, findings []string, err error) {
	check, err := i.validate(ctx, workflow(w))
	if err != nil {
		return false, nil, err
	}
	out := check.verdict()
	errors, _ := out["errors"].([]string)
	warnings, _ := out["warnings"].([]string)
	return len(errors) == 0, append(errors, warnings...), nil
}

// Create stores a workflow without activating it.
func (i *Instance) Create(ctx context.Context, w map[string]any) (*Created, error) {
	var in workflowInput
	if err := reshape(w, &in); err != nil {
		return nil, err
	}
	made, err := i.createWorkflow(ctx, func() {}, in)
	if err != nil {
		return nil, err
	}
	out, _ := made.(object)
	id := text(out, "id")
	return &Created{ID: id, Name: text(out, "name"), Address: i.api.base.JoinPath("workflow", id).String()}, nil
}

// offTimeout is the time limit for deactivating a workflow after Try.
const offTimeout = 10 * time.Second

// Try activates a workflow, calls its webhook once, deactivates it, and returns its answer. It deactivates the workflow even if ctx ends.
func (i *Instance) Try(ctx context.Context, id string, input json.RawMessage) (answer json.RawMessage, err error) {
	data := object{}
	if len(input) > 0 {
		if err := decode(input, &data); err != nil {
			return nil, fmt.Errorf("the input is no JSON object: %w", err)
		}
	}
	if _, err := i.activate(ctx, func() {}, id, true); err != nil {
		return nil, err
	}
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), offTimeout)
		defer cancel()
		_, off := i.activate(ending, func() {}, id, false)
		if off != nil && err == nil {
			err = fmt.Errorf("the workflow %s is still active: %w", id, off)
		}
	}()
	done, err := i.executeWorkflow(ctx, func() {}, executeInput{WorkflowID: id, InputData: data})
	if err != nil {
		return nil, err
	}
	out, _ := done.(object)
	if failed := text(out, "error"); failed != "" {
		return nil, fmt.Errorf("the workflow failed: %s", failed)
	}
	if _, has := out["data"]; !has {
		return nil, fmt.Errorf("the workflow gave no answer: %s", text(out, "problem"))
	}
	return json.Marshal(out["data"])
}

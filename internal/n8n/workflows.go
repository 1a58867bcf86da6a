package n8n

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

const (
	workflowProperties = `"name":{"type":"string"},"nodes":{"type":"array","items":{"type":"object"},"description":"each {name, type, parameters, …}; id, typeVersion and position may be left out"},` +
		`"connections":{"type":"object","description":"{From: {main: [[{node: To, type: main, index: 0}]]}}"}`
	workflowOptions = `"active":{"type":"boolean"},"settings":{"type":"object"},"tags":{"type":"array","items":{"type":"string"}}`

	findingSchema = `{"type":"object","properties":{"severity":{"enum":["error","warning"]},"code":{"type":"string"},"node":{"type":"string"},"path":{"type":"string"},` +
		`"message":{"type":"string"},"remedy":{"type":"string"}},"required":["severity","code","message","remedy"]}`
	workflowSchema = `{"type":"object","properties":{"id":{"type":"string"},"name":{"type":"string"},"active":{"type":"boolean"},"nodes":{"type":"array","items":{"type":"object",` +
		`"properties":{"id":{"type":"string"},"name":{"type":"string"},"type":{"type":"string"},"typeVersion":{"type":"number"},"position":{"type":"array"},"parameters":{"type":"object"},"disabled":{"type":"boolean"}}}},` +
		`"connections":{"type":"object"},"settings":{"type":"object"},"tags":{"type":"array","items":{"type":"string"}},"problem":{"type":"string"}},"required":["id","name","active","nodes","connections","tags"]}`
	summarySchema = `{"type":"object","properties":{"id":{"type":"string"},"name":{"type":"string"},"active":{"type":"boolean"},"nodes":{"type":"integer"},` +
		`"tags":{"type":"array","items":{"type":"string"}},"updatedAt":{"type":"string"}},"required":["id","name","active","nodes","tags"]}`
)

// maxListed is the maximum number of workflows or executions that a tool lists.
const maxListed = 1000

func (i *Instance) workflowsServer() *server {
	write, remove := hints{}, hints{destroys: true, repeats: true}
	return &server{
		name: "n8n-workflows", title: "n8n workflows", changed: i.bridge.workflowsChanged,
		instructions: "Workflows of an n8n: create, read, change, activate. A call that n8n refuses throws a ToolError with data: {status, message}. " +
			"n8n stores workflows that cannot run: check them with validate_workflow.",
		offered: []tool{
			define("list_workflows", "Lists workflows, without their nodes.",
				`"active":{"type":"boolean"},"name":{"type":"string"},"tags":{"type":"array","items":{"type":"string"}},"limit":{"type":"integer","minimum":1,"maximum":1000,"default":1000},"offset":{"type":"integer","minimum":0,"maximum":100000,"default":0}`,
				listOf(summarySchema), hints{reads: true}, i.listWorkflows),
			define("get_workflow", "Reads a workflow with its nodes and connections. full: also what n8n keeps about it.",
				`"!workflowId":{"type":"string"},"full":{"type":"boolean","default":false}`, workflowSchema, hints{reads: true}, i.getWorkflow),
			define("get_workflow_structure", "Reads which nodes a workflow has and how they are connected, without their parameters.",
				`"!workflowId":{"type":"string"}`,
				`{"type":"object","properties":{"id":{"type":"string"},"name":{"type":"string"},"active":{"type":"boolean"},"nodeCount":{"type":"integer"},"nodeTypes":{"type":"array","items":{"type":"string"}},`+
					`"nodes":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"type":{"type":"string"},"disabled":{"type":"boolean"}},"required":["name","type"]}},`+
					`"connections":{"type":"array","items":{"type":"object","properties":{"from":{"type":"string"},"to":{"type":"string"},"type":{"type":"string"},"output":{"type":"integer"},"input":{"type":"integer"}},"required":["from","to"]}}},"required":["id","name","active","nodeCount","nodeTypes","nodes","connections"]}`,
				hints{reads: true}, i.structure),
			define("validate_workflow", "Finds what n8n stores and then fails on: unknown nodes, versions, references and connections, missing triggers, parameters and credentials, endless cycles, broken expressions; each with node, path and remedy.",
				validateInput, validateSchema, hints{reads: true}, i.validateWorkflow),
			define("create_workflow", "Creates a workflow, and activates it if active is true. It is created also if it could not be activated: problem says why.",
				strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(workflowProperties, `"name":{"type":"string"}`, `"!name":{"type":"string"}`), `"nodes":{`, `"!nodes":{`), `"connections":{`, `"!connections":{`)+","+workflowOptions,
				workflowSchema, write, i.createWorkflow),
			define("update_workflow", "Replaces name, nodes, connections or settings of a workflow, whichever are given, and activates or deactivates it. Takes a whole workflow, too.",
				`"!workflowId":{"type":"string"},"updates":{"type":"object","description":"any of name, nodes, connections, settings, active, tags"},`+workflowProperties+","+workflowOptions,
				workflowSchema, hints{destroys: true, repeats: true}, i.updateWorkflow),
			define("update_partial_workflow", "Changes a stored workflow by operations, all or none of them: add, remove, rename, move, connect, disconnect nodes, set parameters, activate. What would break it is refused.",
				`"!workflowId":{"type":"string"},"!operations":{"type":"array","minItems":1,"maxItems":500,"items":`+operationSchema+`}`, partialSchema, hints{destroys: true}, i.updatePartially),
			define("delete_workflow", "Deletes a workflow and its executions.", `"!workflowId":{"type":"string"}`,
				`{"type":"object","properties":{"id":{"type":"string"},"name":{"type":"string"},"deleted":{"type":"boolean"}},"required":["id","deleted"]}`, remove, i.deleteWorkflow),
			define("activate_workflow", "Activates a workflow: its triggers and webhooks work from now on.", `"!workflowId":{"type":"string"}`, activeSchema, hints{repeats: true}, i.switchTool(true)),
			define("deactivate_workflow", "Deactivates a workflow: its triggers and webhooks no longer work.", `"!workflowId":{"type":"string"}`, activeSchema, hints{repeats: true}, i.switchTool(false)),
			define("execute_workflow", "Runs an active workflow by its webhook and waits for the end: how it ended, what it returned, or in which node and item it failed.", executeInputs, executedSchema, write, i.executeWorkflow),
		},
	}
}

const activeSchema = `{"type":"object","properties":{"id":{"type":"string"},"name":{"type":"string"},"active":{"type":"boolean"}},"required":["id","active"]}`

type listInput struct {
	Active *bool    `json:"active"`
	Name   string   `json:"name"`
	Tags   []string `json:"tags"`
	Limit  int      `json:"limit"`
	Offset int      `json:"offset"`
}

func (i *Instance) listWorkflows(ctx context.Context, _ func(), in listInput) (any, error) {
	query := queryUnpinned()
	if in.Active != nil {
		query.Set("active", fmt.Sprint(*in.Active))
	}
	if in.Name != "" {
		query.Set("name", in.Name)
	}
	if len(in.Tags) > 0 {
		query.Set("tags", strings.Join(in.Tags, ","))
	}
	if in.Limit == 0 {
		in.Limit = maxListed
	}
	all, err := list[workflow](ctx, i.api, "workflows", query, in.Offset, in.Limit)
	if err != nil {
		return nil, err
	}
	out := make([]object, len(all))
	for n, w := range all {
		out[n] = object{"id": w.id(), "name": w.name(), "active": w.active(), "nodes": len(w.nodes()), "tags": w.tags(), "updatedAt": text(object(w), "updatedAt")}
	}
	return out, nil
}

type idInput struct {
	WorkflowID string `json:"workflowId"`
	Full       bool   `json:"full"`
}

// fetch reads the workflow with an id.
func (i *Instance) fetch(ctx context.Context, id string) (workflow, error) {
	var w workflow
	if id == "" {
		return nil, refusef(400, "workflowId is empty; list_workflows gives the ids")
	}
	err := i.api.get(ctx, workflowPath(id), nil, &w)
	return w, notFound(err, "workflow", id, "list_workflows gives the ids")
}

func workflowPath(id string) string { return "workflows/" + url.PathEscape(id) }

// notFound replaces an error with the status 404 by one that names the missing thing.
func notFound(err error, what, id, hint string) error {
	if r, is := errors.AsType[*refusal](err); is && r.data["status"] == http.StatusNotFound {
		return &refusal{fmt.Sprintf("%s %q not found (404); %s", what, id, hint), r.data}
	}
	return err
}

func (i *Instance) getWorkflow(ctx context.Context, _ func(), in idInput) (any, error) {
	w, err := i.fetch(ctx, in.WorkflowID)
	if err != nil {
		return nil, err
	}
	if in.Full {
		out := w.shown()
		for key, value := range w {
			if _, has := out[key]; !has {
				out[key] = value
			}
		}
		return out, nil
	}
	return w.shown(), nil
}

func (i *Instance) structure(ctx context.Context, _ func(), in idInput) (any, error) {
	w, err := i.fetch(ctx, in.WorkflowID)
	if err != nil {
		return nil, err
	}
	nodes, types := []object{}, []string{}
	for _, n := range w.nodes() {
		short := object{"name": text(n, "name"), "type": text(n, "type")}
		if off, _ := n["disabled"].(bool); off {
			short["disabled"] = true
		}
		nodes = append(nodes, short)
		types = append(types, text(n, "type"))
	}
	slices.Sort(types)
	connections := []object{}
	for _, l := range w.links() {
		c := object{"from": l.From, "to": l.To}
		if l.Type != "main" {
			c["type"] = l.Type
		}
		if l.Output != 0 {
			c["output"] = l.Output
		}
		if l.Input != 0 {
			c["input"] = l.Input
		}
		connections = append(connections, c)
	}
	return object{
		"id": w.id(), "name": w.name(), "active": w.active(), "nodeCount": len(nodes), "nodeTypes": slices.Compact(types), "nodes": nodes, "connections": connections,
	}, nil
}

type workflowInput struct {
	Name        *string   `json:"name"`
	Nodes       []any     `json:"nodes"`
	Connections object    `json:"connections"`
	Settings    object    `json:"settings"`
	Active      *bool     `json:"active"`
	Tags        *[]string `json:"tags"`
}

func (i *Instance) createWorkflow(ctx context.Context, sent func(), in workflowInput) (any, error) {
	name := ""
	if in.Name != nil {
		name = strings.TrimSpace(*in.Name)
	}
	if name == "" {
		return nil, refusef(400, "validation failed: the workflow has no name")
	}
	if len(in.Nodes) == 0 {
		return nil, refusef(400, "validation failed: the workflow has no nodes")
	}
	nodes, err := complete(in.Nodes, nil, i.nodes.known(ctx))
	if err != nil {
		return nil, err
	}
	if in.Connections == nil {
		in.Connections = object{}
	}
	set, err := settings(in.Settings, nil)
	if err != nil {
		return nil, err
	}
	var w workflow
	body := object{"name": name, "nodes": nodes, "connections": in.Connections, "settings": set}
	if err := i.api.do(ctx, request{method: http.MethodPost, path: "workflows", body: body, sent: sent}, &w); err != nil {
		return nil, err
	}
	return i.finish(ctx, sent, w, in.Active, in.Tags), nil
}

// finish sets the tags of a stored workflow, activates or deactivates it, and returns the answer. The answer's problem says what could not be done.
func (i *Instance) finish(ctx context.Context, sent func(), w workflow, active *bool, tags *[]string) object {
	var problems []string
	if tags != nil && !slices.Equal(slices.Sorted(slices.Values(*tags)), slices.Sorted(slices.Values(w.tags()))) {
		if err := i.setTags(ctx, sent, w.id(), *tags); err != nil {
			problems = append(problems, "its tags were not set: "+err.Error())
		} else {
			w["tags"] = anyOf(*tags)
		}
	}
	if active != nil && *active != w.active() {
		now, err := i.activate(ctx, sent, w.id(), *active)
		if err != nil {
			problems = append(problems, fmt.Sprintf("active was not set to %v: %v", *active, err))
		} else {
			w["active"] = now.active()
		}
	}
	out := w.shown()
	if len(problems) > 0 {
		out["problem"] = strings.Join(problems, "; ")
	}
	return out
}

func anyOf(texts []string) []any {
	out := make([]any, len(texts))
	for i, t := range texts {
		out[i] = t
	}
	return out
}

func (i *Instance) activate(ctx context.Context, sent func(), id string, on bool) (workflow, error) {
	path := workflowPath(id) + "/deactivate"
	if on {
		path = workflowPath(id) + "/activate"
	}
	var w workflow
	err := i.api.do(ctx, request{method: http.MethodPost, path: path, body: object{}, sent: sent}, &w)
	return w, notFound(err, "workflow", id, "list_workflows gives the ids")
}

func (i *Instance) switchTool(on bool) func(context.Context, func(), idInput) (any, error) {
	return func(ctx context.Context, sent func(), in idInput) (any, error) {
		w, err := i.activate(ctx, sent, in.WorkflowID, on)
		if err != nil {
			return nil, err
		}
		return object{"id": w.id(), "name": w.name(), "active": w.active()}, nil
	}
}

// setTags sets the tags of a workflow by name, and creates missing tags.
func (i *Instance) setTags(ctx context.Context, sent func(), id string, names []string) error {
	known, err := list[object](ctx, i.api, "tags", nil, 0, maxListed)
	if err != nil {
		return err
	}
	ids := []object{}
	for _, name := range names {
		at := slices.IndexFunc(known, func(t object) bool { return text(t, "name") == name })
		var tag object
		if at >= 0 {
			tag = known[at]
		} else if err := i.api.do(ctx, request{method: http.MethodPost, path: "tags", body: object{"name": name}, sent: sent}, &tag); err != nil {
			return err
		}
		ids = append(ids, object{"id": text(tag, "id")})
	}
	var now []object
	return i.api.do(ctx, request{method: http.MethodPut, path: workflowPath(id) + "/tags", body: ids, sent: sent}, &now)
}

type updateInput struct {
	workflowInput
	WorkflowID string `json:"workflowId"`
	Updates    object `json:"updates"`
}

func (i *Instance) updateWorkflow(ctx context.Context, sent func(), in updateInput) (any, error) {
	if in.Updates != nil {
		merged, err := in.merge()
		if err != nil {
			return nil, err
		}
		in.workflowInput = merged
	}
	unlock, err := i.changing.lock(ctx, in.WorkflowID)
	if err != nil {
		return nil, err
	}
	defer unlock()
	w, err := i.fetch(ctx, in.WorkflowID)
	if err != nil {
		return nil, err
	}
	if in.Name != nil || in.Nodes != nil || in.Connections != nil || in.Settings != nil {
		before := maps.Clone(w)
		if in.Name != nil {
			w["name"] = *in.Name
		}
		if in.Nodes != nil {
			w["nodes"] = in.Nodes
		}
		if in.Connections != nil {
			w["connections"] = in.Connections
		}
		if w, err = i.put(ctx, sent, before, w, in.Settings); err != nil {
			return nil, i.undone(ctx, sent, before, err)
		}
	}
	return i.finish(ctx, sent, w, in.Active, in.Tags), nil
}

// readOnly are the fields of a workflow that n8n itself maintains. An update with a whole workflow may contain them.
var readOnly = []string{
	"id", "createdAt", "updatedAt", "versionId", "pinData", "description", "isArchived", "problem", "staticData", "meta", "activeVersionId", "activeVersion",
	"versionCounter", "triggerCount", "shared",
}

// merge returns the input. Fields in Updates replace the fields of the input that have the same names.
func (in updateInput) merge() (workflowInput, error) {
	out := in.workflowInput
	for key := range in.Updates {
		if !slices.Contains(readOnly, key) && !slices.Contains([]string{"name", "nodes", "connections", "settings", "active", "tags"}, key) {
			return out, refusef(400, "updates has a field %q that cannot be changed; give any of name, nodes, connections, settings, active, tags", key)
		}
	}
	if id := text(in.Updates, "id"); id != "" && id != in.WorkflowID {
		return out, refusef(400, "updates is workflow %q, not %q", id, in.WorkflowID)
	}
	return out, reshape(in.Updates, &out)
}

// settingsOf returns the settings of a workflow.
func settingsOf(w workflow) object {
	if set := objectAt(object(w), "settings"); set != nil {
		return set
	}
	return object{}
}

// put stores the name, nodes and connections of the workflow w, and the changed settings. before is the stored version of the workflow. n8n keeps
// settings that are not given.
func (i *Instance) put(ctx context.Context, sent func(), before, w workflow, changed object) (workflow, error) {
	list, _ := w["nodes"].([]any)
	nodes, err := complete(list, before.nodes(), i.nodes.known(ctx))
	if err != nil {
		return nil, err
	}
	if changed == nil {
		changed = object{}
	}
	set, err := settings(changed, settingsOf(before))
	if err != nil {
		return nil, err
	}
	connections := objectAt(object(w), "connections")
	if connections == nil {
		connections = object{}
	}
	body := object{"name": w.name(), "nodes": nodes, "connections": connections, "settings": set}
	var now workflow
	err = i.api.do(ctx, request{method: http.MethodPut, path: workflowPath(w.id()), body: body, sent: sent}, &now)
	if err != nil {
		return nil, notFound(err, "workflow", w.id(), "list_workflows gives the ids")
	}
	return now, nil
}

func (i *Instance) deleteWorkflow(ctx context.Context, sent func(), in idInput) (any, error) {
	if in.WorkflowID == "" {
		return nil, refusef(400, "workflowId is empty; list_workflows gives the ids")
	}
	var w workflow
	err := i.api.do(ctx, request{method: http.MethodDelete, path: workflowPath(in.WorkflowID), sent: sent}, &w)
	if err != nil {
		return nil, notFound(err, "workflow", in.WorkflowID, "it may have been deleted already; list_workflows gives the ids")
	}
	return object{"id": w.id(), "name": w.name(), "deleted": true}, nil
}

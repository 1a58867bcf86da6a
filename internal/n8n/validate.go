package n8n

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

const (
	validateInput  = `"workflow":{"type":"object","description":"name, nodes, connections"},"workflowId":{"type":"string","description":"of a stored workflow, instead"}`
	validateSchema = `{"type":"object","properties":{"valid":{"type":"boolean"},"errors":{"type":"array","items":{"type":"string"}},"warnings":{"type":"array","items":{"type":"string"}},` +
		`"findings":{"type":"array","items":` + findingSchema + `},"moreFindings":{"type":"integer"},"unchecked":{"type":"array","items":{"type":"string"},"description":"what could not be checked, and why"}},"required":["valid","errors"]}`
)

// maxNodes is the maximum number of nodes of a workflow that can be checked or partially changed.
const maxNodes = 5000

type validateWorkflowInput struct {
	Workflow   object `json:"workflow"`
	WorkflowID string `json:"workflowId"`
}

func (i *Instance) validateWorkflow(ctx context.Context, _ func(), in validateWorkflowInput) (any, error) {
	w := workflow(in.Workflow)
	switch {
	case in.Workflow != nil && in.WorkflowID != "":
		return nil, refusef(400, "give either workflow, with name, nodes and connections, or workflowId")
	case in.WorkflowID != "":
		var err error
		if w, err = i.fetch(ctx, in.WorkflowID); err != nil {
			return nil, err
		}
	}
	c, err := i.validate(ctx, w)
	if err != nil {
		return nil, err
	}
	return c.verdict(), nil
}

// validate checks a workflow. It returns an error if the workflow is too large or ctx ends.
func (i *Instance) validate(ctx context.Context, w workflow) (*workflowCheck, error) {
	list, _ := w["nodes"].([]any)
	if len(list) > maxNodes {
		return nil, refusef(413, "a workflow of %d nodes is not checked, %d is the most; divide it into workflows that call each other", len(list), maxNodes)
	}
	c := &workflowCheck{w: w}
	types, err := i.nodes.get(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		c.skipped("types, versions, parameters and credentials of nodes: " + err.Error())
	}
	c.types = types
	c.shape(list)
	if i.opts.Email != "" || c.namesCredentials() {
		known, err := i.nodes.credentials(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			c.skipped("whether the credentials exist: " + err.Error())
		}
		c.credentials = known
	}
	for _, n := range c.nodes {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		c.node(n)
	}
	c.connections()
	return c, nil
}

// workflowCheck is the check of one workflow, with its findings.
type workflowCheck struct {
	w           workflow
	types       *nodeTypes         // descriptions of the nodes; nil if unknown
	credentials []storedCredential // credentials of the instance; nil if unknown

	nodes []object // nodes with a unique name, without notes
	named map[string]object

	findings
	unchecked []string
}

func (c *workflowCheck) skipped(what string) { c.unchecked = append(c.unchecked, what) }

// wrong adds an error.
func (c *workflowCheck) wrong(code, node, path, remedy, format string, args ...any) {
	c.add(finding{severityError, code, node, path, fmt.Sprintf(format, args...), remedy})
}

func (c *workflowCheck) verdict() object {
	out := c.findings.verdict()
	if len(c.unchecked) > 0 {
		out["unchecked"] = c.unchecked
	}
	return out
}

const (
	noteType    = "n8n-nodes-base.stickyNote"
	webhookType = "n8n-nodes-base.webhook"
	respondType = "n8n-nodes-base.respondToWebhook"
)

// shape checks what every workflow and every node must have, and collects the nodes.
func (c *workflowCheck) shape(list []any) {
	if strings.TrimSpace(c.w.name()) == "" {
		c.wrong("missing_name", "", "name", "give it a name", "the workflow has no name")
	}
	if value, has := c.w["nodes"]; len(list) == 0 {
		message := "the workflow has no nodes"
		if _, is := value.([]any); has && !is && value != nil {
			message = "nodes is no list"
		}
		c.wrong("missing_nodes", "", "nodes", "add a trigger and what it starts", "%s", message)
	}
	if value, has := c.w["connections"]; has && value != nil && objectAt(object(c.w), "connections") == nil {
		c.wrong("wrong_connection", "", "connections", `write {"From": {"main": [[{"node": "To", "type": "main", "index": 0}]]}}`, "connections is no object")
	}
	c.named = map[string]object{}
	for i, v := range list {
		at := fmt.Sprintf("nodes[%d]", i)
		n, is := v.(object)
		name := text(n, "name")
		switch {
		case !is:
			c.wrong("wrong_node", "", at, "write {name, type, parameters}", "%s is no object", at)
		case name == "":
			c.wrong("missing_name", "", at+".name", "give it a name of its own", "a node of the type %q has no name", text(n, "type"))
		case c.named[name] != nil:
			c.wrong("duplicate_name", name, at+".name", "give one of them another name, in connections too", "two nodes have the name %q", name)
		default:
			c.named[name] = n
			if text(n, "type") != noteType {
				c.nodes = append(c.nodes, n)
			}
		}
	}
}

func (c *workflowCheck) namesCredentials() bool {
	return slices.ContainsFunc(c.nodes, func(n object) bool { return len(objectAt(n, "credentials")) > 0 })
}

func disabled(n object) bool { off, _ := n["disabled"].(bool); return off }

// node checks one node without its connections.
func (c *workflowCheck) node(n object) {
	name := text(n, "name")
	for _, field := range slices.Sorted(maps.Keys(n)) {
		if !slices.Contains(nodeFields, field) && field != "createdAt" && field != "updatedAt" {
			c.wrong("unknown_field", name, field, "remove it; parameters of the node belong in parameters", "node %q has a field %q that n8n does not know", name, clipped(field))
		}
	}
	params := objectAt(n, "parameters")
	if value := n["parameters"]; value != nil && params == nil {
		c.wrong("wrong_type", name, "parameters", "write an object", "the parameters of %q are no object", name)
	}
	c.texts(name, params)
	if text(n, "type") == "" {
		c.wrong("unknown_node_type", name, "type", "set it; search_nodes finds one", "node %q has no type", name)
		return
	}
	if c.types != nil {
		c.typed(n, params)
	}
}

func clipped(s string) string { return plainLine(s, 80) }

// texts checks the expressions in parameters, and the nodes that they name.
func (c *workflowCheck) texts(name string, params object) {
	eachText(params, &place{nil, "parameters"}, "", func(text string, at *place, field string) {
		switch {
		case codeFields[field]:
		case strings.HasPrefix(text, "="):
			if message, remedy := expressionFault(text); message != "" {
				c.wrong("broken_expression", name, at.String(), remedy, "%s", message)
			}
		case !textFields[field] && forgotten().MatchString(text):
			c.wrong("broken_expression", name, at.String(), "write = before it", "the text %s holds an expression and does not begin with =, so that n8n takes it as it is", excerpt(text))
		}
		for _, to := range textReferences(text, field) {
			if c.named[to] == nil {
				c.wrong("unknown_reference", name, at.String(), c.nearNode(to), "it refers to a node %q that does not exist", clipped(to))
			}
		}
	})
}

// nearNode returns a remedy for a name that no node has.
func (c *workflowCheck) nearNode(name string) string {
	if len(c.errors) >= maxFindings { // the finding will not be kept
		return ""
	}
	names := slices.Sorted(maps.Keys(c.named))
	if near := closest(name, names); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "name one of " + clipped(strings.Join(names, ", ")) + ", or add the node"
}

// typed checks a node against the description of its type.
func (c *workflowCheck) typed(n, params object) {
	name, kind := text(n, "name"), text(n, "type")
	versions := c.types.versionsOf(kind)
	if len(versions) == 0 {
		c.wrong("unknown_node_type", name, "type", c.nearType(kind), "there is no node type %q", clipped(kind))
		return
	}
	v, given := version(n["typeVersion"])
	if !given {
		v = c.types.defaultVersion(kind)
	}
	t := c.types.at(kind, v)
	if t == nil {
		c.wrong("unknown_version", name, "typeVersion", "set it to one of "+numbers(versions), "%s has no version %v", kind, v)
		return
	}
	tool := c.types.asTool(kind)
	found := t.checkConfig(params, v, tool)
	c.more += found.more
	for _, f := range append(found.all(), c.credentialsOf(t, n, t.filled(params, v, tool), v, tool)...) {
		if f.Node = name; disabled(n) {
			f.Severity = severityWarning // n8n does not run a disabled node
		}
		c.add(f)
	}
}

// nearType returns a remedy for an unknown type.
func (c *workflowCheck) nearType(kind string) string {
	if len(c.errors) >= maxFindings {
		return ""
	}
	if exact, is := c.types.find(kind); is {
		return "write " + exact
	}
	if near := c.types.nearest(kind, 3); len(near) > 0 {
		return "did you mean " + strings.Join(near, ", ") + "?"
	}
	return "search_nodes finds nodes; one of a community package has to be installed in n8n"
}

// starts reports whether a node starts workflows.
func (c *workflowCheck) starts(n object) bool {
	kind := text(n, "type")
	if c.types != nil {
		if t := c.types.current(kind); t != nil {
			return slices.Contains(t.Group, "trigger") || kind == "n8n-nodes-base.start"
		}
	}
	short := strings.ToLower(shortType(kind))
	return strings.HasSuffix(short, "trigger") || slices.Contains([]string{"webhook", "cron", "interval", "start"}, short)
}

// manualTypes are triggers that do not start an active workflow.
var manualTypes = []string{"n8n-nodes-base.manualTrigger", "n8n-nodes-base.start"}

// connections checks the connections between the nodes.
func (c *workflowCheck) connections() {
	all, bad := links(objectAt(object(c.w), "connections"))
	for _, at := range bad {
		c.wrong("wrong_connection", "", at, `write {"node": "To", "type": "main", "index": 0} in a list for each output`, "%s is no connection", at)
	}
	for _, l := range all {
		c.link(l)
	}
	g := newGraph(c.nodes, all)
	c.cycles(g)
	c.triggers(g)
	c.webhooks()
}

func (l link) path() string { return fmt.Sprintf("connections[%q].%s[%d]", l.From, l.Type, l.Output) }

// link checks one connection.
func (c *workflowCheck) link(l link) {
	from, to := c.named[l.From], c.named[l.To]
	switch {
	case from == nil:
		c.wrong("dangling_connection", clipped(l.From), l.path(), "remove it, or "+c.nearNode(l.From), "a connection begins at a node %q that does not exist", clipped(l.From))
		return
	case to == nil:
		c.wrong("dangling_connection", l.From, l.path(), "remove it, or "+c.nearNode(l.To), "%q is connected to a node %q that does not exist", l.From, clipped(l.To))
		return
	case l.Output < 0 || l.Input < 0:
		c.wrong("wrong_connection", l.From, l.path(), "count inputs from 0", "the connection of %q and %q has an input below 0", l.From, l.To)
		return
	}
	if c.types == nil {
		return
	}
	if has, known := c.ends(from, false, l.Type); known && l.Output >= has {
		c.wrong("wrong_connection", l.From, l.path(), endsRemedy(has, "output", l.Type), "%q has no output %d of the type %s", l.From, l.Output, clipped(l.Type))
	}
	if has, known := c.ends(to, true, l.As); known && l.Input >= has {
		c.wrong("wrong_connection", l.From, l.path(), endsRemedy(has, "input", l.As), "%q, to which %q is connected, has no input %d of the type %s", l.To, l.From, l.Input, clipped(l.As))
	}
}

func endsRemedy(has int, what, kind string) string {
	if has == 0 {
		return "remove the connection"
	}
	return fmt.Sprintf("use one of its %d %ss of the type %s, counted from 0", has, what, clipped(kind))
}

// ends returns the number of inputs or outputs of a type that a node has. known is false if an expression in the description determines the number.
func (c *workflowCheck) ends(n object, inputs bool, kind string) (count int, known bool) {
	name := text(n, "type")
	v, given := version(n["typeVersion"])
	if !given {
		v = c.types.defaultVersion(name)
	}
	t := c.types.at(name, v)
	if t == nil {
		return 0, false
	}
	if c.types.asTool(name) {
		if !inputs && kind == "ai_tool" {
			return 1, true
		}
		return 0, kind == mainType
	}
	described := t.Outputs
	if inputs {
		described = t.Inputs
	}
	list, is := described.([]any)
	if !is {
		return 0, false
	}
	for _, end := range list {
		if o, is := end.(object); is {
			end = o["type"]
		}
		if end == kind {
			count++
		}
	}
	if !inputs && kind == mainType && text(n, "onError") == "continueErrorOutput" {
		count++
	}
	return count, true
}

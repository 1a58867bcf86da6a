package n8n

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

const (
	typeInput       = `"!nodeType":{"type":"string","description":"such as n8n-nodes-base.slack; slack works too"}`
	versionInput    = `"version":{"type":"number","description":"by default that of new nodes"}`
	propertySchema  = `{"type":"object","properties":{"name":{"type":"string"},"type":{"type":"string"},"required":{"type":"boolean"},"default":{},"value":{},"options":{"type":"array"},"description":{"type":"string"}},"required":["name"]}`
	nodeInfoMembers = `"name":{"type":"string"},"displayName":{"type":"string"},"description":{"type":"string"},"version":{"type":"number"},"properties":{"type":"array","items":` + propertySchema + `},"credentials":{"type":"array"}`
	essentialSchema = `{"type":"object","properties":{` + nodeInfoMembers + `,"operations":{"type":"object","additionalProperties":{"type":"string"}},"moreProperties":{"type":"integer"},` +
		`"examples":{"type":"array","items":{"type":"object"}}},"required":["name","displayName","description","version","properties"]}`
)

func (i *Instance) nodesServer() *server {
	reads := hints{reads: true, inside: true}
	return &server{
		name: "n8n-nodes", title: "n8n nodes",
		instructions: "Which nodes an n8n has and how they are configured. Search, then get_node_essentials with the resource and operation that you need; " +
			"get_node_info is complete and large.",
		offered: []tool{
			define("list_nodes", "Lists the types of all nodes.", `"category":{"type":"string","description":"such as Communication; trigger: those that start workflows"}`,
				listOf(`{"type":"string"}`), reads, i.listNodes),
			define("search_nodes", "Finds nodes for a request in words, the best first: their types, or with detail summary objects {name, displayName, description}.",
				`"!query":{"type":"string","maxLength":4000},"limit":{"type":"integer","minimum":1,"maximum":100,"default":10},"detail":{"enum":["names","summary"],"default":"names"}`,
				listOf(`{"anyOf":[{"type":"string"},{"type":"object","properties":{"name":{"type":"string"},"displayName":{"type":"string"},"description":{"type":"string"}}}]}`), reads, i.searchNodes),
			define("get_node_essentials", "Reads what configuring a node needs: its operations, and the properties of one operation.",
				typeInput+`,"resource":{"type":"string"},"operation":{"type":"string"},`+versionInput, essentialSchema, reads, i.nodeEssentials),
			define("get_node_properties", "Reads the properties of a node that are shown for some values of others, such as {resource, operation}.",
				typeInput+`,"config":{"type":"object"},`+versionInput, listOf(propertySchema), reads, i.nodeProperties),
			define("get_node_info", "Reads the whole description of a node, with all properties of all operations.",
				typeInput+`,`+versionInput+`,"includeExamples":{"type":"boolean","default":false,"description":"parameters of this node in workflows of the instance"}`,
				`{"type":"object","properties":{`+nodeInfoMembers+`,"versions":{"type":"array","items":{"type":"number"}},"group":{"type":"array","items":{"type":"string"}},"inputs":{},"outputs":{},"usableAsTool":{"type":"boolean"},`+
					`"operations":{"type":"object"},"examples":{"type":"array","items":{"type":"object"}}},"required":["name","displayName","description","version","properties"]}`,
				hints{reads: true}, i.nodeInfo),
			define("validate_node_config", "Checks the parameters of a node: required ones, choices, types, names, versions, for the operation that they choose.",
				typeInput+`,"!config":{"type":"object","description":"the parameters"},`+versionInput+`,"mode":{"enum":["full","minimal"],"default":"full","description":"minimal: only what is missing"}`,
				verdictSchema, reads, i.validateConfig("")),
			define("validate_node_minimal", "Checks only whether required parameters of a node are missing.", typeInput+`,"!config":{"type":"object"},`+versionInput, verdictSchema, reads, i.validateConfig("minimal")),
			define("validate_node_operation", "Checks the parameters of a node for the operation that they choose, with suggestions.", typeInput+`,"!config":{"type":"object"},`+versionInput, verdictSchema, reads, i.validateConfig("full")),
			define("get_credential_schema", "Reads which data a type of credentials has. The data themselves cannot be read.", `"!credentialType":{"type":"string","description":"such as slackApi"}`,
				`{"type":"object"}`, hints{reads: true}, i.credentialSchema),
		},
	}
}

const verdictSchema = `{"type":"object","properties":{"valid":{"type":"boolean"},"errors":{"type":"array","items":{"type":"string"}},"warnings":{"type":"array","items":{"type":"string"}},` +
	`"findings":{"type":"array","items":` + findingSchema + `},"moreFindings":{"type":"integer"}},"required":["valid","errors"]}`

type listNodesInput struct {
	Category string `json:"category"`
}

func (i *Instance) listNodes(ctx context.Context, _ func(), in listNodesInput) (any, error) {
	types, err := i.nodes.get(ctx)
	if err != nil {
		return nil, err
	}
	out := []string{}
	for _, name := range types.names {
		t := types.current(name)
		in := in.Category == "" || slices.ContainsFunc(append(slices.Clone(t.Group), t.Codex.Categories...), func(c string) bool { return fold(c) == fold(in.Category) })
		if in && !t.Hidden {
			out = append(out, name)
		}
	}
	return out, nil
}

type searchInput struct {
	Query  string `json:"query"`
	Limit  int    `json:"limit"`
	Detail string `json:"detail"`
}

func (i *Instance) searchNodes(ctx context.Context, _ func(), in searchInput) (any, error) {
	types, err := i.nodes.get(ctx)
	if err != nil {
		return nil, err
	}
	if in.Limit == 0 {
		in.Limit = 10
	}
	found := types.index().search(in.Query, in.Limit)
	if in.Detail != "summary" {
		return found, nil
	}
	out := []object{}
	for _, name := range found {
		t := types.current(name)
		out = append(out, object{"name": name, "displayName": t.DisplayName, "description": plainText(t.Description, 160)})
	}
	return out, nil
}

type nodeInput struct {
	NodeType        string   `json:"nodeType"`
	Resource        string   `json:"resource"`
	Operation       string   `json:"operation"`
	Config          object   `json:"config"`
	Version         *float64 `json:"version"`
	Mode            string   `json:"mode"`
	IncludeExamples bool     `json:"includeExamples"`
}

// chosen returns the node and the version that an input names.
func (i *Instance) chosen(ctx context.Context, in nodeInput) (t *nodeType, v float64, types *nodeTypes, err error) {
	if types, err = i.nodes.get(ctx); err != nil {
		return nil, 0, nil, err
	}
	name, ok := types.find(in.NodeType)
	if !ok {
		hint := "search_nodes finds nodes"
		if near := types.nearest(in.NodeType, 3); len(near) > 0 {
			hint = "did you mean " + strings.Join(near, ", ") + "?"
		}
		return nil, 0, nil, refusef(http.StatusNotFound, "node type %q not found; %s", in.NodeType, hint)
	}
	v = types.defaultVersion(name)
	if in.Version != nil {
		v = *in.Version
	}
	if t = types.at(name, v); t == nil {
		return nil, 0, nil, refusef(http.StatusNotFound, "node %s has no version %v; it has %s", name, v, numbers(types.versionsOf(name)))
	}
	return t, v, types, nil
}

func (i *Instance) nodeEssentials(ctx context.Context, _ func(), in nodeInput) (any, error) {
	t, v, types, err := i.chosen(ctx, in)
	if err != nil {
		return nil, err
	}
	config := object{}
	if in.Resource != "" {
		config["resource"] = in.Resource
	}
	if in.Operation != "" {
		config["operation"] = in.Operation
	}
	if len(config) > 0 {
		for _, f := range t.checkConfig(config, v, types.asTool(in.NodeType)).all() {
			if f.Code == "invalid_option" {
				return nil, refusef(http.StatusBadRequest, "%s; %s", f.Message, f.Remedy)
			}
		}
	}
	return t.essentials(v, types.asTool(in.NodeType), config), nil
}

func (i *Instance) nodeProperties(ctx context.Context, _ func(), in nodeInput) (any, error) {
	t, v, types, err := i.chosen(ctx, in)
	if err != nil {
		return nil, err
	}
	tool := types.asTool(in.NodeType)
	out := []object{}
	for _, p := range t.visible(t.filled(in.Config, v, tool), v, tool) {
		b := p.brief(100, false)
		if p.Type == "collection" || p.Type == "fixedCollection" {
			b["options"] = p.members()
		}
		out = append(out, b)
	}
	return out, nil
}

// members describes the members of a collection by name and type, or the groups of a fixedCollection by name and values.
func (p *property) members() []any {
	all := []any{}
	for _, o := range p.Options {
		if p.Type == "collection" {
			all = append(all, object{"name": o.Name, "type": o.Type})
			continue
		}
		group := object{"name": o.Name}
		values := []object{}
		for n := range o.Values {
			values = append(values, o.Values[n].brief(maxChoices, false))
		}
		group["values"] = values
		if multiple, _ := p.TypeOptions["multipleValues"].(bool); multiple {
			group["list"] = true
		}
		all = append(all, group)
	}
	return all
}

func (i *Instance) nodeInfo(ctx context.Context, _ func(), in nodeInput) (any, error) {
	t, v, types, err := i.chosen(ctx, in)
	if err != nil {
		return nil, err
	}
	byResource, _ := t.operations(v)
	out := object{
		"name": t.Name, "displayName": t.DisplayName, "description": t.Description, "version": v, "versions": types.versionsOf(t.Name), "group": t.Group,
		"inputs": t.Inputs, "outputs": t.Outputs, "properties": t.Properties, "operations": byResource, "credentials": t.credentialInfo(),
		"usableAsTool": t.UsableAsTool != nil && t.UsableAsTool != false,
	}
	if in.IncludeExamples {
		examples, err := i.examples(ctx, t.Name)
		if err != nil {
			return nil, err
		}
		out["examples"] = examples
	}
	return out, nil
}

func (t *nodeType) credentialInfo() []object {
	all := []object{}
	for _, c := range t.Credentials {
		o := object{"name": c.Name, "required": c.Required}
		if len(c.Display.Show) > 0 {
			o["show"] = c.Display.Show
		}
		all = append(all, o)
	}
	return all
}

// maxExamples is the maximum number of examples of a node.
const maxExamples = 3

// examples returns parameters of nodes of a type in workflows of the instance, one per resource and operation.
func (i *Instance) examples(ctx context.Context, nodeType string) ([]object, error) {
	all, err := list[workflow](ctx, i.api, "workflows", queryUnpinned(), 0, pageSize)
	if err != nil {
		return nil, err
	}
	examples, seen := []object{}, map[string]bool{}
	for _, w := range all {
		for _, n := range w.nodes() {
			params := objectAt(n, "parameters")
			form := text(params, "resource") + "\x00" + text(params, "operation")
			if text(n, "type") != nodeType || len(params) == 0 || seen[form] || len(examples) == maxExamples {
				continue
			}
			seen[form] = true
			examples = append(examples, object{"workflow": w.name(), "node": text(n, "name"), "typeVersion": n["typeVersion"], "parameters": params})
		}
	}
	return examples, nil
}

func (i *Instance) credentialSchema(ctx context.Context, _ func(), in struct {
	CredentialType string `json:"credentialType"`
},
) (any, error) {
	var schema object
	err := i.api.get(ctx, "credentials/schema/"+url.PathEscape(in.CredentialType), nil, &schema)
	return schema, notFound(err, "type of credentials", in.CredentialType, "get_node_essentials names those of a node")
}

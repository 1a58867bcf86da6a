// Package n8nfake imitates, for tests, the two MCP servers that the well-known n8n example of code execution with MCP calls. Tool names,
// arguments and answers have the form of that example. The data are three nodes and the workflows that the caller creates. The package
// does not use n8n.
package n8nfake

import (
	"context"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/demo/mcptool"
)

type node struct {
	Name        string     `json:"name"`
	DisplayName string     `json:"displayName"`
	Description string     `json:"description"`
	Properties  []property `json:"properties"`
	Operations  []string   `json:"operations,omitempty"`
	Credentials []string   `json:"credentials,omitempty"`
}

type property struct {
	DisplayName string   `json:"displayName"`
	Name        string   `json:"name"`
	Type        string   `json:"type"`
	Required    bool     `json:"required"`
	Default     any      `json:"default,omitempty"`
	Description string   `json:"description,omitempty"`
	Options     []string `json:"options,omitempty"`
}

const (
	nothing  = `{"type":"object","properties":{},"additionalProperties":false}`
	typeOnly = `{"type":"object","properties":{"nodeType":{"type":"string","description":"e.g. n8n-nodes-base.slack"}},
		"required":["nodeType"],"additionalProperties":false}`
	names = `{"type":"object","properties":{"result":{"type":"array","items":{"type":"string"}}},
		"required":["result"],"additionalProperties":false}`
	nodeSchema = `{"type":"object","properties":{"name":{"type":"string"},"displayName":{"type":"string"},
		"description":{"type":"string"},"properties":{"type":"array","items":{"type":"object"}},
		"operations":{"type":"array","items":{"type":"string"}},"credentials":{"type":"array","items":{"type":"string"}}},
		"required":["name","displayName","description","properties"],"additionalProperties":false}`
	verdictSchema = `{"type":"object","properties":{"valid":{"type":"boolean"},
		"errors":{"type":"array","items":{"type":"string"}}},"required":["valid","errors"],"additionalProperties":false}`
)

// essentials is the number of properties that get_node_essentials shows.
const essentials = 10

// wrapped is an object whose only property is a value that is not an object, as servers send it.
type wrapped struct {
	Result any `json:"result"`
}

type verdict struct {
	Valid  bool     `json:"valid"`
	Errors []string `json:"errors"`
}

func judge(errors []string) verdict {
	return verdict{Valid: len(errors) == 0, Errors: append([]string{}, errors...)}
}

// Nodes returns the fake server n8n-nodes.
func Nodes() *mcp.Server {
	s := mcptool.NewServer("n8n-nodes", "n8n nodes (fake)", "A fake n8n node catalog for tests.")
	mcptool.Add(s, mcptool.Definition{
		Name: "list_nodes", Title: "List nodes", Description: "Names of all node types.",
		Input: nothing, Output: names, Hints: mcptool.Reads(),
	}, func(context.Context, struct{}) (any, error) { return search(""), nil })
	mcptool.Add(s, mcptool.Definition{
		Name: "search_nodes", Title: "Search nodes",
		Description: "Names of the node types whose name or description holds a word.",
		Input: `{"type":"object","properties":{"query":{"type":"string"}},"required":["query"],
			"additionalProperties":false}`,
		Output: names, Hints: mcptool.Reads(),
	}, func(_ context.Context, in searchInput) (any, error) { return search(in.Query), nil })
	mcptool.Add(s, mcptool.Definition{
		Name: "get_node_info", Title: "Get a node", Description: "Everything about one node type.",
		Input: typeOnly, Output: nodeSchema, Hints: mcptool.Reads(),
	}, func(_ context.Context, in typeInput) (any, error) { return find(in.NodeType) })
	mcptool.Add(s, mcptool.Definition{
		Name: "get_node_essentials", Title: "Get the essentials of a node",
		Description: "One node type with its first ten properties.",
		Input:       typeOnly, Output: nodeSchema, Hints: mcptool.Reads(),
	}, func(_ context.Context, in typeInput) (any, error) {
		n, err := find(in.NodeType)
		if err != nil {
			return nil, err
		}
		n.Properties = n.Properties[:min(essentials, len(n.Properties))]
		return n, nil
	})
	mcptool.Add(s, mcptool.Definition{
		Name: "validate_node_config", Title: "Validate the configuration of a node",
		Description: "Says which required properties of a node type a configuration lacks.",
		Input: `{"type":"object","properties":{"nodeType":{"type":"string"},"config":{"type":"object"}},
			"required":["nodeType","config"],"additionalProperties":false}`,
		Output: verdictSchema, Hints: mcptool.Reads(),
	}, validateConfig)
	return s
}

type searchInput struct {
	Query string `json:"query"`
}

type typeInput struct {
	NodeType string `json:"nodeType"`
}

func search(word string) wrapped {
	found := []string{}
	for _, n := range nodes() {
		if strings.Contains(strings.ToLower(n.Name+" "+n.Description), strings.ToLower(word)) {
			found = append(found, n.Name)
		}
	}
	return wrapped{found}
}

func find(nodeType string) (node, error) {
	for _, n := range nodes() {
		if n.Name == nodeType {
			return n, nil
		}
	}
	return node{}, fmt.Errorf("there is no node type %q; use search_nodes to find one", nodeType)
}

type configInput struct {
	NodeType string         `json:"nodeType"`
	Config   map[string]any `json:"config"`
}

func validateConfig(_ context.Context, in configInput) (any, error) {
	n, err := find(in.NodeType)
	if err != nil {
		return nil, err
	}
	var missing []string
	for _, p := range n.Properties {
		if _, ok := in.Config[p.Name]; p.Required && !ok {
			missing = append(missing, "missing required property: "+p.Name)
		}
	}
	return judge(missing), nil
}

func nodes() []node {
	return []node{
		{
			Name: "n8n-nodes-base.slack", DisplayName: "Slack", Description: "Send messages to Slack",
			Properties: []property{
				{
					DisplayName: "Resource", Name: "resource", Type: "options", Required: true, Default: "message",
					Options: []string{"message", "channel", "user"},
				},
				{
					DisplayName: "Operation", Name: "operation", Type: "options", Required: true, Default: "post",
					Options: []string{"post", "update", "delete"},
				},
				{
					DisplayName: "Channel", Name: "channel", Type: "string", Required: true,
					Description: "Channel to post to, e.g. #alerts",
				},
				{DisplayName: "Text", Name: "text", Type: "string", Description: "Text of the message"},
				{DisplayName: "Attachments", Name: "attachments", Type: "collection"},
				{DisplayName: "As user", Name: "asUser", Type: "boolean", Default: true},
				{DisplayName: "User name", Name: "username", Type: "string"},
				{DisplayName: "Icon emoji", Name: "iconEmoji", Type: "string"},
				{DisplayName: "Icon URL", Name: "iconUrl", Type: "string"},
				{DisplayName: "Link names", Name: "linkNames", Type: "boolean"},
				{DisplayName: "Markdown", Name: "mrkdwn", Type: "boolean", Default: true},
				{DisplayName: "Thread", Name: "threadTs", Type: "string"},
			},
			Operations: []string{"post", "update", "delete"}, Credentials: []string{"slackApi"},
		},
		{
			Name: "n8n-nodes-base.httpRequest", DisplayName: "HTTP Request", Description: "Make HTTP requests to any API",
			Properties: []property{
				{
					DisplayName: "Method", Name: "method", Type: "options", Required: true, Default: "GET",
					Options: []string{"GET", "POST", "PUT", "DELETE"},
				},
				{DisplayName: "URL", Name: "url", Type: "string", Required: true},
				{DisplayName: "Headers", Name: "headers", Type: "collection"},
				{DisplayName: "Body", Name: "body", Type: "json"},
			},
		},
		{
			Name: "n8n-nodes-base.webhook", DisplayName: "Webhook", Description: "Start a workflow when a webhook is called",
			Properties: []property{
				{DisplayName: "Path", Name: "path", Type: "string", Required: true},
				{
					DisplayName: "HTTP method", Name: "httpMethod", Type: "options", Required: true, Default: "POST",
					Options: []string{"GET", "POST"},
				},
				{
					DisplayName: "Response mode", Name: "responseMode", Type: "options",
					Options: []string{"onReceived", "lastNode"},
				},
			},
		},
	}
}

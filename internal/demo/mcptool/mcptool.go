// Package mcptool helps to write the demo's MCP servers: servers made with the official SDK, and tools whose
// definitions are JSON texts.
package mcptool

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// NewServer returns a server without tools. Models see its instructions beside its tools.
func NewServer(name, title, instructions string) *mcp.Server {
	return mcp.NewServer(&mcp.Implementation{Name: "demo-" + name, Title: title, Version: "1.0.0"}, &mcp.ServerOptions{
		Instructions: instructions,
		// The tools never change, so no list_changed is promised.
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
	})
}

// Definition describes a tool. The schemas are JSON texts rather than derived from Go types, because clients show them. The texts
// keep the order of properties, which is that of positional arguments, and never allow null for a list.
type Definition struct {
	Name, Title, Description string
	Input, Output            string // JSON Schemas
	Hints                    mcp.ToolAnnotations
}

// Reads returns the annotations of a tool that only reads the server's own data.
func Reads() mcp.ToolAnnotations {
	return mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: new(bool)}
}

// Add registers a tool. An answer that is not a *mcp.CallToolResult is sent both as structured content and, for older
// clients, as text. The SDK checks the arguments against the input schema and turns an error into a result with isError.
func Add[In any](s *mcp.Server, def Definition, handle func(context.Context, In) (any, error)) {
	hints := def.Hints
	hints.Title = def.Title
	mcp.AddTool(s, &mcp.Tool{
		Name: def.Name, Title: def.Title, Description: def.Description, Annotations: &hints,
		InputSchema: json.RawMessage(def.Input), OutputSchema: json.RawMessage(def.Output),
	}, func(ctx context.Context, _ *mcp.CallToolRequest, in In) (*mcp.CallToolResult, any, error) {
		value, err := handle(ctx, in)
		if err != nil {
			return nil, nil, err
		}
		if answer, ok := value.(*mcp.CallToolResult); ok {
			return answer, nil, nil
		}
		text, err := json.Marshal(value)
		if err != nil {
			return nil, nil, fmt.Errorf("encode the answer of %s: %w", def.Name, err)
		}
		return Answer(text, string(text)), nil, nil
	})
}

// Answer returns a successful result.
func Answer(structured json.RawMessage, text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{
		StructuredContent: structured,
		Content:           []mcp.Content{&mcp.TextContent{Text: text}},
	}
}

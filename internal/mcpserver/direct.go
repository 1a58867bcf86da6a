package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/catalog/ident"
	"mcp-code-exec-harness/internal/id"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
)

// offered are the tools of the upstream servers that clients get.
type offered struct {
	mu    sync.Mutex
	tools map[string]*catalog.Tool // by the name that clients get
	at    <-chan struct{}          // Catalog.Changed when they were offered
}

// offerTools offers the tools of the upstream servers as they are now, and after each change.
func (s *Server) offerTools() {
	for {
		changed := s.opt.Harness.Catalog().Changed()
		s.offerNow()
		select {
		case <-changed:
		case <-s.closing.Done():
			return
		}
	}
}

// offerNow offers the tools of the upstream servers as they are.
func (s *Server) offerNow() {
	s.offered.mu.Lock()
	defer s.offered.mu.Unlock()
	at := s.opt.Harness.Catalog().Changed()
	if at == s.offered.at {
		return
	}
	now := s.named()
	for name, t := range now {
		if s.offered.tools[name] != t {
			s.offer(name, t)
		}
	}
	var gone []string
	for name := range s.offered.tools {
		if now[name] == nil {
			gone = append(gone, name)
		}
	}
	if len(gone) > 0 {
		s.server.RemoveTools(gone...)
	}
	s.offered.tools, s.offered.at = now, at
}

// listing is a middleware that waits for servers which have not listed their tools yet, at most startWait.
func (s *Server) listing(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if method == "tools/list" || method == "tools/call" {
			s.ready(ctx)
			s.offerNow()
		}
		return next(ctx, method, req)
	}
}

// named are the tools of the upstream servers under the names that clients get: a tool's own where nothing else has it, else server__tool. No
// server can have its tool take the place of another's.
func (s *Server) named() map[string]*catalog.Tool {
	all := s.opt.Harness.Catalog().Tools()
	times := map[string]int{executeCode: 1, searchTools: 1, getToolDetails: 1}
	for _, t := range all {
		times[t.Name]++
		times[t.FullName()]++
	}
	named := map[string]*catalog.Tool{}
	for _, t := range all {
		name := t.Name
		if times[name] > 1 {
			name = t.FullName()
		}
		named[name] = t
	}
	return named
}

// offer adds a tool. One that the SDK does not take is left out, and programs can still call it.
func (s *Server) offer(name string, t *catalog.Tool) {
	defer func() {
		if failed := recover(); failed != nil {
			s.opt.Logger.Warn("a tool cannot be offered to MCP clients", "tool", t.FullName(), "error", failed)
		}
	}()
	tool := &mcp.Tool{
		Name: name, Title: t.Title, Description: t.Description, InputSchema: json.RawMessage(`{"type":"object"}`),
		Annotations: &mcp.ToolAnnotations{
			Title: t.Annotations.Title, ReadOnlyHint: t.Annotations.IsReadOnly(), IdempotentHint: t.Annotations.Idempotent != nil && *t.Annotations.Idempotent,
			DestructiveHint: t.Annotations.Destructive, OpenWorldHint: t.Annotations.OpenWorld,
		},
	}
	if typ := struct{ Type string }{}; json.Unmarshal(t.InputSchema, &typ) == nil && typ.Type == "object" {
		tool.InputSchema = t.InputSchema
	}
	if keepsTokens(t.OutputSchema) {
		tool.OutputSchema = t.OutputSchema
	}
	s.server.AddTool(tool, s.guard(func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return s.pass(ctx, r, t.FullName())
	}, true))
}

// keepsTokens reports whether answers still have the form of an output schema once tokens stand for personal data: clients refuse
// structured content that has not.
func keepsTokens(schema json.RawMessage) bool {
	return len(schema) > 0 && !slices.ContainsFunc([]string{`"format"`, `"pattern"`, `"minLength"`, `"maxLength"`}, func(word string) bool {
		return bytes.Contains(schema, []byte(word))
	})
}

// pass calls an upstream tool, as a run of one call.
func (s *Server) pass(ctx context.Context, r *mcp.CallToolRequest, name string) (*mcp.CallToolResult, error) {
	args := r.Params.Arguments
	if len(bytes.TrimSpace(args)) == 0 {
		args = json.RawMessage("{}")
	}
	// The program parses the arguments, because a literal would differ: {"__proto__": …} sets the prototype.
	out, who, failed := s.single(ctx, r, fmt.Sprintf("return await callMCPTool.raw(%s, JSON.parse(%s))", ident.Quote(name), ident.Quote(string(args))))
	if failed != nil {
		return failed, nil
	}
	var is struct{ Content json.RawMessage }
	var answer mcp.CallToolResult
	// Only what is an answer is passed on: what else a server writes would have the harness ask the client's user, or its model.
	passed := &mcp.CallToolResult{}
	if json.Unmarshal(out.Output, &is) == nil && is.Content != nil && json.Unmarshal(out.Output, &answer) == nil {
		passed.Content, passed.StructuredContent, passed.IsError = answer.Content, answer.StructuredContent, answer.IsError
	} else { // it became a file
		passed = result(string(out.Output), nil, false)
		passed.Content = append(passed.Content, s.attachments(r, who, who.session(""), out, nil)...)
	}
	return passed, nil
}

// single executes a program of one call. failed is the result if it has no value.
func (s *Server) single(ctx context.Context, r *mcp.CallToolRequest, code string) (out *run.Outcome, who caller, failed *mcp.CallToolResult) {
	who = s.caller(r.Extra)
	n := notify(ctx, r, true)
	defer n.end()
	var left bool
	var err error
	if r.Params.RequestState != "" {
		out, left, err = s.again(ctx, r, who)
	} else {
		out, err = s.opt.Harness.Runs().Create(ctx, who.Identity, runs.Request{
			ID: id.New("run"), Code: code, User: who.user, Session: who.session(""), Observe: n.observe, Progress: n.progress,
		})
	}
	if err == nil && !left {
		out, failed, err = s.settle(ctx, r, who, out)
	}
	switch {
	case err != nil:
		return nil, who, refusal(err)
	case failed != nil:
		return nil, who, failed
	case out.Status == run.WaitingApproval:
		return nil, who, refusal(errors.New(newPending(out.Approval).text(out.RunID)))
	case out.Error != nil:
		return nil, who, refusal(errors.New(out.Error.Message))
	}
	return out, who, nil
}

// aliases are the tools of the original under their names, which are not listed. Programs have functions of the same names.
var aliases = map[string]func(args aliasArgs) string{
	"list_mcp_tools":        func(aliasArgs) string { return "list_mcp_tools()" },
	"get_mcp_tool_details":  func(a aliasArgs) string { return "get_mcp_tool_details(" + ident.Quote(a.ToolName) + ")" },
	"introspect_servers":    func(aliasArgs) string { return "introspect_servers()" },
	"get_virtual_library":   func(aliasArgs) string { return "get_virtual_library()" },
	"get_server_index":      func(a aliasArgs) string { return "get_server_index(" + ident.Quote(a.ServerName) + ")" },
	"list_server_functions": func(a aliasArgs) string { return "list_server_functions(" + ident.Quote(a.ServerName) + ")" },
	"callMCPTool": func(a aliasArgs) string {
		return "callMCPTool(" + ident.Quote(a.ToolName) + ", JSON.parse(" + ident.Quote(string(a.Input)) + "))"
	},
}

type aliasArgs struct {
	ToolName, ServerName string
	Input                json.RawMessage
}

// aliased is a middleware that answers calls of aliases.
func (s *Server) aliased(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		r, ok := req.(*mcp.CallToolRequest)
		if !ok || !s.opt.code() || aliases[r.Params.Name] == nil {
			return next(ctx, method, req)
		}
		return s.guard(s.alias, true)(ctx, r)
	}
}

func (s *Server) alias(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	in := aliasArgs{Input: json.RawMessage("{}")}
	if err := decode(r, &in); err != nil {
		return refusal(err), nil
	}
	out, who, failed := s.single(ctx, r, "return await "+aliases[r.Params.Name](in))
	if failed != nil {
		return failed, nil
	}
	return s.outcome(r, who, who.session(""), out), nil
}

package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/catalog/ident"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
)

// listing is a middleware for lists and for calls of the servers' tools. In the modes direct and both, it waits for servers that have not listed their
// tools yet: at most startWait before it answers a request for the list of tools, and as long as a program would before a call of a tool that is not
// offered yet. In the mode code, it waits at most startWait before a call of an unknown tool, and refuses the call if a server has the tool, because only
// programs call the servers' tools. listing omits the aliases from lists, adds the skills that the caller has promoted and the resources and templates of the upstream servers to lists, answers
// calls of these skills, and hides personal data in the servers' descriptions of their tools.
func (s *Server) listing(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		call, called := req.(*mcp.CallToolRequest)
		if called {
			if answer, handled, err := s.callPromoted(ctx, call); handled {
				return answer, err
			}
		}
		switch {
		case called && !s.opt.direct() && !s.own(call.Params.Name):
			s.ready(ctx, s.caller(req.GetExtra()))
			if tool, err := s.opt.Harness.Catalog().Details(call.Params.Name); err == nil {
				return refusal(fmt.Errorf("%s is a tool of a server: programs call it, so send execute_code a program such as `return await %s`", tool.Name, tool.Call)), nil
			}
		case !s.opt.direct():
		case method == "tools/list":
			s.ready(ctx, s.caller(req.GetExtra()))
			s.offerNow()
		case called && !s.own(call.Params.Name) && !s.offers(call.Params.Name):
			s.opt.Harness.EnsureTools(ctx, s.caller(req.GetExtra()).user)
			s.offerNow()
			call.Params.Name = s.offered.listedName(call.Params.Name)
		}
		answer, err := next(ctx, method, req)
		if list, ok := answer.(*mcp.ListResourcesResult); ok && err == nil && list.NextCursor == "" {
			if err := s.listSkillFiles(ctx, s.caller(req.GetExtra()), list); err != nil || !s.opt.direct() {
				return answer, err
			}
			list.Resources = slices.DeleteFunc(list.Resources, func(r *mcp.Resource) bool { return r.URI == changedMarker })
			return answer, s.listUpstream(ctx, s.caller(req.GetExtra()), list)
		}
		if list, ok := answer.(*mcp.ListResourceTemplatesResult); ok && err == nil && s.opt.direct() && list.NextCursor == "" {
			return answer, s.listTemplates(ctx, s.caller(req.GetExtra()), list)
		}
		if list, ok := answer.(*mcp.ListToolsResult); ok && err == nil {
			who := s.caller(req.GetExtra())
			hide := s.hiding(ctx, who)
			shown := []*mcp.Tool{} // not nil, which would become null in JSON: clients refuse null
			for _, t := range list.Tools {
				switch {
				case aliases[t.Name] != nil && !s.offers(t.Name):
					continue
				case t.Name == searchTools && !s.offers(t.Name):
					named := *t
					named.Description += s.serverNames()
					t = &named
				case s.skills[t.Name] != "":
					if t, err = s.describe(who, hide, t); err != nil {
						return nil, s.shown(ctx, err)
					}
				case s.offers(t.Name):
					t = hide.tool(t)
				}
				if t != nil {
					shown = append(shown, t)
				}
			}
			if list.NextCursor == "" {
				names, promoted, err := s.promoted(ctx, who)
				if err != nil {
					return nil, s.shown(ctx, err)
				}
				for _, name := range names {
					shown = append(shown, skillTool(hide, name, &promoted[name].Skill))
				}
			}
			if list.Tools = shown; hide.err != nil {
				return nil, s.shown(ctx, hide.err)
			}
		}
		return answer, err
	}
}

// tool returns a copy of a tool in which tokens replace personal data.
func (h *hiding) tool(t *mcp.Tool) *mcp.Tool {
	shown, notes := *t, *t.Annotations
	shown.Title, shown.Description, notes.Title = h.text(t.Title), h.text(t.Description), h.text(notes.Title)
	shown.Annotations, shown.InputSchema, shown.OutputSchema = &notes, h.schema(t.InputSchema), h.schema(t.OutputSchema)
	return &shown
}

func (h *hiding) schema(schema any) any {
	raw, ok := schema.(json.RawMessage)
	if ok && h.err == nil {
		raw, h.err = h.privacy.HideJSON(h.ctx, pii.FromCatalog, raw)
		return raw
	}
	return schema
}

// pass calls an upstream tool in a run that makes only this call.
func (s *Server) pass(ctx context.Context, r *mcp.CallToolRequest, name string) (*mcp.CallToolResult, error) {
	x := s.begin(ctx, r, true)
	defer x.end()
	out, failed, err := x.single(ctx, runs.CallOf("callMCPTool.raw", name, catalog.Whole(r.Params.Arguments)))
	if failed != nil || err != nil {
		return failed, err
	}
	// Only the fields of an answer are passed on: with other fields a server could make the harness ask the client's user or model.
	var answer struct {
		Content           []json.RawMessage
		StructuredContent json.RawMessage
		IsError           bool
	}
	if json.Unmarshal(out.Output, &answer) == nil && answer.Content != nil {
		passed := &mcp.CallToolResult{Content: []mcp.Content{}, IsError: answer.IsError}
		if structured(answer.StructuredContent, r.ProtocolVersion()) {
			passed.StructuredContent = answer.StructuredContent
		}
		for _, raw := range answer.Content {
			part, err := x.part(ctx, pii.Origin(name), raw)
			if err != nil {
				return nil, err
			}
			passed.Content = append(passed.Content, part)
		}
		if len(passed.Content) == 0 && answer.StructuredContent != nil { // many clients show a model the content only
			passed.Content = append(passed.Content, &mcp.TextContent{Text: string(answer.StructuredContent)})
		}
		return passed, nil
	}
	passed := result(string(out.Output), nil, false) // the output became a file
	passed.Content = append(passed.Content, x.attachments(x.who.session(""), out, nil)...)
	return passed, nil
}

// privacy returns the filter of the caller's own session.
func (x *exchange) privacy() pii.Session {
	return x.s.opt.Harness.Privacy().In(x.who.user, x.who.session(""))
}

// part decodes a part of an answer. In a part with base64 data it replaces personal data in the decoded data by tokens; the gate has done so
// everywhere else. A part that a token has made invalid becomes a text.
func (x *exchange) part(ctx context.Context, from pii.Origin, raw json.RawMessage) (mcp.Content, error) {
	var answer mcp.CallToolResult
	if json.Unmarshal(slices.Concat([]byte(`{"content":[`), raw, []byte("]}")), &answer) != nil || len(answer.Content) != 1 {
		return &mcp.TextContent{Text: string(raw)}, nil
	}
	var data *[]byte
	switch part := answer.Content[0].(type) {
	case *mcp.ImageContent:
		data = &part.Data
	case *mcp.AudioContent:
		data = &part.Data
	case *mcp.EmbeddedResource:
		data = &part.Resource.Blob
	default:
		return part, nil
	}
	hidden, err := x.privacy().HideContent(ctx, from, string(*data))
	if hidden != string(*data) {
		*data = []byte(hidden)
	}
	return answer.Content[0], err
}

// single executes a program that makes one call. If the program gives no value, failed is the result for the client.
func (x *exchange) single(ctx context.Context, req runs.Request) (out *run.Outcome, failed *mcp.CallToolResult, err error) {
	left := false
	if x.request.Params.RequestState != "" {
		out, left, err = x.again(ctx)
	} else {
		req.Session = x.who.session("")
		out, err = x.create(ctx, req)
	}
	if err == nil && !left {
		out, failed, err = x.settle(ctx, out)
	}
	switch {
	case err != nil || failed != nil:
		return nil, failed, err
	case out.Status == run.WaitingApproval:
		return nil, refusal(errors.New(newPending(out.Approval, "Tell the user. Once it is decided, make the same call again: it gets the result.").text("call"))), nil
	case out.Error != nil:
		return nil, refusal(errors.New(out.Error.Message)), nil
	}
	return out, nil, nil
}

// aliases are the meta-tools of the original system, under their original names (docs/GATEWAY.md). They are not listed. Programs have functions
// of the same names.
var aliases = map[string]func(args aliasArgs) runs.Request{
	"list_mcp_tools": func(aliasArgs) runs.Request { return function("list_mcp_tools()") },
	"get_mcp_tool_details": func(a aliasArgs) runs.Request {
		return function("get_mcp_tool_details(" + ident.Quote(a.ToolName) + ")")
	},
	"introspect_servers":  func(aliasArgs) runs.Request { return function("introspect_servers()") },
	"get_virtual_library": func(aliasArgs) runs.Request { return function("get_virtual_library()") },
	"get_server_index":    func(a aliasArgs) runs.Request { return function("get_server_index(" + ident.Quote(a.ServerName) + ")") },
	"list_server_functions": func(a aliasArgs) runs.Request {
		return function("list_server_functions(" + ident.Quote(a.ServerName) + ")")
	},
	"callMCPTool": func(a aliasArgs) runs.Request { return runs.CallOf("callMCPTool", a.ToolName, catalog.Whole(a.Input)) },
}

func function(call string) runs.Request { return runs.Request{Code: "return await " + call} }

type aliasArgs struct {
	ToolName, ServerName string
	Input                json.RawMessage
}

func (s *Server) addAliases() {
	for name, call := range aliases {
		s.server.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, s.guard(
			func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return s.alias(ctx, r, call)
			}, true))
	}
}

func (s *Server) alias(ctx context.Context, r *mcp.CallToolRequest, call func(aliasArgs) runs.Request) (*mcp.CallToolResult, error) {
	var in aliasArgs
	if err := decode(r, &in); err != nil {
		return refusal(err), nil
	}
	x := s.begin(ctx, r, true)
	defer x.end()
	out, failed, err := x.single(ctx, call(in))
	if failed != nil || err != nil {
		return failed, err
	}
	return x.outcome(x.who.session(""), out), nil
}

package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/runs"
)

// prompting is a middleware that offers the prompts of the upstream servers. Tokens replace personal data in the prompts.
func (s *Server) prompting(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		switch r := req.(type) {
		case *mcp.ListPromptsRequest:
			if s.opt.direct() {
				return s.listPrompts(ctx, s.caller(r.Extra))
			}
		case *mcp.GetPromptRequest:
			if s.opt.direct() {
				return s.getPrompt(ctx, s.caller(r.Extra), r.Params)
			}
		}
		return next(ctx, method, req)
	}
}

// upstreamPrompt is a prompt of an upstream server. Its name for clients is its own name if no other server has a prompt of that name, otherwise
// server__prompt.
type upstreamPrompt struct {
	mcp.Prompt
	Server string
}

func (s *Server) prompts(ctx context.Context, who caller) (map[string]upstreamPrompt, []string, error) {
	raw, err := s.value(ctx, who, runs.Request{Code: "return await list_mcp_prompts()"})
	if err != nil {
		return nil, nil, err
	}
	var all []upstreamPrompt
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, nil, errors.New("the servers' prompts are too many to list; programs have list_mcp_prompts(server)")
	}
	times := map[string]int{}
	for _, p := range all {
		times[p.Name]++
		times[p.Server+"__"+p.Name]++
	}
	named, names := map[string]upstreamPrompt{}, []string{}
	for _, p := range all {
		name := p.Name
		if times[name] > 1 {
			name = p.Server + "__" + name
		}
		named[name] = p
		names = append(names, name)
	}
	return named, names, nil
}

func (s *Server) listPrompts(ctx context.Context, who caller) (*mcp.ListPromptsResult, error) {
	named, names, err := s.prompts(ctx, who)
	if err != nil {
		return nil, err
	}
	list := &mcp.ListPromptsResult{Prompts: []*mcp.Prompt{}}
	for _, name := range names {
		p := named[name].Prompt
		p.Name = name
		list.Prompts = append(list.Prompts, &p)
	}
	return list, nil
}

func (s *Server) getPrompt(ctx context.Context, who caller, params *mcp.GetPromptParams) (*mcp.GetPromptResult, error) {
	named, _, err := s.prompts(ctx, who)
	if err != nil {
		return nil, err
	}
	prompt, ok := named[params.Name]
	if !ok {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "there is no prompt " + strconv.Quote(clip.Text(params.Name, 100))}
	}
	args, err := json.Marshal(params.Arguments)
	if err != nil {
		return nil, err
	}
	raw, err := s.value(ctx, who, runs.Request{
		Code: "return await get_mcp_prompt(env.HARNESS_SERVER, env.HARNESS_PROMPT, JSON.parse(env.HARNESS_ARGUMENTS))",
		Env:  map[string]string{"HARNESS_SERVER": prompt.Server, "HARNESS_PROMPT": prompt.Name, "HARNESS_ARGUMENTS": string(args)},
	})
	if err != nil {
		return nil, err
	}
	var got mcp.GetPromptResult
	if json.Unmarshal(raw, &got) != nil || got.Messages == nil { // the answer became a file, or a token has made it invalid
		got = mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: string(raw)}}}}
	}
	return &got, nil
}

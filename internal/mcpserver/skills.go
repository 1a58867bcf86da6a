package mcpserver

import (
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/skills"
)

// callSkill is a program that calls the default export of a skill, or its only function, with one argument.
const callSkill = `const skill = await import(env.HARNESS_SKILL)
const functions = typeof skill.default === 'function' ? [skill.default] : Object.values(skill).filter((f) => typeof f === 'function')
if (functions.length !== 1) throw new Error('the skill has to export one function, or a default one')
return await functions[0](JSON.parse(env.HARNESS_ARGUMENTS))`

// addSkills offers the configured skills as tools. Each caller gets only the caller's own skills.
func (s *Server) addSkills() {
	s.skills = map[string]string{}
	for _, name := range s.opt.Skills {
		tool := clientName("skill_" + name)
		if s.skills[tool] != "" {
			s.opt.Logger.Warn("two skills have the same name as a tool of MCP clients", "skill", name, "other", s.skills[tool])
			continue
		}
		s.skills[tool] = name
		s.server.AddTool(&mcp.Tool{Name: tool, InputSchema: json.RawMessage(`{"type":"object"}`)}, s.guard(
			func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return s.callSkill(ctx, r, name)
			}, true))
	}
}

// skill returns a skill of a caller that can be called, or nil if the caller has no such skill.
func (s *Server) skill(who caller, name string) (*skills.Skill, error) {
	store, err := s.opt.Harness.Skills()
	if err != nil {
		return nil, err
	}
	list, err := store.List(who.user)
	for i := range list {
		if list[i].Name == name && list[i].Kind == skills.Module {
			return &list[i], err
		}
	}
	return nil, err
}

// describe returns the tool of a skill with the caller's description of the skill, or nil if the caller does not have it.
func (s *Server) describe(who caller, hide *hiding, t *mcp.Tool) (*mcp.Tool, error) {
	skill, err := s.skill(who, s.skills[t.Name])
	if skill == nil || err != nil {
		return nil, err
	}
	shown := *t
	shown.Title, shown.Description = hide.from(pii.FromSkill, skill.Title), hide.from(pii.FromSkill, "Skill "+skill.Name+". "+skill.Description)
	return &shown, nil
}

func (s *Server) callSkill(ctx context.Context, r *mcp.CallToolRequest, name string) (*mcp.CallToolResult, error) {
	x := s.begin(ctx, r, false)
	defer x.end()
	skill, err := s.skill(x.who, name)
	if err != nil {
		return nil, err
	}
	if skill == nil {
		return refusal(runs.InvalidError("you have no skill " + name)), nil
	}
	args := r.Params.Arguments
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	out, failed, err := x.single(ctx, runs.Request{Code: callSkill, Env: map[string]string{"HARNESS_SKILL": skill.Path, "HARNESS_ARGUMENTS": string(args)}})
	if failed != nil || err != nil {
		return failed, err
	}
	return x.outcome(x.who.session(""), out), nil
}

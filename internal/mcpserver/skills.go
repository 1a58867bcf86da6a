package mcpserver

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/skills"
)

// callSkill is a program that calls the default export of a skill, or its only function, with one argument.
const callSkill = `const skill = await import(env.HARNESS_SKILL)
const functions = typeof skill.default === 'function' ? [skill.default] : Object.values(skill).filter((f) => typeof f === 'function')
if (functions.length !== 1) throw new Error('the skill has to export one function, or a default one')
return await functions[0](JSON.parse(env.HARNESS_ARGUMENTS))`

// skillPrefix is the prefix of the names of tools that are skills.
const skillPrefix = "skill_"

// addSkills offers the configured skills as tools. Each caller gets only the caller's own skills. The skills that callers have promoted are added to their
// lists by listing.
func (s *Server) addSkills() {
	s.skills = map[string]string{}
	for _, name := range s.opt.Skills {
		tool := clientName(skillPrefix + name)
		if s.skills[tool] != "" {
			s.opt.Logger.Warn("two skills have the same name as a tool of MCP clients", "skill", name, "other", s.skills[tool])
			continue
		}
		s.skills[tool] = name
		s.server.AddTool(&mcp.Tool{Name: tool, InputSchema: json.RawMessage(`{"type":"object"}`)}, s.guard(
			func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				skill, err := s.skill(s.caller(r.Extra), name)
				if err != nil {
					return nil, err
				}
				if skill == nil {
					return refusal(runs.InvalidError("you have no skill " + name)), nil
				}
				return s.callSkill(ctx, r, skill)
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
		if list[i].Name == name && (list[i].Kind == skills.Module || list[i].Callable()) {
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
	return skillTool(hide, t.Name, skill), nil
}

// skillTool returns a skill as the tool of the given name.
func skillTool(hide *hiding, name string, skill *skills.Skill) *mcp.Tool {
	schema, _ := skill.Arguments()
	return &mcp.Tool{
		Name: name, Title: hide.from(pii.FromSkill, skill.Title), Description: hide.from(pii.FromSkill, "Skill "+skill.Name+". "+skill.Description),
		InputSchema: hide.schema(offeredInput(schema)),
	}
}

// promoted returns the skills that a caller has promoted, by the names of their tools. A name that the server uses for another tool is left out.
func (s *Server) promoted(ctx context.Context, who caller) (names []string, all map[string]*skills.Function, err error) {
	store, err := s.opt.Harness.Skills()
	if err != nil {
		return nil, nil, err
	}
	entries, err := store.Functions(ctx, who.user)
	all = map[string]*skills.Function{}
	for i, e := range entries {
		name := clientName(skillPrefix + e.Name)
		if all[name] == nil && !s.own(name) && !s.offers(name) {
			names, all[name] = append(names, name), &entries[i]
		}
	}
	return names, all, err
}

// callPromoted answers a call of a promoted skill. handled is false if the name is not that of one.
func (s *Server) callPromoted(ctx context.Context, r *mcp.CallToolRequest) (_ *mcp.CallToolResult, handled bool, err error) {
	if !strings.HasPrefix(r.Params.Name, skillPrefix) || s.own(r.Params.Name) || s.offers(r.Params.Name) {
		return nil, false, nil
	}
	_, all, err := s.promoted(ctx, s.caller(r.Extra))
	if err != nil {
		return nil, true, s.shown(ctx, err)
	}
	entry := all[r.Params.Name]
	if entry == nil {
		return nil, false, nil
	}
	answer, err := s.guard(func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if err := entry.Refusal(); err != nil {
			return refusal(runs.InvalidError(err.Error())), nil
		}
		// Through the gate, so that rules about the tool hold and its calls are counted, unless the operator has a server of the same name.
		tool, err := s.opt.Harness.Catalog().Of(ctx, s.caller(r.Extra).user).ResolveIn(frame.Skills, entry.Name)
		if err != nil || tool.Content == "" {
			return s.callSkill(ctx, r, &entry.Skill)
		}
		x := s.begin(ctx, r, false)
		defer x.end()
		out, failed, err := x.single(ctx, runs.CallOf("callMCPTool", tool.FullName(), r.Params.Arguments))
		if failed != nil || err != nil {
			return failed, err
		}
		return x.outcome(x.who.session(""), out), nil
	}, true)(ctx, r)
	return answer, true, err
}

func (s *Server) callSkill(ctx context.Context, r *mcp.CallToolRequest, skill *skills.Skill) (*mcp.CallToolResult, error) {
	x := s.begin(ctx, r, false)
	defer x.end()
	args := r.Params.Arguments
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	schema, wrapped := skill.Arguments()
	tool := &catalog.Tool{Server: "skill", Name: skill.Name, InputSchema: schema}
	if err := s.opt.Harness.Catalog().Validate(ctx, x.who.user, tool, args); err != nil {
		return refusal(err), nil
	}
	if wrapped {
		var is struct {
			Input json.RawMessage `json:"input"`
		}
		if err := json.Unmarshal(args, &is); err != nil {
			return refusal(err), nil
		}
		args = is.Input
	}
	out, failed, err := x.single(ctx, runs.Request{Code: callSkill, Env: map[string]string{"HARNESS_SKILL": skill.Path, "HARNESS_ARGUMENTS": string(args)}})
	if failed != nil || err != nil {
		return failed, err
	}
	return x.outcome(x.who.session(""), out), nil
}

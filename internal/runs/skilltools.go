package runs

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/gate"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/skills"
)

// toolsFile is the file of a skill with the definitions of the tools that its recorded runs have called, as hashes.
const toolsFile = "tools.json"

// functions returns the promoted skills of a user as a server; ok is false if there are none, or if they cannot be read.
func (s *Service) functions(ctx context.Context, user string) (server catalog.Server, ok bool) {
	saved, err := s.opt.Skills()
	var all []skills.Function
	if err == nil {
		all, err = saved.Functions(ctx, user)
	}
	if err != nil && ctx.Err() == nil {
		s.opt.Logger.WarnContext(ctx, "the promoted skills of a user cannot be read", "user", user, "error", err)
	}
	return skills.ServerOf(all)
}

// toolHashes are the hashes of the parts of a tool's definition.
type toolHashes struct {
	Definition string `json:"definition"` // hash of the whole definition
	Input      string `json:"input"`      // hash of the input schema
	Output     string `json:"output"`     // hash of the output schema
}

func hashesOf(t *catalog.Tool) toolHashes {
	return toolHashes{gate.Definition(t), gate.Definition(&catalog.Tool{InputSchema: t.InputSchema}), gate.Definition(&catalog.Tool{OutputSchema: t.OutputSchema})}
}

// ChangedTool is a tool whose definition differs from the one that a skill was made with.
type ChangedTool struct {
	Tool   string   `json:"tool"`
	Server string   `json:"server"`
	Parts  []string `json:"parts"` // changed parts: input, output, description; gone if the server has no such tool any more
}

// hashTools returns the text of toolsFile for tools by their full names. A tool that the catalog does not have is left out.
func (s *Service) hashTools(names []string) ([]byte, error) {
	all := map[string]toolHashes{}
	for _, name := range names {
		if t, err := s.opt.Catalog.Resolve(name); err == nil {
			all[t.FullName()] = hashesOf(t)
		}
	}
	return journal.EncodeLines(all)
}

// changedTools compares the tools that a skill was made with with the catalog. It contacts no server: tools of servers that have listed none are left out.
func (s *Service) changedTools(content skills.Content) (changed []ChangedTool) {
	var made map[string]toolHashes
	if json.Unmarshal(content[toolsFile], &made) != nil {
		return nil
	}
	listed := s.opt.Catalog.Names()
	for _, name := range slices.Sorted(maps.Keys(made)) {
		was := made[name]
		server, _, _ := strings.Cut(name, "__")
		t, err := s.opt.Catalog.Resolve(name)
		switch {
		case err != nil && len(listed[server]) > 0:
			changed = append(changed, ChangedTool{name, server, []string{"gone"}})
			continue
		case err != nil:
			continue
		}
		is, parts := hashesOf(t), []string{}
		if is.Input != was.Input {
			parts = append(parts, "input")
		}
		if is.Output != was.Output {
			parts = append(parts, "output")
		}
		if is.Definition != was.Definition && len(parts) == 0 {
			parts = append(parts, "description")
		}
		if len(parts) > 0 {
			changed = append(changed, ChangedTool{t.FullName(), t.Server, parts})
		}
	}
	return changed
}

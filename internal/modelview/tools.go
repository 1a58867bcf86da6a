package modelview

import (
	"fmt"
	"strings"

	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/clip"
)

// Hits formats the results of a search for a model: names, signatures and descriptions, best first.
func Hits(query string, hits []catalog.Hit, servers []catalog.Server) string {
	var b strings.Builder
	if len(hits) == 0 {
		tools, names := 0, make([]string, len(servers))
		for i, s := range servers {
			tools += len(s.Tools)
			names[i] = s.Name
		}
		if tools == 0 {
			return "No server offers any tool at the moment.\n"
		}
		return fmt.Sprintf("No tool fits %q. Use other words. There are %d tools of the servers %s.\n", query, tools, strings.Join(names, ", "))
	}
	for _, h := range hits {
		fmt.Fprintf(&b, "%s — %s\n", h.Name, h.Signature)
		if h.Description != "" {
			b.WriteString("  " + h.Description + "\n")
		}
	}
	return b.String()
}

// Skill is a saved skill as a model sees it.
type Skill struct {
	Name        string // path of the skill
	Description string // purpose of the skill in one line; may be empty
}

// MaxSkills is the maximum number of skills that a model gets for a request.
const MaxSkills = 5

// maxSkillText is the maximum size of a skill's description in bytes.
const maxSkillText = 160

// ShortSkill returns the skill at a path, with its description in one short line. Personal data in the description must be hidden before, because the end of
// the line could cut a value in two.
func ShortSkill(path, description string) Skill {
	return Skill{path, clip.Counted(strings.Join(strings.Fields(description), " "), maxSkillText)}
}

// Skills formats the skills that a search found, best first. It returns "" if there are none.
func Skills(found []Skill) string {
	if len(found) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\nSaved skills, which programs import:\n")
	for _, s := range found {
		fmt.Fprintf(&b, "%s — %s\n", s.Name, s.Description)
	}
	return b.String()
}

// Details formats tools for a model: how to call them, their TypeScript declarations, and the advice of each server once. problems are
// errors about names of tools that do not exist.
func Details(tools []*catalog.Details, problems []error) string {
	var parts []string
	for _, err := range problems {
		parts = append(parts, err.Error()+"\n")
	}
	advised := map[string]bool{}
	for _, d := range tools {
		var b strings.Builder
		fmt.Fprintf(&b, "%s — await %s\n", d.Name, d.Call)
		if d.SchemaProblem != "" {
			b.WriteString("Its schema cannot be used to check the input: " + d.SchemaProblem + "\n")
		}
		b.WriteString(strings.TrimRight(d.TypeScript, "\n") + "\n")
		if advice := strings.TrimSpace(d.Instructions); advice != "" && !advised[advice] {
			advised[advice] = true
			b.WriteString("The server's advice: " + advice + "\n")
		}
		parts = append(parts, b.String())
	}
	return strings.Join(parts, "\n")
}

package gate

import (
	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/pii/language"
)

// Languages says in which language strings in the arguments of a tool are read: what the configuration says, else what the tool's schema says, else what
// the string looks like.
func (g *Gate) Languages(tool *catalog.Tool) pii.Languages {
	return func(s language.String) language.Language {
		s.Tool = tool.FullName()
		if l := language.Of(g.opt.Languages, s); l != "" {
			return l
		}
		if l := language.OfSchema(tool.Declared(s.Path)); l != "" {
			return l
		}
		return language.Guess(s)
	}
}

package gate

import (
	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/pii/language"
)

// Languages returns a function that determines the language of strings in the arguments of a tool: by the configuration, otherwise by the tool's
// schema, otherwise by a guess from the string.
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

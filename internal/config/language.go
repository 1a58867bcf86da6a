package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/jsonpath"
	"mcp-code-exec-harness/internal/pii/language"
	"mcp-code-exec-harness/internal/policy"
)

// Languages returns the settings of mcpServers.NAME.languages. Each setting gives the language of strings in the arguments of some tools.
// If several patterns of tool names match a tool, the longest pattern applies, so longer patterns come first.
func (c *Config) Languages() (all []language.Setting) {
	for _, server := range c.MCPServers {
		longest := func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) }
		for _, tool := range slices.SortedFunc(maps.Keys(server.Languages), longest) {
			for _, at := range slices.Sorted(maps.Keys(server.Languages[tool])) {
				setting, _ := languageSetting(server.Name, tool, at, server.Languages[tool][at]) // Load has already reported mistakes
				all = append(all, setting)
			}
		}
	}
	return all
}

func languageSetting(server, tool, at, name string) (of language.Setting, err error) {
	of.Language = language.Language(name)
	if !slices.Contains(language.All, of.Language) {
		return of, fmt.Errorf("%q is not one of %s", name, strings.Trim(fmt.Sprint(language.All), "[]"))
	}
	if of.Path, err = jsonpath.Parse(at); err != nil {
		return of, fmt.Errorf("%q: %w", at, err)
	}
	of.Tools, err = policy.Tools(server + "__" + tool)
	return of, err
}

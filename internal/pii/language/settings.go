package language

import (
	"slices"
	"strconv"

	"mcp-code-exec-harness/internal/jsonpath"
)

// Setting says in which language tools read a string of their arguments.
type Setting struct {
	Tools    func(fullName string) bool
	Path     []jsonpath.Step
	Language Language
}

// Of is the language that the first fitting setting says; empty: none fits.
func Of(all []Setting, s String) Language {
	for _, setting := range all {
		if setting.Tools(s.Tool) && leads(setting.Path, s.Path) {
			return setting.Language
		}
	}
	return ""
}

func leads(path []jsonpath.Step, to []string) bool {
	return slices.EqualFunc(path, to, func(step jsonpath.Step, to string) bool {
		if step.ToProperty(to) {
			return true
		}
		i, err := strconv.Atoi(to)
		return err == nil && step.ToElement(i)
	})
}

package language

import (
	"slices"
	"strconv"

	"mcp-code-exec-harness/internal/jsonpath"
)

// Setting sets the language in which tools read a string of their arguments.
type Setting struct {
	Tools    func(fullName string) bool
	Path     []jsonpath.Step
	Language Language
}

// Of returns the language of the first setting that matches the string, "" if none matches.
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

package language

import (
	"errors"
	"strings"
)

const separators = ",;\t|\r\n"

// inCSV reads cells with any of the usual separators. A value that is a whole unquoted cell gets quotes if it needs them.
func inCSV(text string, places []Place) (all []writer) {
	within := false
	scan(text, places, func(rest string) int {
		if rest[0] == '"' {
			within = !within
		}
		return 1
	}, func(p Place) {
		whole := (p.Start == 0 || strings.IndexByte(separators, text[p.Start-1]) >= 0) && (p.End == len(text) || strings.IndexByte(separators, text[p.End]) >= 0)
		quoted := within
		all = append(all, func(value string) (string, error) {
			doubled := strings.ReplaceAll(value, `"`, `""`)
			switch {
			case quoted:
				return doubled, nil
			case !strings.ContainsAny(value, separators+`"`):
				return value, nil
			case whole:
				return `"` + doubled + `"`, nil
			}
			return "", errors.New("a separator or a quote, and is a part of a cell without quotes: put the cell in quotes")
		})
	})
	return all
}

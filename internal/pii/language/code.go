package language

import (
	"errors"
	"strings"
)

// inCode reads strings in single, double or backward quotes, with backslash escapes, as in most languages.
func inCode(text string, places []Place) (all []writer) {
	within := ""
	scan(text, places, func(rest string) int {
		switch {
		case rest[0] == '\\' && within != "":
			return 2
		case within == "" && strings.IndexByte("'\"`", rest[0]) >= 0:
			within = rest[:1]
		case rest[:1] == within, within != "`" && rest[0] == '\n':
			within = ""
		}
		return 1
	}, func(Place) {
		if within == "" {
			all = append(all, refuse("_ .@+-", "special characters, and stands outside of quotes: put it between quotes, or give it in another way than in code"))
			return
		}
		quote := within
		all = append(all, func(value string) (string, error) {
			for _, mark := range []string{quote, `\`, "\n", "\r", "\x00", "${", "#{", "{{", "\u2028", "\u2029"} {
				if strings.Contains(value, mark) {
					return "", errors.New("characters that may end the text in quotes or begin code there: give it in another way than in code")
				}
			}
			return value, nil
		})
	})
	return all
}

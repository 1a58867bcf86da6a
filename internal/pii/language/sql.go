package language

import (
	"errors"
	"regexp"
	"strings"
)

const inNoString = "characters other than letters and digits, and stands outside of quotes: put it between quotes, or give it as a parameter"

var dollarQuote = regexp.MustCompile(`^\$(?:[A-Za-z_]\w*)?\$`)

// inSQL reads the strings, quoted names and comments of SQL. In a string, a doubled quote stands for a quote. Databases read a backslash and #
// differently, so after a backslash or # inSQL accepts only values without special characters.
func inSQL(text string, places []Place) (all []writer) {
	const (
		plain   = ""
		line    = "--"
		block   = "/*"
		unknown = "?"
	)
	within := plain // construct at the current position: one of the constants, or the quote or dollar quote that opened it
	scan(text, places, func(rest string) int {
		switch within {
		case plain:
			switch {
			case strings.HasPrefix(rest, "--"):
				within = line
			case strings.HasPrefix(rest, "/*"):
				within = block
			case strings.IndexByte("'\"`", rest[0]) >= 0:
				within = rest[:1]
			case rest[0] == '#' || rest[0] == '\\':
				within = unknown
			case rest[0] == '$':
				within = dollarQuote.FindString(rest)
				return len(within)
			}
		case line:
			if rest[0] == '\n' {
				within = plain
			}
		case block:
			if strings.HasPrefix(rest, "*/") {
				within = plain
				return 2
			}
		case "'", `"`, "`":
			switch {
			case rest[:1] == within: // A doubled quote ends the string and begins it again.
				within = plain
			case rest[0] == '\\' && within != "`":
				within = unknown
			}
		case unknown:
		default:
			if strings.HasPrefix(rest, within) {
				size := len(within)
				within = plain
				return size
			}
		}
		return 1
	}, func(Place) {
		switch within {
		case plain:
			all = append(all, refuse("_.", inNoString))
		case "'", `"`, "`":
			all = append(all, doubled(within))
		case unknown:
			all = append(all, refuse("_ .@+", "special characters, and databases differ in how they read the text before it: give it as a parameter"))
		default:
			all = append(all, refuse("_ .@+", "special characters, and stands in a comment or between dollar signs: give it as a parameter"))
		}
	})
	return all
}

// doubled writes a value in a quoted string or name of SQL. It doubles the quotes in the value.
func doubled(quote string) writer {
	return func(value string) (string, error) {
		if strings.ContainsAny(value, "\\\x00") {
			return "", errors.New("a backslash, which databases read in different ways: give it as a parameter")
		}
		return strings.ReplaceAll(value, quote, quote+quote), nil
	}
}

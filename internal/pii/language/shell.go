package language

import (
	"errors"
	"regexp"
	"strings"
)

// runsCode matches commands that may read a quoted argument as code.
var runsCode = regexp.MustCompile(`(?i)(?:^|[\s;|&(/'"` + "`" + `])(?:sh|bash|zsh|dash|ksh|fish|pwsh|powershell|cmd|eval|exec|source|trap|ssh|su|sudo|env|xargs|find|parallel|watch|timeout|nohup|python[\d.]*|perl|ruby|node|deno|bun|php|lua|Rscript|[gmn]?awk|sed|jq|yq|psql|mysql|mariadb|sqlite3?|sqlcmd|mongosh?|redis-cli|duckdb|osascript|docker|kubectl)(?:\.exe)?\s`)

const (
	quoted   = "_ @%+=:,./-"
	unquoted = "_@%+=:,./-"
)

// inShell reads quotes, comments and nested commands of a POSIX shell.
func inShell(text string, places []Place) (all []writer) {
	const (
		plain   = "$(" // a command, nested or not
		single  = "'"
		double  = `"`
		line    = "#"
		unknown = "?"
	)
	within := []string{plain}
	before := byte(' ')
	if runsCode.MatchString(text) {
		within = []string{unknown}
	}
	scan(text, places, func(rest string) int {
		now := within[len(within)-1]
		last := before
		before = rest[0]
		switch {
		case now == unknown:
		case now == single:
			if rest[0] == '\'' {
				within = within[:len(within)-1]
			}
		case now == line:
			if rest[0] == '\n' {
				within = within[:len(within)-1]
			}
		case rest[0] == '\\':
			return 2
		case rest[0] == '`', strings.HasPrefix(rest, "<<"), strings.HasPrefix(rest, "${"), strings.HasPrefix(rest, "$'"), strings.HasPrefix(rest, "$["):
			within = []string{unknown}
		case strings.HasPrefix(rest, "$(("):
			within = []string{unknown}
		case strings.HasPrefix(rest, "$("):
			within = append(within, plain)
			return 2
		case now == double:
			if rest[0] == '"' {
				within = within[:len(within)-1]
			}
		case rest[0] == '\'' || rest[0] == '"':
			within = append(within, rest[:1])
		case rest[0] == '#' && strings.IndexByte(" \t\n;&|(", last) >= 0:
			within = append(within, line)
		case rest[0] == '(':
			within = append(within, plain)
		case rest[0] == ')' && len(within) > 1:
			within = within[:len(within)-1]
		}
		return 1
	}, func(p Place) {
		starts := strings.IndexByte(" \t\n;&|(", before) >= 0
		before = 'x'
		switch within[len(within)-1] {
		case plain:
			all = append(all, bare(starts))
		case single:
			all = append(all, option(p.Start > 0 && text[p.Start-1] == '\'', func(value string) (string, error) {
				return strings.ReplaceAll(value, "'", `'\''`), nil
			}))
		case double:
			all = append(all, option(p.Start > 0 && text[p.Start-1] == '"', func(value string) (string, error) {
				return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`").Replace(value), nil
			}))
		case line:
			all = append(all, refuse(quoted+"'\"", "special characters, and stands in a comment: leave it out"))
		default:
			all = append(all, refuse(quoted, "special characters, and stands in what a command of the text may read as code: put it into a file, or into a call of its own"))
		}
	})
	return all
}

// bare writes a value outside of quotes as one word.
func bare(starts bool) writer {
	return option(starts, func(value string) (string, error) {
		if value != "" && only(value, unquoted) {
			return value, nil
		}
		return "'" + strings.ReplaceAll(value, "'", `'\''`) + "'", nil
	})
}

// option returns a writer. If starts is true, the value begins a word, and the writer refuses a value with a dash at its beginning, because the
// command would read it as an option. The writer also refuses the character zero, which no shell accepts. It passes other values to write.
func option(starts bool, write writer) writer {
	return func(value string) (string, error) {
		switch {
		case starts && strings.HasPrefix(value, "-"):
			return "", errors.New("a dash at its beginning, which makes it an option of the command")
		case strings.ContainsRune(value, 0):
			return "", errors.New("the character zero, which no shell takes")
		}
		return write(value)
	}
}

package n8n

import (
	"strings"
	"unicode/utf8"

	"mcp-code-exec-harness/internal/startup"
)

// reference is a place in JavaScript code that names a node: $('Name'), $items("Name"), $node["Name"] or $node.Name.
type reference struct {
	start, end int    // range of the name in the code, including its quotes
	name       string // name without escapes
}

var (
	referenceStart = startup.Regexp(`^\$(?:\(|items\s*\(|node\s*(?:\?\.)?\s*\[)\s*`)
	referenceField = startup.Regexp(`^\$node\s*\??\.\s*([\p{L}_$][\p{L}\p{N}_$]*)`)
	referenceName  = startup.Regexp("^(?:'(?:[^'\\\\\n]|\\\\.)*'|\"(?:[^\"\\\\\n]|\\\\.)*\"|`(?:[^`\\\\$]|\\\\.)*`)")
)

// references finds the places in JavaScript code that name a node by a constant. It skips comments and text in quotes, and does not find computed
// names. Its time is linear in the length of the code.
func references(code string) (all []reference) {
	operand := false // whether the preceding text can end an operand, so that a slash is a division
	for i := 0; i < len(code); {
		c := code[i]
		switch {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			i++
		case strings.HasPrefix(code[i:], "//"):
			i = indexFrom(code, i, "\n")
		case strings.HasPrefix(code[i:], "/*"):
			i = indexFrom(code, i+2, "*/")
		case c == '\'' || c == '"':
			i, operand = quoteEnd(code, i), true
		case c == '/' && !operand:
			i, operand = regexEnd(code, i), true
		case isWord(code[i:]):
			end := wordEnd(code, i)
			if r, found := referenceAt(code, i); found && c == '$' {
				all = append(all, r)
				end = r.end
			}
			operand = code[i:end] != "return" && code[i:end] != "typeof" && code[i:end] != "case"
			i = end
		default: // the text of a template literal is read like code, because its substitutions may name nodes
			operand = c == ')' || c == ']' || c == '}' || c == '`'
			i++
		}
	}
	return all
}

// referenceAt reads the reference that begins at a dollar sign.
func referenceAt(code string, i int) (reference, bool) {
	rest := code[i:]
	if field := referenceField().FindStringSubmatchIndex(rest); field != nil {
		return reference{i + field[2], i + field[3], rest[field[2]:field[3]]}, true
	}
	start := referenceStart().FindString(rest)
	if start == "" {
		return reference{}, false
	}
	written := referenceName().FindString(rest[len(start):])
	after := strings.TrimLeft(rest[len(start)+len(written):], " \t\r\n")
	if written == "" || after == "" || !strings.ContainsRune("),]", rune(after[0])) {
		return reference{}, false
	}
	from := i + len(start)
	return reference{from, from + len(written), unquote(written)}, true
}

// renameReferences changes the name of a node in every reference in JavaScript code. from is the old name, and to is the new name.
func renameReferences(code, from, to string) string {
	var b strings.Builder
	last := 0
	for _, r := range references(code) {
		if r.name != from {
			continue
		}
		b.WriteString(code[last:r.start])
		written := code[r.start:r.end]
		switch {
		case written[0] == '\'' || written[0] == '"' || written[0] == '`':
			b.WriteString(quote(to, written[0]))
		case isIdentifier(to):
			b.WriteString(to)
		default: // $node.Name becomes $node["New name"]
			head := strings.TrimRight(b.String(), " \t\r\n")
			head = strings.TrimRight(strings.TrimSuffix(strings.TrimSuffix(head, "."), "?"), " \t\r\n")
			b.Reset()
			b.WriteString(head + "[" + quote(to, '"') + "]")
		}
		last = r.end
	}
	if last == 0 {
		return code
	}
	b.WriteString(code[last:])
	return b.String()
}

func isIdentifier(s string) bool { return s != "" && isWord(s) && wordEnd(s, 0) == len(s) }

func isWord(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return r == '$' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= utf8.RuneSelf
}

func wordEnd(code string, i int) int {
	for i < len(code) && isWord(code[i:]) {
		_, size := utf8.DecodeRuneInString(code[i:])
		i += size
	}
	return i
}

func indexFrom(code string, i int, end string) int {
	if at := strings.Index(code[min(i, len(code)):], end); at >= 0 {
		return i + at + len(end)
	}
	return len(code)
}

// quoteEnd returns the end of a string literal: after its closing quote, or at the end of the line.
func quoteEnd(code string, i int) int {
	for j := i + 1; j < len(code); j++ {
		switch code[j] {
		case '\\':
			j++
		case code[i]:
			return j + 1
		case '\n':
			return j
		}
	}
	return len(code)
}

// regexEnd returns the end of a regular expression, or the position after the slash if the expression does not end in its line.
func regexEnd(code string, i int) int {
	class := false
	for j := i + 1; j < min(len(code), i+maxRegex); j++ {
		switch code[j] {
		case '\\':
			j++
		case '[':
			class = true
		case ']':
			class = false
		case '\n':
			return i + 1
		case '/':
			if !class {
				return j + 1
			}
		}
	}
	return i + 1
}

// maxRegex is the maximum number of bytes that are searched for the end of a regular expression.
const maxRegex = 1000

// unquote returns the value of a JavaScript string literal, as far as names of nodes require.
func unquote(written string) string {
	inner := written[1 : len(written)-1]
	if !strings.Contains(inner, `\`) {
		return inner
	}
	var b strings.Builder
	for i := 0; i < len(inner); i++ {
		if inner[i] == '\\' && i+1 < len(inner) {
			i++
			switch inner[i] {
			case 'n':
				b.WriteByte('\n')
				continue
			case 't':
				b.WriteByte('\t')
				continue
			}
		}
		b.WriteByte(inner[i])
	}
	return b.String()
}

func quote(text string, with byte) string {
	escaped := strings.NewReplacer(`\`, `\\`, string(with), `\`+string(with), "\n", `\n`, "\r", `\r`)
	if with == '`' {
		escaped = strings.NewReplacer(`\`, `\\`, "`", "\\`", "$", `\$`)
	}
	return string(with) + escaped.Replace(text) + string(with)
}

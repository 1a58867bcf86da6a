// Package ident turns the names of tools and servers, which may be any text, into JavaScript identifiers, and folds them
// so that get-sum, get_sum and getSum compare equal.
package ident

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"mcp-code-exec-harness/internal/journal"
)

// Words splits a name at everything that is neither letter nor digit, and at changes of case: "list_HTTPServers2" becomes list, HTTP, Servers2. A
// digit stays with what precedes it.
func Words(name string) []string {
	var words []string
	runes := []rune(name)
	start := 0
	flush := func(end int) {
		if end > start {
			words = append(words, string(runes[start:end]))
		}
		start = end
	}
	for i, r := range runes {
		if !isPart(r) {
			flush(i)
			start = i + 1
			continue
		}
		if i == start {
			continue
		}
		prev := runes[i-1]
		switch {
		case unicode.IsUpper(r) && !unicode.IsUpper(prev):
			flush(i)
		case unicode.IsLower(r) && unicode.IsUpper(prev) && i-1 > start:
			// The last of several capitals begins the next word: HTTPServers.
			flush(i - 1)
		}
	}
	flush(len(runes))
	return words
}

// Camel returns the identifier under which a name is offered as a function: getSum for get-sum, _2fa for 2fa, delete_ for delete, and tool for a name
// without letters and digits. The result is a valid identifier in module code.
func Camel(name string) string {
	id := name
	if !isCamel(name) {
		words := Words(name)
		for i, w := range words {
			w = strings.ToLower(w)
			if i > 0 {
				w = title(w)
			}
			words[i] = w
		}
		id = strings.Join(words, "")
	}
	return valid(id, "tool")
}

// Pascal returns the identifier of a type named after name: GetSum for get-sum.
func Pascal(name string) string {
	words := Words(name)
	for i, w := range words {
		words[i] = title(w)
	}
	return valid(strings.Join(words, ""), "Type")
}

// Fold reduces a name to its letters and digits in lower case, for tolerant comparison.
func Fold(name string) string {
	return strings.Map(func(r rune) rune {
		if !isPart(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, name)
}

// Printable removes the characters of a text that are invisible, or that change how the text around them is shown: control characters, marks of the
// reading direction, tags, invalid UTF-8. Line ends and tabs stay.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r == '\u2028' || r == '\u2029':
			return '\n'
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r), r >= 0xe0000 && r < 0xe0080, r == utf8.RuneError:
			return -1
		}
		return r
	}, text)
}

// OneLine replaces every line end, tab, control character and character of the category Format by "?", because names do not need them.
func OneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) || r == utf8.RuneError {
			return '?'
		}
		return r
	}, text)
}

// IsIdentifier reports whether s can be written as a property name without quotes; only ASCII is accepted.
func IsIdentifier(s string) bool {
	for i, r := range s {
		switch {
		case r == '_', r == '$', 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z':
		case '0' <= r && r <= '9' && i > 0:
		default:
			return false
		}
	}
	return s != ""
}

// Property returns s in the form of a property name in JavaScript and TypeScript.
func Property(s string) string {
	if IsIdentifier(s) {
		return s
	}
	return Quote(s)
}

// Quote returns s as a JSON string, which is also a literal of JavaScript and TypeScript.
func Quote(s string) string {
	text, err := journal.Encode(s)
	if err != nil { // a string always encodes
		panic(err)
	}
	return string(text)
}

func valid(id, empty string) string {
	switch {
	case id == "":
		return empty
	case unicode.IsDigit([]rune(id)[0]):
		return "_" + id
	case isReserved(id):
		return id + "_"
	}
	return id
}

// isCamel reports whether a name is already a camelCase identifier, which is then kept unchanged (listHTTPServers).
func isCamel(name string) bool {
	for i, r := range name {
		if !isPart(r) || i == 0 && !unicode.IsLower(r) {
			return false
		}
	}
	return name != ""
}

// isPart reports whether r can be in a JavaScript identifier as a letter or digit. Marks are excluded, because a name in another normalization form
// would look the same but be another identifier. U+2E2F is the only letter that Unicode excludes from identifiers.
func isPart(r rune) bool {
	return (unicode.IsLetter(r) || unicode.IsDigit(r)) && r != '\u2e2f'
}

func title(w string) string {
	for i, r := range w {
		return string(unicode.ToUpper(r)) + w[i+len(string(r)):]
	}
	return ""
}

// isReserved reports whether an identifier cannot be the name of an export. It is true for keywords of strict mode and modules, for names that
// declarations in strict mode cannot bind, and for names that JavaScript and libraries look up on any object. The guest never treats names of the
// last kind as tools: a namespace with a function named then would be a promise.
func isReserved(id string) bool {
	switch id {
	case "arguments", "await", "break", "case", "catch", "class", "const", "continue", "debugger", "default", "delete",
		"do", "else", "enum", "eval", "export", "extends", "false", "finally", "for", "function", "globalThis", "if",
		"implements", "import", "in", "instanceof", "interface", "let", "new", "null", "package", "private", "protected",
		"public", "return", "static", "super", "switch", "this", "throw", "true", "try", "typeof", "undefined", "var",
		"void", "while", "with", "yield",
		"then", "toJSON", "constructor", "prototype", "toString", "valueOf", "toLocaleString", "hasOwnProperty",
		"isPrototypeOf", "propertyIsEnumerable", "inspect", "nodeType", "asymmetricMatch":
		return true
	case "Promise", "Record":
		// The declarations themselves use these names.
		return true
	case "index":
		// The module of the server itself: ./servers/crm/index.
		return true
	}
	return false
}

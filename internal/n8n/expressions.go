package n8n

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tdewolff/parse/v2"
	"github.com/tdewolff/parse/v2/js"

	"mcp-code-exec-harness/internal/startup"
)

// codeFields are parameters that contain JavaScript.
var codeFields = map[string]bool{"jsCode": true, "functionCode": true}

// textFields are parameters for which n8n has rules of their own: {{ }} is an expression even without = at the beginning, or has another meaning.
var textFields = map[string]bool{"pythonCode": true, "html": true, "query": true, "sqlQuery": true, "content": true, "css": true, "code": true, "notes": true}

var (
	// forgotten matches the beginning of an expression. In a text that does not begin with =, n8n does not evaluate the expression.
	forgotten = startup.Regexp(`\{\{\s*\$(?:json|node|input|items?|binary|now|today|vars|env|execution|workflow|prevNode|itemIndex|runIndex|\()`)
	// unopened matches an expression that lacks its first opening brace.
	unopened = startup.Regexp(`(?:^|[^{])\{\s*\$(?:json|node|input|items?|binary|now|today|vars|\()[^{}]*\}\}`)
)

// chunks returns the expressions {{ }} in a parameter that begins with =. As in n8n, an expression ends at the next }}, even inside a string. open is
// the text of the last expression if its }} is missing.
func chunks(value string) (closed []string, open string) {
	rest := value[1:]
	for {
		_, after, found := strings.Cut(rest, "{{")
		if !found {
			return closed, ""
		}
		inside, behind, ends := strings.Cut(after, "}}")
		if !ends {
			return closed, "{{" + after
		}
		closed = append(closed, inside)
		rest = behind
	}
}

// expressionFault returns what is wrong with a parameter that begins with =, and a remedy; "" if nothing is wrong.
func expressionFault(value string) (message, remedy string) {
	closed, open := chunks(value)
	for _, code := range closed {
		if strings.TrimSpace(code) == "" {
			return "the expression {{ }} is empty", "write what it stands for, such as {{ $json.name }}, or remove it"
		}
		if wrong := syntaxFault(code); wrong != "" {
			return fmt.Sprintf("the expression {{%s}} cannot be evaluated: %s", excerpt(code), wrong), remedyOf(value, code)
		}
	}
	switch {
	case open != "":
		return fmt.Sprintf("the expression %s has no }} at its end", excerpt(open)), "close it with }}"
	case len(closed) == 0 && unopened().MatchString(value):
		return fmt.Sprintf("the expression in %s does not begin with {{", excerpt(value)), "begin it with {{ and end it with }}"
	}
	return "", ""
}

func remedyOf(value, code string) string {
	if strings.Contains(value, code+"}}}") || strings.Count(code, "{") > strings.Count(code, "}") {
		return "correct it; n8n ends an expression at the first }}, so write a space between two braces of JavaScript: } }"
	}
	return "correct it; inside of {{ }} stands one JavaScript expression, such as {{ $json.name }}"
}

// excerpt shortens a text for a message.
func excerpt(s string) string { return plainLine(s, 80) }

// plainLine returns a text as one line of about limit bytes.
func plainLine(s string, limit int) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > limit {
		return strings.ToValidUTF8(s[:limit], "") + "…"
	}
	return s
}

// maxExpression is the maximum size in bytes of an expression that is parsed.
const maxExpression = 64 << 10

// syntaxFault returns what is wrong with the JavaScript of an expression; "" if nothing is wrong, or if the expression is too large to be parsed.
func syntaxFault(code string) string {
	if len(code) > maxExpression {
		return ""
	}
	if strings.TrimSpace(comments().ReplaceAllString(code, "")) == "" {
		return "it holds a comment only"
	}
	ast, wrong := parseJS("function f() { return (" + code + "\n)}") // the function is not async, as in n8n, so await is not a keyword
	if wrong == "" && (ast == nil || len(ast.List) == 1) {
		return ""
	}
	ast, program := parseJS("function f() {" + code + "\n}")
	switch {
	case program != "":
		return cmp.Or(wrong, program)
	case ast == nil || expressionsOnly(ast):
		return ""
	}
	return "it is a statement, not an expression"
}

var comments = startup.Regexp(`(?s)/\*.*?\*/|//[^\n]*`)

// expressionsOnly reports whether a program is one function that contains only expressions; n8n evaluates the first of them.
func expressionsOnly(ast *js.AST) bool {
	if len(ast.List) != 1 {
		return false
	}
	f, is := ast.List[0].(*js.FuncDecl)
	return is && !slices.ContainsFunc(f.Body.List, func(s js.IStmt) bool {
		switch s.(type) {
		case *js.ExprStmt, *js.EmptyStmt, *js.DirectivePrologueStmt:
			return false
		}
		return true
	})
}

// parseJS parses a program. wrong is the error message of the parser. If the parser itself panics, ast is nil and wrong is "".
func parseJS(code string) (ast *js.AST, wrong string) {
	defer func() {
		if recover() != nil { // we do not control the parser, and the text is untrusted
			ast, wrong = nil, ""
		}
	}()
	ast, err := js.Parse(parse.NewInputString(code), js.Options{})
	if err == nil {
		return ast, ""
	}
	wrong, _, _ = strings.Cut(err.Error(), "\n")
	wrong, _, _ = strings.Cut(wrong, " on line ")
	return ast, wrong
}

// place is the path of a value inside another value.
type place struct {
	up  *place // path of the outer value; nil if key is the whole path
	key string
}

func (p *place) String() string {
	var parts []string
	for ; p != nil; p = p.up {
		parts = append(parts, p.key)
	}
	slices.Reverse(parts)
	return strings.Join(parts, "")
}

// eachText calls visit for every text in the parameters of a node. field is the name of the member that contains the text.
func eachText(value any, at *place, field string, visit func(text string, at *place, field string)) {
	switch v := value.(type) {
	case string:
		visit(v, at, field)
	case []any:
		for i, inner := range v {
			eachText(inner, &place{at, fmt.Sprintf("[%d]", i)}, field, visit)
		}
	case object:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			eachText(v[key], &place{at, "." + key}, key, visit)
		}
	}
}

// mapTexts returns a copy of a value. In the copy, each text is replaced by the result that the parameter with returns for it.
func mapTexts(value any, field string, with func(text, field string) string) any {
	switch v := value.(type) {
	case string:
		return with(v, field)
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = mapTexts(inner, field, with)
		}
		return out
	case object:
		out := make(object, len(v))
		for key, inner := range v {
			out[key] = mapTexts(inner, key, with)
		}
		return out
	}
	return value
}

// textReferences returns the names of nodes to which a text in a node refers.
func textReferences(text, field string) (names []string) {
	sources := []string{text}
	if !codeFields[field] {
		if !strings.HasPrefix(text, "=") {
			return nil
		}
		sources, _ = chunks(text)
	}
	for _, code := range sources {
		for _, r := range references(code) {
			names = append(names, r.name)
		}
	}
	return names
}

// renameInText changes the name of a node in every reference in a text. from is the old name, and to is the new name.
func renameInText(text, field, from, to string) string {
	if codeFields[field] {
		return renameReferences(text, from, to)
	}
	if !strings.HasPrefix(text, "=") {
		return text
	}
	var b strings.Builder
	rest := text
	for {
		before, after, found := strings.Cut(rest, "{{")
		inside, behind, ends := strings.Cut(after, "}}")
		if !found || !ends {
			b.WriteString(rest)
			return b.String()
		}
		b.WriteString(before + "{{" + renameReferences(inside, from, to) + "}}")
		rest = behind
	}
}

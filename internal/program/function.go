package program

import (
	"errors"
	"fmt"
	"strings"
)

// AsFunction converts a program to the text of a module whose default export is an async function. The function takes what the program reads as input, and
// returns what the program returns. The result are the forms that the text may have, the likeliest first: only a compiler decides whether a program is an
// expression, so the caller takes the first form that compiles and does what the program does.
func AsFunction(code string) (forms []string, err error) {
	code, wrong := unfence(code)
	if wrong != nil {
		return nil, errors.New(wrong.Message)
	}
	code = strings.TrimPrefix(code, "\ufeff")
	if strings.HasPrefix(code, "#!") {
		_, code, _ = strings.Cut(code, "\n")
	}
	s := tokenize(code)
	var imports, rest strings.Builder
	at := 0
	decls := s.declarations()
	for _, d := range decls {
		if d.kind != importFrom {
			return nil, errors.New("the program exports something; return the result in place of that, and run it again")
		}
		fmt.Fprintln(&imports, strings.TrimSuffix(code[d.start:d.end], ";"))
		rest.WriteString(code[at:d.start])
		at = d.end
	}
	rest.WriteString(code[at:])
	body := strings.TrimRight(rest.String(), " \t\n")
	for line, more, found := cutLine(body); found && strings.TrimSpace(line) == ""; line, more, found = cutLine(body) {
		body = more
	}
	head := imports.String()
	if head != "" {
		head += "\n"
	}
	const opening = "export default async function (input) {\n"
	statements := head + opening + body + "\n}\n"
	if _, ok := s.asExpression(decls); !ok {
		return []string{statements}, nil
	}
	expression := strings.TrimRight(body, "; \t\n")
	return []string{
		head + opening + "return (\n" + expression + "\n)\n}\n",
		head + opening + "return await (\n" + expression + "\n)(input)\n}\n",
		statements,
	}, nil
}

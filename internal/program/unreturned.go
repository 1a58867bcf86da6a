package program

import (
	"slices"
	"strings"
)

// unreturned is what to say of a program that returns nothing although it ends with a value: an expression, or a call of a function of its own.
// It is "" for others.
func (s *scan) unreturned() string {
	if s.problem != nil || s.returns() {
		return ""
	}
	last := len(s.tokens) - 1
	first := s.lastStatement(last)
	for first > 0 && s.isDeclaration(first) { // functions may be declared behind the statements that use them
		last = first - 1
		first = s.lastStatement(last)
	}
	for last > first && s.is(last, ";") {
		last--
	}
	if first < 0 || last < first {
		return ""
	}
	head := first
	if s.is(head, "await") {
		head++
	}
	if name := s.text(head); s.isName(head) && s.is(head+1, "(") && s.declares(name) {
		return advise("await " + s.code[s.tokens[head].start:s.tokens[s.tokens[head+1].match].end])
	}
	switch s.text(first) {
	case "if", "for", "while", "do", "switch", "try", "throw", "return", "break", "continue", "debugger", "function", "class", "async", "const", "let", "var",
		"import", "export", "interface", "type", "enum", "namespace", "module", "declare", "abstract", "with", "await", "using", "delete", "yield", "{", "@":
		return ""
	}
	for i := first; i <= last; i++ { // a call, an assignment or a function may be for its effect
		if t := s.tokens[i]; s.is(i, "(") || s.is(i, "=") && !s.is(i-1, "=") && !s.is(i+1, "=") || s.is(i, "++") || s.is(i, "--") || s.is(i, "=>") ||
			t.kind == template && s.code[t.start] == '`' && i > first && s.tokens[i-1].operand {
			return ""
		}
	}
	return advise(s.code[s.tokens[first].start:s.tokens[last].end])
}

func advise(expression string) string {
	expression = strings.Join(strings.Fields(expression), " ")
	if len(expression) > maxSubject {
		expression = "the last expression"
	}
	return "nothing was returned: write return " + expression
}

// declares reports whether the program has a function or variable of a name.
func (s *scan) declares(name string) bool {
	for i := range s.tokens {
		if s.isName(i) && s.text(i) == name && (s.is(i-1, "function") || s.is(i-1, "const") || s.is(i-1, "let") || s.is(i-1, "var")) {
			return true
		}
	}
	return false
}

// returns reports whether a return statement may stand outside of functions.
func (s *scan) returns() bool { return len(s.outside("return")) > 0 }

// outside are the tokens outside of functions that are one of the given keywords.
func (s *scan) outside(keywords ...string) (found []int) {
	var functions []int // the closing braces of those that are open
	for i := range s.tokens {
		for len(functions) > 0 && i >= functions[len(functions)-1] {
			functions = functions[:len(functions)-1]
		}
		switch {
		case s.is(i, "{") && s.tokens[i].match > i && s.isFunctionBody(i):
			functions = append(functions, s.tokens[i].match)
		case s.isName(i) && len(functions) == 0 && slices.Contains(keywords, s.text(i)) && !s.isMember(i) && !s.is(i+1, ":") &&
			!(s.is(i, "return") && s.isKey(i)):
			found = append(found, i)
		}
	}
	return found
}

// isFunctionBody reports whether a brace opens the body of a function.
func (s *scan) isFunctionBody(i int) bool {
	if s.is(i-1, "=>") {
		return true
	}
	if !s.is(i-1, ")") {
		return false
	}
	before := s.tokens[i-1].match - 1
	return !slices.Contains([]string{"if", "for", "while", "switch", "catch", "with", "await"}, s.text(before)) || s.isMember(before)
}

// endsDeclaration reports whether a token is the end of the body of a function declaration.
func (s *scan) endsDeclaration(i int) bool {
	if !s.is(i, "}") || !s.isFunctionBody(s.tokens[i].match) {
		return false
	}
	head := s.tokens[s.tokens[i].match-1].match - 2 // before the name and the parameters
	if s.is(head, "*") {
		head--
	}
	if !s.is(head, "function") {
		return false
	}
	if s.is(head-1, "async") {
		head--
	}
	return head == 0 || s.is(head-1, ";") || s.is(head-1, "}") || s.tokens[head].newline && s.tokens[head-1].operand
}

// isDeclaration reports whether a statement that begins with a token declares a function.
func (s *scan) isDeclaration(first int) bool {
	return s.is(first, "function") || s.is(first, "async") && s.is(first+1, "function")
}

// lastStatement is the first token of the last statement at the top level that ends with the token last or before it, as far as line breaks and
// semicolons tell; -1 if there is none.
func (s *scan) lastStatement(last int) int {
	for last >= 0 && s.is(last, ";") {
		last--
	}
	for i := last; i >= 0; i-- {
		t := s.tokens[i]
		if t.depth > 0 {
			continue
		}
		if i == 0 || s.is(i-1, ";") || s.endsDeclaration(i-1) {
			return i
		}
		begins := t.kind != punct || s.is(i, "{")
		if t.newline && s.tokens[i-1].depth == 0 && s.tokens[i-1].operand && begins && !s.is(i, "in") && !s.is(i, "instanceof") && !s.is(i, "as") {
			return i
		}
	}
	return -1
}

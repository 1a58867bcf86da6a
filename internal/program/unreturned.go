package program

import (
	"slices"
	"strings"
)

// unreturned returns advice for a program that returns nothing although it ends with a value: an expression that is likely meant for its
// value, a call of one of its own functions, or an export. It returns "" for other programs.
func (s *scan) unreturned() string {
	returns := s.outside("return")
	if s.problem != nil || slices.ContainsFunc(returns, s.isBare) {
		return ""
	}
	advice := s.unreturnedIn(0, len(s.tokens)-1)
	if advice == "" && len(returns) == 0 {
		advice = s.unreturnedExport()
	}
	return advice
}

// maxBlocks is the maximum number of blocks around the last expression of a program. Deeper expressions get no advice.
const maxBlocks = 3

// unreturnedIn does what unreturned does, for the statements between two tokens of the same depth.
func (s *scan) unreturnedIn(from, last int) string {
	first := s.lastStatement(from, last)
	for first > from && s.isDeclaration(first) { // functions may be declared after the statements that use them
		last = first - 1
		first = s.lastStatement(from, last)
	}
	for last > first && s.is(last, ";") {
		last--
	}
	if first < from || last < first {
		return ""
	}
	if name := s.ownCall(first, last); name >= 0 {
		return advise("await " + s.code[s.tokens[name].start:s.tokens[s.tokens[name+1].match].end])
	}
	switch s.text(first) {
	case "try", "if":
		if s.tokens[first].depth == maxBlocks {
			return ""
		}
		open := first + 1
		if s.is(first, "if") {
			open = s.tokens[open].match + 1
		}
		if !s.is(open, "{") || s.tokens[open].match < open {
			return ""
		}
		if advice := s.unreturnedIn(open+1, s.tokens[open].match-1); advice != "" {
			return advice
		}
		if after := s.tokens[open].match + 1; s.is(first, "if") && s.is(after, "else") && s.is(after+1, "{") {
			return s.unreturnedIn(after+2, s.tokens[after+1].match-1)
		}
		return ""
	case "{":
		if s.tokens[first].match == last && s.isShorthand(first+1, last-1) {
			return advise(s.code[s.tokens[first].start:s.tokens[last].end])
		}
		return ""
	case "for", "while", "do", "switch", "throw", "return", "break", "continue", "debugger", "function", "class", "async", "const", "let", "var",
		"import", "export", "interface", "type", "enum", "namespace", "module", "declare", "abstract", "with", "using", "@":
		return ""
	}
	if !s.isForValue(first, last) {
		return ""
	}
	return advise(s.code[s.tokens[first].start:s.tokens[last].end])
}

// ownCall returns the token of the function's name if a statement only calls a function of the program and possibly awaits it. It returns
// -1 for other statements.
func (s *scan) ownCall(first, last int) int {
	if s.is(first, "await") {
		first++
	}
	if name := s.text(first); !s.isName(first) || !s.is(first+1, "(") || !s.declares(name) {
		return -1
	}
	end := s.tokens[first+1].match
	if end != last && !s.isSettled(end+2) {
		return -1
	}
	return first
}

// isSettled reports whether a token is the name of a method of promises.
func (s *scan) isSettled(i int) bool {
	return s.isMember(i) && (s.is(i, "then") || s.is(i, "catch") || s.is(i, "finally"))
}

// isShorthand reports whether tokens list only names separated by commas, as in an object literal whose braces would be parsed as a block.
func (s *scan) isShorthand(first, last int) bool {
	for i := first; i <= last; i++ {
		if !s.is(i, ",") && !s.isName(i) || s.is(i, ",") == s.is(i-1, ",") && i > first {
			return false
		}
	}
	return first <= last
}

// unreturnedExport returns advice for a program whose export may be meant as its result.
func (s *scan) unreturnedExport() string {
	for i := len(s.tokens) - 1; i >= 0; i-- {
		if t := s.tokens[i]; t.depth > 0 || !s.is(i, "export") {
			continue
		}
		i++
		call := ""
		for slices.Contains(declaring, s.text(i)) {
			if s.is(i, "function") {
				call = "()"
			}
			i++
		}
		switch {
		case s.is(i-1, "export"), s.is(i-1, "class"), s.is(i-1, "enum"), !s.isName(i):
			return ""
		case call != "":
			return "exports of a program are not its result: write return await " + s.text(i) + call
		}
		return "exports of a program are not its result: write return " + s.text(i)
	}
	return ""
}

func advise(expression string) string {
	expression = strings.Join(strings.Fields(expression), " ")
	if len(expression) > maxSubject {
		expression = "before the last expression"
	}
	return "nothing was returned: write return " + expression
}

// declares reports whether the program declares a function or variable with this name.
func (s *scan) declares(name string) bool {
	for i := range s.tokens {
		if s.isName(i) && s.text(i) == name && (s.is(i-1, "function") || s.is(i-1, "const") || s.is(i-1, "let") || s.is(i-1, "var")) {
			return true
		}
	}
	return false
}

// isBare reports whether a return statement has no value. The program may then mean to return nothing.
func (s *scan) isBare(i int) bool {
	return i+1 == len(s.tokens) || s.tokens[i+1].newline || s.is(i+1, ";") || s.is(i+1, "}")
}

// outside returns the tokens that are one of the keywords and that are not inside a function.
func (s *scan) outside(keywords ...string) (found []int) {
	var functions []int // closing braces of the enclosing functions
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

// endsDeclaration reports whether a token ends the body of a function declaration.
func (s *scan) endsDeclaration(i int) bool {
	if !s.is(i, "}") || !s.isFunctionBody(s.tokens[i].match) {
		return false
	}
	head := s.tokens[s.tokens[i].match-1].match - 2 // token before the name and the parameters
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

// isDeclaration reports whether the statement that begins with a token declares a function.
func (s *scan) isDeclaration(first int) bool {
	return s.is(first, "function") || s.is(first, "async") && s.is(first+1, "function")
}

// endsBlock reports whether a token ends the block of a statement, and no other part of that statement follows.
func (s *scan) endsBlock(i int) bool {
	if !s.is(i, "}") || s.is(i+1, "else") || s.is(i+1, "catch") || s.is(i+1, "finally") {
		return false
	}
	before := s.tokens[i].match - 1
	if s.is(before, ")") {
		head := s.tokens[before].match - 1
		if s.is(head, "await") {
			head--
		}
		return !s.isMember(head) && slices.Contains([]string{"if", "for", "while", "switch", "catch", "with"}, s.text(head))
	}
	return s.is(before, "else") || s.is(before, "try") || s.is(before, "finally") || s.is(before, "catch")
}

// lastStatement returns the first token of the last statement between the tokens from and last in the same brackets. Line breaks and
// semicolons separate statements. It returns -1 if it finds none.
func (s *scan) lastStatement(from, last int) int {
	for last >= from && s.is(last, ";") {
		last--
	}
	for i := last; i >= from; i-- {
		t := s.tokens[i]
		if t.depth > s.tokens[from].depth {
			continue
		}
		if i == from || s.is(i-1, ";") || s.endsDeclaration(i-1) || s.endsBlock(i-1) {
			return i
		}
		begins := t.kind != punct || s.is(i, "{")
		if t.newline && s.tokens[i-1].depth == t.depth && s.tokens[i-1].operand && begins && !s.is(i, "in") && !s.is(i, "instanceof") && !s.is(i, "as") &&
			!s.is(i, "else") && !s.is(i, "catch") && !s.is(i, "finally") {
			return i
		}
	}
	return -1
}

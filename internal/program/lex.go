package program

import (
	"slices"
	"strings"
	"unicode/utf8"
)

type tokenKind uint8

const (
	punct tokenKind = iota
	word            // identifier, keyword or private name
	number
	str      // '...' or "..."
	template // a whole template literal, or one of its parts between substitutions
	regex
)

// token is one lexical token; its text is code[start:end].
type token struct {
	start, end int
	kind       tokenKind
	newline    bool // reports whether a line break stands before the token
	operand    bool // reports whether the token can end an operand, so that a slash after it divides
	depth      int  // number of brackets and template substitutions around the token
	match      int  // index of a bracket's partner
}

// problem is an unterminated bracket, template, string or comment, or a closing bracket without a partner.
type problem struct {
	pos      int
	message  string
	unclosed bool // the end of the code leaves it open
}

// scan is code cut into tokens.
type scan struct {
	code    string
	tokens  []token
	problem *problem // the first problem, or nil
	guess   int      // position of a slash that may be misread; 0 if there is none
}

// explain returns the position and the message with which to report an error of the parser. It returns those of the scan's problem
// if the parser failed at the end of the code, or if it failed after the problem and the problem is not unclosed. Otherwise it
// returns offset and message, which are those of the parser.
func (s *scan) explain(offset, end int, message string) (int, string) {
	if p := s.problem; p != nil && (offset >= end || !p.unclosed && p.pos <= offset) {
		return p.pos, p.message
	}
	return offset, message
}

func (s *scan) text(i int) string {
	if i < 0 || i >= len(s.tokens) {
		return ""
	}
	return s.code[s.tokens[i].start:s.tokens[i].end]
}

// is reports whether token i is the given word or punctuation mark.
func (s *scan) is(i int, text string) bool {
	return i >= 0 && i < len(s.tokens) && s.tokens[i].kind <= word && s.text(i) == text
}

func (s *scan) isKind(i int, k tokenKind) bool {
	return i >= 0 && i < len(s.tokens) && s.tokens[i].kind == k
}

// isMember reports whether token i names a member of what stands before it.
func (s *scan) isMember(i int) bool { return s.is(i-1, ".") || s.is(i-1, "?.") }

// nest is an open bracket or template substitution.
type nest struct {
	open  byte // the opening bracket; a backtick for a substitution
	token int
	pos   int
	head  bool // reports whether it is the parenthesis of if, for, while or with
}

// lexer cuts JavaScript and TypeScript (no JSX) into tokens without parsing it. The token before a slash decides whether the
// slash divides or begins a regular expression, except after a closing brace, where the surroundings decide (see regexBegins).
type lexer struct {
	scan
	pos         int
	nests       []nest
	lostRegexes int // slashes that begin no regular expression because no second slash follows in their line
}

// maxLostRegexes bounds the number of futile searches for the end of a regular expression.
const maxLostRegexes = 20

// tokenize cuts code into tokens. It never fails: problem records what it cannot read, and the parser reports it. Its time is
// linear in the length of the code.
func tokenize(code string) *scan {
	l := &lexer{scan: scan{code: code, tokens: make([]token, 0, min(len(code)/4+8, firstTokens))}}
	for l.next() {
	}
	if len(l.nests) > 0 {
		n := l.nests[len(l.nests)-1]
		open := string(n.open)
		if n.open == '`' {
			open = "${"
		}
		l.fail(n.pos, `"`+open+`" is never closed`, true)
	}
	return &l.scan
}

func (l *lexer) fail(pos int, message string, unclosed bool) {
	if l.problem == nil {
		l.problem = &problem{pos: pos, message: message, unclosed: unclosed}
	}
}

// next reads one token. It returns false at the end of the code.
func (l *lexer) next() bool {
	newline := l.trivia()
	if l.pos >= len(l.code) {
		return false
	}
	t := token{start: l.pos, newline: newline, depth: len(l.nests)}
	c := l.code[l.pos]
	switch {
	case isWordStart(l.code, l.pos):
		l.pos = wordEnd(l.code, l.pos)
		l.emit(t, word, l.isMember(len(l.tokens)) || l.isOperand(l.code[t.start:l.pos]))
	case isDigit(c) || c == '.' && l.pos+1 < len(l.code) && isDigit(l.code[l.pos+1]):
		l.pos = numberEnd(l.code, l.pos)
		l.emit(t, number, true)
	case c == '"' || c == '\'':
		l.pos = l.stringEnd(l.pos)
		l.emit(t, str, true)
	case c == '`':
		l.readTemplate(t)
	case c == '}' && l.top().open == '`':
		l.nests = l.nests[:len(l.nests)-1]
		t.depth--
		l.readTemplate(t)
	case c == '/' && l.regexBegins(newline):
		l.pos = regexEnd(l.code, l.pos)
		l.emit(t, regex, true)
	default:
		l.readPunct(t)
	}
	return true
}

// firstTokens is the maximum initial capacity for tokens. The size of the code does not tell their number: some megabytes may
// be one string, or only brackets.
const firstTokens = 4096

// emit appends a token that ends at the current position.
func (l *lexer) emit(t token, kind tokenKind, operand bool) {
	t.kind, t.end, t.operand = kind, l.pos, operand
	if n := len(l.tokens); n == cap(l.tokens) && n >= firstTokens {
		l.tokens = slices.Grow(l.tokens, n/8+int(float64(n)*float64(len(l.code)-l.pos)/float64(l.pos+1))) // assumes that the rest has the same density
	}
	l.tokens = append(l.tokens, t)
}

// afterOperand reports whether the last token can end an operand.
func (l *lexer) afterOperand() bool { return len(l.tokens) > 0 && l.tokens[len(l.tokens)-1].operand }

// top returns the innermost open bracket.
func (l *lexer) top() nest {
	if len(l.nests) == 0 {
		return nest{}
	}
	return l.nests[len(l.nests)-1]
}

// isOperand reports whether a word can end an operand. A keyword before an expression or a statement cannot.
func (l *lexer) isOperand(text string) bool {
	switch text {
	case "if", "while", "for", "with", "case", "default", "do", "else", "break", "continue", "return", "throw", "typeof",
		"instanceof", "in", "new", "delete", "void", "yield", "await", "extends":
		return false
	case "of":
		return !l.top().head || !l.afterOperand()
	}
	return true
}

// regexBegins reports whether the slash at the current position begins a regular expression. A closing brace ends a
// block or an operand. After a brace, the slash divides if it is on the same line and a space follows it.
func (l *lexer) regexBegins(newline bool) bool {
	last := len(l.tokens) - 1
	begins := !l.afterOperand()
	switch {
	case l.is(last, "}"):
		if l.guess == 0 {
			l.guess = l.pos
		}
		begins = newline || !strings.HasPrefix(l.code[l.pos:], "/ ")
	case newline && l.isKind(last, str) && len(l.nests) == 0: // the string may end an import or export declaration
		begins = begins || l.is(last-1, "from") || l.is(last-1, "import")
	}
	if !begins {
		return false
	}
	if l.lostRegexes < maxLostRegexes && regexEnd(l.code, l.pos) > 0 {
		return true
	}
	l.lostRegexes++
	return false
}

// opensHead reports whether a parenthesis after the last token belongs to if, for, while or with.
func (l *lexer) opensHead() bool {
	i := len(l.tokens) - 1
	if l.is(i, "await") { // for await (
		i--
	}
	return !l.isMember(i) && (l.is(i, "if") || l.is(i, "for") || l.is(i, "while") || l.is(i, "with"))
}

// readTemplate reads a template literal from a backtick or from the brace that ends a substitution.
func (l *lexer) readTemplate(t token) {
	for l.pos++; l.pos < len(l.code); l.pos++ {
		switch l.code[l.pos] {
		case '\\':
			l.pos++
		case '`':
			l.pos++
			l.emit(t, template, true)
			return
		case '$':
			if strings.HasPrefix(l.code[l.pos:], "${") {
				l.pos += 2
				l.emit(t, template, false)
				l.nests = append(l.nests, nest{open: '`', pos: l.pos - 2})
				return
			}
		}
	}
	l.pos = min(l.pos, len(l.code))
	l.fail(t.start, "template literal is never closed", true)
	l.emit(t, template, true)
}

func (l *lexer) readPunct(t token) {
	rest := l.code[l.pos:]
	operand := false
	switch c := rest[0]; c {
	case '{', '(', '[':
		l.nests = append(l.nests, nest{open: c, token: len(l.tokens), pos: l.pos, head: c == '(' && l.opensHead()})
		l.pos++
	case ')', ']', '}':
		l.pos++
		operand = l.close(&t, c)
	case '!': // after an operand on the same line this is TypeScript's non-null assertion
		l.pos++
		operand = l.afterOperand() && !t.newline && !strings.HasPrefix(rest, "!=")
	default:
		postfix := strings.HasPrefix(rest, "++") || strings.HasPrefix(rest, "--")
		operand = postfix && l.afterOperand() && !t.newline
		switch {
		case strings.HasPrefix(rest, "..."):
			l.pos += 3
		case postfix, strings.HasPrefix(rest, "=>"), strings.HasPrefix(rest, "?.") && (len(rest) < 3 || !isDigit(rest[2])):
			l.pos += 2
		default:
			_, size := utf8.DecodeRuneInString(rest)
			l.pos += size
		}
	}
	l.emit(t, punct, operand)
}

// close ends the innermost bracket with the token t and reports whether t ends an operand.
func (l *lexer) close(t *token, c byte) bool {
	top := l.top()
	if "([{"[strings.IndexByte(")]}", c)] != top.open {
		message := `unexpected "` + string(c) + `"`
		if len(l.nests) > 0 {
			message += `: "` + string(top.open) + `" is still open`
		}
		l.fail(t.start, message, false)
		return true
	}
	l.nests = l.nests[:len(l.nests)-1]
	t.depth--
	t.match, l.tokens[top.token].match = top.token, len(l.tokens)
	return !top.head
}

// trivia skips spaces and comments and reports whether they contain a line break.
func (l *lexer) trivia() (newline bool) {
	if l.pos == 0 {
		l.pos = len(l.code) - len(strings.TrimPrefix(l.code, "\ufeff"))
		if strings.HasPrefix(l.code[l.pos:], "#!") {
			l.pos = lineEnd(l.code, l.pos)
		}
	}
	for l.pos < len(l.code) {
		c := l.code[l.pos]
		switch {
		case c == '\n' || c == '\r':
			newline = true
			l.pos++
		case c == ' ' || c == '\t' || c == '\v' || c == '\f':
			l.pos++
		case c == '/' && strings.HasPrefix(l.code[l.pos:], "//"):
			l.pos = lineEnd(l.code, l.pos)
		case c == '/' && strings.HasPrefix(l.code[l.pos:], "/*"):
			i := strings.Index(l.code[l.pos+2:], "*/")
			if i < 0 {
				l.fail(l.pos, "comment is never closed", true)
				l.pos = len(l.code)
				return newline
			}
			comment := l.code[l.pos : l.pos+2+i]
			newline = newline || strings.ContainsAny(comment, "\n\r\u2028\u2029")
			l.pos += i + 4
		case c >= utf8.RuneSelf:
			r, size := utf8.DecodeRuneInString(l.code[l.pos:])
			if !isSpace(r) {
				return newline
			}
			newline = newline || r == '\u2028' || r == '\u2029'
			l.pos += size
		default:
			return newline
		}
	}
	return newline
}

func (l *lexer) stringEnd(i int) int {
	quote := l.code[i]
	for j := i + 1; j < len(l.code); j++ {
		switch l.code[j] {
		case quote:
			return j + 1
		case '\\':
			j++
			if strings.HasPrefix(l.code[j:], "\r\n") {
				j++
			}
		case '\n', '\r':
			l.fail(i, "string literal is never closed", false)
			return j
		}
	}
	l.fail(i, "string literal is never closed", false)
	return len(l.code)
}

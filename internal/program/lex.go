package program

import (
	"strings"
	"unicode/utf8"
)

// tokenKind says what a token is.
type tokenKind uint8

const (
	punct    tokenKind = iota
	word               // identifier, keyword or private name
	number             //
	str                // '...' or "..."
	template           // a whole template literal, or one of its parts between substitutions
	regex              //
)

// Where a token stands among statements.
const (
	notStart  uint8 = iota
	listStart       // it begins a statement of a statement list
	subStart        // it begins the statement after if (...), else, do or a label
)

// token is one lexical token; its text is code[start:end].
type token struct {
	start, end int
	kind       tokenKind
	newline    bool  // a line break stands before it
	starts     uint8 // notStart, listStart, subStart
	member     bool  // a word that names a property or a member
	depth      int   // brackets and template substitutions around it
}

// problem is a bracket, template, string or comment that does not end, or a bracket that nothing opened.
type problem struct {
	pos      int
	message  string
	unclosed bool // it would end only behind the end of the code
}

// scan is code cut into tokens.
type scan struct {
	code    string
	tokens  []token
	problem *problem // the first one
}

func (s *scan) text(i int) string {
	if i < 0 || i >= len(s.tokens) {
		return ""
	}
	return s.code[s.tokens[i].start:s.tokens[i].end]
}

// is reports whether token i is the given word or punctuation mark.
func (s *scan) is(i int, text string) bool {
	if i < 0 || i >= len(s.tokens) {
		return false
	}
	t := s.tokens[i]
	return (t.kind == punct || t.kind == word) && s.code[t.start:t.end] == text
}

func (s *scan) isKind(i int, k tokenKind) bool {
	return i >= 0 && i < len(s.tokens) && s.tokens[i].kind == k
}

// lexer cuts JavaScript and TypeScript (no JSX) into tokens without parsing it. Whether `/` divides or begins a
// regular expression, and whether `{` opens a block or an object, follows from the token before and the enclosing
// brackets; that is exact for JavaScript up to a few shapes nobody writes (`class {} / 2` behind a decorator).
type lexer struct {
	scan
	pos         int
	nests       []nest
	prevOperand bool  // the last token ended an operand
	prevStarts  uint8 // the last token's starts
	head        bool  // the last token was if, for, while or with
	tail        bool  // and it was the while of do
	lostRegexes int   // slashes that would begin a regular expression, were there a second one in their line
}

// maxLostRegexes bounds how often a line is searched in vain for the end of a regular expression.
const maxLostRegexes = 20

// tokenize cuts code into tokens. It never fails: what cannot be read is left to the real parser, and noted in problem.
// It takes time in proportion to the code, whatever that is.
func tokenize(code string) *scan { return (&lexer{}).read(code) }

func (l *lexer) read(code string) *scan {
	l.code, l.tokens = code, make([]token, 0, len(code)/4+8)
	l.nests = append(make([]nest, 0, 16), nest{kind: inBlock, starts: listStart})
	for l.next() {
	}
	if len(l.nests) > 1 {
		n := l.nests[len(l.nests)-1]
		open := string(n.open)
		if n.kind == inSubst {
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

// next reads one token; false at the end.
func (l *lexer) next() bool {
	newline := l.trivia()
	if l.pos >= len(l.code) {
		return false
	}
	n := &l.nests[len(l.nests)-1]
	t := token{start: l.pos, newline: newline, depth: len(l.nests) - 1, starts: n.starts}
	n.starts = notStart
	if t.starts != notStart {
		n.ternary = 0
	}
	c := l.code[l.pos]
	switch {
	case isWordStart(l.code, l.pos):
		l.readWord(t, n)
	case isDigit(c) || c == '.' && l.pos+1 < len(l.code) && isDigit(l.code[l.pos+1]):
		l.pos = numberEnd(l.code, l.pos)
		l.literal(t, number)
	case c == '"' || c == '\'':
		l.pos = l.stringEnd(l.pos)
		l.literal(t, str)
	case c == '`':
		l.readTemplate(t)
	case c == '}' && n.kind == inSubst:
		l.nests = l.nests[:len(l.nests)-1]
		t.depth--
		l.readTemplate(t)
	case c == '/' && (!l.prevOperand || newline && l.afterSpecifier()):
		l.readSlash(t, n)
	default:
		l.readPunct(t, n)
	}
	return true
}

// readSlash reads a regular expression, or a slash alone if its line has no end of one.
func (l *lexer) readSlash(t token, n *nest) {
	end := 0
	if l.lostRegexes < maxLostRegexes {
		end = regexEnd(l.code, l.pos)
	}
	if end == 0 {
		l.lostRegexes++
		l.readPunct(t, n)
		return
	}
	l.pos = end
	l.literal(t, regex)
}

// afterSpecifier reports whether the last token is the string that ends an import or export declaration.
func (l *lexer) afterSpecifier() bool {
	last := len(l.tokens) - 1
	return l.isKind(last, str) && len(l.nests) == 1 && (l.is(last-1, "from") || l.is(last-1, "import"))
}

// emit ends a token at the current position.
func (l *lexer) emit(t token, kind tokenKind, operand bool) {
	t.kind, t.end = kind, l.pos
	l.prevOperand, l.prevStarts, l.head = operand, t.starts, false
	l.tokens = append(l.tokens, t)
}

func (l *lexer) literal(t token, kind tokenKind) {
	if t.newline && l.prevOperand && l.nests[len(l.nests)-1].kind == inBlock {
		t.starts = max(t.starts, listStart)
	}
	l.emit(t, kind, true)
}

// prev is the text of the last token if it is a punctuation mark or a word.
func (l *lexer) prev() string {
	i := len(l.tokens) - 1
	if i < 0 || l.tokens[i].kind > word {
		return ""
	}
	return l.text(i)
}

// readWord reads an identifier or keyword and notes what it announces.
func (l *lexer) readWord(t token, n *nest) {
	l.pos = wordEnd(l.code, l.pos)
	text := l.code[t.start:l.pos]
	prev, head := l.prev(), l.head
	if prev == "." || prev == "?." || text[0] == '#' || l.isKey(n, prev, text, t.newline) {
		t.member = true
		l.emit(t, word, true)
		return
	}
	if n.kind == inBlock && t.starts == notStart && (t.newline && l.asi(prev, text) || n.decorated && text == "export") {
		t.starts, n.ternary = listStart, 0
	}
	if t.starts != notStart {
		n.alias = false
	}
	operand := true
	following := notStart
	switch text {
	case "function":
		n.fn, n.params, operand = pending(t.starts), false, false
	case "class":
		n.class, operand = pending(t.starts), false
		if n.decorated {
			n.class, n.decorated = declaration, false
		}
	case "if", "while", "for", "with":
		l.emit(t, word, false)
		l.head = true
		if l.tail = text == "while" && n.loops > 0 && (prev == "}" || prev == ";" || t.newline); l.tail {
			n.loops--
		}
		return
	case "case", "default":
		n.label = n.kind == inBlock && prev != "export"
		operand = false
		if prev == "export" {
			following = t.starts
		}
	case "do":
		n.loops++
		following, operand = subStart, false
	case "else":
		following, operand = subStart, false
	case "debugger", "break", "continue", "try", "finally", "return", "throw", "typeof", "instanceof", "in", "new",
		"delete", "void", "yield", "extends":
		operand = false
	case "await":
		l.emit(t, word, false)
		l.head = head // for await (
		return
	case "of":
		operand = n.kind != inHead || !l.prevOperand
	case "async", "export", "declare", "abstract":
		following = t.starts // a declaration may follow
	case "type":
		n.alias = t.starts != notStart && l.sameLineWord()
	}
	n.starts = following
	l.emit(t, word, operand)
}

func pending(starts uint8) uint8 {
	if starts != notStart {
		return declaration
	}
	return expression
}

// asi reports whether a word on a new line begins a statement although no semicolon was written.
func (l *lexer) asi(prev, text string) bool {
	if l.prevOperand {
		switch text {
		case "in", "instanceof", "of", "as", "satisfies":
			return false
		}
		return true
	}
	if endsLine(prev) {
		return true
	}
	if prev != ">" { // the end of type arguments ends no operand in the eyes of this lexer
		return false
	}
	switch text {
	case "function", "class", "const", "let", "var", "if", "for", "while", "switch", "try", "return", "throw", "export",
		"import", "interface", "type", "enum", "async":
		return true
	}
	return false
}

// endsLine reports whether a statement ends with its line behind this word.
func endsLine(word string) bool {
	return word == "debugger" || word == "break" || word == "continue" || word == "return"
}

// isKey reports whether a word in an object or class is a member's name, whatever keyword it looks like.
func (l *lexer) isKey(n *nest, prev, text string, newline bool) bool {
	if n.kind != inObject && n.kind != inClass {
		return false
	}
	if len(l.tokens) > 0 && l.tokens[len(l.tokens)-1].start == n.pos {
		return true
	}
	switch prev {
	case ",", ";", "}", "*":
		return true
	case "static", "async", "get", "set", "public", "private", "protected", "readonly", "abstract", "override", "declare",
		"accessor":
		return text != "function" && text != "class"
	}
	return n.kind == inClass && newline && l.prevOperand
}

// sameLineWord reports whether a word follows on the same line.
func (l *lexer) sameLineWord() bool {
	i := l.pos
	for i < len(l.code) && (l.code[i] == ' ' || l.code[i] == '\t') {
		i++
	}
	return i < len(l.code) && isWordStart(l.code, i)
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
				l.nests = append(l.nests, nest{kind: inSubst, open: '`', pos: l.pos - 2})
				return
			}
		}
	}
	l.pos = min(l.pos, len(l.code))
	l.fail(t.start, "template literal is never closed", true)
	l.emit(t, template, true)
}

// readPunct reads a punctuation mark and keeps the nesting.
func (l *lexer) readPunct(t token, n *nest) {
	c := l.code[l.pos]
	rest := l.code[l.pos:]
	prev := l.prev()
	switch c {
	case '{':
		if t.newline && (l.prevOperand || endsLine(prev)) && n.kind == inBlock && n.fn == none && n.class == none && prev != ")" {
			t.starts = max(t.starts, listStart)
		}
		kind, operand := l.brace(t, n, prev)
		l.push(t, nest{kind: kind, operand: operand})
	case '(':
		kind := inParens
		if l.head {
			kind = inHead
		}
		l.push(t, nest{kind: kind, operand: kind == inParens, tail: l.head && l.tail})
	case '[':
		l.push(t, nest{kind: inBrackets, operand: true})
	case ')', ']', '}':
		l.close(t, c)
	case ';':
		l.pos++
		l.emit(t, punct, false)
		n.fn, n.class, n.label, n.alias, n.decorated = none, none, false, false, false
		n.expect(listStart)
	case ':':
		l.pos++
		l.colon(n, prev)
		l.emit(t, punct, false)
	case '?':
		l.pos++
		switch {
		case strings.HasPrefix(rest, "?.") && (len(rest) < 3 || !isDigit(rest[2])), strings.HasPrefix(rest, "??"):
			l.pos++
		default:
			n.ternary++
		}
		l.emit(t, punct, false)
	case '@':
		if t.newline && (l.prevOperand || endsLine(prev)) && n.kind == inBlock {
			t.starts = max(t.starts, listStart)
		}
		n.decorated = n.decorated || t.starts != notStart
		l.pos++
		n.starts = t.starts
		l.emit(t, punct, false)
	case '!':
		// After an operand on the same line it is TypeScript's "not null".
		l.pos++
		l.emit(t, punct, l.prevOperand && !t.newline && !strings.HasPrefix(rest, "!="))
	default:
		postfix := strings.HasPrefix(rest, "++") || strings.HasPrefix(rest, "--")
		switch {
		case strings.HasPrefix(rest, "..."):
			l.pos += 3
		case postfix || strings.HasPrefix(rest, "=>"):
			l.pos += 2
		default:
			_, size := utf8.DecodeRuneInString(rest)
			l.pos += size
		}
		l.emit(t, punct, postfix && l.prevOperand && !t.newline)
	}
}

func (l *lexer) push(t token, n nest) {
	n.open, n.pos = l.code[l.pos], l.pos
	if n.kind == inBlock {
		n.starts = listStart
	}
	l.pos++
	l.emit(t, punct, false)
	l.nests = append(l.nests, n)
}

// expect notes that the next token begins a statement, if statements stand here.
func (n *nest) expect(starts uint8) {
	if n.kind == inBlock {
		n.starts = starts
	}
}

// trivia skips spaces and comments and reports whether they hold a line break.
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

package program

// nestKind says what a bracket encloses. It decides what `{`, `:` and `/` mean inside and after it.
type nestKind uint8

const (
	inBlock    nestKind = iota // statements
	inObject                   // an object literal, pattern or type literal
	inClass                    // members
	inParens                   // ( ) of an expression or of parameters
	inHead                     // ( ) of if, for, while, with: a statement follows
	inBrackets                 // [ ]
	inSubst                    // ${ }
)

// Pending declarations: a function or class keyword was read, its body was not.
const (
	none uint8 = iota
	declaration
	expression
)

// nest is one open bracket (the lowest is the program itself) and the state of what is being read directly in it.
type nest struct {
	kind    nestKind
	open    byte
	pos     int
	operand bool // when it closes, an operand has ended: a `/` divides
	tail    bool // the condition at the end of do

	starts    uint8 // the next token begins a statement
	fn, class uint8 // pending bodies
	params    bool  // the pending function's parameters are over
	ternary   int   // `?` without their `:`
	loops     int   // do without their while
	label     bool  // between case or default and its `:`
	alias     bool  // in a type alias
	decorated bool  // after a decorator, before its class
}

// colon decides whether a colon ends a label or a case.
func (l *lexer) colon(n *nest, prev string) {
	switch {
	case n.ternary > 0:
		n.ternary--
	case n.kind != inBlock:
	case n.label:
		n.label = false
		n.starts = listStart
	case prev != "" && l.prevStarts != notStart && l.isKind(len(l.tokens)-1, word):
		n.starts = subStart
	}
}

// brace decides what a `{` opens, and whether its end ends an operand.
func (l *lexer) brace(t token, n *nest, prev string) (kind nestKind, operand bool) {
	last := len(l.tokens) - 1
	afterWord := l.isKind(last, word)
	afterString := l.isKind(last, str)
	closed := prev == ")" || prev == ">" || prev == "]" || prev == "}" || afterString ||
		afterWord && (l.tokens[last].member || !wantsOperand(prev))
	switch {
	case n.class != none && (closed || prev == "class"):
		operand = n.class == expression
		n.class = none
		return inClass, operand
	case n.fn != none && n.params && closed:
		operand = n.fn == expression
		n.fn, n.params = none, false
		return inBlock, operand
	case prev == "=>":
		return inBlock, false
	case n.alias && !closed:
		return inObject, false
	}
	switch n.kind {
	case inBlock:
		if t.starts != notStart || closed || prev == "try" || prev == "finally" {
			return inBlock, false
		}
	case inClass:
		if closed || prev == "{" || prev == ";" || prev == "static" {
			return inBlock, false
		}
	case inObject:
		if closed {
			return inBlock, false
		}
	default:
		if prev == ")" {
			return inBlock, false
		}
	}
	return inObject, true
}

// wantsOperand reports whether a word is one after which an expression or a type must come.
func wantsOperand(text string) bool {
	switch text {
	case "return", "throw", "typeof", "instanceof", "in", "new", "delete", "yield", "await", "extends", "case",
		"default", "of", "as", "satisfies", "keyof", "infer", "is", "class", "function", "else", "do", "try", "finally":
		return true
	}
	return false
}

// close ends the innermost bracket.
func (l *lexer) close(t token, c byte) {
	top := l.nests[len(l.nests)-1]
	l.pos++
	if len(l.nests) == 1 || closing(top) != c {
		message := `unexpected "` + string(c) + `"`
		if len(l.nests) > 1 {
			message += `: "` + string(top.open) + `" is still open`
		}
		l.fail(t.start, message, false)
		l.emit(t, punct, true)
		return
	}
	l.nests = l.nests[:len(l.nests)-1]
	t.depth--
	n := &l.nests[len(l.nests)-1]
	l.emit(t, punct, top.operand)
	switch {
	case top.tail:
		n.expect(listStart)
	case top.kind == inHead:
		n.expect(subStart)
	case c == ')' && n.fn != none:
		n.params = true
	case c == '}' && !top.operand:
		n.expect(listStart)
	}
}

func closing(n nest) byte {
	switch n.open {
	case '(':
		return ')'
	case '[':
		return ']'
	case '{':
		return '}'
	}
	return 0 // the brace that ends a substitution is read with the template
}

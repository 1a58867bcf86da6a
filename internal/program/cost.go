package program

import "strings"

// Bounds of what the parser is given: it recurses, its stack cannot be bounded, and running out of it ends the process.
// Its time grows with the square of the depth, with the cube for arrow functions, and exponentially where it must try
// whether `a ? (b) : c => d` is an arrow function with a type. What people and models write is far below all of them.
const (
	maxNests  = 500    // brackets around a token
	maxWeight = 10_000 // tokens that a parser may have to nest, one in the other
	maxTrials = 10     // arrow functions behind `? (b) :`, and constraints of infer, one in the other

	arrowWeight = 40 // of `=>`
	angleWeight = 8  // of `<`, which may open type arguments
)

// maxCost bounds what parsing a text is estimated to cost, in nanoseconds. That is more than linear in its tokens: their
// depth counts, the parser reads the same tokens again for each `<` before them that might open type arguments and for
// each `) :` that might be followed by an arrow function's type, and twice for each trial. Dense minified code comes to
// a third of a microsecond per byte.
const (
	maxCost = 1_500_000_000

	depthCost = 2   // of a token, for each one around it
	readCost  = 60  // of a token, for each time that it is read
	parseCost = 100 // of a token, for each time that it is parsed
)

// depth is a bound of how deep a parser recurses, and of how often it goes back: what it has read of the current
// statement, element or member, in this bracket and in those around it.
type depth struct {
	weight int // of tokens
	trials int // see maxTrials
	tries  int // see maxCost
}

func (d depth) plus(e depth) depth {
	return depth{d.weight + e.weight, d.trials + e.trials, d.tries + e.tries}
}

// weigh adds a token to the depth of what it is part of.
func (l *lexer) weigh(t token) {
	n := &l.nests[len(l.nests)-1]
	text := l.code[t.start:t.end]
	opens := t.kind != punct || strings.ContainsAny(text, "{([;@+-!~") // not `, . ?` behind an arrow function's body
	switch {
	case t.starts == listStart && opens && text != "else":
		n.begin(false)
	case text == "," && (n.kind == inBrackets || n.kind == inObject):
		n.begin(true)
	}
	last := len(l.tokens) - 1
	weight := 1
	switch text {
	case "=>":
		weight = arrowWeight
		if n.guards > 0 {
			n.depth.trials++
		}
	case "<":
		weight = angleWeight
		n.depth.tries++
	case ":":
		if l.is(last, ")") {
			n.depth.tries++
		}
	case ";":
		n.depth.tries = 0
	case "extends":
		if l.is(last-1, "infer") {
			n.depth.trials++
		}
	}
	n.depth.weight += weight
	all := n.outer.plus(n.depth)
	if all.weight > maxWeight || all.trials > maxTrials || len(l.nests) > maxNests {
		l.refuse(t, "the code is nested too deeply, or an expression is too long")
		return
	}
	l.cost += depthCost*all.weight + readCost*all.tries + parseCost<<all.trials
	if l.cost > maxCost {
		l.refuse(t, "the code would take too long to read: its expressions are too long, or too many comparisons and types stand in one")
	}
}

func (l *lexer) refuse(t token, message string) {
	l.tooDeep = true
	l.problem = &problem{pos: t.start, message: message}
}

// begin begins a statement, element or member. A type that the parser tries goes on behind a comma.
func (n *nest) begin(comma bool) {
	tries := n.depth.tries
	n.depth, n.guards = depth{}, 0
	if comma {
		n.depth.tries = tries
	}
}

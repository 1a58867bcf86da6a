package uses

import (
	"encoding/json"
	"sort"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"

	"github.com/tdewolff/parse/v2"
	"github.com/tdewolff/parse/v2/js"
)

// Limits of the analysis. A larger program has no Uses.
const (
	MaxCode   = 256 << 10 // maximum size of the code in bytes
	maxValues = 20_000    // maximum number of values, including parts of arguments
	maxText   = 200       // maximum bytes of a literal, or of the name of a property, that are kept
)

// Read analyses a program, which is JavaScript as esbuild prints it. imports maps the parameters of the outermost function to what they import.
// The result is nil if the program cannot be analysed. Read takes time linear in the size of the code.
func Read(code string, imports map[string]Import) (found Uses) {
	if len(code) > MaxCode {
		return nil
	}
	defer func() {
		if recover() != nil { // the third-party parser may panic on code of unknown origin
			found = nil
		}
	}()
	in := parse.NewInputBytes(append(make([]byte, 0, len(code)+1), code...))
	ast, err := js.Parse(in, js.Options{})
	if err != nil {
		return nil
	}
	r := &reader{
		code: in.Bytes(), values: map[*js.Var]int{}, consts: map[*js.Var]constant{}, functions: map[*js.Var]function{},
		assigned: map[*js.Var]int{}, mutated: map[*js.Var]bool{}, probed: map[*js.Var]bool{}, changed: map[string]bool{}, quiet: map[string]bool{}, imports: imports,
	}
	for i, c := range r.code {
		if c == '\n' {
			r.lines = append(r.lines, i+1)
		}
	}
	js.Walk(survey{r}, ast)
	r.outermost = true
	r.block(ast.List)
	if r.size > maxValues {
		return nil
	}
	for i := range r.found {
		r.found[i].Quiet, r.found[i].Changed = r.quiet[r.found[i].Name], r.changed[r.found[i].Name]
	}
	return r.found
}

// reader walks through a program once, from the beginning to the end.
type reader struct {
	code    []byte
	lines   []int // starts of the lines after the first
	imports map[string]Import

	found     Uses
	size      int
	last      int // last known position
	outermost bool

	values    map[*js.Var]int      // values of variables that are assigned once
	consts    map[*js.Var]constant // literals of variables that are assigned once
	functions map[*js.Var]function // functions of variables that are assigned once
	returns   *[]int               // results of the function that is being read

	assigned map[*js.Var]int  // number of assignments of each variable
	mutated  map[*js.Var]bool // variables with parts that are assigned
	probed   map[*js.Var]bool // variables whose form the program tests or changes
	changed  map[string]bool  // names of fields whose form the program tests, or that it changes
	quiet    map[string]bool  // names of fields whose existence the program tests
}

// function is a function of the program.
type function struct {
	result int // value of the result; -1 if unknown
	async  bool
	empty  bool
}

// constant is the literal that a variable holds, and its number of parts, which count again for each use of the variable.
type constant struct {
	arg  Arg
	size int
}

// variable returns the variable that a name refers to.
func variable(v *js.Var) *js.Var {
	for v.Link != nil {
		v = v.Link
	}
	return v
}

// survey finds the variables and fields that are assigned, and those whose form is tested.
type survey struct{ r *reader }

func (survey) Exit(js.INode) {}

func (s survey) Enter(n js.INode) js.IVisitor {
	r := s.r
	switch n := n.(type) {
	case *js.VarDecl:
		for _, b := range n.List {
			if v, ok := b.Binding.(*js.Var); !ok || b.Default != nil || n.InForInOf {
				r.binds(b.Binding)
			} else if n.TokenType == js.VarToken {
				r.assigned[variable(v)] += 0
			}
		}
	case *js.FuncDecl:
		if n.Name != nil {
			r.assigned[variable(n.Name)]++
		}
		r.params(n.Params)
	case *js.ArrowFunc:
		r.params(n.Params)
	case *js.MethodDecl:
		r.params(n.Params)
	case *js.ForOfStmt:
		r.target(n.Init)
	case *js.ForInStmt:
		r.target(n.Init)
	case *js.UnaryExpr:
		switch n.Op {
		case js.PreIncrToken, js.PreDecrToken, js.PostIncrToken, js.PostDecrToken, js.DeleteToken:
			r.target(n.X)
		case js.TypeofToken:
			r.probe(n.X)
		}
	case *js.BinaryExpr:
		switch {
		case isAssignment(n.Op):
			r.target(n.X)
		case n.Op == js.InToken:
			r.probe(n.Y)
		case n.Op == js.InstanceofToken:
			r.probe(n.X)
		}
	case *js.CallExpr:
		dot, ok := n.X.(*js.DotExpr)
		if !ok || len(n.Args.List) == 0 {
			break
		}
		object, method := name(dot.X), literalName(dot.Y)
		if object == "Array" && method == "isArray" || object == "Reflect" || object == "Object" && changes[method] {
			r.probe(n.Args.List[0].Value)
		}
		if strings.HasPrefix(method, "hasOwn") {
			r.probe(dot.X)
		}
	}
	return s
}

func (r *reader) params(p js.Params) {
	for _, b := range p.List {
		r.binds(b.Binding)
	}
	r.binds(p.Rest)
}

// binds counts an assignment of every variable of a pattern.
func (r *reader) binds(b js.IBinding) {
	switch b := b.(type) {
	case *js.Var:
		if b != nil {
			r.assigned[variable(b)]++
		}
	case *js.BindingObject:
		for _, item := range b.List {
			r.binds(item.Value.Binding)
		}
		if b.Rest != nil {
			r.assigned[variable(b.Rest)]++
		}
	case *js.BindingArray:
		for _, item := range b.List {
			r.binds(item.Binding)
		}
		r.binds(b.Rest)
	}
}

// target records what an assignment changes.
func (r *reader) target(x js.IExpr) {
	switch x := x.(type) {
	case *js.Var:
		r.assigned[variable(x)]++
	case *js.GroupExpr:
		r.target(x.X)
	case *js.DotExpr:
		r.changed[literalName(x.Y)] = true
		r.mutate(x.X)
	case *js.IndexExpr:
		if text, ok := stringOf(x.Y); ok {
			r.changed[text] = true
		} else {
			r.probe(x.X)
		}
		r.mutate(x.X)
	case *js.ObjectExpr: // a pattern; its variables count twice, so that their values are unknown
		for _, p := range x.List {
			r.target(p.Value)
			r.target(p.Value)
		}
	case *js.ArrayExpr:
		for _, e := range x.List {
			r.target(e.Value)
			r.target(e.Value)
		}
	case *js.BinaryExpr: // a target with a default value, such as b = 1 in [a, b = 1] = list
		r.target(x.X)
	}
}

// mutate records the variable at the beginning of an assigned path.
func (r *reader) mutate(x js.IExpr) {
	for {
		switch e := x.(type) {
		case *js.Var:
			r.mutated[variable(e)] = true
			return
		case *js.DotExpr:
			x = e.X
		case *js.IndexExpr:
			x = e.X
		case *js.GroupExpr:
			x = e.X
		default:
			return
		}
	}
}

// probe records a variable or a field whose form is tested.
func (r *reader) probe(x js.IExpr) {
	switch x := x.(type) {
	case *js.Var:
		r.probed[variable(x)] = true
	case *js.DotExpr:
		r.changed[literalName(x.Y)] = true
	case *js.IndexExpr:
		r.probe(x.X)
	case *js.GroupExpr:
		r.probe(x.X)
	}
}

// changes are the functions of Object that change their first argument or test its properties.
var changes = map[string]bool{"assign": true, "defineProperty": true, "defineProperties": true, "hasOwn": true, "setPrototypeOf": true}

func isAssignment(op js.TokenType) bool {
	switch op {
	case js.EqToken, js.MulEqToken, js.DivEqToken, js.ModEqToken, js.ExpEqToken, js.AddEqToken, js.SubEqToken, js.LtLtEqToken, js.GtGtEqToken,
		js.GtGtGtEqToken, js.BitAndEqToken, js.BitXorEqToken, js.BitOrEqToken, js.AndEqToken, js.OrEqToken, js.NullishEqToken:
		return true
	}
	return false
}

// name returns the name of a global variable, "" for any other expression.
func name(x js.IExpr) string {
	if v, ok := x.(*js.Var); ok && variable(v).Decl == js.NoDecl {
		return plainName(variable(v).Data)
	}
	return ""
}

func literalName(x js.IExpr) string {
	switch x := x.(type) {
	case js.LiteralExpr:
		return plainName(x.Data)
	case *js.LiteralExpr:
		return plainName(x.Data)
	}
	return ""
}

// plainName returns a name with its escapes decoded.
func plainName(data []byte) string {
	text, _ := unescape(string(data))
	return text
}

// stringOf returns the value of a string literal, or of a template without substitutions.
func stringOf(x js.IExpr) (string, bool) {
	switch x := x.(type) {
	case *js.LiteralExpr:
		if x.TokenType == js.StringToken {
			return unquote(x.Data)
		}
	case js.LiteralExpr:
		return stringOf(&x)
	case *js.GroupExpr:
		return stringOf(x.X)
	case *js.TemplateExpr:
		if x.Tag == nil && len(x.List) == 0 && len(x.Tail) > 1 {
			return unescape(strings.ReplaceAll(string(x.Tail[1:len(x.Tail)-1]), "\r\n", "\n"))
		}
	}
	return "", false
}

// unquote decodes a string literal.
func unquote(data []byte) (text string, ok bool) {
	if len(data) < 2 {
		return "", false
	}
	return unescape(string(data[1 : len(data)-1]))
}

// unescape decodes the escapes in a text of the program: esbuild writes characters beyond ASCII as escapes, in names too. ok is false if the
// text has half a surrogate pair, which Go strings cannot hold, or an invalid escape.
func unescape(text string) (_ string, ok bool) {
	if !strings.Contains(text, `\`) {
		return text, true
	}
	var out strings.Builder
	var half rune // first half of a surrogate pair
	for text != "" {
		var c rune
		if text[0] == '\\' {
			if c, text, ok = escape(text[1:]); !ok {
				return "", false
			}
		} else {
			r, size := utf8.DecodeRuneInString(text)
			c, text = r, text[size:]
		}
		switch {
		case half != 0:
			if c = utf16.DecodeRune(half, c); c == utf8.RuneError {
				return "", false
			}
			half = 0
		case utf16.IsSurrogate(c):
			half = c
			continue
		}
		if c >= 0 {
			out.WriteRune(c)
		}
	}
	return out.String(), half == 0
}

// escape decodes an escape; text begins after the backslash. The character is -1 for an escaped end of line, which stands for no character.
func escape(text string) (c rune, rest string, ok bool) {
	if text == "" {
		return 0, "", false
	}
	c, size := utf8.DecodeRuneInString(text)
	rest = text[size:]
	var digits int
	switch c {
	case 'b', 'f', 'n', 'r', 't', 'v':
		return rune("\b\f\n\r\t\v"[strings.IndexRune("bfnrtv", c)]), rest, true
	case '0', '1', '2', '3', '4', '5', '6', '7':
		return 0, rest, c == '0' && (rest == "" || rest[0] < '0' || rest[0] > '9')
	case '\r':
		return -1, strings.TrimPrefix(rest, "\n"), true
	case '\n', '\u2028', '\u2029':
		return -1, rest, true
	case 'x':
		digits = 2
	case 'u':
		digits = 4
		if inner, ok := strings.CutPrefix(rest, "{"); ok {
			rest = inner
			if digits = strings.IndexByte(inner, '}'); digits < 1 || digits > 8 {
				return 0, "", false
			}
		}
	default:
		return c, rest, true
	}
	if len(rest) < digits {
		return 0, "", false
	}
	n, err := strconv.ParseUint(rest[:digits], 16, 32)
	return rune(n), strings.TrimPrefix(rest[digits:], map[bool]string{true: "}"}[digits != 2 && text[1] == '{']), err == nil && n <= unicode.MaxRune
}

// place returns the position of a part of the code.
func (r *reader) place(data []byte) Place {
	if len(data) == 0 {
		return Place{Line: -1}
	}
	at := uintptr(unsafe.Pointer(unsafe.SliceData(data))) - uintptr(unsafe.Pointer(unsafe.SliceData(r.code))) //nolint:gosec // an offset only
	if at >= uintptr(len(r.code)) {
		return Place{Line: -1}
	}
	r.last = int(at)
	return r.position(int(at))
}

func (r *reader) position(at int) Place {
	line := sort.SearchInts(r.lines, at+1)
	if line > 0 {
		at -= r.lines[line-1]
	}
	return Place{line, at}
}

// find searches for the place of a name shortly after the last known position, because the parser does not report it.
func (r *reader) find(name string) Place {
	const near = 500
	text := string(r.code[r.last:min(len(r.code), r.last+near)])
	for from := 0; ; {
		i := strings.Index(text[from:], name)
		if i < 0 {
			return Place{Line: -1}
		}
		at := r.last + from + i
		if !isPart(r.at(at-1)) && !isPart(r.at(at+len(name))) {
			r.last = at
			return r.position(at)
		}
		from += i + len(name)
	}
}

func (r *reader) at(i int) byte {
	if i < 0 || i >= len(r.code) {
		return ' '
	}
	return r.code[i]
}

func isPart(c byte) bool {
	return c == '_' || c == '$' || c == '.' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// add adds a value and returns its index, or -1 if there are too many values.
func (r *reader) add(v Value) int {
	r.size++
	if r.size > maxValues {
		return -1
	}
	r.found = append(r.found, v)
	return len(r.found) - 1
}

// made adds a value that refers to the value v.Of. It returns -1 if v.Of is unknown.
func (r *reader) made(v Value) int {
	if v.Of < 0 {
		return -1
	}
	return r.add(v)
}

func number(data []byte) (string, bool) {
	f, err := strconv.ParseFloat(string(data), 64)
	if err != nil {
		return "", false
	}
	text, err := json.Marshal(f)
	return string(text), err == nil
}

func quote(text string) string {
	data, err := json.Marshal(text)
	if err != nil {
		return ""
	}
	return string(data)
}

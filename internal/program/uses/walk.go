package uses

import (
	"strings"

	"github.com/tdewolff/parse/v2/js"
)

func (r *reader) block(list []js.IStmt) {
	begin := r.last
	for _, s := range list {
		if f, ok := s.(*js.FuncDecl); ok { // functions are hoisted
			r.function(f.Name, f.Params, f.Body.List, f.Async, f.Generator)
		}
	}
	r.last = begin
	for _, s := range list {
		if _, ok := s.(*js.FuncDecl); !ok {
			r.statement(s)
		}
	}
}

func (r *reader) statement(s js.IStmt) {
	switch s := s.(type) {
	case *js.BlockStmt:
		if s != nil {
			r.block(s.List)
		}
	case *js.ExprStmt:
		r.expr(s.Value)
	case *js.IfStmt:
		r.test(s.Cond)
		r.statement(s.Body)
		if s.Else != nil {
			r.statement(s.Else)
		}
	case *js.DoWhileStmt:
		r.statement(s.Body)
		r.test(s.Cond)
	case *js.WhileStmt:
		r.test(s.Cond)
		r.statement(s.Body)
	case *js.ForStmt:
		r.expr(s.Init)
		r.test(s.Cond)
		r.expr(s.Post)
		r.statement(s.Body)
	case *js.ForInStmt:
		r.expr(s.Value)
		r.statement(s.Body)
	case *js.ForOfStmt:
		of := r.made(Value{Kind: Element, Of: r.expr(s.Value), Index: -1})
		if s.Await {
			of = r.made(Value{Kind: Awaited, Of: of})
		}
		if d, ok := s.Init.(*js.VarDecl); ok && len(d.List) == 1 {
			r.bind(d.List[0].Binding, of)
		}
		r.statement(s.Body)
	case *js.SwitchStmt:
		r.expr(s.Init)
		for _, c := range s.List {
			r.expr(c.Cond)
			r.block(c.List)
		}
	case *js.ReturnStmt:
		of := -1
		if s.Value != nil {
			of = r.expr(s.Value)
		}
		if r.returns != nil && !isNothing(s.Value) {
			*r.returns = append(*r.returns, of)
		}
	case *js.LabelledStmt:
		r.statement(s.Value)
	case *js.ThrowStmt:
		r.expr(s.Value)
	case *js.TryStmt:
		r.statement(s.Body)
		r.statement(s.Catch)
		r.statement(s.Finally)
	case *js.VarDecl:
		r.declare(s)
	case *js.FuncDecl:
		r.function(s.Name, s.Params, s.Body.List, s.Async, s.Generator)
	case *js.ClassDecl:
		r.class(s)
	}
}

func (r *reader) declare(d *js.VarDecl) {
	for _, b := range d.List {
		if b.Default != nil {
			r.give(b.Binding, b.Default)
		}
	}
}

// give reads the expression that is assigned to a variable or a pattern, and records what the variables then stand for.
func (r *reader) give(to js.IBinding, x js.IExpr) {
	v, ok := to.(*js.Var)
	if !ok {
		begin := r.last
		of := r.expr(x)
		end := r.last
		r.last = begin // the pattern stands before the expression in the code
		r.bind(to, of)
		r.last = max(r.last, end)
		return
	}
	v = variable(v)
	if f, ok := r.ownFunction(x); ok {
		if r.assigned[v] == 1 {
			r.functions[v] = f
		}
		return
	}
	before := r.size
	arg := r.arg(x)
	if r.assigned[v] != 1 {
		return
	}
	switch arg.Form {
	case Unknown:
	case Of:
		r.bind(v, arg.Of)
	default:
		if arg.Form == Array { // the array may grow
			arg.Items, arg.Open = nil, true
		}
		if !r.probed[v] && !r.mutated[v] {
			arg.At = Place{Line: -1}
			r.consts[v] = constant{arg, r.size - before}
		}
	}
}

// bind makes the variables of a pattern stand for a value and its parts.
func (r *reader) bind(to js.IBinding, of int) {
	switch to := to.(type) {
	case *js.Var:
		if to == nil || of < 0 {
			return
		}
		if v := variable(to); r.assigned[v] == 1 && !r.probed[v] {
			r.values[v] = of
		}
	case *js.BindingObject:
		for _, item := range to.List {
			part := -1
			switch key := item.Key; {
			case key == nil:
				if v, ok := item.Value.Binding.(*js.Var); ok {
					part = r.made(Value{Kind: Member, Of: of, Name: plainName(variable(v).Data), At: r.place(v.Data)})
				}
			case key.Computed != nil:
				r.expr(key.Computed)
			default:
				begin := r.last
				at := r.place(key.Literal.Data)
				if v, ok := item.Value.Binding.(*js.Var); ok && at.Line < 0 { // the parser copies the key of a shorthand property, so its position is unknown
					if at = r.place(v.Data); r.last < begin {
						r.last, at.Line = begin, -1
					}
				}
				if at.Line < 0 {
					at = r.find(string(key.Literal.Data))
				}
				if name, ok := keyName(key.Literal); ok {
					part = r.made(Value{Kind: Member, Of: of, Name: name, At: at})
				}
			}
			if item.Value.Default != nil {
				r.expr(item.Value.Default)
			}
			r.bind(item.Value.Binding, part)
		}
	case *js.BindingArray:
		for i, item := range to.List {
			if item.Default != nil {
				r.expr(item.Default)
			}
			if item.Binding != nil {
				r.bind(item.Binding, r.made(Value{Kind: Element, Of: of, Index: i}))
			}
		}
	}
}

// keyName returns the name that a key stands for. ok is false if it is not known.
func keyName(l js.LiteralExpr) (name string, ok bool) {
	switch l.TokenType {
	case js.StringToken:
		return unquote(l.Data)
	case js.IntegerToken, js.DecimalToken:
		return number(l.Data)
	}
	return unescape(string(l.Data))
}

// function reads a function of the program whose parameters are unknown.
func (r *reader) function(called *js.Var, params js.Params, body []js.IStmt, async, generator bool) function {
	f := r.body(params, nil, body)
	f.async = async
	if generator {
		f = function{result: -1}
	}
	if called != nil && r.assigned[variable(called)] == 1 {
		r.functions[variable(called)] = f
	}
	return f
}

// body reads the parameters and the statements of a function. given are the values of its first parameters.
func (r *reader) body(params js.Params, given []int, body []js.IStmt) function {
	outermost := r.outermost
	r.outermost = false
	for i, p := range params.List {
		if p.Default != nil {
			r.expr(p.Default)
		}
		if outermost {
			r.imported(p.Binding)
		}
		of := -1
		if i < len(given) {
			of = given[i]
		}
		r.bind(p.Binding, of)
	}
	around := r.returns
	var returns []int
	r.returns = &returns
	r.block(body)
	r.returns = around
	switch len(returns) {
	case 0:
		return function{result: -1, empty: true}
	case 1:
		return function{result: returns[0]}
	}
	return function{result: -1}
}

// imported binds a parameter of the outermost function to the import that the parameter stands for.
func (r *reader) imported(to js.IBinding) {
	switch to := to.(type) {
	case *js.Var:
		v := variable(to)
		i, ok := r.imports[string(v.Data)]
		if !ok || i.Dynamic || r.assigned[v] != 1 {
			return
		}
		of := r.module(i.Path, Place{Line: -1})
		if i.Name != "*" && i.Name != "default" {
			of = r.made(Value{Kind: Member, Of: of, Name: i.Name, At: Place{Line: -1}})
		}
		if of >= 0 {
			r.values[v] = of
		}
	case *js.BindingObject:
		for _, item := range to.List {
			r.imported(item.Value.Binding)
		}
	}
}

// module adds the module with the path after "servers/".
func (r *reader) module(path string, at Place) int {
	if path == "" {
		return r.add(Value{Kind: Servers, Of: -1, At: at})
	}
	return r.add(Value{Kind: Server, Of: -1, Name: path, At: at})
}

func (r *reader) class(c *js.ClassDecl) {
	r.expr(c.Extends)
	for _, e := range c.List {
		switch {
		case e.StaticBlock != nil:
			r.block(e.StaticBlock.List)
		case e.Method != nil:
			r.expr(e.Method.Name.Computed)
			r.body(e.Method.Params, nil, e.Method.Body.List)
		default:
			r.expr(e.Init)
		}
	}
}

// ownFunction reads an expression if it is a function.
func (r *reader) ownFunction(x js.IExpr) (function, bool) {
	switch x := x.(type) {
	case *js.GroupExpr:
		return r.ownFunction(x.X)
	case *js.ArrowFunc:
		f := r.body(x.Params, nil, x.Body.List)
		f.async = x.Async
		return f, true
	case *js.FuncDecl:
		return r.function(nil, x.Params, x.Body.List, x.Async, x.Generator), true
	}
	return function{}, false
}

// test reads an expression that is only tested for truth, so that the fields it names need not exist.
func (r *reader) test(x js.IExpr) {
	switch x := x.(type) {
	case *js.GroupExpr:
		r.test(x.X)
		return
	case *js.UnaryExpr:
		if x.Op == js.NotToken {
			r.test(x.X)
			return
		}
	case *js.BinaryExpr:
		if x.Op == js.AndToken || x.Op == js.OrToken {
			r.test(x.X)
			r.test(x.Y)
			return
		}
	}
	r.hush(r.expr(x))
}

// hush records that a field may be absent, at this place and at all others. The field is the value with the index of; hush does nothing if
// this value is not a field or is not the value added last.
func (r *reader) hush(of int) {
	if of >= 0 && of == len(r.found)-1 && r.found[of].Kind == Member {
		r.quiet[r.found[of].Name] = true
	}
}

func isNothing(x js.IExpr) bool {
	switch x := x.(type) {
	case nil:
		return true
	case *js.GroupExpr:
		return isNothing(x.X)
	case *js.LiteralExpr:
		return x.TokenType == js.NullToken
	case *js.ArrayExpr:
		return len(x.List) == 0
	case *js.ObjectExpr:
		return len(x.List) == 0
	case *js.UnaryExpr:
		return x.Op == js.VoidToken
	}
	return name(x) == "undefined"
}

// isPlain reports whether an expression is a literal, or null, undefined or an empty object or array. In answer.name || "none", such
// an expression is a default for the field name, not another field that the program tries.
func isPlain(x js.IExpr) bool {
	switch x := x.(type) {
	case *js.GroupExpr:
		return isPlain(x.X)
	case *js.LiteralExpr, *js.TemplateExpr, *js.ArrayExpr:
		return true
	case *js.UnaryExpr:
		return isPlain(x.X)
	}
	return isNothing(x)
}

// expr reads an expression and returns the index of its value, or -1 if the value does not come from a tool.
func (r *reader) expr(x js.IExpr) int {
	switch x := x.(type) {
	case *js.Var:
		if x == nil {
			return -1
		}
		return r.variable(variable(x))
	case *js.GroupExpr:
		return r.expr(x.X)
	case *js.UnaryExpr:
		switch of := r.expr(x.X); x.Op {
		case js.AwaitToken:
			return r.made(Value{Kind: Awaited, Of: of})
		case js.NotToken, js.TypeofToken:
			r.hush(of)
		}
	case *js.BinaryExpr:
		return r.binary(x)
	case *js.CondExpr:
		r.test(x.Cond)
		a, b := r.expr(x.X), r.expr(x.Y)
		switch {
		case isNothing(x.Y):
			return a
		case isNothing(x.X):
			return b
		}
	case *js.CommaExpr:
		of := -1
		for _, e := range x.List {
			of = r.expr(e)
		}
		return of
	case *js.YieldExpr:
		r.expr(x.X)
	case *js.DotExpr:
		of := r.expr(x.X)
		if l, ok := x.Y.(js.LiteralExpr); ok {
			return r.made(Value{Kind: Member, Of: of, Name: plainName(l.Data), At: r.place(l.Data)})
		}
	case *js.IndexExpr:
		return r.index(x)
	case *js.CallExpr:
		return r.call(x)
	case *js.NewExpr:
		r.expr(x.X)
		if x.Args != nil {
			r.args(x.Args.List)
		}
	case *js.TemplateExpr:
		r.expr(x.Tag)
		for _, p := range x.List {
			r.expr(p.Expr)
		}
	case *js.VarDecl:
		if x != nil {
			r.declare(x)
		}
	case *js.ArrowFunc, *js.FuncDecl:
		r.ownFunction(x)
	case *js.ClassDecl:
		r.class(x)
	case *js.ArrayExpr:
		v := Value{Kind: List, Of: -1}
		known := false
		for _, e := range x.List {
			of := -1
			if e.Value != nil {
				of = r.expr(e.Value)
			}
			known = known || of >= 0
			v.Items = append(v.Items, of)
			if e.Spread {
				known = false
				v.Items = nil
			}
		}
		if known && len(v.Items) == len(x.List) {
			r.size += len(v.Items)
			return r.add(v)
		}
	case *js.ObjectExpr:
		r.object(x)
	case *js.MethodDecl:
		r.body(x.Params, nil, x.Body.List)
	}
	return -1
}

func (r *reader) variable(v *js.Var) int {
	if v.Decl != js.NoDecl {
		if of, ok := r.values[v]; ok {
			return of
		}
		return -1
	}
	if r.assigned[v] > 0 || r.probed[v] {
		return -1
	}
	switch string(v.Data) {
	case "tools":
		return r.add(Value{Kind: Tools, Of: -1})
	case "callMCPTool":
		return r.add(Value{Kind: ByName, Of: -1})
	}
	return -1
}

func (r *reader) binary(x *js.BinaryExpr) int {
	if isAssignment(x.Op) {
		v, ok := x.X.(*js.Var)
		switch {
		case ok && x.Op == js.EqToken:
			r.give(v, x.Y)
		case ok:
			r.expr(x.Y)
		default:
			r.expr(x.X)
			return r.expr(x.Y)
		}
		return -1
	}
	if x.Op == js.AndToken {
		r.test(x.X)
		return r.expr(x.Y)
	}
	if x.Op != js.OrToken && x.Op != js.NullishToken {
		r.expr(x.X)
		r.expr(x.Y)
		return -1
	}
	a := r.expr(x.X)
	if isPlain(x.Y) {
		r.expr(x.Y)
		if isNothing(x.Y) {
			return a
		}
		return -1
	}
	r.hush(a)
	r.hush(r.expr(x.Y))
	return -1
}

func (r *reader) index(x *js.IndexExpr) int {
	of := r.expr(x.X)
	if text, ok := stringOf(x.Y); ok {
		at := Place{Line: -1}
		if l, ok := x.Y.(*js.LiteralExpr); ok {
			at = r.place(l.Data)
		}
		return r.made(Value{Kind: Member, Of: of, Name: text, At: at})
	}
	if l, ok := x.Y.(*js.LiteralExpr); ok {
		r.place(l.Data)
		if l.TokenType == js.IntegerToken || l.TokenType == js.DecimalToken {
			index := -1
			if len(l.Data) == 1 {
				index = int(l.Data[0] - '0')
			}
			return r.made(Value{Kind: Element, Of: of, Index: index})
		}
	}
	r.expr(x.Y)
	return -1
}

// call reads a function call and returns the value of its result.
func (r *reader) call(x *js.CallExpr) int {
	args := x.Args.List
	if of, ok := r.special(x); ok {
		return of
	}
	if v, ok := x.X.(*js.Var); ok {
		if f, ok := r.functions[variable(v)]; ok {
			r.args(args)
			if f.async {
				return r.made(Value{Kind: Promise, Of: f.result})
			}
			return f.result
		}
	}
	of := r.expr(x.X)
	at := Place{Line: -1}
	if of >= 0 {
		if v, ok := x.X.(*js.Var); ok {
			at = r.find(string(variable(v).Data))
		} else {
			at = r.found[of].At
		}
	}
	v := Value{Kind: Call, Of: of, At: at, Result: -1}
	if of >= 0 && len(args) > 0 && r.found[of].Kind == Member {
		if params, body, async, ok := callback(args[0].Value); ok {
			given := make([]int, min(len(params.List), 4))
			for i := range given {
				given[i] = r.add(Value{Kind: Param, Of: of, Index: i})
			}
			f := r.body(params, given, body)
			v.Result, v.Empty = f.result, f.empty
			if async {
				v.Result = r.made(Value{Kind: Promise, Of: f.result})
			}
			r.args(args[1:])
			return r.made(v)
		}
	}
	if dot, ok := x.X.(*js.DotExpr); ok && of < 0 && len(args) > 0 && literalName(dot.Y) == "map" {
		if f, ok := r.ownFunction(args[0].Value); ok {
			if f.async {
				f.result = r.made(Value{Kind: Promise, Of: f.result})
			}
			return r.made(Value{Kind: Mapped, Of: f.result})
		}
	}
	v.Args = r.args(args)
	return r.made(v)
}

func callback(x js.IExpr) (params js.Params, body []js.IStmt, async, ok bool) {
	switch x := x.(type) {
	case *js.GroupExpr:
		return callback(x.X)
	case *js.ArrowFunc:
		return x.Params, x.Body.List, x.Async, true
	case *js.FuncDecl:
		return x.Params, x.Body.List, x.Async, !x.Generator
	}
	return params, nil, false, false
}

// special reads calls of Promise.all, require and import.
func (r *reader) special(x *js.CallExpr) (int, bool) {
	args := x.Args.List
	if len(args) == 0 || args[0].Rest {
		return -1, false
	}
	if dot, ok := x.X.(*js.DotExpr); ok && name(dot.X) == "Promise" && literalName(dot.Y) == "all" {
		return r.made(Value{Kind: All, Of: r.expr(args[0].Value)}), true
	}
	l, ok := x.X.(*js.LiteralExpr)
	imports := ok && l.TokenType == js.ImportToken
	if v, ok := x.X.(*js.Var); ok && r.imports[string(variable(v).Data)].Dynamic {
		imports = true
	}
	text, ok := stringOf(args[0].Value)
	if !ok || !imports && name(x.X) != "require" {
		return -1, false
	}
	path, ok := serversPath(text)
	if !ok {
		return -1, true
	}
	at := Place{Line: -1}
	if l, ok := args[0].Value.(*js.LiteralExpr); ok {
		at = r.place(l.Data)
	}
	of := r.module(path, at)
	if imports {
		of = r.made(Value{Kind: Promise, Of: of})
	}
	return of, true
}

// serversPath reports whether a specifier names ./servers or a module below it, and returns the path after ./servers/, if any.
func serversPath(specifier string) (string, bool) {
	path, ok := strings.CutPrefix(specifier, "./servers/")
	if !ok || strings.HasSuffix(path, ".js") || strings.HasSuffix(path, ".ts") || strings.HasSuffix(path, "/index") || path == "index" {
		return "", specifier == "./servers"
	}
	return path, path != ""
}

func (r *reader) args(list []js.Arg) []Arg {
	out := make([]Arg, len(list))
	for i, a := range list {
		out[i] = r.arg(a.Value)
		if a.Rest {
			out[i] = Arg{Open: true}
		}
	}
	return out
}

func (r *reader) arg(x js.IExpr) Arg {
	r.size++
	switch x := x.(type) {
	case *js.GroupExpr:
		return r.arg(x.X)
	case *js.ObjectExpr:
		return r.object(x)
	case *js.ArrayExpr:
		a := Arg{Form: Array, At: Place{Line: -1}}
		for _, e := range x.List {
			if e.Value == nil || e.Spread {
				a.Open = true
				r.expr(e.Value)
				continue
			}
			a.Items = append(a.Items, r.arg(e.Value))
		}
		return a
	case *js.LiteralExpr:
		return r.literal(x)
	case *js.TemplateExpr:
		if x.Tag == nil {
			r.expr(x)
			a := Arg{Form: String, At: Place{Line: -1}}
			if text, ok := stringOf(x); ok {
				a.setText(text)
			}
			return a
		}
	case *js.UnaryExpr:
		switch x.Op {
		case js.NegToken:
			if l, ok := x.X.(*js.LiteralExpr); ok {
				if a := r.literal(l); a.Form == Number {
					if a.Text != "" {
						a.Text = "-" + a.Text
					}
					return a
				}
				return Arg{}
			}
		case js.NotToken:
			r.test(x.X)
			if l, ok := x.X.(*js.LiteralExpr); ok && l.TokenType == js.IntegerToken { // esbuild writes true and false as !0 and !1
				return Arg{Form: Boolean, At: r.place(l.Data)}
			}
			return Arg{Form: Boolean, At: Place{Line: -1}}
		case js.VoidToken:
			r.expr(x.X)
			return Arg{Form: Undefined}
		case js.TypeofToken:
			r.expr(x.X)
			return Arg{Form: String, At: Place{Line: -1}}
		}
	case *js.BinaryExpr:
		switch x.Op {
		case js.EqEqToken, js.EqEqEqToken, js.NotEqToken, js.NotEqEqToken, js.LtToken, js.LtEqToken, js.GtToken, js.GtEqToken:
			r.expr(x)
			return Arg{Form: Boolean, At: Place{Line: -1}}
		}
	case *js.CallExpr:
		form := Unknown
		switch name(x.X) {
		case "String":
			form = String
		case "Number", "parseInt", "parseFloat":
			form = Number
		case "Boolean":
			form = Boolean
		}
		if dot, ok := x.X.(*js.DotExpr); ok && name(dot.X) == "JSON" && literalName(dot.Y) == "stringify" {
			form = String
		}
		if form != Unknown {
			r.expr(x)
			return Arg{Form: form, At: Place{Line: -1}}
		}
	case *js.Var:
		if x == nil {
			return Arg{}
		}
		v := variable(x)
		if c, ok := r.consts[v]; ok && v.Decl != js.NoDecl {
			if r.size += c.size; r.size > maxValues {
				return Arg{At: Place{Line: -1}}
			}
			return c.arg
		}
		if name(x) == "undefined" {
			return Arg{Form: Undefined}
		}
	case nil:
		return Arg{}
	}
	if of := r.expr(x); of >= 0 {
		return Arg{Form: Of, Of: of, At: Place{Line: -1}}
	}
	return Arg{At: Place{Line: -1}}
}

func (a *Arg) setText(text string) {
	if len(text) <= maxText {
		a.Text = quote(text)
	}
}

func (r *reader) literal(l *js.LiteralExpr) Arg {
	a := Arg{At: r.place(l.Data)}
	switch l.TokenType {
	case js.StringToken:
		a.Form = String
		if text, ok := unquote(l.Data); ok {
			a.setText(text)
		}
	case js.TrueToken, js.FalseToken:
		a.Form, a.Text = Boolean, string(l.Data)
	case js.NullToken:
		a.Form = Null
	case js.IntegerToken, js.DecimalToken:
		a.Form = Number
		if text, ok := number(l.Data); ok {
			a.Text = text
		}
	case js.BinaryToken, js.OctalToken, js.HexadecimalToken:
		a.Form = Number
	}
	if strings.HasSuffix(string(l.Data), "n") && a.Form == Number { // a BigInt has no JSON
		a.Form, a.Text = Unknown, ""
	}
	return a
}

func (r *reader) object(x *js.ObjectExpr) Arg {
	a := Arg{Form: Object, At: Place{Line: -1}}
	for _, p := range x.List {
		switch {
		case p.Spread:
			a.Open = true
			r.expr(p.Value)
			continue
		case p.Name == nil: // a method
			a.Open = true
			r.expr(p.Value)
			continue
		case p.Name.Computed != nil:
			a.Open = true
			r.expr(p.Name.Computed)
			r.expr(p.Value)
			continue
		}
		key, known := keyName(p.Name.Literal)
		at := r.place(p.Name.Literal.Data)
		if at.Line < 0 {
			at = r.find(string(p.Name.Literal.Data))
		}
		value := r.arg(p.Value)
		if value.At.Line < 0 {
			value.At = at
		}
		if !known || key == "__proto__" || len(key) > maxText {
			a.Open = true
			continue
		}
		a.Fields = append(a.Fields, Field{Name: key, At: at, Arg: value})
	}
	return a
}

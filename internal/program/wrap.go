package program

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/evanw/esbuild/pkg/api"
)

// body is a program that is being compiled.
type body struct {
	src    Source
	text   []byte // the code, with lifted parts blanked
	scan   *scan
	decls  []decl // all declarations
	result string // expression that is the result if the program returns nothing, or ""

	returned  bool // reports whether the program is an expression whose value is the result
	directive bool // reports whether the program begins with "use strict"
	strict    bool // reports strict mode, by a directive or because the program is an ES module

	dynamic, reserved, bare string // names that the code does not contain
}

// useStrict precedes the function around a strict program: a function whose parameters are patterns cannot contain it.
const useStrict = `"use strict";`

// resultName is the variable that holds a default export, unless the code contains this name.
const resultName = "_reslt"

func newBody(src Source, code string) *body {
	b := &body{src: src, text: []byte(code), scan: tokenize(code)}
	b.decls = b.scan.declarations()
	b.dynamic = fresh(code, "_imprt")
	b.reserved = fresh(code, resultName)
	b.bare = fresh(code, "_retrn")
	b.strict = len(b.decls) > 0
	return b
}

// fail returns an error at a byte offset of the program's text.
func (b *body) fail(offset int, message string) *Error {
	return syntaxError(b.src.name(), b.src.Code, offset, message)
}

// lift blanks the imports, exports and directive, which the function around the program cannot contain.
func (b *body) lift() *Error {
	s := b.scan
	if len(s.tokens) == 0 {
		if s.problem == nil {
			blank(b.text, 0, len(b.text))
		}
		return nil
	}
	blank(b.text, 0, s.tokens[0].start) // byte order mark, hashbang
	if first := s.tokens[0]; first.kind == str && s.text(0)[1:] == "use strict"+s.text(0)[:1] &&
		(len(s.tokens) == 1 || s.is(1, ";") || s.tokens[1].newline) {
		b.directive, b.strict = true, true
		blank(b.text, first.start, first.end)
	}
	locals := map[string]bool{}
	for _, d := range b.decls {
		switch d.kind {
		case exportDefault:
			if b.result != "" {
				return b.fail(d.start, "a program has one result: it has a second default export")
			}
			b.result = b.reserved
			blank(b.text, d.start, d.end)
			copy(b.text[d.start:], b.reserved)
			b.text[d.end-1] = '='
			continue
		case exportNamed, exportKeyword:
			if d.kind == exportNamed {
				b.result = d.name
			}
			blank(b.text, d.start, d.end)
			continue
		case exportList:
			for _, n := range d.bindings {
				if n.local == "default" {
					b.result = n.name
				}
			}
		case importFrom:
			for _, n := range d.bindings {
				if d.typeOnly {
					break
				}
				if locals[n.local] {
					return b.fail(n.pos, fmt.Sprintf("The symbol %q has already been declared", n.local))
				}
				locals[n.local] = true
			}
		}
		d.blank(b.text)
	}
	return nil
}

// transform compiles the program with esbuild, in one attempt if possible. The error is an *Error, or that of Options.run.
func (b *body) transform(ctx context.Context, o Options) (product, error) {
	languages := languages(b.src.Name)
	single := b.result == "" && !b.directive
	for _, d := range b.decls {
		single = single && d.kind == importFrom
	}
	var attempts []attempt
	if semicolons, ok := b.scan.asExpression(b.decls); single && ok {
		text := slices.Clone(b.text)
		for _, i := range semicolons {
			text[b.scan.tokens[i].start] = ' '
		}
		for _, d := range b.decls {
			text[d.start] = ' '
		}
		attempts = append(attempts, attempt{text: text, lang: languages[0], opening: "return (", ending: ")", expression: true})
	}
	ending := ""
	if b.result != "" {
		ending = ";return " + b.result + ";"
	}
	for _, lang := range languages {
		attempts = append(attempts, attempt{text: b.text, lang: lang, ending: ending})
	}
	if b.scan.hasNamespaces() {
		return b.runModule(ctx, o)
	}
	var last *Error
	for _, a := range attempts {
		out, err := b.run(ctx, o, a)
		var wrong *Error
		if err == nil || !errors.As(err, &wrong) || wrong.Line == 0 {
			b.returned = a.expression
			return out, err
		}
		if last == nil || cmp.Or(cmp.Compare(wrong.Line, last.Line), cmp.Compare(wrong.Column, last.Column)) > 0 {
			last = wrong
		}
	}
	return product{}, last
}

// attempt is one way to read the program: a text between an opening and an ending, in one language.
type attempt struct {
	text            []byte
	lang            api.Loader
	opening, ending string
	expression      bool // reports whether the value of the text is the program's result
}

// run wraps the text into the function and transforms it. The error is an *Error with a position, or that of Options.run.
func (b *body) run(ctx context.Context, o Options, a attempt) (product, error) {
	var in strings.Builder
	in.Grow(len(a.text) + 256)
	if b.strict {
		in.WriteString(useStrict)
	}
	in.WriteString("(async (")
	for _, d := range b.decls {
		if d.kind == importFrom && !d.typeOnly && len(d.bindings) > 0 {
			patterns, _ := d.patterns()
			in.WriteString(strings.Join(patterns, ", ") + ", ")
		}
	}
	in.WriteString(b.dynamic + ") => {")
	if b.result == b.reserved {
		in.WriteString("let " + b.reserved + ";")
	}
	in.WriteString(a.opening + "\n")
	start := in.Len()
	in.Write(a.text)
	in.WriteString("\n" + a.ending + "})")
	wrapped := in.String()
	out, err := o.transform(ctx, b.src.name(), task{Text: wrapped, Language: a.lang, Compare: b.readable()})
	var wrong *failure
	switch {
	case errors.As(err, &wrong):
		return out, b.place(wrong, wrapped, start)
	case err == nil:
		if out.Plain {
			out.Code, out.Mappings = wrapped, ""
		}
		err = b.checkClosed(ctx, o, a.text, a.expression)
	}
	return out, err
}

// runModule transforms the text as a module, which may contain namespaces, and wraps it into the function afterwards. The error is
// an *Error with a position, or that of Options.run.
func (b *body) runModule(ctx context.Context, o Options) (product, error) {
	mark := b.dynamic + ";"
	in := []byte(mark)
	for _, d := range b.decls {
		if d.kind == importFrom && !d.typeOnly && len(d.bindings) > 0 {
			patterns, _ := d.patterns()
			in = fmt.Appendf(in, "let [%s] = 0;", strings.Join(patterns, ", "))
		}
	}
	result := ""
	if b.result == b.reserved {
		result = "let " + b.reserved + ";"
	}
	in = append(in, result+mark+"\n"...)
	start := len(in)
	text := slices.Clone(b.text)
	thrown, ok := b.scan.throwReturns(text, b.bare)
	if !ok {
		thrown, text = nil, b.text // the text stays as it is, so that esbuild reports the error with its position
	}
	for i := range thrown {
		thrown[i] += start
	}
	in = append(in, text...)
	if b.result != "" {
		in = append(in, "\n;"...)
		thrown = append(thrown, len(in))
		in = append(in, "throw "+b.result+";"...)
	}
	source := string(in)
	out, err := o.transform(ctx, b.src.name(), task{Text: source, Language: api.LoaderTS})
	var wrong *failure
	if errors.As(err, &wrong) {
		return out, b.place(wrong, source, start)
	}
	if err != nil {
		return out, err
	}
	out.returnThrows(source, thrown, b.bare)
	helpers, rest, _ := strings.Cut(out.Code, mark+"\n")
	header, rest, _ := strings.Cut(rest, mark+"\n")
	// The line breaks stand for the lines of the header, so that the lines after it keep their numbers.
	out.Code = helpers + "(async (" + b.dynamic + ") => {\n" + result + strings.Repeat("\n", strings.Count(header, "\n")+1) + rest + "})"
	return out, nil
}

// readable reports whether the tokenizer is certain about the program, and engines agree about its lines and columns.
func (b *body) readable() bool {
	code := strings.ReplaceAll(b.scan.code, "\r\n", "")
	return b.scan.problem == nil && b.scan.guess == 0 && !strings.Contains(code, "<!--") && !strings.Contains(code, "-->") &&
		!strings.ContainsFunc(code, func(r rune) bool { return r > unicode.MaxASCII || r == '\r' })
}

// place converts an error of esbuild, whose position is in the text wrapped, to an error with a position in the program.
func (b *body) place(wrong *failure, wrapped string, start int) *Error {
	offset, message := offsetOf(wrapped, wrong.Line, wrong.Column), wrong.Text
	if offset < start { // an import in the parameters has a reserved name
		return b.fail(b.decls[0].pos, message)
	}
	offset -= start
	end := len(bytes.TrimRightFunc(b.text, unicode.IsSpace))
	if offset >= end {
		offset, message = end, "unexpected end of the program"
	}
	return b.fail(b.scan.explain(offset, end, message))
}

// checkClosed reports a program that closes the function around it early. The check is needed only if the tokenizer found brackets
// without a partner or may have misread a slash. It compiles the text inside a block: a text that closes the function is not valid
// there, because neither ) nor a comma can follow the end of a block. If the text is an expression, it might close the parenthesis
// around it instead of the function. So an expression is compiled inside an array, where a closing parenthesis is not valid.
func (b *body) checkClosed(ctx context.Context, o Options, text []byte, expression bool) error {
	wrong := b.scan.problem
	if wrong == nil {
		if b.scan.guess == 0 {
			return nil
		}
		wrong = &problem{pos: b.scan.guess, message: `unexpected "/" behind "}"`}
	}
	before, after := "(async () => {{\n", "\n}})"
	if expression {
		before, after = "(async () => {[\n", "\n]})"
	}
	_, err := o.transform(ctx, b.src.name(), task{Text: before + string(text) + after, Language: api.LoaderTS})
	var failed *failure
	if errors.As(err, &failed) {
		return b.fail(wrong.pos, wrong.message)
	}
	return err
}

// finish splits esbuild's output into the parts before and after the parameters.
func (b *body) finish(out product) *parsed {
	p := &parsed{dynamic: b.dynamic, head: "(async ("}
	if !b.returned && b.result == "" {
		p.unreturned = b.scan.unreturned()
	}
	if b.strict {
		p.head = useStrict + p.head
	}
	// esbuild puts the helpers that it needs before the function. finish moves them into it.
	mark := b.dynamic + ") => {"
	at := strings.Index(out.Code, mark)
	header := strings.LastIndexByte(out.Code[:at], '\n') + 1
	helpers, code := strings.TrimPrefix(out.Code[:header], useStrict), out.Code[at+len(mark):] // code keeps esbuild's line break
	code = strings.TrimSuffix(strings.TrimRight(code, "\n"), ";")
	used, code, meta := rewriteImports(code, b.dynamic)
	if meta != "" {
		meta = "const " + meta + ` = { url: "file:///workspace/` + ProgramFile + `", main: true };`
	}
	for _, d := range b.decls {
		if d.typeOnly || d.kind != importFrom && d.kind != exportFrom {
			continue
		}
		bindings := d.bindings
		if d.kind == importFrom && !used["eval"] {
			bindings = slices.DeleteFunc(slices.Clone(bindings), func(n binding) bool { return !used[identifier(n.local)] })
		}
		if len(bindings) > 0 || len(d.bindings) == 0 {
			d.bindings = bindings
			p.imports = append(p.imports, d)
		}
	}
	if out.Plain {
		p.code = ") => {" + meta + code
		p.file = &fileMap{Plain: len(newLines(b.scan.code).starts), Before: 1}
		return p
	}
	p.code = ") => {" + meta + "\n" + helpers + strings.TrimPrefix(code, "\n")
	p.file = &fileMap{Mappings: out.Mappings, Moved: strings.Count(helpers, "\n"), Before: 1}
	return p
}

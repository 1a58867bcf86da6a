package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/evanw/esbuild/pkg/api"
)

// body is a program on its way through the compiler.
type body struct {
	src    Source
	text   []byte // the code, what is lifted out of it blanked
	scan   *scan
	decls  []decl // all declarations
	result string // the expression that is the result if nothing is returned, or ""
	strict bool   // "use strict"

	dynamic, prefix, reserved string // names that the code does not contain
}

// resultName is the variable that holds a default export, unless the code has such a name.
const resultName = "_reslt"

func newBody(src Source, code string) *body {
	b := &body{src: src, text: []byte(code), scan: tokenize(code)}
	b.decls = b.scan.declarations()
	b.dynamic = fresh(code, "_imprt")
	b.prefix = fresh(code, "_unusd")
	b.reserved = fresh(code, resultName)
	return b
}

// fail is an error at a byte offset of the program's text.
func (b *body) fail(offset int, message string) *Error {
	e := &Error{Kind: KindSyntax, Name: NameSyntaxError, Message: message}
	e.Hint = Hint(e.Kind, e.Name, message, b.src.Code)
	return e.at(b.src.name(), b.src.Code, offset)
}

// lift blanks what the function around the program cannot hold: imports, exports, a directive.
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
		b.strict = true
		blank(b.text, first.start, first.end) // a function with patterns as parameters cannot hold it
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

// transform runs esbuild over the program, once if it can. The error is an *Error, or Options.run's.
func (b *body) transform(ctx context.Context, o Options) (*output, error) {
	lang := typeScript
	if name := strings.ToLower(b.src.Name); strings.HasSuffix(name, ".js") || strings.HasSuffix(name, ".mjs") ||
		strings.HasSuffix(name, ".cjs") {
		lang = javaScript
	}
	single := b.result == "" && !b.strict
	for _, d := range b.decls {
		single = single && d.kind == importFrom
	}
	semicolons, ok := b.scan.asExpression(b.decls)
	var last *Error
	if single && ok {
		text := slices.Clone(b.text)
		for _, i := range semicolons {
			text[b.scan.tokens[i].start] = ' '
		}
		for _, d := range b.decls {
			text[d.start] = ' '
		}
		out, err := b.run(ctx, o, text, lang, "return (", ")")
		if err == nil || !errors.As(err, &last) || last.Line == 0 {
			return out, err
		}
	}
	for _, lang := range []language{lang, lang.other()} {
		ending := ""
		if b.result != "" {
			ending = ";return " + b.result + ";"
		}
		out, err := b.run(ctx, o, b.text, lang, "", ending)
		if err == nil && b.scan.problem != nil {
			if err := b.checkClosed(ctx, o); err != nil {
				return nil, err
			}
		}
		var wrong *Error
		if err == nil || !errors.As(err, &wrong) || wrong.Line == 0 {
			return out, err
		}
		if last == nil || wrong.Line > last.Line || wrong.Line == last.Line && wrong.Column > last.Column {
			last = wrong
		}
	}
	return nil, last
}

// run wraps the text into the function and transforms it. The error is an *Error with a position, or Options.run's.
func (b *body) run(ctx context.Context, o Options, text []byte, lang language, opening, ending string) (*output, error) {
	var in strings.Builder
	in.Grow(len(text) + 256)
	in.WriteString("(async (")
	for _, d := range b.decls {
		if d.kind == importFrom && !d.typeOnly && len(d.bindings) > 0 {
			patterns, _ := d.patterns("")
			in.WriteString(strings.Join(patterns, ", ") + ", ")
		}
	}
	in.WriteString(b.dynamic + ") => {")
	if b.result == b.reserved {
		in.WriteString("let " + b.reserved + ";")
	}
	in.WriteString(opening + "\n")
	start := in.Len()
	in.Write(text)
	in.WriteString("\n" + ending + "})")
	wrapped := in.String()
	out, err := o.transform(ctx, b.src.name(), wrapped, lang, api.FormatDefault)
	var failure *parseError
	if errors.As(err, &failure) {
		return nil, b.place(failure, wrapped, start)
	}
	return out, err
}

// place leads an error of esbuild, in the text that it read, back to the program.
func (b *body) place(failure *parseError, wrapped string, start int) *Error {
	offset, message := offsetOf(wrapped, failure.Line, failure.Column), failure.Text
	if offset < start { // in the parameters: an import of a name that nothing can have
		return b.fail(b.decls[0].pos, message)
	}
	offset -= start
	end := len(bytes.TrimRightFunc(b.text, unicode.IsSpace))
	problem := b.scan.problem
	switch {
	case problem != nil && (offset >= end || !problem.unclosed && problem.pos <= offset):
		return b.fail(problem.pos, problem.message)
	case offset >= end:
		return b.fail(end, "unexpected end of the program")
	}
	return b.fail(offset, message)
}

// checkClosed checks that the program is whole in spite of a bracket that the tokenizer could not pair, that is, that
// the tokenizer was wrong: a text that ends the function around it early cannot also be a method's body.
func (b *body) checkClosed(ctx context.Context, o Options) error {
	_, err := o.transform(ctx, b.src.name(), "(class { static async m() {\n"+string(b.text)+"\n}})", typeScript, api.FormatDefault)
	var failure *parseError
	if errors.As(err, &failure) {
		return b.fail(b.scan.problem.pos, b.scan.problem.message)
	}
	return err
}

// finish cuts esbuild's output into what stands before and behind the parameters.
func (b *body) finish(out *output) *parsed {
	p := &parsed{dynamic: b.dynamic, prefix: b.prefix, head: "(async ("}
	if b.strict {
		p.head = `"use strict";` + p.head
	}
	// The function follows the helpers that esbuild needs; they move into it.
	mark := b.dynamic + ") => {"
	at := strings.Index(out.code, mark)
	header := strings.LastIndexByte(out.code[:at], '\n') + 1
	helpers, code := out.code[:header], out.code[at+len(mark):]
	code = strings.TrimSuffix(strings.TrimRight(code, "\n"), ";")
	used, code, meta := rewriteImports(code, b.dynamic, len(b.decls) > 0)
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
	p.code = ") => {" + meta + "\n" + helpers + strings.TrimPrefix(code, "\n")
	p.file = &fileMap{Mappings: out.mappings, Moved: strings.Count(helpers, "\n"), Before: 1}
	return p
}

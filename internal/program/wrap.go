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

// body is a program on its way through the compiler.
type body struct {
	src    Source
	text   []byte // the code, what is lifted out of it blanked
	scan   *scan
	decls  []decl // all declarations
	result string // the expression that is the result if nothing is returned, or ""
	strict bool   // "use strict"

	dynamic, reserved string // names that the code does not contain
}

// resultName is the variable that holds a default export, unless the code has such a name.
const resultName = "_reslt"

func newBody(src Source, code string) *body {
	b := &body{src: src, text: []byte(code), scan: tokenize(code)}
	b.decls = b.scan.declarations()
	b.dynamic = fresh(code, "_imprt")
	b.reserved = fresh(code, resultName)
	return b
}

// fail is an error at a byte offset of the program's text.
func (b *body) fail(offset int, message string) *Error {
	return syntaxError(b.src.name(), b.src.Code, offset, message)
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
func (b *body) transform(ctx context.Context, o Options) (product, error) {
	languages := languages(b.src.Name)
	single := b.result == "" && !b.strict
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
		attempts = append(attempts, attempt{text, languages[0], "return (", ")"})
	}
	ending := ""
	if b.result != "" {
		ending = ";return " + b.result + ";"
	}
	for _, lang := range languages {
		attempts = append(attempts, attempt{b.text, lang, "", ending})
	}
	var last *Error
	for _, a := range attempts {
		out, err := b.run(ctx, o, a)
		var wrong *Error
		if err == nil || !errors.As(err, &wrong) || wrong.Line == 0 {
			return out, err
		}
		if last == nil || cmp.Or(cmp.Compare(wrong.Line, last.Line), cmp.Compare(wrong.Column, last.Column)) > 0 {
			last = wrong
		}
	}
	return product{}, last
}

// attempt is a way to read the program: its text between an opening and an ending, in a language.
type attempt struct {
	text            []byte
	lang            api.Loader
	opening, ending string
}

// run wraps the text into the function and transforms it. The error is an *Error with a position, or Options.run's.
func (b *body) run(ctx context.Context, o Options, a attempt) (product, error) {
	var in strings.Builder
	in.Grow(len(a.text) + 256)
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
	out, err := o.transform(ctx, b.src.name(), wrapped, a.lang, api.FormatDefault)
	var wrong *failure
	switch {
	case errors.As(err, &wrong):
		return out, b.place(wrong, wrapped, start)
	case err == nil:
		err = b.checkClosed(ctx, o, a.text, a.opening != "")
	}
	return out, err
}

// place leads an error of esbuild, in the text that it read, back to the program.
func (b *body) place(wrong *failure, wrapped string, start int) *Error {
	offset, message := offsetOf(wrapped, wrong.Line, wrong.Column), wrong.Text
	if offset < start { // in the parameters: an import of a name that nothing can have
		return b.fail(b.decls[0].pos, message)
	}
	offset -= start
	end := len(bytes.TrimRightFunc(b.text, unicode.IsSpace))
	if offset >= end {
		offset, message = end, "unexpected end of the program"
	}
	return b.fail(b.scan.explain(offset, end, message))
}

// checkClosed checks that the program does not end the function around it early, where the tokenizer found brackets without
// a partner or may have read a slash wrongly. Such a text is valid neither in a block, whose end no ) and no comma can follow,
// nor, if it ends the parenthesis around an expression, in an array.
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
	_, err := o.transform(ctx, b.src.name(), before+string(text)+after, api.LoaderTS, api.FormatDefault)
	var failed *failure
	if errors.As(err, &failed) {
		return b.fail(wrong.pos, wrong.message)
	}
	return err
}

// finish cuts esbuild's output into what stands before and behind the parameters.
func (b *body) finish(out product) *parsed {
	p := &parsed{dynamic: b.dynamic, head: "(async ("}
	if b.strict {
		p.head = `"use strict";` + p.head
	}
	// The function follows the helpers that esbuild needs; they move into it.
	mark := b.dynamic + ") => {"
	at := strings.Index(out.Code, mark)
	header := strings.LastIndexByte(out.Code[:at], '\n') + 1
	helpers, code := out.Code[:header], out.Code[at+len(mark):]
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
	p.code = ") => {" + meta + "\n" + helpers + strings.TrimPrefix(code, "\n")
	p.file = &fileMap{Mappings: out.Mappings, Moved: strings.Count(helpers, "\n"), Before: 1}
	return p
}

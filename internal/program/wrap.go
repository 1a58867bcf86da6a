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
	namespaces                []byte // a copy of the text with nothing but its TypeScript namespaces
	before                    int    // lines before the text in what esbuild reads
}

// resultName is the variable that holds a default export, unless the code has such a name.
const resultName = "_reslt"

func newBody(src Source, code string) *body {
	b := &body{src: src, text: []byte(code), scan: weigh(code)}
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

// checkDepth refuses code that the parser could not parse in bounded time and space.
func (s *scan) checkDepth() *Error {
	if !s.tooDeep {
		return nil
	}
	return &Error{
		Kind: KindSyntax, Name: NameSyntaxError, Message: s.problem.message,
		Hint: "split it into statements; put data into a file and read it with JSON.parse(await fs.readFile(path))",
	}
}

// lift blanks what the function around the program cannot hold: imports, exports, namespaces, a directive.
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
		case importEquals:
			if !d.typeOnly {
				copy(b.text[d.start:], "const ")
				continue
			}
		case exportDefault, exportAssign:
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
	b.moveNamespaces()
	return nil
}

// moveNamespaces copies TypeScript's namespaces out of the text: they are not allowed inside a function.
func (b *body) moveNamespaces() {
	s := b.scan
	for i := 0; i < len(s.tokens); i++ {
		start := i
		if t := s.tokens[i]; t.depth != 0 || t.starts != listStart {
			continue
		}
		if s.is(i, "export") {
			i++
		}
		if s.is(i, "declare") {
			i++
		}
		if !s.is(i, "namespace") && !s.is(i, "module") && (!s.is(i, "global") || i == start) {
			i = start
			continue
		}
		open := i + 1
		for s.isKind(open, word) || s.isKind(open, str) {
			if open++; !s.is(open, ".") {
				break
			}
			open++
		}
		if !s.is(open, "{") || s.isKind(open-1, punct) || open == i+1 && !s.is(i, "global") {
			i = start
			continue
		}
		end := s.closing(open)
		if end == len(s.tokens) {
			return
		}
		if b.namespaces == nil {
			b.namespaces = slices.Clone(b.text)
			blank(b.namespaces, 0, len(b.namespaces))
		}
		from, to := s.tokens[start].start, s.tokens[end].end
		copy(b.namespaces[from:to], b.text[from:to])
		blank(b.text, from, to)
		b.text[from] = ';'
		i = end
	}
}

// transform runs esbuild over the program, once if it can. The error is an *Error, or Compiler.run's.
func (b *body) transform(ctx context.Context, c *Compiler) (*output, error) {
	lang := typeScript
	if name := strings.ToLower(b.src.Name); strings.HasSuffix(name, ".js") || strings.HasSuffix(name, ".mjs") ||
		strings.HasSuffix(name, ".cjs") {
		lang = javaScript
	}
	single := b.result == "" && b.namespaces == nil && !b.strict
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
		out, err := b.run(ctx, c, text, lang, "return (", ")")
		if err == nil || !errors.As(err, &last) || last.Line == 0 {
			return out, err
		}
	}
	for _, lang := range []language{lang, lang.other()} {
		ending := ""
		if b.result != "" {
			ending = ";return " + b.result + ";"
		}
		out, err := b.run(ctx, c, b.text, lang, "", ending)
		if err == nil && b.scan.problem != nil {
			if err := b.checkClosed(ctx, c); err != nil {
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

// run wraps the text into the function and transforms it. The error is an *Error with a position, or Compiler.run's.
func (b *body) run(ctx context.Context, c *Compiler, text []byte, lang language, opening, ending string) (*output, error) {
	var in strings.Builder
	in.Grow(len(b.namespaces) + len(text) + 256)
	if b.namespaces != nil {
		in.Write(b.namespaces)
		in.WriteByte('\n')
	}
	header := in.Len()
	b.before = 1 + lineBreaks(in.String())
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
	out, err := c.transform(ctx, b.src.name(), wrapped, lang, api.FormatDefault)
	var failure *parseError
	if errors.As(err, &failure) {
		return nil, b.place(failure, wrapped, header, start)
	}
	return out, err
}

// place leads an error of esbuild, in the text that it read, back to the program.
func (b *body) place(failure *parseError, wrapped string, header, start int) *Error {
	offset, message := offsetOf(wrapped, failure.Line, failure.Column), failure.Text
	switch {
	case offset < header: // in a namespace, whose copy stands where it stood
		return b.fail(offset, message)
	case offset < start: // in the parameters: an import of a name that nothing can have
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
func (b *body) checkClosed(ctx context.Context, c *Compiler) error {
	_, err := c.transform(ctx, b.src.name(), "(class { static async m() {\n"+string(b.text)+"\n}})", typeScript, api.FormatDefault)
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
	// The function follows the helpers that esbuild needs and the namespaces; both move into it.
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
	p.file = &fileMap{Mappings: out.mappings, Moved: strings.Count(helpers, "\n"), Before: b.before}
	return p
}

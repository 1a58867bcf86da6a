// Package program turns agent code, JavaScript or TypeScript as a model writes it, into a frame.Program that any runner
// can execute, with a source map that leads every position back to the code as written.
//
// The code may use top-level await and return, import statements, and may come in a markdown fence. Its import
// declarations are found by a tokenizer and blanked in place, so that nothing moves; the rest becomes an async arrow
// function whose parameters bind the imports. Imports of skills, workspace files, servers, packages and built-in
// modules are resolved when it is compiled; require and import() are resolved while it runs, by CompileModule.
//
// As in TypeScript, an import none of whose names is used as a value is dropped without being resolved.
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

	"mcp-code-exec-harness/internal/frame"
)

// Source is a text with the name that its user knows it by.
type Source struct {
	Name string // "analysis.ts"; "" is ProgramFile
	Code string
}

func (s Source) name() string {
	if s.Name == "" {
		return ProgramFile
	}
	return s.Name
}

// Options are what a program may import. The zero value allows the built-in modules only.
type Options struct {
	Resolver Resolver // skills, workspace and servers; nil: there are none
	Packages string   // a node_modules directory whose packages may be imported; "" is none
	// Prelude is the user's own runtime functions: modules that are evaluated before the program, and before
	// everything it imports; their named exports become global variables.
	Prelude []Source
	Cache   *Cache // results of earlier compilations; nil: none are kept
}

// Compiled is a program ready to run.
type Compiled struct {
	Program frame.Program
	Map     *SourceMap // of the program and of every module it loads; Add those loaded while it runs
	Source  Source
}

// maxText is the size of a program or of a module of the user's, in bytes.
const maxText = 1 << 20

// Compile compiles a program and everything that it imports. The error is an *Error, or ctx's. Compile is safe for
// concurrent use.
func Compile(ctx context.Context, src Source, opts Options) (*Compiled, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	key := keyOf("program", src.Name, src.Code)
	p, ok := get[*parsed](opts.Cache, key)
	if !ok {
		var err *Error
		if p, err = parse(src); err != nil {
			return nil, err
		}
		opts.Cache.put(key, p, len(src.Code)+len(p.code)+len(p.file.Mappings))
	}
	c := &Compiled{Source: src, Map: &SourceMap{files: map[string]*fileMap{ProgramFile: p.file}}}
	l := newLoader(ctx, opts, KindSyntax)
	var params []string
	for i, source := range opts.Prelude {
		id, err := l.prelude(source)
		if err != nil {
			return nil, err
		}
		params = append(params, fmt.Sprintf("%s%d", p.prefix, i))
		c.Program.Imports = append(c.Program.Imports, frame.Import{Specifier: id, Module: id})
	}
	for _, d := range p.imports {
		id, err := l.load(d.specifier, ProgramFile)
		if err != nil {
			return nil, placed(err, src.name(), src.Code, d.pos)
		}
		patterns, names := d.patterns(fmt.Sprintf("%s%d", p.prefix, len(params)))
		if err := l.checkNames(id, d.specifier, names); err != nil {
			return nil, err.at(src.name(), src.Code, d.pos)
		}
		for _, pattern := range patterns {
			params = append(params, pattern)
			c.Program.Imports = append(c.Program.Imports,
				frame.Import{Specifier: d.specifier, Module: id, Names: names})
		}
	}
	modules, err := l.finish()
	if err != nil {
		return nil, placed(err, src.name(), src.Code, 0)
	}
	c.Program.Modules = modules
	c.Program.Code = p.head + strings.Join(append(params, p.dynamic), ", ") + p.code
	c.Map.Add(l.maps)
	return c, nil
}

// placed puts an error without a position at the import that led to it.
func placed(err error, file, text string, offset int) error {
	var e *Error
	if errors.As(err, &e) && e.File == "" {
		return e.at(file, text, offset)
	}
	return err
}

// patterns are the parameters that bind an import: one, or two if it has both a namespace and other names. names are
// the exports that must exist.
func (d *decl) patterns(unused string) (patterns, names []string) {
	var properties []string
	for _, b := range d.bindings {
		switch {
		case b.name == "*" && b.local != "":
			patterns = append(patterns, b.local)
			continue
		case b.name == "*":
			continue
		case b.local != "" && d.kind == importFrom:
			property := propertyName(b.name)
			if property != b.local {
				property += ": " + b.local
			}
			properties = append(properties, property)
		}
		names = append(names, b.name)
	}
	if len(properties) > 0 {
		patterns = append(patterns, "{ "+strings.Join(properties, ", ")+" }")
	}
	if len(patterns) == 0 {
		patterns = []string{unused}
	}
	return patterns, names
}

// parsed is a compiled program but for its imports: everything that follows from its text alone.
type parsed struct {
	imports []decl // those that are resolved, with the bindings that are used
	head    string // up to the parameters
	dynamic string // the parameter that stands for dynamic import
	prefix  string // of parameters that nothing uses
	code    string // what follows the parameters
	file    *fileMap
}

// parse compiles the text of a program.
func parse(src Source) (*parsed, *Error) {
	if len(src.Code) > maxText {
		return nil, &Error{Kind: KindSyntax, File: src.name(), Message: fmt.Sprintf(
			"the program has %d bytes, more than the %d allowed", len(src.Code), maxText),
			Hint: "put data into a file in /workspace and read it with fs.readFile"}
	}
	code := strings.ToValidUTF8(src.Code, "?")
	code, err := unfence(code)
	if err != nil {
		err.File = src.name()
		return nil, err
	}
	b := newBody(src, code)
	if err := b.lift(); err != nil {
		return nil, err
	}
	out, err := b.transform()
	if err != nil {
		return nil, err
	}
	return b.finish(out), nil
}

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

func newBody(src Source, code string) *body {
	b := &body{src: src, text: []byte(code), scan: tokenize(code)}
	b.decls = b.scan.declarations()
	b.dynamic = fresh(code, "_imprt")
	b.prefix = fresh(code, "_unusd")
	b.reserved = fresh(code, "_reslt")
	return b
}

// fail is an error at a byte offset of the program's text.
func (b *body) fail(offset int, message string) *Error {
	e := &Error{Kind: KindSyntax, Message: message, Hint: Hint(KindSyntax, "SyntaxError", message, b.src.Code)}
	return e.at(b.src.name(), b.src.Code, offset)
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
		for s.isKind(open, word) || s.isKind(open, str) || s.is(open, ".") {
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
			blank(b.namespaces, 0, s.tokens[start].start)
		}
		from, to := s.tokens[start].start, s.tokens[end].end
		copy(b.namespaces[from:to], b.text[from:to])
		blank(b.text, from, to)
		b.text[from] = ';'
		rest := len(b.text)
		blank(b.namespaces, to, rest)
		i = end
	}
}

// transform runs esbuild over the program, once if it can.
func (b *body) transform() (*output, *Error) {
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
		out, err := b.run(text, lang, "return (", ")")
		if err == nil {
			return out, nil
		}
		last = err
	}
	for _, lang := range []language{lang, lang.other()} {
		ending := ""
		if b.result != "" {
			ending = ";return " + b.result + ";"
		}
		out, err := b.run(b.text, lang, "", ending)
		if err == nil {
			if b.scan.problem != nil && !b.closed() {
				return nil, b.fail(b.scan.problem.pos, b.scan.problem.message)
			}
			return out, nil
		}
		if last == nil || err.Line > last.Line || err.Line == last.Line && err.Column > last.Column {
			last = err
		}
	}
	return nil, last
}

// run wraps the text into the function and transforms it.
func (b *body) run(text []byte, lang language, opening, ending string) (*output, *Error) {
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
	out, failure := transform(wrapped, lang, api.FormatDefault)
	if failure == nil {
		return out, nil
	}
	return nil, b.place(failure, wrapped, header, start)
}

// place leads an error of esbuild, in the text that it read, back to the program.
func (b *body) place(failure *parseError, wrapped string, header, start int) *Error {
	offset, message := offsetOf(wrapped, failure.line, failure.column), failure.text
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

// closed reports whether the program is whole in spite of a bracket that the tokenizer could not pair, that is,
// whether the tokenizer was wrong: a text that ends the function around it early cannot also be a method's body.
func (b *body) closed() bool {
	_, failure := transform("(class { static async m() {\n"+string(b.text)+"\n}})", typeScript, api.FormatDefault)
	return failure == nil
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
			bindings = slices.DeleteFunc(slices.Clone(bindings), func(n binding) bool { return !used[n.local] })
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

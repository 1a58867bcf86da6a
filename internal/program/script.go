package program

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/evanw/esbuild/pkg/api"

	"mcp-code-exec-harness/internal/catalog/ident"
	"mcp-code-exec-harness/internal/frame"
)

// script is the part of a compiled JavaScript module that depends only on its own text, not on the modules that it
// imports.
type script struct {
	code    string // function of the module
	file    *fileMap
	esm     bool
	async   bool           // reports whether the module is compiled as an async function, for top-level await
	imports []staticImport // import declarations whose bindings are used as values
	exports map[string]bool
	stars   []string // specifiers of export * from
}

// staticImport is an import declaration with the names that it takes from another module.
type staticImport struct {
	specifier string
	pos       int // position in the text
	names     []string
}

// addScript adds a JavaScript or TypeScript module and its imports.
func (l *loader) addScript(id, text string) error {
	u := &unit{Module: frame.Module{ID: id, Kind: "js"}, text: text}
	if err := l.add(u); err != nil {
		return err
	}
	s, err := l.compile(u, false)
	if err != nil {
		return err
	}
	u.script = s
	for _, i := range s.imports {
		dep, err := l.load(i.specifier, id)
		if err != nil {
			return placed(err, id, text, i.pos)
		}
		if u.Deps == nil {
			u.Deps = map[string]string{}
		}
		u.Deps[i.specifier] = dep
	}
	l.order = append(l.order, u)
	return nil
}

// prelude adds a file of the user's runtime functions and returns its id.
func (l *loader) prelude(source Source) (string, error) {
	id := "prelude:" + source.name()
	if l.units[id] != nil {
		return "", &Error{File: source.name(), Message: "two files of the prelude have this name"}
	}
	if len(source.Code) > maxText {
		return "", &Error{File: source.name(), Message: fmt.Sprintf("the prelude has more than %d bytes", maxText)}
	}
	if err := l.addScript(id, strings.ToValidUTF8(source.Code, "?")); err != nil {
		return "", err
	}
	return id, nil
}

// globals is the last line of a prelude module. It makes the module's named exports global variables.
const globals = "\n;(({ default: _, ...names }) => Object.assign(globalThis, names))(module.exports);"

// compile compiles a module's text. The result is an async function if async is set or the module uses top-level await.
func (l *loader) compile(u *unit, async bool) (*script, error) {
	key := keyOf("module", u.ID, u.text, fmt.Sprint(async))
	return remembered(l.opts.Cache, key, func() (*script, int, error) {
		s, err := l.opts.script(l.ctx, u.ID, u.text, async)
		if err != nil {
			return nil, 0, err
		}
		return s, len(u.text) + len(s.code) + len(s.file.Mappings), nil
	})
}

// script compiles a module's text. The error is an *Error, or that of Options.run.
func (o Options) script(ctx context.Context, id, text string, async bool) (*script, error) {
	blanked := []byte(text)
	in := tokenize(text)
	if len(in.tokens) > 0 {
		blank(blanked, 0, in.tokens[0].start) // byte order mark, hashbang, comments
	}
	code := string(blanked)
	decls := in.declarations()
	s := &script{esm: in.isESM(path.Ext(id), decls)}
	format := api.FormatCommonJS
	if async {
		format = api.FormatESModule
	}
	var out product
	var err error
	var worst *failure // failure that is furthest down in the text
	for _, lang := range languages(id) {
		var failed *failure
		out, err = o.transform(ctx, id, task{Text: code, Language: lang, Format: format})
		if !errors.As(err, &failed) || failed.awaits() {
			break
		}
		if worst == nil || failed.Line > worst.Line {
			worst = failed
		}
		err = worst
	}
	var wrong *failure
	switch {
	case errors.As(err, &wrong) && wrong.awaits() && !async:
		return o.script(ctx, id, text, true)
	case wrong != nil:
		offset, message := in.explain(offsetOf(text, wrong.Line, wrong.Column), len(strings.TrimSpace(text)), wrong.Text)
		return nil, syntaxError(id, text, offset, message)
	case err != nil:
		return nil, err
	}
	dynamic := fresh(out.Code, "_imprt")
	s.file = &fileMap{Text: text, Mappings: out.Mappings, Moved: everyLine}
	s.async = async
	body := out.Code
	meta := fmt.Sprintf("{ url: %s }", ident.Quote("file://"+id))
	if async {
		s.readModule(body, decls)
		body = s.asyncBody(body, dynamic)
	} else {
		s.readCommonJS(body, decls)
		body = strings.Replace(body, "const import_meta = {};", "const import_meta = "+meta+";", 1)
		header := "(function(exports, require, module, " + dynamic + ") {"
		if s.esm {
			header += `"use strict";`
		}
		body = header + "\n" + body
	}
	_, body, variable := rewriteImports(body, dynamic)
	if variable != "" {
		at := strings.IndexByte(body, '\n')
		body = body[:at] + "const " + variable + " = " + meta + ";" + body[at:]
	}
	if strings.HasPrefix(id, "prelude:") {
		body += globals
	}
	s.code = body + "\n})"
	return s, nil
}

// isESM reports whether a file is an ES module rather than a CommonJS one.
func (s *scan) isESM(ending string, decls []decl) bool {
	switch ending {
	case ".mjs", ".mts":
		return true
	case ".cjs", ".cts":
		return false
	}
	imports := false
	for _, d := range decls {
		switch {
		case d.typeOnly:
		case d.kind == importFrom:
			imports = true
		default:
			return true
		}
	}
	if !imports {
		return false
	}
	for i := range s.tokens {
		assigned := s.is(i, "module") && s.is(i+1, ".") && s.is(i+2, "exports")
		if assigned || s.is(i, "exports") && s.is(i+1, ".") && !s.is(i-1, ".") {
			return false
		}
	}
	return true
}

// readCommonJS finds the imports and exports of an ES module in the CommonJS code that esbuild made of it.
func (s *script) readCommonJS(code string, decls []decl) {
	if !s.esm {
		for _, d := range decls {
			if d.kind == importFrom && !d.typeOnly {
				s.esm = s.esm || !strings.Contains(code, "module.exports")
			}
		}
	}
	out := tokenize(code)
	taken := map[string]map[string]bool{} // specifier -> names
	variables := map[string]string{}      // variable that holds a module -> its specifier
	s.exports = map[string]bool{}
	for i, t := range out.tokens {
		switch {
		case out.is(i, "require") && out.is(i+1, "(") && out.isKind(i+2, str) && out.is(i+3, ")"):
			specifier := out.name(i + 2)
			if taken[specifier] == nil {
				taken[specifier] = map[string]bool{}
			}
			for j := i - 1; j > 0 && j >= i-3; j-- {
				if out.is(j, "=") {
					variables[out.text(j-1)] = specifier
				}
			}
			if out.is(i-4, "__reExport") {
				s.stars = append(s.stars, specifier)
			}
		case t.depth == 0 && out.is(i, "__export") && out.is(i+1, "(") && out.is(i+4, "{"):
			for j := i + 5; out.tokens[j].depth > 1; j++ {
				if out.tokens[j].depth == 2 && out.is(j+1, ":") {
					s.exports[out.name(j)] = true
				}
			}
		}
	}
	for i := range out.tokens {
		if specifier, ok := variables[out.text(i)]; ok && out.is(i+1, ".") {
			taken[specifier][out.name(i+2)] = true
		}
	}
	s.collect(decls, taken)
}

// collect records the used imports among declarations. taken holds the names that are used, by specifier.
func (s *script) collect(decls []decl, taken map[string]map[string]bool) {
	if !s.esm {
		s.exports = nil
	}
	for _, d := range decls {
		names, used := taken[d.specifier]
		if d.typeOnly || d.kind != importFrom && d.kind != exportFrom || !used {
			continue
		}
		i := staticImport{specifier: d.specifier, pos: d.pos}
		for _, b := range d.bindings {
			if b.name != "*" && names[b.name] {
				i.names = append(i.names, b.name)
			}
		}
		s.imports = append(s.imports, i)
	}
}

// readModule does what readCommonJS does, for a module that is still an ES module in esbuild's output.
func (s *script) readModule(code string, decls []decl) {
	taken := map[string]map[string]bool{} // specifier -> names
	s.exports = map[string]bool{}
	for _, d := range tokenize(code).declarations() {
		if d.kind == exportList {
			for _, b := range d.bindings {
				s.exports[b.local] = true
			}
			continue
		}
		if taken[d.specifier] == nil {
			taken[d.specifier] = map[string]bool{}
		}
		for _, b := range d.bindings {
			taken[d.specifier][b.name] = true
		}
		if d.kind == exportFrom {
			s.stars = append(s.stars, d.specifier)
		}
	}
	s.collect(decls, taken)
}

// asyncBody turns a module that is still an ES module in esbuild's output into an async function. esbuild prints
// declarations in few shapes. Unlike in other modules, the imports are not live bindings: their values are taken when
// the function begins.
func (s *script) asyncBody(code, dynamic string) string {
	text := []byte(code)
	var imports, exports, stars strings.Builder
	for _, d := range tokenize(code).declarations() {
		blank(text, d.start, d.end)
		from := "await " + dynamic + "(" + ident.Quote(d.specifier) + ")"
		switch d.kind {
		case exportList:
			for _, b := range d.bindings {
				fmt.Fprintf(&exports, "%s: { enumerable: true, get: () => %s }, ", ident.Property(b.local), b.name)
			}
		case exportFrom: // export * from
			fmt.Fprintf(&stars, "((from) => { for (const name in from) if (name !== \"default\" && !(name in exports)) "+
				"Object.defineProperty(exports, name, { enumerable: true, get: () => from[name] }); })(%s);", from)
		default:
			patterns, _ := d.patterns()
			for _, pattern := range patterns {
				fmt.Fprintf(&imports, "const %s = %s;", pattern, from)
			}
		}
	}
	header := "(async function(exports, require, module, " + dynamic + ") {"
	if s.esm {
		header += `"use strict";Object.defineProperty(exports, "__esModule", { value: true });`
	}
	if exports.Len() > 0 {
		header += "Object.defineProperties(exports, { " + exports.String() + "});"
	}
	return header + imports.String() + stars.String() + "\n" + string(text)
}

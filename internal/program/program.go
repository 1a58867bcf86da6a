package program

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/catalog/ident"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/program/uses"
)

// Source is a source text with the name that is shown to its user.
type Source struct {
	Name string // such as "analysis.ts"; "" means ProgramFile
	Code string
}

// ReadSources reads source files.
func ReadSources(files []string) (all []Source, err error) {
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		all = append(all, Source{Name: filepath.Base(file), Code: string(text)})
	}
	return all, nil
}

func (s Source) name() string { return cmp.Or(s.Name, ProgramFile) }

// Options tell what a program may import and how it is compiled. The zero value allows the built-in modules only.
type Options struct {
	Resolver Resolver // resolver of skills, workspace and servers; nil if there are none
	Local    bool     // reports whether Resolver also has files beside the program, below LocalRoot
	Packages string   // node_modules directory whose packages may be imported; "" if there is none
	// Prelude is the user's own runtime functions: modules that are evaluated before the program and everything it
	// imports. Their named exports become global variables.
	Prelude  []Source
	Cache    *Cache    // earlier compilations; nil if none are kept
	Compiler *Compiler // compiler to use; if nil, esbuild runs in this process without bounds, for trusted texts
	Owner    string    // owner of the compilation; owners take turns
	// Charge receives the computing time of each compilation, in the goroutine that waits for the compilation. If Charge
	// returns an error, the compilation of the program ends. Charge may be nil.
	Charge func(time.Duration) error
	// ReadUses makes Compile also read how the program uses tools.
	ReadUses bool
}

// Compiled is a program ready to run.
type Compiled struct {
	Program frame.Program
	Map     SourceMap // source maps of the program and its modules; see AddMap for modules that are loaded while the program runs
	Source  Source
	Uses    uses.Uses // uses of tools, if ReadUses was set and they are known

	begins *[2]int // result of the method first; nil before its first call
}

// AddMap adds the map of modules that were loaded while the program ran.
func (c *Compiled) AddMap(m SourceMap) {
	if c.Map == nil {
		c.Map = SourceMap{}
	}
	maps.Copy(c.Map, m)
}

// maxText is the maximum size of a program or of a user's module, in bytes.
const maxText = 1 << 20

// Compile compiles a program and everything that it imports. The error is an *Error, wraps the error of ctx and names the
// file, or says why no compiler process starts. When ctx ends, Compile returns at once. It is safe for concurrent use.
func Compile(ctx context.Context, src Source, opts Options) (*Compiled, error) {
	c, err := compile(ctx, src, opts)
	return c, shownError(err)
}

func compile(ctx context.Context, src Source, opts Options) (*Compiled, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	src.Code = strings.ToValidUTF8(src.Code, "?")
	p, err := remembered(opts.Cache, keyOf("program", src.Name, src.Code), func() (*parsed, int, error) {
		p, err := opts.parse(ctx, src)
		if err != nil {
			return nil, 0, err
		}
		return p, len(src.Code) + len(p.code) + len(p.file.Mappings), nil
	})
	if err != nil {
		return nil, err
	}
	l := newLoader(ctx, opts)
	l.maps[ProgramFile] = p.file
	c := &Compiled{Source: src, Map: l.maps}
	var params []string
	for _, source := range opts.Prelude {
		id, err := l.prelude(source)
		if err != nil {
			return nil, err
		}
		params = append(params, "{}")
		c.Program.Imports = append(c.Program.Imports, frame.Import{Specifier: id, Module: id})
	}
	for _, d := range p.imports {
		id, err := l.load(d.specifier, ProgramFile)
		if err != nil {
			return nil, placed(err, src.name(), src.Code, d.pos)
		}
		patterns, names := d.patterns()
		if err := l.checkNames(id, d.specifier, names); err != nil {
			return nil, err.at(src.name(), src.Code, d.pos)
		}
		for _, pattern := range patterns {
			params = append(params, pattern)
			c.Program.Imports = append(c.Program.Imports, frame.Import{Specifier: d.specifier, Module: id, Names: names})
		}
	}
	modules, err := l.finish()
	if err != nil {
		return nil, placed(err, src.name(), src.Code, 0)
	}
	c.Program.Modules = modules
	c.Program.Unreturned, c.Program.Lines = p.unreturned, p.file.lines()
	c.Program.Code = p.head + strings.Join(append(params, p.dynamic), ", ") + p.code
	if opts.ReadUses {
		if c.Uses, err = opts.readUses(ctx, src, p, c.Program.Code); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// placed gives err a position if it has none: offset, which is that of the import that caused err.
func placed(err error, file, text string, offset int) error {
	var e *Error
	if errors.As(err, &e) && e.File == "" {
		return e.at(file, text, offset)
	}
	return err
}

// patterns returns the parameters that bind an import: one, or two if it has both a namespace and other names. names
// are the exports that must exist.
func (d *decl) patterns() (patterns, names []string) {
	var properties []string
	for _, b := range d.bindings {
		switch {
		case b.name == "*" && b.local != "":
			patterns = append(patterns, b.local)
			continue
		case b.name == "*":
			continue
		case b.local != "" && d.kind == importFrom:
			property := ident.Property(b.name)
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
		patterns = []string{"{}"}
	}
	return patterns, names
}

// parsed is the part of a compiled program that depends only on its own text, not on the modules that it imports.
type parsed struct {
	imports []decl // resolved imports, with the bindings that are used
	head    string // code before the parameters
	dynamic string // parameter that stands for dynamic import
	code    string // code after the parameters
	file    *fileMap

	unreturned string
}

// parse compiles the text of a program. The error is an *Error, or that of Options.run.
func (o Options) parse(ctx context.Context, src Source) (*parsed, error) {
	if len(src.Code) > maxText {
		return nil, &Error{
			File: src.name(), Hint: "put data into a file in /workspace and read it with fs.readFile",
			Message: fmt.Sprintf("the program has %d bytes, more than the %d allowed", len(src.Code), maxText),
		}
	}
	code, wrong := unfence(src.Code)
	if wrong != nil {
		wrong.File = src.name()
		return nil, wrong
	}
	b := newBody(src, code)
	if err := b.lift(); err != nil {
		return nil, err
	}
	out, err := b.transform(ctx, o)
	if err != nil {
		return nil, err
	}
	return b.finish(out), nil
}

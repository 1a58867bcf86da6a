package program

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/evanw/esbuild/pkg/api"

	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/program/uses"
)

// task is what esbuild is asked: to transform a text, or to bundle a package. Or it is a compiled program whose uses of tools are
// read. It goes to another process as it is.
type task struct {
	Text     string
	Language api.Loader
	Format   api.Format
	Compare  bool // whether Text is plain JavaScript

	Package  string // specifier; "" is a text
	Packages string // the directory to find it in, absolute

	ReadUses bool // asks for the uses of Text, a compiled program; Imports are its parameters
	Imports  map[string]uses.Import
}

// product is what esbuild made of a task.
type product struct {
	Code     string
	Mappings string // source map of a text, version 3
	Failures []failure
	Plain    bool // reports that a compared text has no types and no syntax newer than the engines

	ESM      bool     // the package's entry is an ES module
	Builtins []string // the built-in modules that the package uses

	Uses uses.Uses // uses of a compiled program

	TooLarge bool // more than maxProduct; of the above nothing is set

	CPU time.Duration // processor time; 0 if it was not measured
}

// failure is an error of esbuild's.
type failure struct {
	Text         string
	Line, Column int // line from 1 and byte from 0; 0 for packages
}

func (f *failure) Error() string { return fmt.Sprintf("%d:%d: %s", f.Line, f.Column, f.Text) }

// awaits reports whether all that is wrong is a top-level await, which functions that are not async cannot have.
func (f *failure) awaits() bool {
	return strings.HasPrefix(f.Text, "Top-level await is currently not supported")
}

// languages are the syntaxes that a file is read as, the likely one first. They disagree about very little JavaScript
// (`a<b>(c)`).
func languages(name string) []api.Loader {
	switch strings.ToLower(path.Ext(name)) {
	case ".js", ".mjs", ".cjs":
		return []api.Loader{api.LoaderJS, api.LoaderTS}
	}
	return []api.Loader{api.LoaderTS, api.LoaderJS}
}

// transform makes JavaScript for the engines out of the text of a task, which is of the file with that name. The error is a *failure, or
// Options.run's.
func (o Options) transform(ctx context.Context, name string, t task) (product, error) {
	p, err := o.run(ctx, name, t)
	if err == nil && len(p.Failures) > 0 {
		first := &p.Failures[0]
		first.Text = clip.Head(first.Text, 1000) // the message quotes the code
		err = first
	}
	return p, err
}

// maxProduct is the size of code with its source map, in bytes. Code can grow without bounds: esbuild writes out the
// values of enums and the names of namespaces wherever they are used.
const maxProduct = 32 << 20

// do runs esbuild. What that may cost is for the caller to bound.
func (t task) do() product {
	var p product
	switch {
	case t.Package != "":
		p = t.bundle()
	case t.ReadUses:
		p.Uses = uses.Read(t.Text, t.Imports)
	default:
		p = t.transform()
	}
	if len(p.Code)+len(p.Mappings) > maxProduct {
		return product{TooLarge: true}
	}
	return p
}

// transform strips types and lowers what an engine of ES2023 lacks. Both engines know the `v` flag of regular
// expressions; dynamic imports keep their attributes, because the guest's own function reads them.
func (t task) transform() product {
	options := api.TransformOptions{
		Loader:         t.Language,
		Target:         api.ES2023,
		Format:         t.Format,
		Sourcemap:      api.SourceMapExternal,
		SourcesContent: api.SourcesContentExclude,
		Sourcefile:     "module", // esbuild derives the names of its own variables from it
		LegalComments:  api.LegalCommentsNone,
		LogLevel:       api.LogLevelSilent,
		LogLimit:       1,
		Supported:      map[string]bool{"regexp-set-notation": true, "import-attributes": true},
	}
	result := api.Transform(t.Text, options)
	if len(result.Errors) > 0 {
		return product{Failures: failures(result.Errors)}
	}
	if len(result.Code)+len(result.Map) > maxProduct {
		return product{TooLarge: true}
	}
	var sourceMap struct {
		Mappings string
		Names    []string
	}
	if err := json.Unmarshal(result.Map, &sourceMap); err != nil {
		return product{Failures: []failure{{Text: fmt.Sprintf("read esbuild's source map: %v", err), Line: 1}}}
	}
	p := product{Mappings: sourceMap.Mappings}
	if t.Compare && len(result.Code) <= 2*maxText {
		// What comes out the same without types and without lowering needs neither.
		options.Loader, options.Target, options.Sourcemap = api.LoaderJS, api.ESNext, api.SourceMapNone
		plain := api.Transform(t.Text, options)
		p.Plain = len(plain.Errors) == 0 && bytes.Equal(plain.Code, result.Code)
	}
	p.Code = unrename(t.Text, string(result.Code), sourceMap.Mappings, sourceMap.Names)
	return p
}

func failures(messages []api.Message) []failure {
	all := make([]failure, len(messages))
	for i, m := range messages {
		all[i] = failure{Text: m.Text, Line: 1}
		if m.Location != nil {
			all[i].Line, all[i].Column = m.Location.Line, m.Location.Column
		}
	}
	return all
}

// bundle makes one CommonJS module of a package and what it imports.
func (t task) bundle() product {
	result := api.Build(api.BuildOptions{
		EntryPoints:      []string{t.Package},
		AbsWorkingDir:    filepath.Dir(t.Packages),
		NodePaths:        []string{t.Packages},
		Outfile:          filepath.Join(t.Packages, "bundle.js"), // named only: Write is false
		Bundle:           true,
		Format:           api.FormatCommonJS,
		Platform:         api.PlatformBrowser, // packages bring replacements of Node's modules for it
		Target:           api.ES2023,
		MinifyWhitespace: true,
		MinifySyntax:     true,
		LegalComments:    api.LegalCommentsNone,
		Metafile:         true,
		LogLevel:         api.LogLevelSilent,
		LogLimit:         20,
		Define:           map[string]string{"process.env.NODE_ENV": `"production"`, "global": "globalThis"},
		Plugins:          []api.Plugin{resolvePlugin(t.Packages)},
	})
	if len(result.Errors) > 0 {
		return product{Failures: failures(result.Errors)}
	}
	p := product{Code: string(result.OutputFiles[0].Contents)}
	p.readMeta(result.Metafile)
	return p
}

// resolvePlugin finds the entry as an import of it would, never as a file beside the packages directory, and leaves
// the modules that the guest has to the guest.
func resolvePlugin(dir string) api.Plugin {
	return api.Plugin{Name: "resolve", Setup: func(build api.PluginBuild) {
		build.OnResolve(api.OnResolveOptions{Filter: "."}, func(args api.OnResolveArgs) (api.OnResolveResult, error) {
			if args.Kind == api.ResolveEntryPoint {
				found := build.Resolve(args.Path, api.ResolveOptions{ResolveDir: dir, Kind: api.ResolveJSImportStatement})
				return api.OnResolveResult{Path: found.Path, Errors: found.Errors}, nil
			}
			if name := strings.TrimPrefix(args.Path, "node:"); slices.Contains(builtins, name) {
				return api.OnResolveResult{Path: name, External: true}, nil
			}
			return api.OnResolveResult{}, nil
		})
	}}
}

// readMeta reads from esbuild's metafile whether the entry is an ES module, and which of the guest's modules it uses.
func (p *product) readMeta(metafile string) {
	var meta struct {
		Inputs  map[string]struct{ Format string }
		Outputs map[string]struct {
			EntryPoint string
			Imports    []struct{ Path string }
		}
	}
	if err := json.Unmarshal([]byte(metafile), &meta); err != nil {
		return
	}
	for _, output := range meta.Outputs { // one output
		p.ESM = meta.Inputs[output.EntryPoint].Format == "esm"
		for _, i := range output.Imports {
			if slices.Contains(builtins, i.Path) { // a missing module is reported too, if the package handles that
				p.Builtins = append(p.Builtins, i.Path)
			}
		}
	}
	slices.Sort(p.Builtins)
	p.Builtins = slices.Compact(p.Builtins)
}

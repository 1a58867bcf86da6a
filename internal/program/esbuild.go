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

// task is a request to esbuild to transform a text or to bundle a package, or a request to read the uses of tools in a compiled
// program. It is sent to a compiler process unchanged.
type task struct {
	Text     string
	Language api.Loader
	Format   api.Format
	Compare  bool // asks whether Text is plain JavaScript

	Package  string // specifier of the package to bundle; "" if the task is about Text
	Packages string // absolute path of the directory that has the package

	ReadUses bool // asks for the uses of tools in Text, a compiled program whose parameters are Imports
	Imports  map[string]uses.Import
}

// product is the result of a task.
type product struct {
	Code     string
	Mappings string // version 3 source map of a transformed text
	Failures []failure
	Plain    bool // reports, if Compare was set, that Text has neither types nor syntax that the engines lack

	ESM      bool     // the package's entry is an ES module
	Builtins []string // the built-in modules that the package uses

	Uses uses.Uses // uses of tools in a compiled program

	TooLarge bool // the result exceeds maxProduct; the fields above are empty

	CPU time.Duration // processor time; 0 if it was not measured
}

// failure is an error that esbuild reports.
type failure struct {
	Text         string
	Line, Column int // line from 1 and byte column from 0; both 0 for packages
}

func (f *failure) Error() string { return fmt.Sprintf("%d:%d: %s", f.Line, f.Column, f.Text) }

// awaits reports whether the error is only a top-level await, which a function that is not async cannot contain.
func (f *failure) awaits() bool {
	return strings.HasPrefix(f.Text, "Top-level await is currently not supported")
}

// languages returns the loaders to parse a file with, the likelier one first. They disagree about very little
// JavaScript (`a<b>(c)`).
func languages(name string) []api.Loader {
	switch strings.ToLower(path.Ext(name)) {
	case ".js", ".mjs", ".cjs":
		return []api.Loader{api.LoaderJS, api.LoaderTS}
	}
	return []api.Loader{api.LoaderTS, api.LoaderJS}
}

// transform compiles the text of a task, which belongs to the file called name, to JavaScript for the engines. The error is a *failure,
// or that of Options.run.
func (o Options) transform(ctx context.Context, name string, t task) (product, error) {
	p, err := o.run(ctx, name, t)
	if err == nil && len(p.Failures) > 0 {
		first := &p.Failures[0]
		first.Text = clip.Head(first.Text, 1000) // the message quotes the code
		err = first
	}
	return p, err
}

// maxProduct is the maximum size of code with its source map, in bytes. Code can grow without bounds: esbuild
// inlines the values of enums and the names of namespaces at every use.
const maxProduct = 32 << 20

// do performs the task. The caller bounds its cost.
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

// transform strips types and lowers syntax that an engine of ES2023 lacks. Both engines know the `v` flag of regular
// expressions; dynamic imports keep their attributes, because the guest's own function reads them.
func (t task) transform() product {
	options := api.TransformOptions{
		Loader:         t.Language,
		Target:         api.ES2023,
		Format:         t.Format,
		Sourcemap:      api.SourceMapExternal,
		SourcesContent: api.SourcesContentExclude,
		Sourcefile:     "module", // esbuild derives the names of its own variables from this name
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
		// A text whose output is the same without removing types and without lowering is plain.
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

// bundle bundles a package and its imports into one CommonJS module.
func (t task) bundle() product {
	result := api.Build(api.BuildOptions{
		EntryPoints:      []string{t.Package},
		AbsWorkingDir:    filepath.Dir(t.Packages),
		NodePaths:        []string{t.Packages},
		Outfile:          filepath.Join(t.Packages, "bundle.js"), // only a name: nothing is written, because Write is false
		Bundle:           true,
		Format:           api.FormatCommonJS,
		Platform:         api.PlatformBrowser, // many packages contain code for browsers that does without Node's modules
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

// resolvePlugin resolves the entry as an import declaration would, never as a file beside the packages directory. It leaves the
// built-in modules of the guest external.
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

// readMeta reads from esbuild's metafile whether the entry is an ES module, and which of the guest's modules the package uses.
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
	for _, output := range meta.Outputs { // the map has one entry
		p.ESM = meta.Inputs[output.EntryPoint].Format == "esm"
		for _, i := range output.Imports {
			if slices.Contains(builtins, i.Path) { // esbuild also reports a missing module if the package handles its absence
				p.Builtins = append(p.Builtins, i.Path)
			}
		}
	}
	slices.Sort(p.Builtins)
	p.Builtins = slices.Compact(p.Builtins)
}

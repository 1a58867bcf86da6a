package program

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/evanw/esbuild/pkg/api"

	"mcp-code-exec-harness/internal/frame"
)

// maxPackage is the size of a bundled package, in bytes.
const maxPackage = 4 << 20

// bundle is an npm package with everything it needs, as one module.
type bundle struct {
	code     string
	esm      bool
	builtins []string
}

// npm bundles a package of the packages directory.
func (l *loader) npm(specifier string) (string, error) {
	id := "npm:" + specifier
	if l.units[id] != nil {
		return id, nil
	}
	name := packageName(specifier)
	if name == "" || l.opts.Packages == "" || !isDir(filepath.Join(l.opts.Packages, filepath.FromSlash(name))) {
		return "", l.unavailable(specifier)
	}
	b, err := l.bundle(specifier, name)
	if err != nil {
		return "", err
	}
	u := &unit{Module: frame.Module{ID: id, Kind: "js", Code: b.code, ESM: b.esm}}
	if err := l.add(u); err != nil {
		return "", err
	}
	for _, builtin := range b.builtins {
		if u.Deps == nil {
			u.Deps = map[string]string{}
		}
		u.Deps[builtin] = l.builtin(builtin)
	}
	l.order = append(l.order, u)
	return id, nil
}

// packageName is the package that a specifier names, "" if it cannot name one.
func packageName(specifier string) string {
	parts := strings.Split(specifier, "/")
	for _, part := range parts {
		if part == "" || part == "." || part == ".." || strings.ContainsAny(part, "\\:\x00") {
			return ""
		}
	}
	if strings.HasPrefix(specifier, ".") {
		return ""
	}
	if strings.HasPrefix(specifier, "@") {
		if len(parts) < 2 {
			return ""
		}
		return parts[0] + "/" + parts[1]
	}
	return parts[0]
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// unavailable says that a package cannot be imported, and what can.
func (l *loader) unavailable(specifier string) error {
	e := &Error{Kind: l.kind, Message: fmt.Sprintf("package %q is not available", specifier), cause: fs.ErrNotExist}
	names := slices.Clone(builtins)
	e.Hint = "write the few lines needed yourself, or call a tool"
	if l.opts.Packages == "" {
		e.Hint += "; no npm packages are configured (sandbox.packages names a node_modules directory of pure JavaScript packages)"
	} else {
		names = append(names, installed(l.opts.Packages)...)
		e.Hint += "; npm packages come from the directory that sandbox.packages names"
	}
	e.Hint += "; importable are ./servers/<server>, /skills/<file>, /workspace/<file>, " + listed(names)
	if rest, ok := strings.CutPrefix(specifier, "skills/"); ok {
		e.Hint = "skills are imported by their absolute path: '/skills/" + rest + "'"
	}
	return e
}

// installed lists the packages of a directory.
func installed(dir string) []string {
	var names []string
	entries, _ := os.ReadDir(dir) // a directory that cannot be read has nothing to offer
	for _, entry := range entries {
		switch name := entry.Name(); {
		case strings.HasPrefix(name, "@"):
			scoped, _ := os.ReadDir(filepath.Join(dir, name))
			for _, s := range scoped {
				names = append(names, name+"/"+s.Name())
			}
		case !strings.HasPrefix(name, "."):
			names = append(names, name)
		}
	}
	return names
}

// bundle makes one CommonJS module of a package and what it imports. Bundles are cached by version.
func (l *loader) bundle(specifier, name string) (*bundle, error) {
	manifest, err := os.ReadFile(filepath.Join(l.opts.Packages, filepath.FromSlash(name), "package.json"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read package %s: %w", name, err)
	}
	var version struct{ Version string }
	_ = json.Unmarshal(manifest, &version) // esbuild reports a broken manifest
	key := keyOf("package", l.opts.Packages, specifier, version.Version, string(manifest))
	if b, ok := get[*bundle](l.opts.Cache, key); ok {
		return b, nil
	}
	dir, err := filepath.Abs(l.opts.Packages)
	if err != nil {
		return nil, fmt.Errorf("find packages directory %s: %w", l.opts.Packages, err)
	}
	var used []string
	result := api.Build(api.BuildOptions{
		EntryPoints:      []string{specifier},
		AbsWorkingDir:    filepath.Dir(dir),
		NodePaths:        []string{dir},
		Outfile:          filepath.Join(dir, "bundle.js"), // named only: Write is false
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
		Plugins:          []api.Plugin{resolvePlugin(dir, &used)},
	})
	if err := l.ctx.Err(); err != nil {
		return nil, err
	}
	if len(result.Errors) > 0 {
		return nil, l.unbundled(specifier, result.Errors)
	}
	code := string(result.OutputFiles[0].Contents)
	if len(code) > maxPackage {
		return nil, &Error{Kind: l.kind, Message: fmt.Sprintf("package %q has %d bytes when bundled, more than the %d allowed",
			specifier, len(code), maxPackage), Hint: "import only the part of it that is needed, as 'package/part'"}
	}
	dynamic := fresh(code, "_imprt")
	_, code, _ = rewriteImports(code, dynamic, false)
	slices.Sort(used)
	b := &bundle{
		code:     "(function(exports, require, module, " + dynamic + ") {\n" + code + "\n})",
		esm:      isESMBundle(result.Metafile),
		builtins: slices.Compact(used),
	}
	l.opts.Cache.put(key, b, len(b.code))
	return b, nil
}

// resolvePlugin finds the entry as an import of it would, never as a file beside the packages directory, and leaves
// the modules that the guest has to the guest.
func resolvePlugin(dir string, used *[]string) api.Plugin {
	return api.Plugin{Name: "resolve", Setup: func(build api.PluginBuild) {
		build.OnResolve(api.OnResolveOptions{Filter: "."}, func(args api.OnResolveArgs) (api.OnResolveResult, error) {
			if args.Kind == api.ResolveEntryPoint {
				found := build.Resolve(args.Path, api.ResolveOptions{ResolveDir: dir, Kind: api.ResolveJSImportStatement})
				return api.OnResolveResult{Path: found.Path, Errors: found.Errors}, nil
			}
			if name := strings.TrimPrefix(args.Path, "node:"); slices.Contains(builtins, name) {
				*used = append(*used, name)
				return api.OnResolveResult{Path: name, External: true}, nil
			}
			return api.OnResolveResult{}, nil
		})
	}}
}

// isESMBundle reads from esbuild's metafile whether the entry is an ES module.
func isESMBundle(metafile string) bool {
	var meta struct {
		Inputs  map[string]struct{ Format string }
		Outputs map[string]struct{ EntryPoint string }
	}
	if err := json.Unmarshal([]byte(metafile), &meta); err != nil {
		return false
	}
	for _, output := range meta.Outputs {
		if output.EntryPoint != "" {
			return meta.Inputs[output.EntryPoint].Format == "esm"
		}
	}
	return false
}

// unbundled says why a package cannot be used.
func (l *loader) unbundled(specifier string, messages []api.Message) error {
	var missing []string
	unresolved := regexp.MustCompile(`^Could not resolve "(.+)"`)
	for _, m := range messages {
		if match := unresolved.FindStringSubmatch(m.Text); match != nil {
			missing = append(missing, strings.TrimPrefix(match[1], "node:"))
		}
	}
	slices.Sort(missing)
	missing = slices.Compact(missing)
	reason, hint := messages[0].Text, ""
	if len(missing) > 0 {
		reason = "it needs " + listed(missing)
		hint = "packages may use pure JavaScript and " + strings.Join(builtins, ", ")
	}
	return &Error{
		Kind: l.kind, Hint: hint,
		Message: fmt.Sprintf("package %q cannot be used in the sandbox: %s", specifier, reason),
	}
}

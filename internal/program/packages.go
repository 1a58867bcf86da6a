package program

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/catalog/ident"
	"mcp-code-exec-harness/internal/frame"
)

// maxPackage is the maximum size of a bundled package, in bytes.
const maxPackage = 4 << 20

// npm bundles a package of the packages directory, adds it as a module, and returns the module's id.
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
	u := &unit{Module: frame.Module{ID: id, Kind: "js", Code: b.Code, ESM: b.ESM}}
	for _, builtin := range b.Builtins {
		if u.Deps == nil {
			u.Deps = map[string]string{}
		}
		u.Deps[builtin] = l.builtin("builtin:"+builtin, builtin)
	}
	return id, l.addLoaded(u)
}

// packageName returns the package that a specifier names, or "" if it cannot name one.
func packageName(specifier string) string {
	if !fs.ValidPath(specifier) || strings.ContainsAny(specifier, "\\:\x00") || strings.HasPrefix(specifier, ".") {
		return ""
	}
	parts := strings.SplitN(specifier, "/", 3)
	if !strings.HasPrefix(specifier, "@") {
		return parts[0]
	}
	if len(parts) < 2 {
		return ""
	}
	return parts[0] + "/" + parts[1]
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// unavailable returns the error for a package that cannot be imported. It lists what can be imported.
func (l *loader) unavailable(specifier string) error {
	e := &Error{Message: fmt.Sprintf("package %q is not available", specifier), cause: fs.ErrNotExist}
	names := append([]string{"fs"}, modules()...)
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
	} else if server := l.meantServer(specifier); server != "" {
		e.Hint = "servers are imported from ./servers: import * as " + ident.Camel(server) + " from './servers/" + server + "'; without an import: await tools." +
			ident.Camel(server) + ".TOOL({…})"
	}
	return e
}

// maxAsked is the time to wait for servers that are starting, so that an error can name the server that was meant.
const maxAsked = 3 * time.Second

// meantServer returns the server that a specifier may mean if it names no package, or "" if there is none.
func (l *loader) meantServer(specifier string) string {
	prefixed := false
	name := specifier
	for _, prefix := range []string{"mcp:", "mcp-server:", "@mcp/", "mcp/", "server:", "servers/", "servers:", "tool:", "tools/", "tools:", "npm:"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			name, prefixed = strings.TrimLeft(rest, "/"), true
		}
	}
	if strings.HasPrefix(name, "@modelcontextprotocol/") {
		name, prefixed = "server", false // a client library, or a server's npm package (server-NAME)
		if rest, ok := strings.CutPrefix(specifier, "@modelcontextprotocol/server-"); ok {
			name, prefixed = rest, true
		}
	}
	name, _, _ = strings.Cut(name, "/")
	if l.opts.Resolver == nil || name == "" {
		return ""
	}
	ctx, stop := context.WithTimeout(l.ctx, maxAsked)
	defer stop()
	if m, err := l.opts.Resolver.Server(ctx, name); err == nil {
		return m.Server
	}
	if prefixed && !strings.HasPrefix(specifier, "npm:") || strings.HasPrefix(specifier, "@modelcontextprotocol/") {
		return "server"
	}
	return ""
}

// installed lists the packages of a directory.
func installed(dir string) []string {
	var names []string
	entries, _ := os.ReadDir(dir) // a directory that cannot be read offers no packages
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

// bundle bundles a package and its imports into one CommonJS module. The comment on Cache says when a package is
// bundled again.
func (l *loader) bundle(specifier, name string) (b product, err error) {
	manifest, err := os.ReadFile(filepath.Join(l.opts.Packages, filepath.FromSlash(name), "package.json"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return b, fmt.Errorf("read package %s: %w", name, err)
	}
	key := keyOf("package", l.opts.Packages, specifier, string(manifest))
	if b, ok := get[product](l.opts.Cache, key); ok {
		return b, nil
	}
	dir, err := filepath.Abs(l.opts.Packages)
	if err != nil {
		return b, fmt.Errorf("find packages directory %s: %w", l.opts.Packages, err)
	}
	if b, err = l.opts.run(l.ctx, specifier, task{Package: specifier, Packages: dir}); err != nil {
		return b, err
	}
	if len(b.Failures) > 0 {
		return b, unbundled(specifier, b.Failures)
	}
	if len(b.Code) > maxPackage {
		return b, errorf("import only the part of it that is needed, as 'package/part'",
			"package %q has %d bytes when bundled, more than the %d allowed", specifier, len(b.Code), maxPackage)
	}
	dynamic := fresh(b.Code, "_imprt")
	_, code, _ := rewriteImports(b.Code, dynamic)
	b.Code = "(function(exports, require, module, " + dynamic + ") {\n" + code + "\n})"
	l.opts.Cache.put(key, b, len(b.Code))
	return b, nil
}

// unbundled returns the error for a package that esbuild cannot bundle.
func unbundled(specifier string, failures []failure) error {
	var missing []string
	unresolved := regexp.MustCompile(`^Could not resolve "(.+)"`)
	for _, f := range failures {
		if match := unresolved.FindStringSubmatch(f.Text); match != nil {
			missing = append(missing, strings.TrimPrefix(match[1], "node:"))
		}
	}
	slices.Sort(missing)
	missing = slices.Compact(missing)
	reason, hint := failures[0].Text, ""
	if len(missing) > 0 {
		reason = "it needs " + listed(missing)
		hint = "packages may use pure JavaScript and " + strings.Join(modules(), ", ")
	}
	return errorf(hint, "package %q cannot be used in the sandbox: %s", specifier, reason)
}

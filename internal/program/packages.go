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

// bundle makes one CommonJS module of a package and what it imports. See Cache for when it is made again.
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
	p, err := l.opts.run(l.ctx, specifier, task{Package: specifier, Packages: dir})
	if err != nil {
		return nil, l.kinded(err)
	}
	if len(p.Failures) > 0 {
		return nil, l.unbundled(specifier, p.Failures)
	}
	code := p.Code
	if len(code) > maxPackage {
		return nil, &Error{Kind: l.kind, Message: fmt.Sprintf("package %q has %d bytes when bundled, more than the %d allowed",
			specifier, len(code), maxPackage), Hint: "import only the part of it that is needed, as 'package/part'"}
	}
	dynamic := fresh(code, "_imprt")
	_, code, _ = rewriteImports(code, dynamic, false)
	b := &bundle{
		code:     "(function(exports, require, module, " + dynamic + ") {\n" + code + "\n})",
		esm:      p.ESM,
		builtins: p.Builtins,
	}
	l.opts.Cache.put(key, b, len(b.code))
	return b, nil
}

// unbundled says why a package cannot be used.
func (l *loader) unbundled(specifier string, failures []failure) error {
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
		hint = "packages may use pure JavaScript and " + strings.Join(builtins, ", ")
	}
	return &Error{
		Kind: l.kind, Hint: hint,
		Message: fmt.Sprintf("package %q cannot be used in the sandbox: %s", specifier, reason),
	}
}

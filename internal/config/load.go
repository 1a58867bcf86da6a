package config

import (
	"cmp"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/catalog/ident"
)

// loader builds a Config, layer upon layer.
type loader struct {
	e         Env
	config    *Config
	keys      []key
	name      string // of the file in messages
	dir       string // of the file, else the working directory
	environ   layer
	dotenv    layer
	positions map[string]position // of each key that is set
	bases     map[string]string   // what a relative path in it means
	raw       map[string]string   // the text of secrets that stand in the file, ${VAR} not expanded
	expanded  map[string]bool     // variables that a ${VAR} asked for
	servers   map[string]serverSource
	problems  []error
	// postponed are problems of keys that most commands do not need, by path.
	postponed map[string]postponed
	warnings  []Warning
}

type postponed struct {
	err    error
	weight int // of the wrong value
}

func newLoader(e Env) (*loader, error) {
	environ := environment(e.Environ, e.GOOS)
	file, found, personal, err := locate(e, environ)
	if err != nil {
		return nil, err
	}
	l := &loader{
		e: e, config: &Config{}, keys: configKeys(), dir: filepath.Dir(file),
		environ:   layer{environ, "environment variable ", e.Cwd, environWeight},
		positions: map[string]position{}, bases: map[string]string{}, raw: map[string]string{}, expanded: map[string]bool{},
		servers: map[string]serverSource{}, postponed: map[string]postponed{},
	}
	if found {
		l.config.File = file
		l.name = file
		if rel, err := filepath.Rel(e.Cwd, file); err == nil && filepath.IsLocal(rel) {
			l.name = rel
		}
	}
	vars, err := readDotenv(filepath.Join(l.dir, ".env"))
	if err != nil {
		return nil, err
	}
	l.dotenv = layer{vars, ".env variable ", l.dir, dotenvWeight}
	switch {
	case found && !personal:
		l.config.StateDir = filepath.Join(l.dir, "data")
	default:
		l.config.StateDir = stateDir(e, environ)
	}
	if l.config.StateDir == "" {
		return nil, &Error{
			Source: "environment", Problem: "there is no directory for data, because the home directory is unknown",
			Hint: "set HOME (on Windows LOCALAPPDATA), or make a harness.yaml with `harness init`",
		}
	}
	return l, nil
}

func (l *loader) problem(err error) { l.problems = append(l.problems, err) }

// postpone records a problem of a key that only some commands need. A value of a higher weight replaces it.
func (l *loader) postpone(path string, err *Error, weight int) {
	switch other := l.postponed[path]; {
	case l.positions[path].weight > weight || other.weight > weight:
	case other.weight == weight:
		l.postponed[path] = postponed{errors.Join(other.err, err), weight}
	default:
		l.postponed[path] = postponed{err, weight}
	}
}

func (l *loader) warn(at position, key, message string) {
	l.warnings = append(l.warnings, Warning{at.String(), key, message})
}

func (l *loader) key(path string) (key, bool) {
	for _, k := range l.keys {
		if slices.Contains(k.paths(), path) {
			return k, true
		}
	}
	return key{}, false
}

func (l *loader) field(k key) reflect.Value {
	return reflect.ValueOf(l.config).Elem().FieldByIndex(k.index)
}

func (l *loader) defaults() {
	for _, k := range l.keys {
		k.value = strings.ReplaceAll(k.value, "{state}", l.config.StateDir)
		k.assignDefault(l.field(k))
	}
}

func (k key) assignDefault(dst reflect.Value) {
	if k.value == "" {
		return
	}
	if err := k.assign(dst, node{kind: scalar, text: k.value}); err != nil {
		panic("config: bad default: " + err.Error())
	}
}

// set stores the value of a key, unless a value of a higher weight is stored. A null counts as absent.
func (l *loader) set(path string, n node, base string) {
	k, ok := l.key(path)
	if !ok {
		l.problem(n.errorf(path, l.suggest(path), "there is no such key"))
		return
	}
	if n.kind == null {
		return
	}
	path = k.path
	dst := l.field(k)
	lighter := n.weight < l.positions[path].weight
	if lighter {
		dst = reflect.New(k.typ).Elem() // only checked
	}
	raw := n.text
	if k.secret && n.line > 0 && n.kind == scalar {
		text, err := expand(n.text, l.lookup)
		if err != nil {
			l.postpone(path, n.errorf(path, "", "%v", err), n.weight)
		}
		n.text = text
	}
	if err := k.assign(dst, n); err != nil {
		l.problem(err)
		return
	}
	if lighter {
		return
	}
	if l.postponed[path].weight < n.weight {
		delete(l.postponed, path)
	}
	delete(l.raw, path)
	if k.secret && n.line > 0 {
		l.raw[path] = raw
	}
	l.positions[path], l.bases[path] = n.position, base
}

// file takes over what harness.yaml says.
func (l *loader) file() {
	if l.config.File == "" {
		return
	}
	at := position{source: l.name, line: 1, column: 1, weight: fileWeight}
	data, err := os.ReadFile(l.config.File)
	if err != nil {
		l.problem(&Error{Source: l.name, Problem: "it cannot be read: " + reason(err)})
		return
	}
	root, err := parse(data, at)
	if err != nil {
		l.problem(err)
		return
	}
	if root.kind != mapping && root.kind != null {
		l.problem(root.errorf("", "see `harness init` for an example",
			"the file must be a mapping of keys to values, not %s", root.kind))
		return
	}
	for _, f := range root.keys {
		switch f.name {
		case "$schema":
		case "mcpServers":
			l.serversFrom(f.value, l.dir)
		case "pii", "policy":
			l.unavailable(f.name, f.position)
		default:
			l.member(f, "", map[string]string{})
		}
	}
}

// member takes over a key of the mapping with the given path, or the keys below it. Given has the name that each key
// of the mapping was given by.
func (l *loader) member(f field, parent string, given map[string]string) {
	path := parent + f.name
	k, known := l.key(path)
	switch other := given[k.path]; {
	case known && other != "":
		l.problem(f.errorf(path, "remove one of them", "it is another name of %s, which is given too", other))
	case known:
		given[k.path] = f.name
		l.set(path, f.value, l.dir)
	case !l.isGroup(path):
		l.problem(f.errorf(path, l.suggest(path), "there is no such key"))
	case f.value.kind == mapping:
		inside := map[string]string{}
		for _, inner := range f.value.keys {
			l.member(inner, path+".", inside)
		}
	case f.value.kind != null:
		l.problem(f.value.errorf(path, "write its keys indented below it", "it must be a mapping, not %s", f.value.kind))
	}
}

// isGroup reports whether keys stand below a path.
func (l *loader) isGroup(path string) bool {
	return slices.ContainsFunc(l.keys, func(k key) bool { return strings.HasPrefix(k.path, path+".") })
}

// unavailable refuses a key for a protection that this version does not have.
func (l *loader) unavailable(name string, at position) {
	l.problem(at.errorf(name, "remove it; without it nothing is protected in this way", "this is not available in this version"))
}

// suggest is a hint for an unknown key: a similar key beside it, the same name in another section, or else the keys
// beside it.
func (l *loader) suggest(path string) string {
	parent, name, nested := cutLast(path, ".")
	if nested {
		parent += "."
	} else {
		parent, name = "", path
	}
	var neighbours, found []string
	for _, k := range l.keys {
		below, ok := strings.CutPrefix(k.path, parent)
		if next, _, _ := strings.Cut(below, "."); ok && !slices.Contains(neighbours, next) {
			neighbours = append(neighbours, next)
		}
	}
	if !nested {
		neighbours = append(neighbours, "mcpServers")
	}
	for _, n := range ident.Closest(name, neighbours) {
		found = append(found, parent+n)
	}
	if len(found) == 0 {
		for _, k := range l.keys {
			if fold(k.name) == fold(name) {
				found = append(found, k.path)
			}
		}
	}
	return meantOrKnown(found, neighbours)
}

func (l *loader) flags() {
	for _, path := range sortedKeys(l.e.Flags) {
		l.setText(path, l.e.Flags[path], position{source: "flag", weight: flagWeight}, l.e.Cwd)
	}
}

// finish resolves what depends on several keys, and checks the whole.
func (l *loader) finish() {
	l.paths()
	l.originalServers()
	for _, name := range sortedKeys(l.servers) {
		l.addServer(name, l.servers[name])
	}
	l.guestVariables()
	l.validate()
	l.chooseModel()
	l.notes()
	l.effective()
}

// variable looks a variable up in the environment, then in .env. One that is set to nothing counts as not set.
func (l *loader) variable(name string) (text string, at position) {
	for _, v := range [...]layer{l.environ, l.dotenv} {
		if text := v.vars[name]; text != "" {
			return text, v.position(name)
		}
	}
	return "", position{}
}

func (l *loader) paths() {
	for _, k := range l.keys {
		if !k.isPath {
			continue
		}
		base := cmp.Or(l.bases[k.path], l.dir)
		switch f := l.field(k); {
		case f.Kind() == reflect.Slice:
			for i := range f.Len() {
				f.Index(i).SetString(absolute(f.Index(i).String(), base, l.e.HomeDir))
			}
		case f.String() != "":
			f.SetString(absolute(f.String(), base, l.e.HomeDir))
		}
	}
	const store = "store.url"
	if path, ok := strings.CutPrefix(l.config.Store.URL, sqlitePrefix); ok && path != "" {
		path = strings.TrimPrefix(path, "//") // sqlite:///abs/path
		if len(path) > 2 && path[0] == '/' && path[2] == ':' {
			path = path[1:] // sqlite:///C:/path
		}
		l.config.Store.URL = sqlitePrefix + absolute(path, cmp.Or(l.bases[store], l.dir), l.e.HomeDir)
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

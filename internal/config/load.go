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
)

// loader builds a Config, layer upon layer.
type loader struct {
	e        Env
	config   *Config
	sections []section
	name     string // of the file in messages
	dir      string // of the file, else the working directory
	environ  layer
	dotenv   layer
	places   map[string]place  // of each key that is set
	bases    map[string]string // what a relative path in it means
	raw      map[string]string // the text of secrets that stand in the file, ${VAR} not expanded
	expanded map[string]bool   // variables that a ${VAR} asked for
	servers  map[string]serverSource
	problems []error
	// postponed are problems of keys that most commands do not need.
	postponed map[string]postponed
	warnings  []Warning
}

type postponed struct {
	err    error
	weight int // of what is wrong
}

func newLoader(e Env) (*loader, error) {
	environ := environment(e.Environ, e.GOOS)
	file, found, personal, err := locate(e, environ)
	if err != nil {
		return nil, err
	}
	l := &loader{
		e: e, config: &Config{}, sections: sections(), dir: filepath.Dir(file),
		environ: layer{environ, "environment variable ", e.Cwd, environWeight},
		places:  map[string]place{}, bases: map[string]string{}, raw: map[string]string{}, expanded: map[string]bool{},
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
			Source: "environment", Problem: "it does not tell where data may be kept, because the home directory is unknown",
			Hint: "set HOME (on Windows LOCALAPPDATA), or make a harness.yaml with `harness init`",
		}
	}
	return l, nil
}

func (l *loader) problem(err error) { l.problems = append(l.problems, err) }

// postpone keeps a problem of a key for those who need it, unless a heavier value comes.
func (l *loader) postpone(path string, err *Error, weight int) {
	switch other := l.postponed[path]; {
	case l.places[path].weight > weight || other.weight > weight:
	case other.weight == weight:
		l.postponed[path] = postponed{errors.Join(other.err, err), weight}
	default:
		l.postponed[path] = postponed{err, weight}
	}
}

func (l *loader) warn(at place, key, message string) {
	l.warnings = append(l.warnings, Warning{at.String(), key, message})
}

func (l *loader) key(path string) (key, bool) {
	for _, s := range l.sections {
		for _, k := range s.keys {
			if slices.Contains(k.names(), path) {
				return k, true
			}
		}
	}
	return key{}, false
}

// composite says whether a key holds a list or a mapping.
func (k key) composite() bool { return k.typ.Kind() == reflect.Slice || k.typ.Kind() == reflect.Map }

func (l *loader) field(k key) reflect.Value {
	for _, s := range l.sections {
		if s.name == k.section {
			return reflect.ValueOf(l.config).Elem().Field(s.index).FieldByIndex(k.index)
		}
	}
	panic("config: no section " + k.section)
}

func (l *loader) defaults() {
	for _, s := range l.sections {
		for _, k := range s.keys {
			if k.value == "" {
				continue
			}
			text := strings.ReplaceAll(k.value, "{state}", l.config.StateDir)
			if err := k.assign(l.field(k), node{kind: scalar, text: text}); err != nil {
				panic("config: bad default: " + err.Error())
			}
		}
	}
}

// set stores the value of a key, unless a heavier one is there. A key with nothing behind it counts as absent.
func (l *loader) set(path string, n node, base string) {
	k, ok := l.key(path)
	if !ok {
		l.problem(n.errorf(path, l.suggest(path), "there is no such key"))
		return
	}
	if n.kind == null {
		return
	}
	path = k.path()
	dst := l.field(k)
	lighter := n.weight < l.places[path].weight
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
	l.places[path], l.bases[path] = n.place, base
}

// file takes over what harness.yaml says.
func (l *loader) file() {
	if l.config.File == "" {
		return
	}
	at := place{source: l.name, line: 1, column: 1, weight: fileWeight}
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
		l.topLevel(f)
	}
}

func (l *loader) topLevel(f field) {
	switch f.name {
	case "$schema":
		return
	case "mcpServers":
		l.serversFrom(f.value, l.dir)
		return
	case "pii", "policy":
		l.unavailable(f.name, f.place)
		return
	}
	i := slices.IndexFunc(l.sections, func(s section) bool { return s.name == f.name })
	if i < 0 {
		l.problem(f.errorf(f.name, l.suggest(f.name), "there is no such key"))
		return
	}
	l.members(f)
}

// members takes over the keys of a section or group; the name of f is its path.
func (l *loader) members(f field) {
	switch f.value.kind {
	case null:
	case mapping:
		names := map[string]string{} // path of a key -> the name that it is given by
		for _, inner := range f.value.keys {
			path := f.name + "." + inner.name
			k, known := l.key(path)
			switch other := names[k.path()]; {
			case known && other != "":
				l.problem(inner.errorf(path, "remove one of them", "it is another name of %s, which is given too", other))
			case known:
				names[k.path()] = inner.name
				l.set(path, inner.value, l.dir)
			case l.isGroup(path):
				l.members(field{path, inner.place, inner.value})
			default:
				l.problem(inner.errorf(path, l.suggest(path), "there is no such key"))
			}
		}
	default:
		l.problem(f.value.errorf(f.name, "write its keys indented below it",
			"it must be a mapping, not %s", f.value.kind))
	}
}

// isGroup says whether keys stand below a path.
func (l *loader) isGroup(path string) bool {
	return slices.ContainsFunc(l.sections, func(s section) bool {
		return slices.ContainsFunc(s.keys, func(k key) bool { return strings.HasPrefix(k.path(), path+".") })
	})
}

// unavailable refuses a key that protects something and that this version cannot obey.
func (l *loader) unavailable(name string, at place) {
	l.problem(at.errorf(name, "remove it; without it nothing is protected in this way", "this is not available in this version"))
}

// suggest finds what an unknown key was meant to be: a neighbour, the same name in another section, else it lists
// what there is.
func (l *loader) suggest(path string) string {
	parent, name, nested := cutLast(path, ".")
	if nested {
		parent += "."
	} else {
		parent, name = "", path
	}
	var neighbours, all []string
	for _, s := range l.sections {
		for _, k := range s.keys {
			all = append(all, k.path())
			below, ok := strings.CutPrefix(k.path(), parent)
			if next, _, _ := strings.Cut(below, "."); ok && !slices.Contains(neighbours, next) {
				neighbours = append(neighbours, next)
			}
		}
	}
	if !nested {
		neighbours = append(neighbours, "mcpServers")
	}
	var found []string
	for _, n := range closest(name, neighbours) {
		found = append(found, parent+n)
	}
	if len(found) == 0 {
		for _, p := range all {
			if _, last, _ := cutLast(p, "."); fold(last) == fold(name) {
				found = append(found, p)
			}
		}
	}
	if len(found) > 0 || len(neighbours) == 0 {
		return didYouMean(found)
	}
	return "known keys are " + strings.Join(neighbours, ", ")
}

func (l *loader) flags() {
	for _, path := range sortedKeys(l.e.Flags) {
		l.setText(path, l.e.Flags[path], place{source: "flag", weight: flagWeight}, l.e.Cwd)
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
func (l *loader) variable(name string) (text string, at place) {
	for _, v := range [...]layer{l.environ, l.dotenv} {
		if text := v.vars[name]; text != "" {
			return text, v.place(name)
		}
	}
	return "", place{}
}

func (l *loader) paths() {
	for _, s := range l.sections {
		for _, k := range s.keys {
			if !k.isPath {
				continue
			}
			base := cmp.Or(l.bases[k.path()], l.dir)
			switch f := l.field(k); f.Kind() {
			case reflect.Slice:
				for i := range f.Len() {
					f.Index(i).SetString(absolute(f.Index(i).String(), base, l.e.HomeDir))
				}
			default:
				if f.String() != "" {
					f.SetString(absolute(f.String(), base, l.e.HomeDir))
				}
			}
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

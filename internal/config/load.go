package config

import (
	"cmp"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/catalog/ident"
)

// loader builds a Config. It collects the settings of all layers in order of increasing precedence, and then applies them in the same
// order. In between, it chooses the model's provider from the settings, because some variables apply only to one provider.
type loader struct {
	e        Env
	config   *Config
	sections []key
	keys     []key // the settings in the sections
	byPath   map[string]key
	name     string // name of the file in messages
	files    *sources
	preview  bool     // only the text of the configuration is examined: no other file is read
	kept     []string // values of the secrets that the last expansion used
	dir      string   // directory of the file, else the working directory
	environ  layer
	dotenv   layer
	settings []setting
	given    map[string]setting // setting in effect, by path
	expanded map[string]bool    // variables that a placeholder ${VAR} names
	servers  map[string]serverSource
	problems []error
	warnings []*Error
}

// setting is a value that a layer assigns to a key.
type setting struct {
	node
	key      key
	raw      string // text of a secret in the file before ${VAR} is expanded
	base     string // folder that relative paths are resolved against
	part     string // "host" or "port" if the value replaces only this part of the key's address
	provider string // provider for which the setting applies; empty means every provider
	lenient  bool   // a bad value is added to errs instead of failing Load
	// errs holds the problems of the value. Only the commands that need the key report them.
	errs []error
}

func newLoader(e Env) (*loader, error) {
	environ := environment(e.Environ, e.GOOS)
	files, err := find(e, environ)
	if err != nil {
		return nil, err
	}
	vars, err := parseDotenv(files.dotenvPath(), files.dotenv)
	if err != nil {
		return nil, err
	}
	return loaderOf(e, environ, files, vars)
}

// loaderOf returns a loader for files that may take effect; vars are the variables of .env.
func loaderOf(e Env, environ map[string]string, files *sources, vars map[string]string) (*loader, error) {
	file, dir := files.path, filepath.Dir(files.path)
	l := &loader{
		e: e, config: &Config{StateDir: filepath.Join(dir, "data")}, dir: dir, files: files, warnings: files.warnings,
		environ: layer{environ, "environment variable ", e.Cwd}, dotenv: layer{vars, ".env variable ", dir},
		byPath: map[string]key{}, given: map[string]setting{}, expanded: map[string]bool{}, servers: map[string]serverSource{},
	}
	l.sections = configKeys(l.config)
	l.keys = leaves(l.sections)
	for _, k := range l.keys {
		l.byPath[k.path] = k
	}
	if files.how != "" {
		l.config.File, l.config.FileOrigin, l.name = file, files.how, file
		if rel, err := filepath.Rel(e.Cwd, file); err == nil && filepath.IsLocal(rel) {
			l.name = rel
		}
	}
	if files.how == "" || files.personal {
		l.config.StateDir = stateDirOf(e, environ)
	}
	if l.config.StateDir == "" {
		return nil, position{source: "environment"}.errorf("", "set HOME (on Windows LOCALAPPDATA), or make a harness.yaml with `harness init`",
			"there is no directory for data, because the home directory is unknown")
	}
	return l, nil
}

func (l *loader) problem(err *Error) {
	if err != nil {
		l.problems = append(l.problems, err)
	}
}

func (l *loader) warn(at position, key, problem, hint string) {
	l.warnings = append(l.warnings, at.errorf(key, hint, "%s", problem))
}

func (l *loader) file() {
	if l.config.File == "" {
		return
	}
	if l.files.err != nil {
		l.problem(position{source: l.name}.errorf("", "", "it cannot be read: %s", reason(l.files.err)))
		return
	}
	root, err := parse(l.files.text, position{source: l.name, line: 1, column: 1})
	switch {
	case err != nil:
		l.problems = append(l.problems, err)
	case root.kind != mapping && root.kind != null:
		l.problem(root.errorf("", "see `harness init` for an example", "the file must be a mapping of keys to values, not %s", root.kind))
	default:
		l.group(root, "", l.sections)
	}
}

// group collects the settings in a mapping; each path begins with parent.
func (l *loader) group(n node, parent string, keys []key) {
	for _, m := range match(n, parent, keys, l.problem, func(f field) { l.unknown(f.position, parent, f.name, keys) }) {
		switch {
		case m.key.path == "policy" && m.value.kind == list:
			l.set(setting{node: m.value, key: l.byPath["policy.rules"], base: l.dir})
		case !m.key.isGroup():
			l.set(setting{node: m.value, key: m.key, base: l.dir})
		case m.value.kind != mapping:
			l.problem(m.value.errorf(m.key.path, "write its keys indented below it", "it must be a mapping, not %s", m.value.kind))
		default:
			l.group(m.value, m.key.path+".", m.key.members())
		}
	}
}

// unknown reports a name that is not among keys. The hint is a similar key of the same section, else the same name in another section,
// else all keys of the section.
func (l *loader) unknown(at position, parent, name string, keys []key) {
	if parent+name == "$schema" {
		return
	}
	var found []string
	for _, similar := range ident.Closest(name, namesOf(keys, false)) {
		found = append(found, parent+similar)
	}
	if len(found) == 0 {
		for _, k := range l.keys {
			if fold(k.name()) == fold(name) {
				found = append(found, k.path)
			}
		}
	}
	l.problem(at.errorf(parent+name, meantOrKnown(found, namesOf(keys, false)), "unknown key"))
}

func (l *loader) flags() {
	for _, path := range slices.Sorted(maps.Keys(l.e.Flags)) {
		at := position{source: strings.TrimSpace("flag " + l.e.FlagNames[path])}
		if k, ok := l.byPath[path]; ok {
			l.setText(setting{node: node{position: at, kind: scalar, text: l.e.Flags[path]}, key: k, base: l.e.Cwd})
		} else {
			l.problem(at.errorf(path, "", "unknown key"))
		}
	}
}

// setText collects a setting from a variable or flag. The text of a mapping is YAML or JSON, as in the file. The text of a list is YAML
// or JSON too, or consists of the items separated by commas.
func (l *loader) setText(s setting) {
	t := strings.TrimSpace(s.text)
	if s.key.typ == serversType || s.key.composite() && t != "" && (t[0] == '{' || t[0] == '[') {
		parsed, err := parse([]byte(t), s.position)
		if err != nil {
			l.problem(s.errorf(s.key.path, "", "this is neither a list nor a mapping in YAML or JSON"))
			return
		}
		s.node = parsed
	}
	l.set(s)
}

// set collects a setting; null counts as absent.
func (l *loader) set(s setting) {
	switch {
	case s.kind == null:
		return
	case s.key.typ == serversType && s.kind != mapping:
		l.problem(s.errorf(s.key.path, "write the servers' names indented below it", "it must be a mapping, not %s", s.kind))
		return
	case s.key.typ == serversType:
		for _, f := range s.keys { // a server of a later layer replaces the server of the same name
			l.servers[f.name] = serverSource{field: f, base: s.base}
		}
		return
	case s.key.secret && s.line > 0 && s.kind == scalar:
		s.raw = s.text
		s.node = l.expand(s.key.path, s.node, func(err *Error) { s.errs = append(s.errs, err) })
		if s.errs != nil {
			s.text = ""
		}
	}
	l.settings = append(l.settings, s)
}

func (l *loader) apply() {
	for _, k := range l.keys {
		k.value = strings.ReplaceAll(k.value, "{state}", l.config.StateDir)
		k.assignDefault()
	}
	provider := l.chooseProvider()
	for _, s := range l.settings {
		path := s.key.path
		before := l.given[path]
		switch {
		case s.provider != "" && s.provider != provider:
			continue
		case s.part != "":
			text := s.text
			s.text, s.errs = withPart(s.key.dst.String(), s), before.errs
			if !isAddress(s.text) {
				before.errs = append(before.errs, s.errorf(path, "unset it, or set "+variableOf(s.key)+" to host:port", "%q is no %s", text, s.part))
				l.given[path] = before
				continue
			}
		}
		if err := s.key.assign(s.node); err != nil {
			if s.lenient {
				before.errs = append(before.errs, err)
				l.given[path] = before
			} else {
				l.problem(err)
			}
			continue
		}
		l.given[path] = s
	}
	for path, text := range profiles[l.config.Sandbox.Profile] {
		if _, set := l.at(path); !set {
			s := setting{node: node{position: l.given["sandbox.profile"].position, kind: scalar, text: text}, key: l.byPath[path]}
			l.problem(s.key.assign(s.node))
			l.given[path] = s
		}
	}
}

// at returns the position at which a key was set; set is false for a default.
func (l *loader) at(path string) (p position, set bool) {
	p = l.given[path].position
	return p, p.source != ""
}

// unusable returns the deferred problems (setting.errs) of each key for which needed returns true.
func (l *loader) unusable(needed func(path string) bool) (errs []error) {
	for _, path := range slices.Sorted(maps.Keys(l.given)) {
		if needed(path) {
			errs = append(errs, l.given[path].errs...)
		}
	}
	return errs
}

// finish completes and checks values that depend on several keys.
func (l *loader) finish() {
	l.paths()
	l.originalServers()
	for _, name := range slices.Sorted(maps.Keys(l.servers)) {
		l.problem(l.addServer(name, l.servers[name]))
	}
	l.guestVariables()
	l.policy()
	l.checkRuns()
	l.customPatterns()
	l.validate()
	l.finishModel()
	l.exposed()
	l.notes()
	for _, k := range l.keys {
		l.config.entries = append(l.config.entries, l.entriesOf(k)...)
	}
}

// variable looks up a variable in the environment, then in .env. An empty variable counts as not set.
func (l *loader) variable(name string) (text string, at position) {
	for _, v := range [...]layer{l.environ, l.dotenv} {
		if text := v.vars[name]; text != "" {
			return text, v.position(name)
		}
	}
	return "", position{}
}

func (l *loader) paths() {
	resolve := func(key, path string) string { return absolute(path, cmp.Or(l.given[key].base, l.dir), l.e.HomeDir) }
	for _, k := range l.keys {
		switch f := k.dst; {
		case !k.isPath:
		case f.Kind() == reflect.Slice:
			for i := range f.Len() {
				f.Index(i).SetString(resolve(k.path, f.Index(i).String()))
			}
		case f.String() != "":
			f.SetString(resolve(k.path, f.String()))
		}
	}
	if path, ok := strings.CutPrefix(l.config.Store.URL, sqlitePrefix); ok && path != "" {
		path = strings.TrimPrefix(path, "//") // sqlite:///abs/path
		if len(path) > 2 && path[0] == '/' && path[2] == ':' {
			path = path[1:] // sqlite:///C:/path
		}
		l.config.Store.URL = sqlitePrefix + resolve("store.url", path)
	}
}

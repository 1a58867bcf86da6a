package program

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/catalog/ident"
	"mcp-code-exec-harness/internal/frame"
)

// Limits of what one program, or one import at run time, may load.
const (
	maxModules = 200
	maxTexts   = 8 << 20 // total size of the loaded files, in bytes
)

// Loaded is the answer to a module host call. The guest reads its JSON. Map is part of the recorded answer, so that a run
// that is replayed from its journal can still locate errors.
type Loaded struct {
	ID      string         `json:"id"`
	Modules []frame.Module `json:"modules"` // the module and its imports, dependencies first
	Map     SourceMap      `json:"map"`
}

// CompileModule compiles a module that a running program, or the module with the id from, requires or imports. The error
// is an *Error, wraps the error of ctx and names the file, or says why no compiler process starts. CompileModule is safe
// for concurrent use.
func CompileModule(ctx context.Context, specifier, from string, opts Options) (*Loaded, error) {
	l := newLoader(ctx, opts)
	id, err := l.load(specifier, from)
	if err != nil {
		return nil, shownError(err)
	}
	modules, err := l.finish()
	if err != nil {
		return nil, shownError(err)
	}
	return &Loaded{ID: id, Modules: modules, Map: l.maps}, nil
}

// loader collects modules and their imports.
type loader struct {
	ctx   context.Context //nolint:containedctx // a loader lives as long as one call
	opts  Options
	units map[string]*unit
	order []*unit // dependencies first
	maps  SourceMap
	texts int // total bytes of loaded files

	exports map[string]map[string]bool // results of exportsOf by id, for modules whose imports are all loaded
}

// unit is a module that is being loaded.
type unit struct {
	frame.Module
	text   string
	script *script // nil unless the module is JavaScript of the user
}

func newLoader(ctx context.Context, opts Options) *loader {
	return &loader{
		ctx: ctx, opts: opts, units: map[string]*unit{}, exports: map[string]map[string]bool{},
		maps: SourceMap{},
	}
}

// add registers a module before its imports are loaded, so that import cycles end.
func (l *loader) add(u *unit) error {
	if len(l.units) == maxModules {
		return errorf("join small modules into larger ones", "more than %d modules are imported", maxModules)
	}
	l.units[u.ID] = u
	return nil
}

// addLoaded registers a module whose imports are all loaded.
func (l *loader) addLoaded(u *unit) error {
	l.order = append(l.order, u)
	return l.add(u)
}

// builtin adds a module that the guest's runtime provides under a name.
func (l *loader) builtin(id, name string) string {
	if l.units[id] == nil {
		u := &unit{Module: frame.Module{ID: id, Kind: "builtin", Server: name}}
		l.units[id] = u
		l.order = append(l.order, u)
	}
	return id
}

// server adds the module of an MCP server or of one of its functions.
func (l *loader) server(specifier, name string) (string, error) {
	if name == "" {
		return l.builtin("./servers", "servers"), nil
	}
	if l.opts.Resolver == nil {
		return "", errorf("", "cannot import %q: no servers are connected", specifier)
	}
	serverName, function, single := strings.Cut(name, "/")
	m, err := l.opts.Resolver.Server(l.ctx, serverName)
	if err != nil {
		return "", l.wrap(err, specifier)
	}
	m.Kind, m.ID = "server", "./servers/"+m.Server
	if single {
		i := slices.IndexFunc(m.Functions, func(f frame.Function) bool {
			return f.Name == function || f.Tool == m.Server+"__"+function
		})
		if i < 0 {
			i = slices.IndexFunc(m.Functions, func(f frame.Function) bool { return ident.Fold(f.Name) == ident.Fold(function) })
		}
		if i < 0 {
			var names []string
			for _, f := range m.Functions {
				names = append(names, f.Name)
			}
			return "", errorf("its tools are "+listed(names),
				"cannot import %q: server %q has no tool %q", specifier, m.Server, function)
		}
		m.Functions = m.Functions[i : i+1]
		m.ID += "/" + m.Functions[0].Name
	}
	if l.units[m.ID] != nil {
		return m.ID, nil
	}
	return m.ID, l.addLoaded(&unit{Module: m})
}

// wrap converts an error of the resolver.
func (l *loader) wrap(err error, specifier string) error {
	if ctxErr := l.ctx.Err(); ctxErr != nil {
		return ctxErr
	}
	return errorf("", "cannot import %q: %w", specifier, err)
}

// file loads the first existing file among those that the names can mean, in /skills, in /workspace or beside the program.
func (l *loader) file(specifier string, names ...string) (string, error) {
	var ids []string
	for _, name := range names {
		ids = append(ids, candidates(name)...)
	}
	for _, id := range ids {
		if l.units[id] != nil {
			return id, nil
		}
		if l.opts.Resolver == nil {
			break
		}
		text, err := l.opts.Resolver.Module(l.ctx, id)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", l.wrap(err, specifier)
		}
		return id, l.addFile(id, string(text))
	}
	e := &Error{Message: fmt.Sprintf("module %q does not exist", specifier), cause: fs.ErrNotExist}
	if names[0] != specifier {
		e.Message += fmt.Sprintf(" (looked for %s)", strings.Join(names, " and "))
	}
	if strings.HasPrefix(names[0], "/skills/") {
		e.Hint = "await fs.listFiles('/skills') lists the skills"
	}
	return "", e
}

// candidates returns the files that a path can mean, in the order of the attempts.
func candidates(name string) []string {
	ids := []string{name}
	if ending := path.Ext(name); ending == ".js" {
		return append(ids, strings.TrimSuffix(name, ".js")+".ts") // TypeScript sources import their neighbours as .js
	} else if slices.Contains([]string{".ts", ".mjs", ".cjs", ".mts", ".cts", ".json"}, ending) {
		return ids
	}
	for _, ending := range []string{".js", ".ts", ".mjs", ".cjs", ".json", "/index.js", "/index.ts", "/skill.js"} {
		ids = append(ids, name+ending)
	}
	return ids
}

// addFile adds the module with a file's text.
func (l *loader) addFile(id, text string) error {
	if len(text) > maxText {
		hint := "read data with fs.readFile"
		if strings.HasPrefix(id, LocalRoot) {
			hint = "give data with --input, or put it into a session with harness files put"
		}
		return errorf(hint, "module %s has %d bytes, more than the %d allowed", id, len(text), maxText)
	}
	if l.texts += len(text); l.texts > maxTexts {
		return errorf("import less, or read data with fs.readFile",
			"module %s is one too many: what is imported has more than %d MiB", id, maxTexts>>20)
	}
	text = strings.ToValidUTF8(text, "?")
	switch path.Ext(id) {
	case ".json":
		return l.addJSON(id, text)
	case ".js", ".ts", ".mjs", ".cjs", ".mts", ".cts":
		return l.addScript(id, text)
	}
	return errorf("read it with await fs.readFile('"+id+"')",
		"cannot import %s: it is no .js, .ts, .mjs, .cjs or .json file", id)
}

func (l *loader) addJSON(id, text string) error {
	text = strings.TrimPrefix(text, "\ufeff")
	var value json.RawMessage
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		e := errorf("", "module %s is not valid JSON: %w", id, err)
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return e.at(id, text, int(syntax.Offset)-1)
		}
		return e
	}
	return l.addLoaded(&unit{Module: frame.Module{ID: id, Kind: "json", Code: text}})
}

// listed joins the first twenty names.
func listed(names []string) string {
	const most = 20
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}

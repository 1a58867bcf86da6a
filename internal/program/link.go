package program

import (
	"maps"
	"slices"

	"mcp-code-exec-harness/internal/frame"
)

// finish determines which modules are async, checks the imported names, and returns the modules.
func (l *loader) finish() ([]frame.Module, error) {
	if err := l.spreadAsync(); err != nil {
		return nil, err
	}
	clear(l.exports)
	modules := make([]frame.Module, 0, len(l.order))
	for _, u := range l.order {
		if s := u.script; s != nil {
			for _, i := range s.imports {
				if err := l.checkNames(u.Deps[i.specifier], i.specifier, i.names); err != nil {
					return nil, err.at(u.ID, u.text, i.pos)
				}
			}
			u.Code, u.Lines, u.ESM, u.Async = s.code, s.file.lines(), s.esm, s.async
			l.maps[u.ID] = s.file
		}
		modules = append(modules, u.Module)
	}
	return modules, nil
}

// spreadAsync makes a module async if it imports an async module.
func (l *loader) spreadAsync() error {
	for changed := true; changed; {
		changed = false
		for _, u := range l.order {
			if u.script == nil || u.script.async || !slices.ContainsFunc(u.script.imports, func(i staticImport) bool {
				dep := l.units[u.Deps[i.specifier]]
				return dep.script != nil && dep.script.async
			}) {
				continue
			}
			s, err := l.compile(u, true)
			if err != nil {
				return err
			}
			u.script, changed = s, true
		}
	}
	for _, u := range l.order {
		if u.script != nil && u.script.async && l.reaches(u, u, map[*unit]bool{}) {
			return &Error{
				File: u.ID, Message: "modules that import each other cannot use top-level await",
				Hint: "move the await into a function, or what both need into a third module",
			}
		}
	}
	return nil
}

func (l *loader) reaches(from, to *unit, seen map[*unit]bool) bool {
	for _, id := range from.Deps {
		dep := l.units[id]
		if dep == to {
			return true
		}
		if !seen[dep] {
			seen[dep] = true
			if l.reaches(dep, to, seen) {
				return true
			}
		}
	}
	return false
}

// exportsOf returns the names that a module exports, or nil if they are not known before it runs.
func (l *loader) exportsOf(u *unit, seen map[*unit]bool) map[string]bool {
	if u == nil || u.script == nil || u.script.exports == nil || seen[u] {
		return nil
	}
	if len(u.script.stars) == 0 {
		return u.script.exports
	}
	seen[u] = true
	all := maps.Clone(u.script.exports)
	for _, specifier := range u.script.stars {
		more := l.exportsOf(l.units[u.Deps[specifier]], seen)
		if more == nil {
			return nil
		}
		for name := range more {
			if name != "default" {
				all[name] = true
			}
		}
	}
	return all
}

// checkNames returns an error for the first of the names that the module certainly does not export, or nil.
func (l *loader) checkNames(id, specifier string, names []string) *Error {
	if len(names) == 0 {
		return nil
	}
	exports, known := l.exports[id]
	if !known {
		exports = l.exportsOf(l.units[id], map[*unit]bool{})
		l.exports[id] = exports
	}
	for _, name := range names {
		if exports == nil || exports[name] {
			continue
		}
		hint := "it exports nothing"
		if len(exports) > 0 {
			hint = "it exports " + listed(slices.Sorted(maps.Keys(exports)))
		}
		return errorf(hint, "module %q has no export %q", specifier, name)
	}
	return nil
}

package config

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/joho/godotenv"

	"mcp-code-exec-harness/internal/catalog/ident"
)

const prefix = "HARNESS_"

// environment turns NAME=value into a map; the last of equal names wins, names are in capitals where the system
// ignores their case.
func environment(environ []string, goos string) map[string]string {
	vars := make(map[string]string, len(environ))
	for _, e := range environ {
		name, value, ok := strings.Cut(e, "=")
		if !ok || name == "" {
			continue
		}
		if goos == "windows" {
			name = strings.ToUpper(name)
		}
		vars[name] = value
	}
	return vars
}

// readDotenv reads a file of NAME=value lines; a missing one is empty. The errors show no part of the file, whose
// purpose is to hold secrets.
func readDotenv(path string) (map[string]string, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &Error{Source: path, Problem: reason(err), Hint: "make it readable or remove it"}
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	vars, err := godotenv.UnmarshalBytes(data)
	if err != nil {
		// The first bad line is behind the longest beginning of the file that is right.
		good := 0
		for i, c := range data {
			if c != '\n' {
				continue
			}
			if _, err := godotenv.UnmarshalBytes(data[:i+1]); err == nil {
				good = i + 1
			}
		}
		return nil, &Error{
			Source: path, Line: 1 + bytes.Count(data[:good], []byte("\n")), Column: 1,
			Problem: "this is not NAME=value", Hint: "put values with spaces or # into quotes",
		}
	}
	return vars, nil
}

// reason is the cause of a file error without the path, which the message has already.
func reason(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}

// fold reduces a variable's name to letters and digits: MAX_CALLS and MAXCALLS are the same.
func fold(name string) string {
	return strings.NewReplacer("_", "", ".", "").Replace(strings.ToUpper(name))
}

// variableOf is the name that a key is called by in messages.
func variableOf(k key) string {
	return prefix + strings.ReplaceAll(strings.ToUpper(k.path), ".", "_")
}

// layer is one set of variables: the environment, or .env.
type layer struct {
	vars   map[string]string
	source string // before a name: "environment variable "
	base   string // what relative paths in it mean
	weight int
}

// The weights of what a value comes from. Variables add a little: the original's names 0, those of a provider 1, our
// own 2.
const (
	fileWeight    = 10
	dotenvWeight  = 20
	environWeight = 30
	flagWeight    = 40
)

func (v layer) position(name string) position {
	p := position{source: v.source + name, weight: v.weight}
	if strings.HasPrefix(name, prefix) {
		p.weight += 2
	}
	return p
}

// variables takes over the settings of a layer.
func (l *loader) variables(v layer) {
	l.setOriginals(v)
	byName := map[string]key{}
	for _, k := range l.keys {
		for _, path := range k.paths() {
			byName[fold(path)] = k
		}
	}
	seen := map[string]string{} // path of a key -> name
	for _, name := range sortedKeys(v.vars) {
		short, ok := strings.CutPrefix(name, prefix)
		if !ok || v.vars[name] == "" {
			continue
		}
		at := v.position(name)
		k, known := byName[fold(short)]
		path := "mcpServers"
		if known {
			path = k.path
		}
		if other, ok := seen[path]; ok && (known || fold(short) == "MCPSERVERS") {
			if v.vars[other] != v.vars[name] {
				l.problem(at.errorf("", "remove one of them", "it contradicts %s, which names the same key", other))
			}
			continue
		}
		if known {
			seen[path] = name
			l.setText(path, v.vars[name], at, v.base)
			continue
		}
		switch first, _, _ := strings.Cut(short, "_"); {
		case fold(short) == "MCPSERVERS":
			seen[path] = name
			l.serversFromText(v.vars[name], at, v.base)
		case first == "PII" || first == "POLICY":
			l.unavailable(strings.ToLower(first), at)
		case l.isGroup(strings.ToLower(first)):
			l.problem(at.errorf("", l.suggestVariable(name), "there is no such key"))
		}
	}
}

func (l *loader) suggestVariable(name string) string {
	var names []string
	for _, k := range l.keys {
		names = append(names, variableOf(k))
	}
	return didYouMean(ident.Closest(name, names))
}

// setText sets a key from a variable or flag. Mappings, and lists that need it, are written as in the file.
func (l *loader) setText(path, text string, at position, base string) {
	n := node{position: at, kind: scalar, text: text}
	if t := strings.TrimSpace(text); t != "" && (t[0] == '{' || t[0] == '[') {
		if k, ok := l.key(path); ok && k.composite() {
			parsed, err := parse([]byte(text), at)
			if err != nil {
				l.problem(at.errorf(path, "", "%q is neither a list nor a mapping in YAML or JSON", text))
				return
			}
			n = parsed
		}
	}
	l.set(path, n, base)
}

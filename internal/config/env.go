package config

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
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

// readDotenv reads a file of NAME=value lines; the result is nil for a missing one. The errors show no part of the file, whose
// purpose is to hold secrets.
func readDotenv(path string) (map[string]string, error) {
	data, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, position{source: path}.errorf("", "make it readable or remove it", "%s", reason(err))
	}
	return parseDotenv(path, data)
}

func parseDotenv(path string, data []byte) (map[string]string, error) {
	data = bytes.TrimPrefix(data, []byte(bom))
	vars, err := godotenv.UnmarshalBytes(data)
	if err != nil {
		// The first bad line is behind the longest beginning of the file that is right.
		good, end := 0, 0
		for line := range bytes.Lines(data) {
			end += len(line)
			if _, err := godotenv.UnmarshalBytes(data[:end]); err == nil {
				good = end
			}
		}
		at := position{source: path, line: 1 + bytes.Count(data[:good], []byte("\n")), column: 1}
		return nil, at.errorf("", "put values with spaces or # into quotes", "this is not NAME=value")
	}
	return vars, nil
}

// reason is the cause of a file error without the path, which the message has already.
func reason(err error) string {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err.Error()
	}
	return err.Error()
}

// fold reduces a name to what tells it from others: MAX_CALLS, max-calls and MAXCALLS are the same.
func fold(name string) string { return separators.Replace(strings.ToUpper(name)) }

var separators = strings.NewReplacer("_", "", "-", "", ".", "")

// variableOf is the name that a key is called by in messages.
func variableOf(k key) string {
	return prefix + strings.ReplaceAll(strings.ToUpper(k.path), ".", "_")
}

// layer is one set of variables: the environment, or .env.
type layer struct {
	vars   map[string]string
	source string // before a name: "environment variable "
	base   string // folder that relative paths are resolved against
}

func (v layer) position(name string) position { return position{source: v.source + name} }

func (v layer) setting(k key, name string) setting {
	return setting{node: node{position: v.position(name), kind: scalar, text: v.vars[name]}, key: k, base: v.base}
}

// variables collects the settings of a layer: the original system's names first, because HARNESS_ names override them.
func (l *loader) variables(v layer) {
	l.originals(v)
	byName := map[string]key{}
	for _, k := range l.keys {
		for _, name := range k.names {
			byName[fold(strings.TrimSuffix(k.path, k.name())+name)] = k
		}
	}
	seen := map[string]string{} // path of a key -> name
	for _, name := range slices.Sorted(maps.Keys(v.vars)) {
		short, ok := strings.CutPrefix(name, prefix)
		if !ok || v.vars[name] == "" {
			continue
		}
		k, known := byName[fold(short)]
		section, _, _ := strings.Cut(strings.ToLower(short), "_")
		s := v.setting(k, name)
		switch other := seen[k.path]; {
		case fold(short) == "POLICY":
			l.policyText(s)
		case !known && slices.Contains(namesOf(l.sections, false), section):
			var names []string
			for _, k := range l.keys {
				names = append(names, variableOf(k))
			}
			l.problem(s.errorf("", didYouMean(ident.Closest(name, names)), "unknown key"))
		case !known:
		case other == "":
			seen[k.path] = name
			l.setText(s)
		case v.vars[other] != s.text:
			l.problem(s.errorf("", "remove one of them", "it contradicts %s, which names the same key", other))
		}
	}
}

// fileName is the name of the configuration file.
const fileName = "harness.yaml"

// Locate returns the configuration file: that of --config, of HARNESS_CONFIG, in the working directory or the nearest
// directory above it, or in the user's configuration directory. Without any it returns the path in the working directory,
// where one would be created. A file that may not act is an error, as for Load.
func Locate(e Env) (path string, err error) {
	s, err := find(e, environment(e.Environ, e.GOOS))
	if err != nil {
		return "", err
	}
	return s.path, nil
}

// location is where the configuration file is, or would be created.
type location struct {
	path     string
	how      string // how the file was found; empty if there is no file
	asked    bool   // reports that a flag or the environment names the file
	above    bool   // reports that the file is above the working directory
	personal bool   // reports that the file is in the user's configuration directory; state is elsewhere then
}

func locate(e Env, environ map[string]string) (location, error) {
	asked, source := e.ConfigFile, "flag --config"
	if asked == "" {
		asked, source = environ["HARNESS_CONFIG"], "environment variable HARNESS_CONFIG"
	}
	if asked != "" {
		path := absolute(asked, e.Cwd, e.HomeDir)
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			return location{}, position{source: source}.errorf("", "give the path of the harness.yaml in it", "%s is a directory", path)
		}
		if !isFile(path) {
			return location{}, position{source: source}.errorf("", "give the path of a harness.yaml; `harness init` makes one",
				"there is no file %s", path)
		}
		return location{path: path, how: "by " + source, asked: true}, nil
	}
	here := filepath.Join(e.Cwd, fileName)
	for dir := e.Cwd; !e.PersonalOnly; dir = filepath.Dir(dir) {
		if path := filepath.Join(dir, fileName); isFile(path) {
			if path == here {
				return location{path: path, how: "in the working directory"}, nil
			}
			return location{path: path, how: "above the working directory", above: true}, nil
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	if dir := configDir(e, environ); dir != "" && isFile(filepath.Join(dir, fileName)) {
		return location{path: filepath.Join(dir, fileName), how: "in the configuration directory of the user", personal: true}, nil
	}
	return location{path: here}, nil
}

// isFile reports whether something other than a directory is at path. A file that cannot be examined counts: reading it
// gives the better error.
func isFile(path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	return !info.IsDir()
}

// UserDir is the user's own directory for configuration; empty if the environment does not tell.
func UserDir(e Env) string { return configDir(e, environment(e.Environ, e.GOOS)) }

func configDir(e Env, environ map[string]string) string {
	if e.GOOS == "windows" {
		return harnessIn(environ["APPDATA"])
	}
	return harnessIn(e.HomeDir, ".config")
}

// stateDir is where state lives without a project's file; empty if the environment does not tell.
func stateDirOf(e Env, environ map[string]string) string {
	data := environ["XDG_DATA_HOME"]
	switch {
	case e.GOOS == "windows":
		return harnessIn(environ["LOCALAPPDATA"])
	case filepath.IsAbs(data): // a relative one is to be ignored (XDG Base Directory Specification)
		return harnessIn(data)
	}
	return harnessIn(e.HomeDir, ".local", "share")
}

// harnessIn is the harness's directory below a user's; empty if that is not known.
func harnessIn(dir string, below ...string) string {
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, filepath.Join(below...), "harness")
}

// absolute resolves a path against dir, and ~ against home.
func absolute(path, dir, home string) string {
	if rest, ok := strings.CutPrefix(path, "~"); ok && home != "" && (rest == "" || os.IsPathSeparator(rest[0])) {
		return filepath.Join(home, rest)
	}
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	if runtime.GOOS == "windows" && strings.HasPrefix(path, `\`) { // the root of dir's drive
		return filepath.Join(filepath.VolumeName(dir), path)
	}
	return filepath.Join(dir, path)
}

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

// environment converts NAME=value entries to a map. The last of equal names wins. On systems that ignore the case of names, the names are
// in capitals.
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

// readDotenv reads a file of NAME=value lines. The result is nil if the file does not exist. Errors quote nothing from the file, because
// it may hold secrets.
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
		// The first bad line comes after the longest beginning of the file that parses.
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

// reason returns the cause of a file error without the path, which the message already contains.
func reason(err error) string {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err.Error()
	}
	return err.Error()
}

// fold normalizes a name for comparison: MAX_CALLS, max-calls and MAXCALLS are the same.
func fold(name string) string { return separators.Replace(strings.ToUpper(name)) }

var separators = strings.NewReplacer("_", "", "-", "", ".", "")

// variableOf returns the name of the variable for a key, as messages show it.
func variableOf(k key) string {
	return prefix + strings.ReplaceAll(strings.ToUpper(k.path), ".", "_")
}

// layer is one set of variables: the environment, or .env.
type layer struct {
	vars   map[string]string
	source string // text before a name, such as "environment variable "
	base   string // folder that relative paths are resolved against
}

func (v layer) position(name string) position { return position{source: v.source + name} }

func (v layer) setting(k key, name string) setting {
	return setting{node: node{position: v.position(name), kind: scalar, text: v.vars[name]}, key: k, base: v.base}
}

// variables collects the settings of a layer. The original system's names come first, because HARNESS_ names override them.
func (l *loader) variables(v layer) {
	l.originals(v)
	byName := map[string]key{}
	for _, k := range l.keys {
		for _, name := range k.names {
			byName[fold(strings.TrimSuffix(k.path, k.name())+name)] = k
		}
	}
	seen := map[string]string{} // name of the variable that sets a key, by path of the key
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

// Locate returns the path of the configuration file: the one that --config or HARNESS_CONFIG names, the one in the working directory or
// the nearest directory above it, or the one in the user's configuration directory. If there is no file, it returns the path in the
// working directory where a new one would be created. As with Load, a file that is not trusted is an error.
func Locate(e Env) (path string, err error) {
	s, err := find(e, environment(e.Environ, e.GOOS))
	if err != nil {
		return "", err
	}
	return s.path, nil
}

// location is where the configuration file is, or where it would be created.
type location struct {
	path     string
	how      string // how the file was found; empty if there is no file
	asked    bool   // a flag or the environment names the file
	above    bool   // the file is above the working directory
	personal bool   // the file is in the user's configuration directory; state is then stored elsewhere
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

// isFile reports whether path is something other than a directory. It is true for a file that cannot be examined, because the attempt to read the
// file gives a better error.
func isFile(path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	return !info.IsDir()
}

// UserDir returns the user's configuration directory, or "" if the environment does not define one.
func UserDir(e Env) string { return configDir(e, environment(e.Environ, e.GOOS)) }

func configDir(e Env, environ map[string]string) string {
	if e.GOOS == "windows" {
		return harnessIn(environ["APPDATA"])
	}
	return harnessIn(e.HomeDir, ".config")
}

// stateDirOf returns the directory for state if there is no project file, or "" if the environment does not define one.
func stateDirOf(e Env, environ map[string]string) string {
	data := environ["XDG_DATA_HOME"]
	switch {
	case e.GOOS == "windows":
		return harnessIn(environ["LOCALAPPDATA"])
	case filepath.IsAbs(data): // the XDG Base Directory Specification says to ignore a relative path
		return harnessIn(data)
	}
	return harnessIn(e.HomeDir, ".local", "share")
}

// harnessIn returns the harness's directory below a user's directory, or "" if dir is empty.
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
	if runtime.GOOS == "windows" && strings.HasPrefix(path, `\`) { // path is relative to the root of dir's drive
		return filepath.Join(filepath.VolumeName(dir), path)
	}
	return filepath.Join(dir, path)
}

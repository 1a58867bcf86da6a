package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/disk"
	"mcp-code-exec-harness/internal/trust"
)

// sources holds the files that the configuration is read from. Each is read once, so that the content used is the content that was
// checked.
type sources struct {
	location
	text     []byte // content of harness.yaml
	err      error  // reason why harness.yaml cannot be read
	dotenv   []byte // content of .env; empty if it is not trusted
	owners   []int  // IDs of other users who may own the files and directories that the configuration names
	warnings []*Error
}

func (s *sources) dotenvPath() string { return filepath.Join(filepath.Dir(s.path), ".env") }

// dotenvName is the name of the file with variables beside the configuration file.
const dotenvName = ".env"

// UntrustedError reports that the configuration in a folder is not used, because the user has not trusted it.
type UntrustedError struct {
	Folder
	Changed bool // a trusted file has changed
}

func (e *UntrustedError) Error() string {
	var names []string
	for _, path := range e.Names() {
		names = append(names, filepath.Base(path))
	}
	why := "is not trusted, and does nothing until it is"
	if e.Changed {
		why = "has changed since it was trusted, and does nothing until it is again"
	}
	return fmt.Sprintf("the configuration in %s (%s) %s: it can start programs, use secrets and weaken what protects you. Look at it, then: harness trust %s",
		e.Dir, strings.Join(names, ", "), why, ShellWord(e.Dir))
}

// Folder holds the configuration files of a folder.
type Folder struct {
	Dir   string
	Files map[string][]byte // file contents, by path
}

// Names returns the sorted paths of the files.
func (f Folder) Names() []string { return slices.Sorted(maps.Keys(f.Files)) }

// Examine returns the configuration files in dir, whether they are trusted or not. If dir is empty, Examine takes the folder of the
// harness.yaml that applies in the working directory. If there are no files, the error matches fs.ErrNotExist.
func Examine(e Env, dir string) (Folder, error) {
	f := Folder{Dir: dir, Files: map[string][]byte{}}
	if dir == "" {
		e.ConfigFile = ""
		at, err := locate(e, nil)
		if err != nil {
			return f, err
		}
		f.Dir = filepath.Dir(at.path)
	}
	for _, name := range []string{fileName, dotenvName} {
		path := filepath.Join(f.Dir, name)
		text, err := readFile(path)
		switch {
		case err == nil:
			f.Files[path] = text
		case !errors.Is(err, fs.ErrNotExist):
			return f, position{source: path}.errorf("", "", "it cannot be read: %s", reason(err))
		}
	}
	if len(f.Files) == 0 {
		return f, fmt.Errorf("there is neither %s nor %s in %s%w", fileName, dotenvName, f.Dir, missing{})
	}
	return f, nil
}

// maxFile is the maximum size of a configuration file in bytes.
const maxFile = 16 << 20

// readFile reads a configuration file; devices and pipes are errors.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() || info.Size() > maxFile:
		return nil, fmt.Errorf("it is no file of at most %d MiB", maxFile>>20)
	}
	return os.ReadFile(path)
}

// maxChanges is the maximum number of times that find retries because a command of the harness has changed a file during the check.
const maxChanges = 100

// find returns the configuration files that may be used.
func find(e Env, environ map[string]string) (s *sources, err error) {
	for range maxChanges {
		s, err = findNow(e, environ)
		u, ok := errors.AsType[*UntrustedError](err)
		if !ok || !u.Changed || !u.stale() {
			break
		}
	}
	return s, err
}

// stale reports whether a file has changed since it was read.
func (f Folder) stale() bool {
	for path, text := range f.Files {
		if now, err := readFile(path); err != nil || !bytes.Equal(now, text) {
			return true
		}
	}
	return false
}

func findNow(e Env, environ map[string]string) (*sources, error) {
	at, err := locate(e, environ)
	if err != nil {
		return nil, err
	}
	s := &sources{location: at}
	dir := filepath.Dir(at.path)
	mine := at.asked || at.personal || !at.above && e.surrounds(dir, environ)
	if at.how != "" {
		if s.text, s.err = readFile(at.path); at.asked && s.err != nil { // readFile rejects a pipe, but the user may have named one; judge needs the content
			s.text, s.err = readAtMost(at.path)
		}
		if at.asked {
			s.owners = append(s.owners, disk.Owner(at.path))
		}
		state, err := e.judge(s, at.path, s.text, mine)
		if err != nil {
			return nil, err
		}
		if state != trust.Trusted && at.above && isForeign(at.path) { // an error would keep all users from running commands in the folders below the file
			e.PersonalOnly = true
			s, err := find(e, environ)
			if err == nil {
				s.warnings = append(s.warnings, position{source: at.path}.errorf("", "look at it, then: harness trust "+ShellWord(dir),
					"it is not used, because it belongs to another user"))
			}
			return s, err
		}
		if state != trust.Trusted {
			return nil, untrusted(s, state == trust.Changed)
		}
	}
	if e.PersonalOnly && !at.asked && !at.personal {
		return s, nil
	}
	s.dotenv, err = readFile(s.dotenvPath())
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, position{source: s.dotenvPath()}.errorf("", "make it readable or remove it", "%s", reason(err))
	}
	state, err := e.judge(s, s.dotenvPath(), s.dotenv, mine)
	switch {
	case err != nil:
		return nil, err
	case state == trust.Changed:
		return nil, untrusted(s, true)
	case state == trust.Unknown:
		if matters(s.dotenv, at.how != "") {
			s.warnings = append(s.warnings, position{source: s.dotenvPath()}.errorf("", "look at it, then: harness trust "+ShellWord(dir),
				"it is not used, because it is not trusted"))
		}
		s.dotenv = nil
	}
	return s, nil
}

// judge returns trust.Trusted for a file that may be used. A file may be used if the user has trusted its content, or if it is the user's
// own (mine is set) and no other user can change it.
func (e Env) judge(s *sources, path string, text []byte, mine bool) (state trust.State, err error) {
	var exposed error
	if mine {
		if exposed = disk.Exposed(path, s.owners...); exposed == nil {
			return trust.Trusted, nil
		}
	}
	if state, err = e.Trust.Of(path, text); err != nil {
		return state, err
	}
	if state == trust.Trusted {
		s.owners = append(s.owners, disk.Owner(path))
		return state, nil
	}
	if mine {
		return state, position{source: path}.errorf("", "", "it is not used: %v", exposed)
	}
	return state, nil
}

// untrusted returns the error for files that may not be used.
func untrusted(s *sources, changed bool) error {
	f := Folder{Dir: filepath.Dir(s.path), Files: map[string][]byte{}}
	if s.how != "" && s.err == nil {
		f.Files[s.path] = s.text
	}
	if text, err := readFile(s.dotenvPath()); err == nil {
		f.Files[s.dotenvPath()] = text
	}
	if s.err != nil {
		return position{source: s.path}.errorf("", "", "it cannot be read: %s", reason(s.err))
	}
	return &UntrustedError{Folder: f, Changed: changed}
}

// matters reports whether a .env would have an effect. If a harness.yaml is beside it, every variable has an effect, because the
// harness.yaml may use it.
func matters(dotenv []byte, beside bool) bool {
	vars, err := parseDotenv("", dotenv)
	if err != nil {
		return true
	}
	for name := range vars {
		known := slices.ContainsFunc(originals[:], func(o original) bool { return o.name == name && !o.shared })
		if beside || known || strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// surrounds reports whether dir contains the user's home directory, data directory or configuration directory. dir is then the user's own
// and not a folder that came from elsewhere. environ does not contain the variables of .env.
func (e Env) surrounds(dir string, environ map[string]string) bool {
	dir = realPath(dir)
	for _, own := range []string{e.HomeDir, stateDirOf(e, environ), configDir(e, environ)} {
		if !filepath.IsAbs(own) {
			continue
		}
		if rel, err := filepath.Rel(dir, realPath(own)); err == nil && filepath.IsLocal(rel) {
			return true
		}
	}
	return false
}

// realPath resolves the symbolic links in the part of a path that exists.
func realPath(path string) string {
	if found, err := filepath.EvalSymlinks(path); err == nil {
		return found
	}
	if path == filepath.Dir(path) {
		return path
	}
	return filepath.Join(realPath(filepath.Dir(path)), filepath.Base(path))
}

// isForeign reports whether a file belongs to a user other than the current one and root.
func isForeign(path string) bool {
	return !slices.Contains([]int{-1, 0, os.Getuid(), disk.Owner("/")}, disk.Owner(path))
}

// readAtMost reads a file that the user has named, which may be a pipe.
func readAtMost(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("it has more than %d MiB", maxFile>>20)
	}
	return text, err
}

// exposed rejects directories that other users can change and whose content affects the harness.
func (l *loader) exposed() {
	if l.preview {
		return
	}
	paths := []string{l.config.StateDir, l.config.Skills.Dir}
	if database, inFile := strings.CutPrefix(l.config.Store.URL, sqlitePrefix); inFile {
		paths = append(paths, database)
	}
	for _, path := range paths {
		if err := disk.Exposed(path, l.files.owners...); err != nil && filepath.IsAbs(path) {
			l.problem(position{source: path}.errorf("", "", "it is not used: %v", err))
			return // the paths after this one are usually below it, so one error is enough
		}
	}
}

// Summary describes what the configuration in a folder does: what it starts, which secrets it uses, what else it sets. Values that may be
// secret are masked.
func (f Folder) Summary(e Env) (lines []string) {
	environ := environment(e.Environ, e.GOOS)
	e.Secret = nil
	s := &sources{location: location{path: filepath.Join(f.Dir, fileName)}}
	var vars map[string]string
	for path, text := range f.Files {
		if filepath.Base(path) == dotenvName {
			vars, _ = parseDotenv(path, text)
			continue
		}
		s.path, s.text, s.how = path, text, "in the folder"
	}
	l, err := loaderOf(e, environ, s, vars)
	if err != nil {
		return []string{err.Error()}
	}
	l.preview = true
	l.file()
	l.variables(l.dotenv)
	l.apply()
	l.finish()
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for _, server := range l.config.MCPServers {
		given := map[string]string{}
		for _, entry := range server.entries {
			given[entry.Key[strings.LastIndexByte(entry.Key, '.')+1:]] = entry.Value
		}
		switch {
		case server.Disabled:
			continue
		case server.Command != "":
			say("starts %s (server %s)", strings.TrimSpace(given["command"]+" "+given["args"]), server.Name)
		default:
			say("connects to %s (server %s)", strings.TrimSpace(given["url"]+given["serverUrl"]+" "+given["openapi"]), server.Name)
		}
		if server.Auth != nil && server.Auth.Command != "" {
			say("starts %s (authorization of server %s)", given["auth"], server.Name)
		}
	}
	var names []string
	for _, m := range secretRef().FindAllSubmatch(s.text, -1) {
		names = append(names, string(m[1]))
	}
	if len(names) > 0 {
		slices.Sort(names)
		say("uses the secrets %s", strings.Join(slices.Compact(names), ", "))
	}
	for _, entry := range l.config.entries {
		if entry.Origin != "default" && !strings.HasPrefix(entry.Key, "mcpServers.") {
			say("sets %s to %s", entry.Key, entry.Value)
		}
	}
	if len(vars) > 0 {
		say("gives the variables %s (%s)", strings.Join(slices.Sorted(maps.Keys(vars)), ", "), dotenvName)
	}
	for _, problem := range l.problems {
		say("has a mistake: %v", problem)
	}
	return lines
}

// ShellWord quotes a path so that a shell reads it as one word.
func ShellWord(path string) string {
	if strings.Trim(path, `abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./+=@:,\`) == "" {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

// Package skills stores the modules that programs save for later programs, in a directory for each user, and describes them.
package skills

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"mcp-code-exec-harness/internal/files"
	"mcp-code-exec-harness/internal/program"
)

// Store holds the skills of all users. It is safe for concurrent use.
type Store struct {
	base    files.Base
	opt     Options
	history func() (History, error) // nil: there is none
	shared  contents                // contents of other users' skills
}

// Options are optional parts of a Store. The zero value is ready to use.
type Options struct {
	// History opens the store of versions at the first use; without it, the methods that need a history return errors, and nothing is shared.
	History func() (History, error)
	Teams   map[string][]string // users of teams, by the name of the team
	// Trusted are users whose shared skills need no review: versions.Everyone, team:NAME, user:ID or ID.
	Trusted []string
	// Files opens the files of the skills, by the path of a directory; nil means files.OpenBase.
	Files func(dir string, o files.Options) (files.Base, error)
}

// Open opens the skills in a directory of the host, creating it if it does not exist, or where Options.Files opens them.
func Open(dir string, limits files.Limits, o Options) (*Store, error) {
	if o.Files == nil {
		o.Files = files.OpenBase
	}
	base, err := o.Files(dir, files.Options{Limits: limits, Section: "skills", Durable: true, Reserved: files.SharedPrefix})
	if err != nil {
		return nil, err
	}
	var trusted []string
	for _, with := range o.Trusted {
		trusted = append(trusted, grantee(with))
	}
	o.Trusted = trusted
	return &Store{base: base, opt: o, history: o.History}, nil
}

// Dir returns the skills directory of a user. Nothing is created before the first write. The caller closes the Dir.
func (s *Store) Dir(user string) (*files.Dir, error) { return s.base.Open(user) }

// Close releases the store.
func (s *Store) Close() error { return s.base.Close() }

// The kinds of skills.
const (
	Module = "module" // a JavaScript or TypeScript file
	Folder = "folder" // a folder with SKILL.md
)

// Skill describes a skill without executing it. All texts come from its author, a model.
type Skill struct {
	Name         string            `json:"name"` // path inside /skills without extension: "sales_summary", "crm/dedupe"
	Path         string            `json:"path"` // "/skills/sales_summary.js", "/skills/pdf"
	Kind         string            `json:"kind"`
	Title        string            `json:"title,omitempty"` // value of the header's field Skill, if it differs from the last part of Name
	Description  string            `json:"description"`
	Version      string            `json:"version,omitempty"`
	License      string            `json:"license,omitempty"`
	AllowedTools []string          `json:"allowedTools,omitempty"`
	Tags         []string          `json:"tags,omitempty"`
	Metadata     map[string]string `json:"metadata,omitempty"`
	Exports      []string          `json:"exports,omitempty"`
	Input        json.RawMessage   `json:"input,omitempty"` // JSON schema of the input, if it is declared
	Files        []string          `json:"files,omitempty"` // files of a folder, relative to it
	Bytes        int64             `json:"bytes"`
	// Warnings say what is unusual about the skill. They do not keep programs from using it.
	Warnings []string `json:"warnings,omitempty"`
	// Problem says why the skill cannot be used or described, and what to do; empty if there is no problem.
	Problem string `json:"problem,omitempty"`
}

// maxSource is the maximum number of bytes of a file that are read for its description and exports.
const maxSource = 1 << 20

// List returns the skills of a user, sorted by path. It includes broken skills, with their problems.
func (s *Store) List(user string) ([]Skill, error) {
	d, err := s.Dir(user)
	if err != nil {
		return nil, fmt.Errorf("list skills: %w", err)
	}
	defer d.Close()
	all, err := list(d)
	if err != nil {
		return nil, fmt.Errorf("list skills: %w", err)
	}
	return all, nil
}

// Show returns a skill of a user by its name or path, and its text: the source of a module, SKILL.md of a folder.
func (s *Store) Show(user, name string) (Skill, string, error) {
	d, k, err := s.find(user, name)
	if err != nil {
		return k, "", fmt.Errorf("show skill %q: %w", name, err)
	}
	defer d.Close()
	file := k.key()
	if k.Kind == Folder {
		file = path.Join(file, manifest)
	}
	text, err := d.ReadFile(file, 0, maxSource)
	if err != nil {
		return k, "", fmt.Errorf("show skill %q: %w", name, err)
	}
	return k, string(text), nil
}

// Find returns a skill of a user by its name or path. The error wraps fs.ErrNotExist if there is none.
func (s *Store) Find(user, name string) (Skill, error) {
	d, k, err := s.find(user, name)
	if err != nil {
		return k, fmt.Errorf("skill %q: %w", name, err)
	}
	d.Close()
	return k, nil
}

// Describe returns the description of a program from the comments at its beginning, "" if there is none.
func Describe(code string) string { return readHeader(code).description }

// find opens the directory of a user and returns the skill with a name or path. After an error nothing is open.
func (s *Store) find(user, name string) (d *files.Dir, k Skill, err error) {
	if d, err = s.Dir(user); err != nil {
		return nil, k, err
	}
	all, err := list(d)
	if err == nil {
		k, err = pick(all, name)
	}
	if err != nil {
		d.Close()
		return nil, k, err
	}
	return d, k, nil
}

// inside returns the name or path of a skill without /skills.
func inside(name string) string {
	return strings.TrimPrefix(strings.TrimPrefix(path.Clean("/"+name), "/skills/"), "/")
}

// pick returns the skill with a name or path.
func pick(all []Skill, name string) (Skill, error) {
	want := inside(name)
	var found []Skill
	for _, k := range all {
		if k.Path == "/skills/"+want {
			return k, nil
		}
		if k.Name == want {
			found = append(found, k)
		}
	}
	switch {
	case len(found) == 0:
		return Skill{}, fmt.Errorf("%w; `harness skills list` shows those of the user", fs.ErrNotExist)
	case len(found) > 1:
		return Skill{}, fmt.Errorf("the name fits %s and %s; give the path", found[0].Path, found[1].Path)
	}
	return found[0], nil
}

// manifest is the file that makes a folder a skill.
const manifest = "SKILL.md"

// reader reads files of skills: a directory, or a Content.
type reader interface {
	ReadFile(p string, offset, length int64) ([]byte, error)
}

func list(d *files.Dir) ([]Skill, error) {
	entries, err := d.ReadDir(context.Background(), ".", true)
	if err != nil {
		return nil, err
	}
	folders := map[string]bool{}
	for _, e := range entries {
		if e.Name == manifest && !e.IsDir && !hidden(e.Path) && path.Dir(e.Path) != "." {
			folders[path.Dir(e.Path)] = true
		}
	}
	found := []Skill{}
	for _, e := range entries {
		switch {
		case folders[e.Path]: // also one in the folder of another skill
			found = append(found, folder(d, e.Path, entries))
		case hidden(e.Path) || inFolder(folders, path.Dir(e.Path)):
		case !e.IsDir && isModule(e.Name):
			found = append(found, module(d, e))
		}
	}
	slices.SortFunc(found, func(a, b Skill) int { return strings.Compare(a.Path, b.Path) })
	return found, nil
}

// hidden reports whether a path is ignored, because it is a hidden file or directory, or in one, or in node_modules.
func hidden(p string) bool {
	for name := range strings.SplitSeq(p, "/") {
		if strings.HasPrefix(name, ".") || name == "node_modules" {
			return true
		}
	}
	return false
}

func inFolder(folders map[string]bool, dir string) bool {
	for ; dir != "."; dir = path.Dir(dir) {
		if folders[dir] {
			return true
		}
	}
	return false
}

func isModule(name string) bool {
	switch path.Ext(name) {
	case ".js", ".mjs", ".cjs", ".mts", ".cts":
		return true
	case ".ts":
		return !strings.HasSuffix(name, ".d.ts")
	}
	return false
}

func module(d reader, e files.Entry) Skill {
	k := Skill{
		Name: strings.TrimSuffix(e.Path, path.Ext(e.Path)), Path: "/skills/" + e.Path, Kind: Module, Bytes: e.Size,
	}
	source, err := text(d, e.Path)
	if err != nil {
		k.Problem = err.Error()
		return k
	}
	h := readHeader(source)
	k.Description, k.Version = h.description, h.version
	if isObject([]byte(h.input)) {
		k.Input = json.RawMessage(h.input)
	}
	if h.skill != path.Base(k.Name) {
		k.Title = h.skill
	}
	k.Exports = program.Exports(source)
	return k
}

func text(d reader, p string) (string, error) {
	data, err := d.ReadFile(p, 0, maxSource)
	var e *files.Error
	switch {
	case errors.As(err, &e):
		e.Path = "/skills/" + p
		return "", e
	case err != nil:
		return "", err
	case !utf8.Valid(data) && len(data) < maxSource: // a cut may split a character
		return "", errors.New("the file is not UTF-8 text; save it again in UTF-8")
	}
	return strings.ToValidUTF8(string(data), ""), nil
}

func folder(d reader, dir string, entries []files.Entry) Skill {
	k := Skill{Name: dir, Path: "/skills/" + dir, Kind: Folder}
	for _, e := range entries {
		rel, ok := strings.CutPrefix(e.Path, dir+"/")
		if ok && !e.IsDir {
			k.Files = append(k.Files, rel)
			k.Bytes += e.Size
		}
	}
	source, err := text(d, path.Join(dir, manifest))
	if err == nil {
		err = k.readManifest(source)
	}
	if err != nil {
		k.Problem = err.Error()
	}
	if languages := foreign(k.Files); len(languages) > 0 {
		k.Warnings = append(k.Warnings, "its scripts in "+strings.Join(languages, ", ")+" are not executable here; they can be read")
	}
	if main := k.main(); main != "" {
		if source, err := text(d, path.Join(dir, main)); err == nil {
			k.Exports = program.Exports(source)
		} else if k.Problem == "" {
			k.Problem = err.Error()
		}
	}
	return k
}

// main returns the file of a folder that import of the folder loads, "" if there is none.
func (k *Skill) main() string {
	for _, main := range []string{"index.js", "index.ts", "skill.js", "skill.ts"} {
		if slices.Contains(k.Files, main) {
			return main
		}
	}
	return ""
}

// foreignLanguages are the languages of scripts that programs cannot execute, by the endings of their names.
var foreignLanguages = map[string]string{
	".py": "Python", ".sh": "shell", ".bash": "shell", ".zsh": "shell", ".rb": "Ruby", ".pl": "Perl", ".php": "PHP", ".ps1": "PowerShell", ".bat": "batch",
	".cmd": "batch", ".lua": "Lua", ".r": "R", ".go": "Go", ".rs": "Rust", ".java": "Java", ".swift": "Swift", ".exe": "machine code", ".wasm": "WebAssembly",
}

// foreign returns the languages of the files that programs cannot execute, sorted.
func foreign(files []string) (languages []string) {
	for _, name := range files {
		if language := foreignLanguages[strings.ToLower(path.Ext(name))]; language != "" && !slices.Contains(languages, language) {
			languages = append(languages, language)
		}
	}
	slices.Sort(languages)
	return languages
}

// Package review describes a skill from elsewhere to the person who decides whether it is used. It judges nothing: it makes visible what a reader of the
// files could overlook.
package review

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"mcp-code-exec-harness/internal/catalog/ident"
	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/startup"
)

// Report is what a person should know about a skill besides its texts.
type Report struct {
	Files []File   `json:"files"`           // sorted by path
	Hosts []string `json:"hosts,omitempty"` // hosts that its texts link to, sorted
	Notes []Note   `json:"notes,omitempty"` // sorted by path and line
}

// File is a file of a skill.
type File struct {
	Path   string `json:"path"`
	Bytes  int    `json:"bytes"`
	SHA256 string `json:"sha256"`
	Kind   string `json:"kind"` // "text", "binary", or the language of a script
}

// Note is a remark about a place in a skill.
type Note struct {
	Path string `json:"path,omitempty"` // empty: the whole skill
	Line int    `json:"line,omitempty"` // number of the line, the first is 1; 0: the whole file
	Text string `json:"text"`
}

// Bounds of a report. The person sees the whole texts in any case.
const (
	maxNotes = 50   // maximum number of notes of one kind for a file
	maxHosts = 200  // maximum number of hosts
	maxNote  = 1000 // maximum number of bytes of a quotation
)

// Of describes a skill. others are the names that its user already knows: saved skills and built-in ones. allowed are the tools that its header wants to be
// allowed.
func Of(name string, files map[string][]byte, others, allowed []string) Report {
	var r Report
	hosts := map[string]bool{}
	for _, other := range others {
		switch {
		case other == name:
			r.note("", 0, "there is a skill %q already", other)
		case alike(name, other):
			r.note("", 0, "its name is easily taken for that of the skill %q", other)
		}
	}
	if len(allowed) > 0 {
		r.note("SKILL.md", 0, "allowed-tools asks for %s; the harness ignores it: policy and approvals decide about each call", clip.Text(clip.Visible(strings.Join(allowed, ", ")), maxNote))
	}
	languages := map[string]int{}
	for _, p := range slices.Sorted(maps.Keys(files)) {
		data := files[p]
		sum := sha256.Sum256(data)
		f := File{Path: p, Bytes: len(data), SHA256: hex.EncodeToString(sum[:]), Kind: kindOf(p, data)}
		r.Files = append(r.Files, f)
		if f.Kind == binary {
			continue
		}
		if f.Kind != plain {
			languages[f.Kind]++
		}
		text := string(data)
		r.hidden(p, text)
		r.comments(p, text)
		r.manifests(p, data)
		for _, m := range link().FindAllStringSubmatch(text, -1) {
			hosts[strings.ToLower(m[1])] = true
		}
		if strings.HasPrefix(text, "version https://git-lfs.github.com/") {
			r.note(p, 0, "it is a pointer of Git LFS: the file that it stands for was not fetched")
		}
	}
	for _, language := range slices.Sorted(maps.Keys(languages)) {
		if runs := language == "JavaScript" || language == "TypeScript"; runs {
			r.note("", 0, "%d files of %s: programs in the sandbox can execute them once the skill is approved", languages[language], language)
		} else {
			r.note("", 0, "%d files of %s: the harness never executes them; programs can read them", languages[language], language)
		}
	}
	r.Hosts = slices.Sorted(maps.Keys(hosts))
	r.Hosts = r.Hosts[:min(len(r.Hosts), maxHosts)]
	slices.SortStableFunc(r.Notes, func(a, b Note) int { return cmp.Or(strings.Compare(a.Path, b.Path), a.Line-b.Line) })
	return r
}

func (r *Report) note(p string, line int, format string, args ...any) {
	r.Notes = append(r.Notes, Note{p, line, fmt.Sprintf(format, args...)})
}

const (
	plain  = "text"
	binary = "binary"
)

// languages are the languages of scripts by extension.
var languages = map[string]string{
	".js": "JavaScript", ".mjs": "JavaScript", ".cjs": "JavaScript", ".ts": "TypeScript", ".mts": "TypeScript", ".cts": "TypeScript",
	".jsx": "JavaScript", ".tsx": "TypeScript", ".py": "Python", ".sh": "shell", ".bash": "shell", ".zsh": "shell", ".fish": "shell", ".ps1": "PowerShell",
	".bat": "batch", ".cmd": "batch", ".rb": "Ruby", ".pl": "Perl", ".php": "PHP", ".lua": "Lua", ".applescript": "AppleScript",
}

func kindOf(p string, data []byte) string {
	if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		return binary
	}
	if language := languages[strings.ToLower(path.Ext(p))]; language != "" {
		return language
	}
	if line, ok := bytes.CutPrefix(data, []byte("#!")); ok {
		line, _, _ = bytes.Cut(line, []byte("\n"))
		fields := strings.Fields(string(line))
		if len(fields) > 0 {
			return "script of " + clip.Text(clip.Visible(path.Base(fields[len(fields)-1])), 40)
		}
	}
	return plain
}

// hidden notes the lines that have hidden characters.
func (r *Report) hidden(p, text string) {
	found, number := 0, 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, "\r\n")
		if number == 1 {
			line = strings.TrimPrefix(line, "\ufeff") // a byte order mark hides nothing
		}
		shown := clip.Visible(line)
		if shown == line {
			continue
		}
		if found++; found <= maxNotes {
			r.note(p, number, "hidden characters: %s", clip.Text(shown, maxNote))
		}
	}
	if found > maxNotes {
		r.note(p, 0, "%d more lines with hidden characters", found-maxNotes)
	}
}

var (
	comment = startup.Regexp(`(?s)<!--.*?(?:-->|$)`)
	link    = startup.Regexp(`(?i)\b(?:https?|wss?|ftp)://(?:[^\s/@"'<>()]*@)?(\[[0-9a-f:.]+\]|[^\s/:?#"'<>()\[\]{}|\\^` + "`" + `,;]+)`)
)

// comments notes comments in Markdown, which readers of the rendered text do not see, and models do.
func (r *Report) comments(p, text string) {
	switch strings.ToLower(path.Ext(p)) {
	case ".md", ".markdown", ".html", ".htm", ".svg", ".xml":
	default:
		return
	}
	all := comment().FindAllStringIndex(text, -1)
	for i, at := range all {
		if i == maxNotes {
			r.note(p, 0, "%d more comments", len(all)-i)
			break
		}
		r.note(p, 1+strings.Count(text[:at[0]], "\n"), "comment, which the rendered text does not show: %s", clip.Text(clip.Visible(strings.Join(strings.Fields(text[at[0]:at[1]]), " ")), maxNote))
	}
}

// manifests notes what other programs would execute or install because of a file. The harness does neither.
func (r *Report) manifests(p string, data []byte) {
	base := strings.ToLower(path.Base(p))
	switch {
	case base == "package.json":
		var m struct {
			Scripts                                                               map[string]string
			Dependencies, DevDependencies, OptionalDependencies, PeerDependencies map[string]any
			Bin                                                                   any
		}
		if json.Unmarshal(data, &m) != nil {
			r.note(p, 0, "it is no valid JSON of npm")
			return
		}
		for _, name := range slices.Sorted(maps.Keys(m.Scripts)) {
			r.note(p, 0, "npm would execute for %s, and the harness never does: %s", clip.Text(clip.Visible(name), 100), clip.Text(clip.Visible(m.Scripts[name]), maxNote))
		}
		var needs []string
		for _, list := range []map[string]any{m.Dependencies, m.DevDependencies, m.OptionalDependencies, m.PeerDependencies} {
			needs = append(needs, slices.Collect(maps.Keys(list))...)
		}
		r.packages(p, needs)
	case base == "requirements.txt":
		var needs []string
		for line := range strings.Lines(string(data)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				needs = append(needs, line)
			}
		}
		r.packages(p, needs)
	case base == ".mcp.json", base == "hooks.json", base == "plugin.json", path.Base(path.Dir(p)) == "hooks", strings.HasPrefix(p, ".claude/"), strings.HasPrefix(p, ".githooks/"),
		base == "makefile", base == "setup.py", base == "dockerfile", base == ".npmrc", base == ".envrc":
		r.note(p, 0, "other programs execute files of this name by themselves; the harness does not")
	}
}

// packages notes packages that a skill names. The harness installs none, so that none can be another than the author meant.
func (r *Report) packages(p string, needs []string) {
	if len(needs) == 0 {
		return
	}
	slices.Sort(needs)
	r.note(p, 0, "it names packages, and the harness installs none: %s", clip.Text(clip.Visible(strings.Join(slices.Compact(needs), ", ")), maxNote))
}

// lookalike are characters and pairs that are easily taken for others, in the characters of names.
var lookalike = strings.NewReplacer("rn", "m", "vv", "w", "cl", "d", "0", "o", "1", "l", "i", "l", "5", "s", "-", "", "_", "", "/", "")

// alike reports whether two names are easily confused: they look alike, or one edit makes one of the other.
func alike(a, b string) bool {
	a, b = strings.ToLower(a), strings.ToLower(b)
	return lookalike.Replace(a) == lookalike.Replace(b) || min(len(a), len(b)) >= 5 && ident.Distance([]rune(a), []rune(b)) <= 1
}

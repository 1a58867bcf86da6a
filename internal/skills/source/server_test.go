package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/skills"
)

// liar is an MCP server whose entries and files need not fit each other.
type liar struct {
	pages [][]Served // skills/list; the last page repeats for ever if endless is set
	files map[string]string
	// endless gives each page a cursor.
	endless bool
}

func (l *liar) List(_ context.Context, cursor string) (json.RawMessage, error) {
	at := len(cursor)
	page := map[string]any{"skills": l.pages[min(at, len(l.pages)-1)]}
	if l.endless || at+1 < len(l.pages) {
		page["nextCursor"] = cursor + "x"
	}
	return json.Marshal(page)
}

func (l *liar) Get(_ context.Context, uri string) (json.RawMessage, error) {
	for _, page := range l.pages {
		for _, e := range page {
			if e.URI == uri || uri == "skill://asked/SKILL.md" {
				return json.Marshal(map[string]any{"skill": e})
			}
		}
	}
	return nil, errors.New("no such skill")
}

func (l *liar) Read(_ context.Context, uri string) ([]byte, error) {
	text, ok := l.files[uri]
	if !ok {
		return nil, errors.New("no such file")
	}
	return []byte(text), nil
}

// from returns the options with which the server s is read.
func (l *liar) options(names ...string) Options {
	return Options{Names: names, Server: func(_ context.Context, name string) (Server, error) {
		if name != "s" {
			return nil, fmt.Errorf("unknown server %s", name)
		}
		return l, nil
	}}
}

// honest returns a server with one skill of two files, and the skill's entry.
func honest(t *testing.T, name string) (*liar, *Served) {
	t.Helper()
	e, err := Serve(name, skills.Content{"SKILL.md": []byte(skillText(name)), "forms/a b.md": []byte("Dear all,\n")}, false)
	if err != nil {
		t.Fatal(err)
	}
	l := &liar{pages: [][]Served{{e}}, files: map[string]string{e.URI: skillText(name), "skill://" + name + "/forms/a%20b.md": "Dear all,\n"}}
	return l, &l.pages[0][0]
}

func TestMCPServer(t *testing.T) {
	t.Parallel()
	l, _ := honest(t, "pdf")
	other, _ := honest(t, "letters")
	for uri, text := range other.files {
		l.files[uri] = text
	}
	l.pages = append(l.pages, other.pages...)
	found, skipped := read(t, "mcp:s", l.options())
	if diff := cmp.Diff([]string{"letters: SKILL.md forms/a b.md", "pdf: SKILL.md forms/a b.md"}, found); diff != "" || len(skipped) > 0 {
		t.Errorf("%v (-want +got)\n%s", skipped, diff)
	}
	if found, _ := read(t, "mcp:s", l.options("pdf")); len(found) != 1 {
		t.Errorf("pdf alone: %v", found)
	}
	if _, skipped := read(t, "mcp:s", l.options("none")); skipped["none"] == "" {
		t.Errorf("a skill that is not there: %v", skipped)
	}
	one, err := Read(t.Context(), "mcp:s/skill://pdf/SKILL.md", l.options())
	if err != nil || len(one.Skills) != 1 || one.Skills[0].Origin.Source != "mcp:s/skill://pdf/SKILL.md" {
		t.Errorf("%+v, %v", one, err)
	}
	for where, says := range map[string]string{
		"mcp:":                         "names no MCP server",
		"mcp:other":                    "unknown server other",
		"mcp:s/skill://none/SKILL.md":  "no such skill",
		"mcp:s/skill://asked/SKILL.md": "about another skill",
	} {
		if _, err := Read(t.Context(), where, l.options()); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", where, err)
		}
	}
	if _, err := Read(t.Context(), "mcp:s", Options{}); err == nil {
		t.Error("a reading without servers has no error")
	}
	l.endless = true
	l.pages = l.pages[:1]
	if _, err := Read(t.Context(), "mcp:s", l.options()); err == nil || !strings.Contains(err.Error(), "more than 100 pages") {
		t.Errorf("a list without end: %v", err)
	}
}

// TestMCPServerLies: nothing of a skill is taken if one thing about it is wrong.
func TestMCPServerLies(t *testing.T) {
	t.Parallel()
	file := func(l *liar, uri, text string) ServedFile {
		l.files[uri] = text
		return ServedFile{uri, digest([]byte(text)), int64(len(text))}
	}
	for says, lie := range map[string]func(l *liar, e *Served){
		"is not what the server lists": func(l *liar, e *Served) { l.files[e.Files.List[1].URI] = "Dear me,\n\n" },
		"has 10 bytes and the digest":  func(_ *liar, e *Served) { e.Files.List[1].Size++ },
		"without a SHA-256 digest":     func(_ *liar, e *Served) { e.Files.List[1].Digest = "sha256:" },
		"no such file":                 func(l *liar, e *Served) { delete(l.files, e.Files.List[1].URI) },
		"its content is dynamic":       func(_ *liar, e *Served) { e.Files = ServedFiles{Dynamic: true} },
		"the head of its SKILL.md":     func(_ *liar, e *Served) { e.Frontmatter = json.RawMessage(`{"name":"pdf","description":"Harmless."}`) },
		"does not end in its name": func(_ *liar, e *Served) {
			e.Frontmatter = json.RawMessage(`{"name":"df","description":"Reads PDF files."}`)
		},
		"does not list its SKILL.md":         func(_ *liar, e *Served) { e.Files.List = e.Files.List[1:] },
		"SKILL.md and SKILL.md are the same": func(_ *liar, e *Served) { e.Files.List = append(e.Files.List, e.Files.List[0]) },
		"forms/a b.md and FORMS/A b.md are the same": func(l *liar, e *Served) {
			e.Files.List = append(e.Files.List, file(l, "skill://pdf/FORMS/A%20b.md", "x"))
		},
		"a file that is not in its folder":              func(l *liar, e *Served) { e.Files.List = append(e.Files.List, file(l, "skill://pdfs/a.md", "x")) },
		"a path that is not valid":                      func(l *liar, e *Served) { e.Files.List = append(e.Files.List, file(l, "skill://pdf/../a.md", "x")) },
		"a path that is not valid: ":                    func(l *liar, e *Served) { e.Files.List = append(e.Files.List, file(l, "skill://pdf/%2e%2e/a.md", "x")) },
		"path that is not valid: it":                    func(l *liar, e *Served) { e.Files.List = append(e.Files.List, file(l, "skill://pdf/a%2Fb.md", "x")) },
		"part that is no name":                          func(l *liar, e *Served) { e.Files.List = append(e.Files.List, file(l, `skill://pdf/a\b.md`, "x")) },
		"is not in its folder":                          func(l *liar, e *Served) { e.Files.List = append(e.Files.List, file(l, "skill://pdf/a.md?x", "x")) },
		"its files have more than 16777216 bytes":       func(_ *liar, e *Served) { e.Files.List[1].Size = 16 << 20 },
		"more than 16777216 bytes":                      func(_ *liar, e *Served) { e.Files.List[1].Size = 1<<63 - 1 },
		"have more than 16777216":                       func(_ *liar, e *Served) { e.Files.List[1].Size = -1 },
		"it has 513 files":                              func(_ *liar, e *Served) { e.Files.List = make([]ServedFile, 513) },
		"its URI is not that of a SKILL.md":             func(_ *liar, e *Served) { e.URI = "skill://pdf/skill.md" },
		"URI is not valid":                              func(_ *liar, e *Served) { e.URI = "skill://a/../pdf/SKILL.md" },
		"not that of a SKILL.md":                        func(_ *liar, e *Served) { e.URI = "pdf/SKILL.md" },
		`the server names it "pdf", and its SKILL.md "`: func(l *liar, e *Served) { e.Files.List[0] = file(l, e.URI, skillText("other")) },
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			l, e := honest(t, "pdf")
			lie(l, e)
			found, skipped := read(t, "mcp:s", l.options())
			if len(found) > 0 || len(skipped) != 1 {
				t.Fatalf("%v, %v", found, skipped)
			}
			for _, reason := range skipped {
				if !strings.Contains(reason, says) {
					t.Errorf("the reason is %q", reason)
				}
			}
		})
	}
}

func FuzzCleanURI(f *testing.F) {
	for _, path := range []string{"a/b", "a%2fb", "..", "%2e%2e/x", "a%20b/%", "é"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		clean, err := cleanURI(path)
		if err != nil {
			return
		}
		if again, err := cleanURI(strings.TrimPrefix(ServedURI(clean), "skill://")); err != nil || again != clean {
			t.Errorf("%q is %q, then %q, %v", path, clean, again, err)
		}
	})
}

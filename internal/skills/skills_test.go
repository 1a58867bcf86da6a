package skills

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/files"
	"mcp-code-exec-harness/internal/program"

	"github.com/google/go-cmp/cmp"
)

// setup returns a store with files of alice.
func setup(t *testing.T, texts map[string]string) *Store {
	t.Helper()
	s, err := Open(t.TempDir(), files.Limits{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	d, err := s.Dir("alice")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	for name, text := range texts {
		if err := d.WriteFile(name, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

const salesSummary = `/**
 * Skill: Sales summary
 * Created: 2026-11-20
 * Purpose: Sums sales by region
 *   and month.
 * Version: 1.2.0
 * Usage:
 *   const s = require('/skills/sales_summary.js');
 */
async function summarize(rows) { return rows; }
module.exports = { summarize, total: (r) => ({ a: 1, b: [2, 3] }), async load(x) { return x }, ...rest };
`

func TestList(t *testing.T) {
	t.Parallel()
	s := setup(t, map[string]string{
		"sales_summary.js":        salesSummary,
		"crm/dedupe.ts":           "// Finds customers that occur twice. Compares names.\nexport default function dedupe() {}\nexport type T = string\n",
		"crm/types.d.ts":          "export type T = string",
		"binary.js":               "\xff\xfe",
		"notes.txt":               "not a skill",
		"data-processor/SKILL.md": "---\nname: data-processor\ndescription: >-\n  Processes data:\n  a lot\nlicense: MIT\nallowed-tools: Read, Bash(git add:*, x)\nmetadata:\n  author: me\n  level: 2.50\nversion: 1.0\ntags: [csv, json]\n---\n# Data\n",
		"data-processor/skill.js": "exports.run = () => 1\n",
		"data-processor/lib/x.js": "exports.hidden = 1",
		"wrong-name/SKILL.md":     "---\nname: other\ndescription: d\n---\n",
		"unseen/SKILL.md":         "---\nname: \"unseen\u200b\"\ndescription: d\n---\n",
		"Upper/SKILL.md":          "---\nname: Upper\ndescription: d\n---\n",
		"nodesc/SKILL.md":         "---\nname: nodesc\n---\n",
		"noname/SKILL.md":         "---\r\ndescription: d\r\n---\r\n",
		"nohead/SKILL.md":         "# Title\n",
		"open/SKILL.md":           "---\nname: open\n",
		"badyaml/SKILL.md":        "---\nname: badyaml\ndescription: [a\n---\n",
		"bomb/SKILL.md":           "---\nname: bomb\nmetadata:\n  a: &a [x, x]\n  b: [*a, *a]\n---\n",
		"list/SKILL.md":           "---\n- a\n---\n",
		"huge/SKILL.md":           "---\nname: huge\ndescription: " + strings.Repeat("x", maxFront) + "\n---\n",
		"node_modules/x/index.js": "exports.x = 1",
		".git/hooks.js":           "exports.x = 1",
	})
	got, err := s.List("alice")
	if err != nil {
		t.Fatal(err)
	}
	folder := func(name, problem string) Skill {
		return Skill{Name: name, Path: "/skills/" + name, Kind: Folder, Files: []string{"SKILL.md"}, Problem: problem}
	}
	described := func(k Skill) Skill { k.Description = "d"; return k }
	titled := func(k Skill, title string) Skill { k.Title = title; return k }
	warned := func(k Skill, warnings ...string) Skill { k.Warnings = warnings; return k }
	want := []Skill{
		warned(described(folder("Upper", "")), `SKILL.md: name "Upper" should be lower-case words joined by hyphens, at most 64 characters`),
		folder("badyaml", "SKILL.md, line 3: sequence end token ']' not found"),
		{Name: "binary", Path: "/skills/binary.js", Kind: Module, Bytes: 2, Problem: "the file is not UTF-8 text; save it again in UTF-8"},
		folder("bomb", "the head of SKILL.md may not use anchors (&), aliases (*) or tags (!)"),
		{
			Name: "crm/dedupe", Path: "/skills/crm/dedupe.ts", Kind: Module, Bytes: 112,
			Description: "Finds customers that occur twice.", Exports: []string{"default"},
		},
		{
			Name: "data-processor", Path: "/skills/data-processor", Kind: Folder, Bytes: 239, Description: "Processes data: a lot", License: "MIT",
			AllowedTools: []string{"Read", "Bash(git add:*, x)"}, Metadata: map[string]string{"author": "me", "level": "2.50"},
			Version: "1.0", Tags: []string{"csv", "json"}, Exports: []string{"run"}, Files: []string{"SKILL.md", "lib/x.js", "skill.js"},
		},
		folder("huge", "the head of SKILL.md is larger than 16384 bytes; shorten it"),
		folder("list", "SKILL.md, line 2: sequence was used where mapping is expected"),
		folder("nodesc", "SKILL.md has no description; add one that says what the skill does and when to use it"),
		folder("nohead", "SKILL.md must begin with a line ---, then name: and description:, then a line ---"),
		described(folder("noname", "SKILL.md has no name; add `name: noname` to its head")),
		folder("open", "the head of SKILL.md is not closed by a line ---"),
		{
			Name: "sales_summary", Path: "/skills/sales_summary.js", Kind: Module, Bytes: int64(len(salesSummary)), Title: "Sales summary",
			Description: "Sums sales by region and month.", Version: "1.2.0", Exports: []string{"load", "summarize", "total"},
		},
		described(folder("unseen", `SKILL.md: name "unseen\u200b" has characters that are not visible; change it to the name of the folder, "unseen"`)),
		titled(warned(described(folder("wrong-name", "")), `SKILL.md: name "other" should be the name of its folder, "wrong-name"; change one of them`), "other"),
	}
	sizes := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Bytes" }, cmp.Comparer(func(x, y int64) bool {
		return x == y || x == 0 || y == 0
	}))
	if diff := cmp.Diff(want, got, sizes); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if other, err := s.List("bob"); err != nil || len(other) != 0 {
		t.Errorf("bob has %v, %v", other, err)
	}
}

func TestShow(t *testing.T) {
	t.Parallel()
	s := setup(t, map[string]string{
		"a.js": "// A.\n", "a.ts": "// B.\n", "sub/b.js": "// C.\n", "pdf/SKILL.md": "---\nname: pdf\ndescription: d\n---\nbody",
	})
	for name, want := range map[string]string{
		"a.js": "// A.\n", "/skills/a.ts": "// B.\n", "sub/b": "// C.\n", "pdf": "---\nname: pdf\ndescription: d\n---\nbody",
	} {
		k, text, err := s.Show("alice", name)
		if text != want || err != nil || k.Path == "" {
			t.Errorf("Show(%q) = %+v, %q, %v", name, k, text, err)
		}
	}
	if _, _, err := s.Show("alice", "a"); err == nil || err.Error() != `show skill "a": the name fits /skills/a.js and /skills/a.ts; give the path` {
		t.Error(err)
	}
	for _, name := range []string{"none", "", "../alice/a.js", "/etc/passwd"} {
		if _, _, err := s.Show("alice", name); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "harness skills list") {
			t.Errorf("Show(%q): %v", name, err)
		}
	}
	if _, _, err := s.Show("", "a"); err == nil {
		t.Error("a user without id has skills")
	}
}

func TestUnreadableSkill(t *testing.T) {
	t.Parallel()
	host := t.TempDir()
	s, err := Open(host, files.Limits{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := os.MkdirAll(filepath.Join(host, "alice", "folder", manifest), 0o700); err != nil { // a directory in place of SKILL.md
		t.Fatal(err)
	}
	if list, err := s.List("alice"); err != nil || len(list) != 0 {
		t.Errorf("List = %+v, %v", list, err)
	}
}

func TestHeader(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]header{
		"":                        {},
		"const a = 1 // not this": {},
		"#!/usr/bin/env node\n'use strict';\n/* Does things! And more. */\ncode()": {description: "Does things!"},
		"// Reads a file, e.g. a CSV\n// one, and sums it. More.\ncode()":          {description: "Reads a file, e.g. a CSV one, and sums it."},
		"/**\n * @skill mailer\n * @description Sends mail\n *   to people.\n * @version 2\n * @param x y\n */": {
			skill: "mailer", description: "Sends mail to people.", version: "2",
		},
		"// Skill: x\n// Description: First\n// Description: Second\n":        {skill: "x", description: "First"},
		"// Purpose: p\n// Description: d":                                    {description: "d"},
		"// Usage:\n//   const a = require('a')\n//\n// ----\n// What it is.": {description: "What it is."},
		"const x = 1;\n/**\n * Adds numbers.\n * @param a number\n */\nfunction add() {}": {
			description: "Adds numbers.",
		},
		"/* unclosed":                    {description: "unclosed"},
		"// a\x1b[31mred\u202e\x07 text": {description: "a [31mred text"},
	} {
		if got := readHeader(source); got != want {
			t.Errorf("readHeader(%q) = %+v, want %+v", source, got, want)
		}
	}
	if got := readHeader("// " + strings.Repeat("é", 2000)).description; len(got) > maxText+3 || !strings.HasSuffix(got, "é…") {
		t.Errorf("a long description is %d bytes, %q", len(got), got[len(got)-8:])
	}
}

// TestHostileSource compares the time for one long text with that for sixteen texts of a sixteenth of its length, because other processes disturb both in the
// same way. With quadratic time, the long text would take 16 times as long.
func TestHostileSource(t *testing.T) {
	const short, factor, limit, tries = 8 << 10, 16, 6, 5
	for _, part := range [][2]string{{"", "module.exports={"}, {"", "module.exports={a,"}, {"/* Purpose: a\n", "x\n"}} {
		source := part[0] + strings.Repeat(part[1], short*factor/len(part[1]))
		measure := func(source string, times int) time.Duration {
			began := time.Now()
			for range times {
				names, h := program.Exports(source), readHeader(source)
				if len(names) > 1 || len(h.description) > maxText+3 {
					t.Errorf("%.30q… has %d exports and a description of %d bytes", source, len(names), len(h.description))
				}
			}
			return time.Since(began)
		}
		least := float64(limit)
		for try := 0; try < tries && least >= limit; try++ {
			parts := measure(source[:short], factor)
			least = min(least, float64(measure(source, 1))/float64(parts))
		}
		if least >= limit {
			t.Errorf("%.30q… takes %d times as long as its parts, or longer", source, limit)
		}
	}
}

// FuzzSkill checks that no skill can hang or crash the host, because models write skills.
func FuzzSkill(f *testing.F) {
	f.Add(salesSummary)
	f.Add("---\nname: a\ndescription: b\ntags: [x, {y: z}]\nmetadata: {a: {b: c}}\n---\n")
	f.Add("module.exports = {`${")
	f.Fuzz(func(t *testing.T, source string) {
		h := readHeader(source)
		k := Skill{Name: "a"}
		_ = k.readManifest(source) // any error is right, a panic is not
		for _, s := range append(program.Exports(source), h.description, h.skill, k.Description) {
			if strings.ContainsAny(s, "\n\x1b\x00") || len(s) > max(maxText+3, len(source)) {
				t.Fatalf("%q", s)
			}
		}
	})
}

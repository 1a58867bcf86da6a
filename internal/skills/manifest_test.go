package skills

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What is written is read again as it was.
func TestManifestRoundTrip(t *testing.T) {
	t.Parallel()
	for _, m := range []Manifest{
		{Name: "double", Description: "Doubles a number."},
		{
			Name: "a-1", Description: `Says: "yes", 'no' # not a comment, [x] {y} & * ! | > % @ ` + "`", License: "Apache-2.0",
			Metadata: map[string]string{"version": "1.10", "author": "yes", "n": "0x1", "empty": ""},
			Input:    json.RawMessage(`{"type":"object","properties":{"a: b":{"type":"string","description":"it's # a"}}}`), Body: "# Title\n\n---\ntext",
		},
		{Name: "x", Description: "null"},
		{Name: "true", Description: "- 1"},
		{Name: "3", Description: "~"},
		{Name: "y", Description: "é ü 漢字"},
	} {
		text, err := m.Text()
		if err != nil {
			t.Fatal(err)
		}
		k := Skill{Name: m.Name}
		if err := k.readManifest(string(text)); err != nil || len(k.Warnings) > 0 {
			t.Errorf("%v, %v in\n%s", err, k.Warnings, text)
		}
		metadata := m.Metadata
		if metadata == nil && m.Input != nil {
			metadata = map[string]string{}
		}
		want := Skill{Name: m.Name, Description: m.Description, License: m.License, Metadata: metadata, Input: m.Input}
		if diff := cmp.Diff(want, k); diff != "" {
			t.Errorf("(-want +got)\n%s\nin\n%s", diff, text)
		}
		if body := "\n---\n\n" + m.Body + "\n"; !strings.HasSuffix(string(text), body) {
			t.Errorf("no body in\n%s", text)
		}
	}
	for _, m := range []Manifest{
		{Name: "Double", Description: "d"},
		{Name: "a--b", Description: "d"},
		{Name: strings.Repeat("a", 65), Description: "d"},
		{Name: "", Description: "d"},
		{Name: "a"},
		{Name: "a", Description: "two\nlines"},
		{Name: "a", Description: "d\u202e"},
		{Name: "a", Description: strings.Repeat("d", 1025)},
		{Name: "a", Description: "d", Input: json.RawMessage(`[]`)},
		{Name: "a", Description: "d", License: strings.Repeat("x", maxFront)},
	} {
		if text, err := m.Text(); err == nil {
			t.Errorf("%s", text)
		}
	}
}

// Folders with scripts in other languages, nested folders and declared inputs.
func TestFolders(t *testing.T) {
	t.Parallel()
	s := setup(t, map[string]string{
		"pdf/SKILL.md": pdf, "pdf/scripts/fill.py": "print()", "pdf/run.sh": "", "pdf/forms/SKILL.md": strings.ReplaceAll(pdf, "pdf", "forms"),
		"sum.js": "// Sums.\n// Input: {\"type\": \"array\"}\nexport default (a) => a", "bad/SKILL.md": "---\nname: bad\ndescription: d\nmetadata:\n  input: '[]'\n---\n",
	})
	all, err := s.List("alice")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]Skill{}
	for _, k := range all {
		got[k.Name] = k
	}
	if k := got["pdf"]; len(k.Warnings) != 1 || k.Warnings[0] != "its scripts in Python, shell are not executable here; they can be read" || k.Problem != "" {
		t.Errorf("pdf: %+v", k)
	}
	if k := got["bad"]; len(k.Warnings) != 1 || !strings.Contains(k.Warnings[0], "metadata.input is no JSON schema") {
		t.Errorf("bad: %+v", k)
	}
	if k := got["sum"]; string(k.Input) != `{"type": "array"}` || k.Description != "Sums." {
		t.Errorf("sum: %+v", k)
	}
	if k, text, err := s.Show("alice", "pdf/forms"); err != nil || k.Path != "/skills/pdf/forms" || !strings.Contains(text, "name: forms") {
		t.Errorf("a nested one: %+v, %v", k, err)
	}
	_, c, err := s.Content("alice", "pdf")
	if err != nil {
		t.Fatal(err)
	}
	files := c.Files()
	if len(files) != 4 || files[3].Path != "scripts/fill.py" || files[3].Language != "Python" || files[3].Bytes != 7 || len(files[3].SHA256) != 64 || files[0].Language != "" {
		t.Errorf("files: %+v", files)
	}
}

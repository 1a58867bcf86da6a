package skills

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/files"
	"mcp-code-exec-harness/internal/store/sqlstore"
	"mcp-code-exec-harness/internal/versions"
)

// stored returns the skills of one process of an installation in a directory.
func stored(t *testing.T, dir string) *Store {
	t.Helper()
	store, err := sqlstore.Open(t.Context(), filepath.Join(dir, "harness.db"), sqlstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	s, err := Open(filepath.Join(dir, "skills"), files.Limits{}, Options{History: func() (History, error) { return store, nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func texts(c Content) map[string]string {
	all := map[string]string{}
	for name, data := range c {
		all[name] = string(data)
	}
	return all
}

const pdf = "---\nname: pdf\ndescription: d\n---\n"

// A changed skill is a new version, and an unchanged one is not. A version put back has exactly the files that it had.
func TestVersions(t *testing.T) {
	t.Parallel()
	s := stored(t, t.TempDir())
	first := Content{"SKILL.md": []byte(pdf), "index.js": []byte("one"), "lib/old.js": []byte("x"), "empty": {}}
	second := Content{"SKILL.md": []byte(pdf), "index.js": []byte("two")}
	for i, step := range []struct {
		content Content
		want    int
	}{{first, 1}, {first, 1}, {second, 2}, {first, 1}, {second, 2}} {
		if err := s.Put(t.Context(), "ann", "pdf", step.content); err != nil {
			t.Fatal(err)
		}
		_, _, v, err := s.Record(t.Context(), "ann", "pdf", "ann")
		if err != nil || v.Num != step.want || v.Digest != step.content.Digest() {
			t.Errorf("step %d: version %+v, %v; want number %d", i, v, err, step.want)
		}
		_, is, err := s.Content("ann", "/skills/pdf")
		if diff := cmp.Diff(texts(step.content), texts(is)); err != nil || diff != "" {
			t.Errorf("step %d: %v\n%s", i, err, diff)
		}
	}
	_, was, err := s.Version(t.Context(), "ann", "pdf", 1)
	if diff := cmp.Diff(texts(first), texts(was)); err != nil || diff != "" {
		t.Errorf("version 1: %v\n%s", err, diff)
	}
	if _, _, err := s.Version(t.Context(), "bob", "pdf", 1); !errors.Is(err, versions.ErrNotFound) {
		t.Errorf("bob reads it: %v", err)
	}
	module := Content{"a.ts": []byte("export default 1")}
	if err := s.Put(t.Context(), "ann", "sub/a.ts", module); err != nil {
		t.Fatal(err)
	}
	if k, _, v, err := s.Record(t.Context(), "ann", "sub/a", ""); err != nil || v.Name != "sub/a.ts" || k.Kind != Module {
		t.Errorf("a module: %+v, %v", v, err)
	}
	for name, wrong := range map[string]Content{
		"pdf": {"index.js": nil}, "a.js": module, "a.txt": {"a.txt": nil}, "up": {"SKILL.md": nil, "../x": nil}, "none": {},
	} {
		if err := s.Put(t.Context(), "ann", name, wrong); err == nil {
			t.Errorf("%s is put", name)
		}
	}
}

// A held content is in the history, and nothing of it is among the skills.
func TestHeldContent(t *testing.T) {
	t.Parallel()
	s := stored(t, t.TempDir())
	v, added, err := s.AddVersion(t.Context(), "ann", versions.Version{Name: "pdf", State: versions.Held, Origin: &versions.Origin{Source: "x"}}, Content{"SKILL.md": []byte(pdf)})
	if err != nil || !added || v.Num != 1 {
		t.Fatalf("%+v, %v", v, err)
	}
	if all, err := s.List("ann"); err != nil || len(all) != 0 {
		t.Errorf("skills: %v, %v", all, err)
	}
	if err := s.SetState(t.Context(), "ann", "pdf", 1, versions.Held, versions.Refused); err != nil {
		t.Error(err)
	}
	all, err := s.Versions(t.Context(), "ann", "")
	if err != nil || len(all) != 1 || all[0].State != versions.Refused || all[0].Origin.Source != "x" {
		t.Errorf("versions: %+v, %v", all, err)
	}
}

// The archive of a content depends on nothing but the content.
func TestDigest(t *testing.T) {
	t.Parallel()
	a, b := Content{"a": []byte("12"), "b": nil}, Content{"b": {}, "a": []byte("12")}
	first, err := a.Zip("x")
	if err != nil {
		t.Fatal(err)
	}
	if second, err := b.Zip("x"); err != nil || !bytes.Equal(first, second) || a.Digest() != b.Digest() {
		t.Errorf("the same content differs: %v", err)
	}
	seen := map[string]Content{}
	for _, c := range []Content{{"a": []byte("12")}, {"a": []byte("1"), "2": nil}, {"a1": []byte("2")}, {"a": []byte("1"), "b": []byte("2")}, {"a": []byte("1"), "b2": nil}} {
		if other := seen[c.Digest()]; other != nil {
			t.Errorf("%v and %v have one digest", c, other)
		}
		seen[c.Digest()] = c
	}
}

// Two processes that record versions of one skill lose none.
func TestVersionsOfProcesses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var all sync.WaitGroup
	for i, s := range []*Store{stored(t, dir), stored(t, dir)} {
		all.Go(func() {
			for n := range 20 {
				c := Content{"SKILL.md": []byte(pdf), "index.js": fmt.Appendf(nil, "%d of %d", n, i)}
				if _, _, err := s.AddVersion(t.Context(), "ann", versions.Version{Name: "pdf", State: versions.Kept}, c); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	got, err := stored(t, dir).Versions(t.Context(), "ann", "pdf")
	if err != nil || len(got) != 40 || got[0].Num != 40 {
		t.Errorf("%d versions, %v", len(got), err)
	}
}

func TestContentBounds(t *testing.T) {
	t.Parallel()
	s := stored(t, t.TempDir())
	many := Content{"SKILL.md": []byte(pdf)}
	for i := range maxContentFiles {
		many[fmt.Sprint(i)] = nil
	}
	for want, c := range map[string]Content{"1000 files": many, "16777216 bytes": {"SKILL.md": bytes.Repeat([]byte("x"), maxContentBytes+1)}} {
		if _, _, err := s.AddVersion(t.Context(), "ann", versions.Version{Name: "pdf"}, c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}

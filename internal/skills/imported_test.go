package skills

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/versions"
)

// A held content is in the history only, until its digest is approved. A change of the source is held again, while the approved content stays in use.
func TestHold(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, other := stored(t, dir), stored(t, dir) // two processes
	origin := versions.Origin{Source: "https://example.com/r.git#:pdf", Commit: "c1"}
	contents := func(k string) map[string]string {
		t.Helper()
		_, c, err := other.Content("ann", k)
		if err != nil {
			return nil
		}
		return texts(c)
	}
	hold := func(text string) versions.Version {
		t.Helper()
		v, err := s.Hold(t.Context(), "ann", "pdf", Content{"SKILL.md": []byte(pdf), "index.js": []byte(text)}, origin)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	first := hold("one")
	if all, err := s.List("ann"); first.State != versions.Held || err != nil || len(all) != 0 {
		t.Errorf("held: %+v, %+v, %v", first, all, err)
	}
	if _, err := s.Approve(t.Context(), "ann", "pdf", strings.Repeat("0", 64), "ann"); !errors.Is(err, ErrNotHeld) {
		t.Error(err)
	}
	if _, err := s.Approve(t.Context(), "bob", "pdf", first.Digest, "bob"); !errors.Is(err, ErrNotHeld) {
		t.Errorf("bob approves what ann has: %v", err)
	}
	if _, err := other.Approve(t.Context(), "ann", "pdf", first.Digest, "ann"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"SKILL.md": pdf, "index.js": "one"}, contents("pdf")); diff != "" {
		t.Error(diff)
	}
	if _, err := s.Approve(t.Context(), "ann", "pdf", first.Digest, "ann"); !errors.Is(err, ErrNotHeld) {
		t.Errorf("approved twice: %v", err)
	}
	if again := hold("one"); again.State != versions.Kept || again.Num != first.Num {
		t.Errorf("the same content is held again: %+v", again)
	}

	second, third := hold("two"), hold("three")
	if got := contents("pdf")["index.js"]; got != "one" {
		t.Errorf("after the update: %q", got)
	}
	// What a program changed in the meantime stays in the history.
	if err := s.Put(t.Context(), "ann", "pdf", Content{"SKILL.md": []byte(pdf), "index.js": []byte("edited")}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Approve(t.Context(), "ann", "pdf", third.Digest, "ann"); err != nil {
		t.Fatal(err)
	}
	all, err := other.Versions(t.Context(), "ann", "pdf")
	var states []string
	for _, v := range all {
		states = append(states, string(v.State)+" "+v.Author)
	}
	if diff := cmp.Diff([]string{"kept ann", "kept " + origin.Source, "refused " + origin.Source, "kept " + origin.Source}, states); err != nil || diff != "" {
		t.Errorf("%s, %v", diff, err)
	}
	if got := contents("pdf")["index.js"]; got != "three" {
		t.Errorf("after the approval: %q", got)
	}
	if again := hold("two"); again.Num != second.Num || again.State != versions.Held {
		t.Errorf("a refused content that is added again: %+v", again)
	}
	if refused, err := s.Refuse(t.Context(), "ann", "pdf"); err != nil || len(refused) != 1 {
		t.Errorf("%+v, %v", refused, err)
	}
	if held, err := s.Held(t.Context(), "ann", ""); err != nil || len(held) != 0 {
		t.Errorf("%+v, %v", held, err)
	}
}

// No import takes the place of a skill, or of anything else, that is not from its source.
func TestHoldShadows(t *testing.T) {
	t.Parallel()
	s := setup(t, map[string]string{
		"own/SKILL.md": strings.ReplaceAll(pdf, "pdf", "own"), "module.js": "1", "data/file.txt": "x", "outer/inner/SKILL.md": strings.ReplaceAll(pdf, "pdf", "inner"),
	})
	s.history = stored(t, t.TempDir()).history
	for name, reason := range map[string]string{
		"own": "there is a skill /skills/own already", "module": "there is a skill /skills/module.js already", "data": "something else at /skills/data",
		"outer": "something else at /skills/outer", "module.js": "there is a skill /skills/module.js already",
	} {
		v, err := s.Hold(t.Context(), "alice", name, Content{"SKILL.md": []byte("evil")}, versions.Origin{Source: "elsewhere"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Approve(t.Context(), "alice", name, v.Digest, "alice"); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, text, err := s.Show("alice", "own"); err != nil || strings.Contains(text, "evil") {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := s.Present(t.Context(), "alice", "inner", nil); err != nil {
		t.Error(err)
	}
}

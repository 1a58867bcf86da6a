package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/versions"
)

func version(name, digest string) versions.Version {
	return versions.Version{Name: name, Digest: digest, Author: "run_1", State: versions.Kept}
}

// addVersion stores a version and checks its number.
func addVersion(t *testing.T, s Store, user string, v versions.Version, files string, num int, isNew bool) versions.Version {
	t.Helper()
	is, added, err := s.AddSkillVersion(t.Context(), user, v, []byte(files))
	must(t, "add", err)
	if is.Num != num || added != isNew {
		t.Errorf("%s of %s is number %d, new %t; want %d, %t", v.Digest, v.Name, is.Num, added, num, isNew)
	}
	return is
}

func nums(all []versions.Version) (text string) {
	for _, v := range all {
		text += fmt.Sprintf("%s.%d ", v.Name, v.Num)
	}
	return text
}

func skillVersions(t *testing.T, open Place) {
	s, other := open(t), open(t)
	first := addVersion(t, s, "ann", version("a", "d1"), "one", 1, true)
	held := version("a", "d2")
	held.State, held.Origin = versions.Held, &versions.Origin{Source: "https://example.com/a", Commit: "c", Digest: "x"}
	held = addVersion(t, other, "ann", held, "twoo", 2, true)
	addVersion(t, s, "ann", version("b", "d1"), "one", 1, true)
	addVersion(t, s, "bob", version("a", "d1"), "one", 1, true)
	addVersion(t, other, "ann", version("a", "d1"), "one", 1, false)
	got, files, err := s.SkillVersion(t.Context(), "ann", "a", 2)
	must(t, "read", err)
	wantEqual(t, "held", held, got)
	if string(files) != "twoo" || got.Bytes != 4 || got.Created.IsZero() {
		t.Errorf("version 2: %q, %+v", files, got)
	}
	_, _, err = s.SkillVersion(t.Context(), "ann", "a", 3)
	wantIs(t, "an unknown version", err, versions.ErrNotFound)
	all, err := other.SkillVersions(t.Context(), "ann", "")
	if err != nil || nums(all) != "a.2 a.1 b.1 " {
		t.Errorf("all of ann: %s, %v", nums(all), err)
	}
	wantIs(t, "a state that it has not", s.SetSkillState(t.Context(), "ann", "a", 2, versions.Kept, versions.Refused), versions.ErrState)
	wantIs(t, "the state of an unknown version", s.SetSkillState(t.Context(), "ann", "a", 9, versions.Kept, versions.Refused), versions.ErrNotFound)
	must(t, "approve", s.SetSkillState(t.Context(), "ann", "a", 2, versions.Held, versions.Kept))
	latest := func(what string, num int) {
		t.Helper()
		all, err := s.SkillVersions(t.Context(), "ann", "a")
		must(t, what, err)
		now := slices.MaxFunc(all, func(a, b versions.Version) int { return a.Used.Compare(b.Used) })
		if now.Num != num {
			t.Errorf("%s: version %d is in use, want %d", what, now.Num, num)
		}
	}
	latest("approved", 2)
	if again := addVersion(t, s, "ann", version("a", "d1"), "one", 1, false); !again.Used.After(first.Used) || !again.Created.Equal(first.Created) {
		t.Errorf("used again: %+v, was %+v", again, first)
	}
	latest("used again", 1)
	must(t, "delete", s.DeleteSkill(t.Context(), "ann", "a"))
	if all, err := s.SkillVersions(t.Context(), "ann", ""); err != nil || nums(all) != "b.1 " {
		t.Errorf("after the deletion: %s, %v", nums(all), err)
	}
	if all, err := s.SkillVersions(t.Context(), "bob", "a"); err != nil || nums(all) != "a.1 " {
		t.Errorf("bob's: %s, %v", nums(all), err)
	}
}

// skillVersionsAtOnce tests that no version is lost and no number is used twice if several processes add versions of one skill.
func skillVersionsAtOnce(t *testing.T, open Place) {
	stores := []Store{open(t), open(t), open(t)}
	const each = 10
	var all sync.WaitGroup
	for i, s := range stores {
		all.Go(func() {
			for n := range each {
				for _, digest := range []string{fmt.Sprintf("%d of %d", n, i), fmt.Sprintf("%d of all", n)} {
					if _, _, err := s.AddSkillVersion(t.Context(), "ann", version("a", digest), []byte(digest)); err != nil {
						t.Errorf("add: %v", err)
					}
				}
			}
		})
	}
	all.Wait()
	got, err := stores[0].SkillVersions(t.Context(), "ann", "a")
	must(t, "list", err)
	digests := map[string]bool{}
	for i, v := range got {
		if digests[v.Digest] = true; v.Num != len(got)-i {
			t.Errorf("number %d is at the place of %d", v.Num, len(got)-i)
		}
	}
	if want := each * (len(stores) + 1); len(got) != want || len(digests) != want {
		t.Errorf("%d versions with %d digests, want %d", len(got), len(digests), want)
	}
}

// skillBounds tests that the oldest version that is not needed makes room, and that a user's history is bounded.
func skillBounds(t *testing.T, open Place) {
	s := open(t)
	held := version("a", "held")
	held.State = versions.Held
	addVersion(t, s, "ann", version("a", "0"), "x", 1, true)
	addVersion(t, s, "ann", held, "x", 2, true)
	for n := 3; n <= versions.MaxOfSkill; n++ {
		addVersion(t, s, "ann", version("a", fmt.Sprint(n)), "x", n, true)
	}
	addVersion(t, s, "ann", version("a", "0"), "x", 1, false) // This version is in use again, so it stays.
	held.Digest = "held too"
	addVersion(t, s, "ann", held, "x", versions.MaxOfSkill+1, true)
	addVersion(t, s, "ann", version("a", "more"), "x", versions.MaxOfSkill+2, true)
	all, err := s.SkillVersions(t.Context(), "ann", "a")
	must(t, "list", err)
	if len(all) != versions.MaxOfSkill || all[len(all)-1].Num != 2 || all[len(all)-2].Num != 4 {
		t.Errorf("%d versions: %s", len(all), nums(all))
	}
	for n := range versions.MaxOfSkill {
		held.Digest = fmt.Sprint("h", n)
		_, _, err := s.AddSkillVersion(t.Context(), "bob", held, []byte("x"))
		must(t, "hold", err)
	}
	held.Digest = "one more"
	_, _, err = s.AddSkillVersion(t.Context(), "bob", held, []byte("x"))
	wantIs(t, "more than can be held", err, versions.ErrFull)
	large := bytes.Repeat([]byte("x"), versions.MaxUserBytes/4)
	for n := range 4 {
		_, _, err = s.AddSkillVersion(t.Context(), "cid", version("a", fmt.Sprint(n)), large)
		must(t, "large", err)
	}
	_, _, err = s.AddSkillVersion(t.Context(), "cid", version("a", "5"), []byte("x"))
	if !errors.Is(err, versions.ErrFull) || !strings.Contains(err.Error(), "bytes for each user") {
		t.Errorf("more bytes: %v", err)
	}
	must(t, "delete", s.DeleteSkill(t.Context(), "cid", "a"))
	addVersion(t, s, "cid", version("a", "5"), "x", 1, true)
}

func skillStatuses(t *testing.T, open Place) {
	s, other := open(t), open(t)
	tested := versions.Tested{Digest: "d1", Passed: 2, Failed: 1, At: at(1)}
	promoted := versions.Promoted{Digest: "d1", By: "ann", At: at(2)}
	must(t, "tested", s.SetSkillTested(t.Context(), "ann", "a", tested))
	must(t, "promoted", other.SetSkillPromoted(t.Context(), "ann", "a", &promoted))
	must(t, "promoted", other.SetSkillPromoted(t.Context(), "ann", "b", &promoted))
	must(t, "demoted", s.SetSkillPromoted(t.Context(), "ann", "b", nil))
	addVersion(t, s, "ann", version("a", "d1"), "x", 1, true)
	got, err := s.SkillStatuses(t.Context(), "ann")
	must(t, "statuses", err)
	wantEqual(t, "of ann", map[string]versions.Status{"a": {Tested: &tested, Promoted: &promoted}, "b": {}}, got)
	if got, err := s.SkillStatuses(t.Context(), "bob"); err != nil || len(got) != 0 {
		t.Errorf("bob's: %v, %v", got, err)
	}
}

// skillUses tests that uses add up from every process, that requests are bounded, and that they are purged like the tasks whose texts they are.
func skillUses(t *testing.T, open Place) {
	s, other := open(t), open(t)
	must(t, "a use", s.UseSkills(t.Context(), "ann", []string{"a", "@bob/b"}, true, "count the apples"))
	must(t, "a use that failed", other.UseSkills(t.Context(), "ann", []string{"a"}, false, "never kept"))
	for n := range versions.MaxRequests + 2 {
		must(t, "a use", s.UseSkills(t.Context(), "ann", []string{"a"}, true, fmt.Sprintf("request %d", n)))
	}
	must(t, "the same request again", s.UseSkills(t.Context(), "ann", []string{"a"}, true, "request 9"))
	must(t, "without a task", s.UseSkills(t.Context(), "ann", []string{"a"}, true, ""))
	must(t, "another user's", s.UseSkills(t.Context(), "bob", []string{"b"}, true, strings.Repeat("x", 2*versions.MaxRequestBytes)))
	uses, err := other.SkillUses(t.Context(), "ann")
	must(t, "uses", err)
	a := uses["a"]
	if a.Runs != 14 || a.Failed != 1 || a.Last.IsZero() || a.Succeeded.IsZero() || len(uses) != 2 || uses["@bob/b"].Runs != 1 {
		t.Errorf("uses %+v", uses)
	}
	if want := "request 2 request 3 request 4 request 5 request 6 request 7 request 8 request 9"; strings.Join(a.Requests, " ") != want {
		t.Errorf("requests %q", a.Requests)
	}
	bobs, err := s.SkillUses(t.Context(), "bob")
	must(t, "uses", err)
	if got := bobs["b"].Requests; len(bobs) != 1 || len(got) != 1 || len(got[0]) > versions.MaxRequestBytes {
		t.Errorf("bob's %+v", bobs)
	}
	for n := range versions.MaxUses + 1 {
		must(t, "a use", s.UseSkills(t.Context(), "cid", []string{fmt.Sprint(n)}, true, ""))
	}
	if uses, err = s.SkillUses(t.Context(), "cid"); err != nil || len(uses) != versions.MaxUses || uses["0"].Runs != 0 {
		t.Errorf("%d uses of one user, %v", len(uses), err)
	}
	_, err = s.(interface {
		Purge(ctx context.Context, before time.Time) (int, error)
	}).Purge(t.Context(), time.Now().Add(24*time.Hour))
	must(t, "purge", err)
	uses, err = s.SkillUses(t.Context(), "ann")
	must(t, "uses", err)
	if uses["a"].Runs != 14 || len(uses["a"].Requests) != 0 {
		t.Errorf("after a purge: %+v", uses)
	}
	must(t, "delete", s.DeleteSkill(t.Context(), "ann", "a"))
	if uses, err = s.SkillUses(t.Context(), "ann"); err != nil || len(uses) != 1 {
		t.Errorf("after the skill was forgotten: %v, %v", uses, err)
	}
}

package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"mcp-code-exec-harness/internal/versions"
)

func shareWith(name, with string, role versions.Role) versions.Share {
	return versions.Share{Name: name, With: with, Role: role}
}

// skillShares tests that others see a version of a skill as long as its owner shares it with them, in every process at once.
func skillShares(t *testing.T, open Place) {
	s, other := open(t), open(t)
	_, err := s.ShareSkill(t.Context(), "ann", shareWith("a", "user:bob", versions.Use), 1)
	wantIs(t, "a skill that is not stored", err, versions.ErrNotFound)
	addVersion(t, s, "ann", version("a", "d1"), "one", 1, true)
	_, err = s.ShareSkill(t.Context(), "ann", shareWith("a", "user:bob", versions.Use), 7)
	wantIs(t, "a version that is not stored", err, versions.ErrNotFound)
	held := version("a", "d2")
	held.State = versions.Held
	addVersion(t, s, "ann", held, "held", 2, true)
	_, err = s.ShareSkill(t.Context(), "ann", shareWith("a", "user:bob", versions.Use), 2)
	wantIs(t, "an imported version that waits for a review", err, versions.ErrState)
	if all, err := s.SkillShares(t.Context(), "ann", ""); err != nil || len(all) > 0 {
		t.Fatalf("after refusals: %+v, %v", all, err)
	}
	addVersion(t, s, "ann", version("a", "d3"), "three", 3, true)
	for _, of := range []versions.Share{shareWith("a", "user:bob", versions.Read), shareWith("a", "team:t", versions.Write), shareWith("a", "user:bob", versions.Use)} {
		if shared, err := s.ShareSkill(t.Context(), "ann", of, 1); err != nil || shared != 1 {
			t.Fatalf("share: %d, %v", shared, err)
		}
	}
	if shared, err := other.ShareSkill(t.Context(), "ann", shareWith("a", "everyone", versions.Read), 3); err != nil || shared != 1 {
		t.Errorf("another share moved the version: %d, %v", shared, err)
	}
	all, err := other.SkillShares(t.Context(), "ann", "a")
	must(t, "shares", err)
	text := ""
	for _, of := range all {
		if text += fmt.Sprintf("%s %s %d; ", of.With, of.Role, of.Version); of.Created.IsZero() {
			t.Error("no time")
		}
	}
	if text != "everyone read 1; team:t write 1; user:bob use 1; " {
		t.Errorf("shares: %s", text)
	}
	seen := func(what string, want []versions.Shared, owner string, grantees ...string) {
		t.Helper()
		got, err := other.SharedSkills(t.Context(), "bob", owner, grantees)
		must(t, what, err)
		slices.SortFunc(got, func(a, b versions.Shared) int {
			return slices.Index(versions.Roles, a.Role) - slices.Index(versions.Roles, b.Role)
		})
		wantEqual(t, what, want, got)
	}
	one := versions.Shared{Owner: "ann", Name: "a", Role: versions.Use, Version: 1, Digest: "d1"}
	seen("of bob", []versions.Shared{one}, "", "user:bob")
	seen("of another user", nil, "", "user:cid", "team:x")
	seen("of another owner", nil, "dan", "user:bob")
	must(t, "accept", s.AcceptSkill(t.Context(), "bob", "ann", "a", "d1"))
	one.Accepted, one.AcceptedDigest = 1, "d1"
	seen("accepted", []versions.Shared{one}, "ann", "user:bob")
	wantIs(t, "move from another version", s.MoveShared(t.Context(), "ann", "a", 3, 1), versions.ErrBase)
	must(t, "move", s.MoveShared(t.Context(), "ann", "a", 1, 3))
	one.Version, one.Digest = 3, "d3"
	seen("moved", []versions.Shared{one}, "ann", "user:bob")
	must(t, "accept nothing", s.AcceptSkill(t.Context(), "bob", "ann", "a", ""))
	one.Accepted, one.AcceptedDigest = 0, ""
	team := one
	team.Role = versions.Write
	seen("not accepted", []versions.Shared{one, team}, "", "user:bob", "team:t")
	if ended, err := s.UnshareSkill(t.Context(), "ann", "a", "user:bob"); err != nil || ended != 1 {
		t.Errorf("ended %d, %v", ended, err)
	}
	seen("revoked", nil, "", "user:bob")
	if ended, err := s.UnshareSkill(t.Context(), "ann", "a", ""); err != nil || ended != 2 {
		t.Errorf("ended %d, %v", ended, err)
	}
	wantIs(t, "move what nobody sees", s.MoveShared(t.Context(), "ann", "a", 3, 1), versions.ErrNotFound)
	if shared, err := s.ShareSkill(t.Context(), "ann", shareWith("a", "everyone", versions.Use), 1); err != nil || shared != 1 {
		t.Errorf("shared again: %d, %v", shared, err)
	}
	must(t, "delete", s.DeleteSkill(t.Context(), "ann", "a"))
	if all, err := s.SkillShares(t.Context(), "ann", ""); err != nil || len(all) > 0 {
		t.Errorf("after the deletion: %+v, %v", all, err)
	}
}

// skillProposals tests that of proposals made from one version, only one is taken, whichever process they come from.
func skillProposals(t *testing.T, open Place) {
	stores := []Store{open(t), open(t)}
	s := stores[0]
	proposal := func(digest string, base int) versions.Version {
		return versions.Version{Name: "a", Digest: digest, Author: "bob", State: versions.Held, Base: base}
	}
	addVersion(t, s, "ann", version("a", "d1"), "one", 1, true)
	_, _, err := s.AddSkillVersion(t.Context(), "ann", proposal("p0", 1), []byte("x"))
	wantIs(t, "a proposal for a skill that nobody sees", err, versions.ErrNotFound)
	_, err = s.ShareSkill(t.Context(), "ann", shareWith("a", "user:bob", versions.Write), 1)
	must(t, "share", err)
	addVersion(t, s, "ann", version("a", "d2"), "private", 2, true) // Others do not see this version.
	var all sync.WaitGroup
	results := make([]error, 6)
	for i := range results {
		all.Go(func() {
			_, _, results[i] = stores[i%2].AddSkillVersion(t.Context(), "ann", proposal(fmt.Sprint("p", i), 1), []byte("x"))
		})
	}
	all.Wait()
	taken := 0
	for _, err := range results {
		if err == nil {
			taken++
		} else if !errors.Is(err, versions.ErrBase) {
			t.Errorf("a proposal made from an old version: %v", err)
		}
	}
	if taken != 1 {
		t.Errorf("%d proposals of the same version were taken, want 1", taken)
	}
	must(t, "a proposal made from a proposal", addProposal(t, s, proposal("q", 3)))
	wantIs(t, "move to what was made from another version", s.MoveShared(t.Context(), "ann", "a", 2, 4), versions.ErrBase)
	must(t, "approve", s.MoveShared(t.Context(), "ann", "a", 1, 4))
	states := func() (text string) {
		known, err := s.SkillVersions(t.Context(), "ann", "a")
		must(t, "versions", err)
		for _, v := range known {
			text += fmt.Sprintf("%d %s %d; ", v.Num, v.State, v.Base)
		}
		return text
	}
	if got, want := states(), "4 kept 3; 3 refused 1; 2 kept 0; 1 kept 0; "; got != want {
		t.Errorf("after the approval: %s, want %s", got, want)
	}
	refused, _, err := s.SkillVersion(t.Context(), "ann", "a", 3)
	must(t, "the refused proposal", err)
	if is := addVersion(t, s, "ann", version("a", refused.Digest), "x", 3, false); is.State != versions.Kept {
		t.Errorf("a refused proposal that is the owner's own content now: %s", is.State)
	}
	for n := range versions.MaxProposals {
		must(t, "propose", addProposal(t, s, proposal(fmt.Sprint("r", n), 4+n)))
	}
	wantIs(t, "one more proposal", addProposal(t, s, proposal("more", 4+versions.MaxProposals)), versions.ErrFull)
	for n := range versions.MaxOfSkill + 5 { // The version that others see stays, though it is old and not the owner's own.
		_, _, err := s.AddSkillVersion(t.Context(), "ann", version("a", fmt.Sprint("own", n)), []byte("x"))
		must(t, "add", err)
	}
	if _, _, err := s.SkillVersion(t.Context(), "ann", "a", 4); err != nil {
		t.Errorf("the version that others see: %v", err)
	}
}

func addProposal(t *testing.T, s Store, v versions.Version) error {
	_, _, err := s.AddSkillVersion(t.Context(), "ann", v, []byte("x"))
	return err
}

// skillShareBounds tests how much owners share and users accept.
func skillShareBounds(t *testing.T, open Place) {
	s := open(t)
	addVersion(t, s, "ann", version("a", "d1"), "one", 1, true)
	for n := range versions.MaxShares {
		if _, err := s.ShareSkill(t.Context(), "ann", shareWith("a", fmt.Sprint("user:", n), versions.Use), 1); err != nil {
			t.Fatalf("share %d: %v", n, err)
		}
	}
	_, err := s.ShareSkill(t.Context(), "ann", shareWith("a", "everyone", versions.Use), 1)
	wantIs(t, "one share more", err, versions.ErrShares)
	_, err = s.ShareSkill(t.Context(), "ann", shareWith("a", "user:1", versions.Read), 1)
	must(t, "another role", err)
	// What some share with everyone does not hide what others share with a user, nor what the user has accepted.
	for owner := range 3 {
		name := fmt.Sprint("many", owner)
		for n := range versions.MaxShares {
			skill := fmt.Sprintf("s%03d", n)
			addVersionOf(t, s, name, version(skill, "d"))
			if _, err := s.ShareSkill(t.Context(), name, shareWith(skill, versions.Everyone, versions.Use), 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	must(t, "accept", s.AcceptSkill(t.Context(), "cid", "many2", "s499", "d"))
	addVersionOf(t, s, "zed", version("direct", "d"))
	_, err = s.ShareSkill(t.Context(), "zed", shareWith("direct", "user:cid", versions.Use), 1)
	must(t, "share", err)
	all, err := s.SharedSkills(t.Context(), "cid", "", []string{"everyone", "user:cid"})
	must(t, "list", err)
	accepted, direct := 0, 0
	for _, of := range all {
		if of.Accepted > 0 {
			accepted++
		}
		if of.Owner == "zed" {
			direct++
		}
	}
	if len(all) != versions.MaxListed+2 || accepted != 1 || direct != 1 {
		t.Errorf("%d skills, %d accepted, %d of zed", len(all), accepted, direct)
	}
	if all, err = s.SharedSkills(t.Context(), "cid", "many2", []string{"everyone", "user:cid"}); err != nil || len(all) != versions.MaxShares {
		t.Errorf("%d of one owner, %v", len(all), err)
	}
	for n := range versions.MaxAccepted {
		must(t, "accept", s.AcceptSkill(t.Context(), "bob", "ann", fmt.Sprint(n), "d"))
	}
	wantIs(t, "one more", s.AcceptSkill(t.Context(), "bob", "ann", "a", "d"), versions.ErrShares)
	must(t, "another content", s.AcceptSkill(t.Context(), "bob", "ann", "1", "e"))
}

func addVersionOf(t *testing.T, s Store, user string, v versions.Version) {
	t.Helper()
	_, _, err := s.AddSkillVersion(t.Context(), user, v, []byte("x"))
	must(t, "add", err)
}

package skills

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/files"
	"mcp-code-exec-harness/internal/versions"
)

// lines returns the lines of a file in testdata/find, each split at its last bar.
func lines(t testing.TB, name string) (all [][2]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "find", name))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		left, right, _ := strings.Cut(strings.TrimSpace(line), " | ")
		all = append(all, [2]string{left, right})
	}
	return all
}

// manySkills returns a store in which a user has the skills of testdata/find/skills.txt.
func manySkills(t testing.TB) *Store {
	t.Helper()
	saved, err := Open(t.TempDir(), files.Limits{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { saved.Close() })
	dir, err := saved.Dir("ada")
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	for _, s := range lines(t, "skills.txt") {
		text := "/** " + s[1] + " */\nexport default async (input) => input\n"
		if err := dir.WriteFile(s[0]+".js", []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	return saved
}

// TestRank: requests in other words than those of a skill's description find the skill among the first five of 300. The requests of natural are
// those of colleagues who have not seen the skills; those of requests avoid every word of the description. The constant leastWords was chosen with
// these two; the other halves were not used before. A search by words finds no more than this: what has no word in common is not found.
func TestRank(t *testing.T) {
	t.Parallel()
	var list []Skill
	for _, k := range lines(t, "skills.txt") {
		list = append(list, Skill{Name: k[0], Path: "/skills/" + k[0] + ".js", Description: k[1]})
	}
	for _, set := range []struct {
		file string
		want float64
	}{{"natural.txt", 0.65}, {"natural_heldout.txt", 0.65}, {"requests.txt", 0.25}, {"heldout.txt", 0.25}} {
		requests, right := lines(t, set.file), 0
		for _, r := range requests {
			if slices.ContainsFunc(Rank(list, nil, r[0], 5), func(k Skill) bool { return k.Name == r[1] }) {
				right++
			}
		}
		share := float64(right) / float64(len(requests))
		t.Logf("%s: %.3f of %d", set.file, share, len(requests))
		if len(requests) != 30 || share < set.want {
			t.Errorf("%s: the right skill is among the first five for %.3f of %d requests", set.file, share, len(requests))
		}
	}
	if found := Rank(list, nil, "qwertz zulu", 5); len(found) > 0 {
		t.Errorf("words that no skill has find %s", found[0].Name)
	}
}

// TestSearchCounts: a skill with a problem is neither found nor counted.
func TestSearchCounts(t *testing.T) {
	t.Parallel()
	saved := setup(t, map[string]string{
		"greet.js": "/** Greets a guest. */\nexport default () => 1", "leave.js": "/** Says goodbye. */\nexport default () => 1",
		"broken.js": "/** Greets a guest. */\nexport default '\xff'",
	})
	found, all, err := saved.Search(t.Context(), "alice", "greet the guests", 5)
	if err != nil || all != 2 || len(found) != 1 || found[0].Name != "greet" {
		t.Errorf("found %+v of %d, %v", found, all, err)
	}
}

// BenchmarkSearch finds skills among 300.
func BenchmarkSearch(b *testing.B) {
	saved := manySkills(b)
	for b.Loop() {
		if found, _, err := saved.Search(b.Context(), "ada", "which customers have not paid", 5); err != nil || len(found) == 0 {
			b.Fatal(found, err)
		}
	}
}

// TestRankUses: what a user asked for earlier, when programs used a skill, finds the skill again by a request in other words. Each pair of files has requests in
// different words for some of the same skills, so one file is what was asked earlier, and the requests of the other one are searched. The weight of earlier
// requests was chosen with the first two pairs; the other two were measured once afterwards. Skills that were not used are hardly harder to find.
func TestRankUses(t *testing.T) {
	t.Parallel()
	var list []Skill
	for _, k := range lines(t, "skills.txt") {
		list = append(list, Skill{Name: k[0], Path: "/skills/" + k[0] + ".js", Description: k[1]})
	}
	natural := []string{"natural.txt", "natural_heldout.txt"}
	for _, set := range []struct {
		earlier, requests []string
		least             int // least number of used skills that are among the first five
	}{
		{[]string{"requests.txt"}, natural, 12}, // 7 without uses
		{natural, []string{"requests.txt"}, 11}, // 3
		{[]string{"heldout.txt"}, natural, 11},  // 7
		{natural, []string{"heldout.txt"}, 10},  // 4
	} {
		uses := map[string]versions.Uses{}
		for _, file := range set.earlier {
			for _, r := range lines(t, file) {
				u := uses[r[1]+".js"]
				u.Runs, u.Requests = u.Runs+1, append(u.Requests, r[0])
				uses[r[1]+".js"] = u
			}
		}
		var used, without, all, other, otherWithout int
		for _, file := range set.requests {
			for _, r := range lines(t, file) {
				finds := func(uses map[string]versions.Uses) int {
					if slices.ContainsFunc(Rank(list, uses, r[0], 5), func(k Skill) bool { return k.Name == r[1] }) {
						return 1
					}
					return 0
				}
				if _, ok := uses[r[1]+".js"]; ok {
					all, used, without = all+1, used+finds(uses), without+finds(nil)
				} else {
					other, otherWithout = other+finds(uses), otherWithout+finds(nil)
				}
			}
		}
		t.Logf("%v after %v: of %d used skills %d, without uses %d; of the others %d, without uses %d", set.requests, set.earlier, all, used, without, other, otherWithout)
		if used < set.least || used <= without || other < otherWithout-1 {
			t.Errorf("want %d", set.least)
		}
	}
}

// TestRankFailing: of skills that fit, one most of whose runs failed comes last, and of equal ones the one that worked more often comes first.
func TestRankFailing(t *testing.T) {
	t.Parallel()
	var list []Skill
	for _, name := range []string{"a", "b", "c"} {
		list = append(list, Skill{Name: name, Path: "/skills/" + name, Description: "Reconciles invoices with payments."})
	}
	uses := map[string]versions.Uses{"a": {Runs: 9, Failed: 5}, "c": {Runs: 2}}
	var order []string
	for _, k := range Rank(list, uses, "reconcile the invoices", 5) {
		order = append(order, k.Name)
	}
	if got := strings.Join(order, ""); got != "cba" {
		t.Errorf("the order is %s", got)
	}
}

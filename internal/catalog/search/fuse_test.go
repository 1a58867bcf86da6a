package search

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What means the same is found without a word in common, beside what has the words; each step counts for itself.
func TestSearchAlike(t *testing.T) {
	t.Parallel()
	segments := []*Segment{
		segment("mail", "send_email: Send a message to someone.", "find_mail: Find messages."),
		segment("shop", "list_debtors: Customers in arrears.", "refund: Return a payment."),
	}
	ix := NewIndex(segments)
	search := func(query string, limit int, alike func([]string) [][]float32) (keys []string) {
		for _, r := range ix.SearchKnowing(query, limit, Known{Alike: alike}) {
			keys = append(keys, segments[r.Segment].keys[r.Doc])
		}
		return keys
	}
	const query = "zzz yyy, then send an email"
	var asked []string
	got := search(query, 2, func(steps []string) [][]float32 {
		asked = steps
		return [][]float32{{0.1, 0, 0.9, 0.2}, {0.8, 0.2, 0, -0.5}}
	})
	if diff := cmp.Diff([]string{"mail__send_email", "shop__list_debtors"}, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"zzz yyy,", "send an email"}, asked); diff != "" {
		t.Error(diff)
	}
	byWords := search(query, 4, nil)
	for name, alike := range map[string][][]float32{
		"nothing": nil, "a step too few": {{1, 1, 1, 1}}, "tools too few": {{1}, {1}}, "a step is not known": {nil, nil},
	} {
		if diff := cmp.Diff(byWords, search(query, 4, func([]string) [][]float32 { return alike })); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if got := search("mail__find_mail", 1, func([]string) [][]float32 { return [][]float32{{1, 0, 0, 0}} }); got[0] != "mail__find_mail" {
		t.Errorf("the tool that is named is not the first: %v", got)
	}
}

package catalog

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// searched returns the names of the tools that a user's search finds.
func searched(t *testing.T, c *Catalog, user, query string) (names []string) {
	t.Helper()
	for _, h := range c.Search(t.Context(), user, query, 10) {
		names = append(names, h.Name)
	}
	return names
}

// TestUsage: tools that a user's programs called after a search rank higher in later similar searches of that user. Calls more than half an hour after the
// search do not count.
func TestUsage(t *testing.T) {
	t.Parallel()
	c, now := New(), time.Unix(0, 0)
	c.LearnUse(func() time.Time { return now })
	c.SetServer(Server{Name: "acme", Tools: []Tool{
		{Name: "customer_report", Description: "Report of a customer."},
		{Name: "x17", Description: "Internal."},
		{Name: "customer_list", Description: "List customers."},
		{Name: "customer_merge", Description: "Merge customers."},
		{Name: "customer_note", Description: "Note on a customer."},
		{Name: "report_delete", Description: "Delete a report."},
	}})
	if got := searched(t, c, "ann", "customer report"); slices.Contains(got, "acme__x17") {
		t.Fatalf("before: %v", got)
	}
	used := func(tool string) {
		found, err := c.Resolve(tool)
		if err != nil {
			t.Fatal(err)
		}
		c.Used("ann", found)
		c.Used("ann", found) // repeated calls after one search count once
	}
	used("acme__x17")
	if got := searched(t, c, "ann", "the report of that customer"); !slices.Contains(got, "acme__x17") || got[0] != "acme__customer_report" {
		t.Errorf("after one use: %v", got)
	}
	for range 3 {
		searched(t, c, "ann", "customer report")
		used("acme__x17")
	}
	if got := searched(t, c, "ann", "report of a customer"); slices.Index(got, "acme__x17") > 2 {
		t.Errorf("after several uses: %v", got)
	}
	for _, who := range []string{"ben", ""} {
		if got := searched(t, c, who, "customer report"); slices.Contains(got, "acme__x17") {
			t.Errorf("%s: %v", who, got)
		}
	}
	searched(t, c, "ann", "weather tomorrow")
	now = now.Add(usageWindow + time.Second)
	used("acme__x17")
	if got := searched(t, c, "ann", "weather tomorrow"); slices.Contains(got, "acme__x17") {
		t.Errorf("half an hour after the search: %v", got)
	}
	c.RemoveServer("acme")
	if got := searched(t, c, "ann", "customer report"); len(got) > 0 {
		t.Errorf("of a server that is gone: %v", got)
	}
	if New().Search(t.Context(), "ann", "customer", 10); c.usage.users["nobody"] != nil {
		t.Error("a search of nobody is remembered")
	}
}

// TestUsageIsBounded: the recorded calls are bounded for each user and for all users, also with concurrent searches and calls.
func TestUsageIsBounded(t *testing.T) {
	t.Parallel()
	c := New()
	c.LearnUse(time.Now)
	var tools []Tool
	for i := range 30 {
		tools = append(tools, Tool{Name: fmt.Sprintf("tool%d", i), Description: "A tool."})
	}
	c.SetServer(Server{Name: "s", Tools: tools})
	all := c.Tools()
	var work sync.WaitGroup
	for w := range 4 {
		work.Go(func() {
			for i := range 2 * maxUsageUsers / 4 {
				user := fmt.Sprintf("user%d-%d", w, i)
				if i%2 == 0 {
					user = "busy"
				}
				c.usage.searched(user, fmt.Sprintf("word%da other%db same thing", i, w))
				c.Used(user, all[i%len(all)])
			}
		})
	}
	work.Wait()
	if n := len(c.usage.users); n > maxUsageUsers {
		t.Errorf("%d users", n)
	}
	busy := c.usage.users["busy"]
	if busy == nil || len(busy.words) > maxUsageWords {
		t.Fatalf("%d words of one user", len(busy.words))
	}
	for word, of := range busy.words {
		if len(of) > maxUsageTools {
			t.Errorf("%d tools of %s", len(of), word)
		}
	}
}

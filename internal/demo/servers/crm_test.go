package servers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/demo/dataset"
)

type searchAnswer struct {
	Total     int
	Customers []dataset.Customer
}

func TestCRMSearch(t *testing.T) {
	t.Parallel()
	c := connect(t, "crm", t.TempDir())
	everybody := call[searchAnswer](t, c, "search", arguments{"q": ""})
	if everybody.Total != dataset.Customers || len(everybody.Customers) != 10 {
		t.Errorf("empty search: total %d, %d returned", everybody.Total, len(everybody.Customers))
	}
	somebody := everybody.Customers[7]
	for _, q := range []string{
		somebody.Email, somebody.Phone, strings.ToUpper(somebody.Name) + " " + somebody.Company,
	} {
		got := call[searchAnswer](t, c, "search", arguments{"q": q, "limit": 100})
		found := false
		for _, customer := range got.Customers {
			found = found || customer == somebody
		}
		if !found || got.Total > 20 {
			t.Errorf("search %q: %d found, among them the one meant: %v", q, got.Total, found)
		}
	}
	filtered := call[searchAnswer](t, c, "search", arguments{"q": "", "segment": "enterprise", "region": "West", "limit": 100})
	if filtered.Total == 0 || filtered.Total >= dataset.Customers/4 || len(filtered.Customers) != min(100, filtered.Total) {
		t.Errorf("filtered search: total %d, %d returned", filtered.Total, len(filtered.Customers))
	}
	for _, customer := range filtered.Customers {
		if customer.Segment != "enterprise" || customer.Region != "West" {
			t.Errorf("filtered search returned %+v", customer)
		}
	}
	if none := call[searchAnswer](t, c, "search", arguments{"q": "nobody of this name"}); none.Total != 0 {
		t.Errorf("search for nobody found %d", none.Total)
	}
	for _, bad := range []arguments{{}, {"q": "x", "limit": 101}, {"q": "x", "limit": 0}, {"q": 1}, {"q": "x", "colour": "red"}} {
		refused(t, c, "search", bad)
	}
}

// TestCRMMatchesDatabase checks that the CRM and the database use the same ids.
func TestCRMMatchesDatabase(t *testing.T) {
	t.Parallel()
	c, db := connect(t, "crm", t.TempDir()), sharedDatabase(t)
	rows := call[[]dataset.Customer](t, db, "query", arguments{"query": "SELECT * FROM customers ORDER BY id LIMIT 5"})
	if len(rows) != 5 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, row := range rows {
		customer := call[dataset.Customer](t, c, "get", arguments{"id": row.ID})
		if customer.Email == "" || customer.Phone == "" || customer.Name == "" {
			t.Errorf("customer %d lacks something: %+v", row.ID, customer)
		}
		customer.Name, customer.Email, customer.Phone = "", "", ""
		if customer != row {
			t.Errorf("the CRM has %+v, the database %+v", customer, row)
		}
	}
	if got := refused(t, c, "get", arguments{"id": 7}); !strings.Contains(got, "1001 to 4000") {
		t.Errorf("error %q does not name the ids", got)
	}
}

func TestCRMTeamAndSegments(t *testing.T) {
	t.Parallel()
	c := connect(t, "crm", t.TempDir())
	type team struct{ Members []dataset.Member }
	leads := call[team](t, c, "list_team", arguments{"role": "sales lead"}).Members
	if len(leads) != 1 || leads[0].Role != "sales lead" || !strings.Contains(leads[0].Email, "@") {
		t.Errorf("sales leads: %+v", leads)
	}
	if n := len(call[team](t, c, "list_team", arguments{}).Members); n != 13 {
		t.Errorf("the team has %d members, want 13", n)
	}
	west := call[team](t, c, "list_team", arguments{"region": "West"}).Members
	if len(west) != 4 {
		t.Errorf("%d work for the West, want 4: %+v", len(west), west)
	}
	segments := call[struct {
		Segments []struct {
			Name      string
			Customers int
		}
	}](t, c, "list_segments", nil).Segments
	sum := 0
	for _, s := range segments {
		sum += s.Customers
	}
	if len(segments) != 4 || sum != dataset.Customers {
		t.Errorf("segments %+v hold %d customers", segments, sum)
	}
}

func TestCRMNotes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	type noted struct{ Note string }
	c := connect(t, "crm", dir)
	for range 2 {
		call[noted](t, c, "update_note", arguments{"id": 1001, "note": "prefers \"mail\"\n"})
	}
	call[noted](t, c, "update_note", arguments{"id": 1002, "note": "gone tomorrow"})
	call[noted](t, c, "update_note", arguments{"id": 1002, "note": ""})
	// A new process stands for the next session.
	next := connect(t, "crm", dir)
	if got := call[noted](t, next, "get", arguments{"id": 1001}).Note; got != "prefers \"mail\"\n" {
		t.Errorf("note %q", got)
	}
	if got := call[noted](t, next, "get", arguments{"id": 1002}).Note; got != "" {
		t.Errorf("removed note %q", got)
	}
	refused(t, next, "update_note", arguments{"id": 1, "note": "x"})
	refused(t, next, "update_note", arguments{"id": 1001, "note": strings.Repeat("x", 2001)})

	if err := os.WriteFile(filepath.Join(dir, notesFile), []byte("{damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	damaged := connect(t, "crm", dir)
	if got := refused(t, damaged, "update_note", arguments{"id": 1001, "note": "x"}); !strings.Contains(got, notesFile) {
		t.Errorf("error %q does not name the damaged file", got)
	}
	if text, _ := os.ReadFile(filepath.Join(dir, notesFile)); string(text) != "{damaged" {
		t.Errorf("the damaged file was overwritten with %q", text)
	}
}

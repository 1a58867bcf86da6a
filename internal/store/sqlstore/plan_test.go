package sqlstore

import (
	"context"
	"database/sql"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// bounded are the scans that read few rows, by a part of their plan.
var bounded = []string{
	"CONSTANT ROW", "VIRTUAL TABLE INDEX", "pragma_", "json_each", "sqlite_master", "schema_version", "SCAN totals", "SCAN reviews", "SCAN answers USING COVERING INDEX",
	"runs_purged", "tasks_purged", "sessions_closed", // rows that a purge deletes next
	"runs_unfinished", "tasks_owned", "session_uses", // rows of runs, tasks and sessions that processes work on
	"pins_held", // definitions that wait for a review
}

// scans are the statements that may read or sort many rows, by a part of their text.
var scans = []string{
	"s.closed IS NULL ORDER BY t.num DESC LIMIT", "s.expires > ?) ORDER BY s.num DESC LIMIT", // pages of whole lists
	"purged = 0 ORDER BY started DESC, num DESC LIMIT", "r.purged = 0 ORDER BY a.num DESC LIMIT",
	"WHERE id = ?) ORDER BY t.num DESC LIMIT",               // tasks in the sessions of one id of several users
	"FROM keys ORDER BY num", "FROM schedules ORDER BY num", // whole lists, which operators ask for
	"SELECT owner FROM tasks",                     // sorts the owners of unfinished tasks and runs
	"INDEXED BY runs_unfinished",                  // sorts unfinished runs by age
	"SELECT p.data FROM tasks t CROSS JOIN steps", // reads unfinished tasks if a process has died
	"SELECT count(*), min(due) FROM (",            // at most maxDue rows
	"UPDATE runs SET owner = 'other'",             // statement of a test
	// Lists in which users take turns number and sort the rows of an inner statement. checkPlan checks the inner statement.
	"ORDER BY turn,",
}

// planned are the texts of statements whose plans were checked.
var planned sync.Map

// checkPlans checks that each statement that a store has prepared finds its rows by an index. Each test calls it at its end,
// so that every statement that a test executes is checked.
func checkPlans(t testing.TB, s *Store) {
	t.Helper()
	var texts []string
	add := func(text, _ any) bool {
		texts = append(texts, text.(string))
		return true
	}
	s.statements.all.Range(add)
	if err := s.write(context.Background(), 0, func(c *conn) { c.statements.all.Range(add) }); err != nil {
		return // the store is closed, or its disk is full
	}
	for _, text := range texts {
		if _, done := planned.LoadOrStore(text, true); !done && !strings.HasPrefix(text, "PRAGMA") {
			checkPlan(t, s, text)
		}
	}
}

func checkPlan(t testing.TB, s *Store, text string) {
	t.Helper()
	has := func(text string) func(string) bool {
		return func(part string) bool { return strings.Contains(text, part) }
	}
	if strings.Contains(text, "ORDER BY turn,") { // check the inner statement, without the numbers
		inner := text[strings.Index(text, "FROM (")+len("FROM (") : strings.LastIndex(text, ")")]
		inner = regexp.MustCompile(`, row_number\(\) OVER \([^)]*\) AS turn`).ReplaceAllString(inner, "")
		checkPlan(t, s, inner)
	}
	if slices.ContainsFunc(scans, has(text)) {
		return
	}
	rows, err := s.read.Query("EXPLAIN QUERY PLAN "+text, make([]any, 40)...)
	if err != nil {
		t.Logf("%s: %v", text, err)
		return
	}
	defer rows.Close()
	for rows.Next() {
		var id, parent, unused sql.NullInt64
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			t.Fatal(err)
		}
		if (strings.HasPrefix(detail, "SCAN ") || strings.Contains(detail, "TEMP B-TREE")) && !slices.ContainsFunc(bounded, has(detail)) {
			t.Errorf("%s in\n%s", detail, text)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
}

package sqlite

import (
	"database/sql"
	"strings"
	"testing"
)

// What is asked often, or of many rows, finds its rows by an index and in their order.
func TestQueryPlans(t *testing.T) {
	t.Parallel()
	s := setup(t, Options{})
	list := "SELECT " + taskColumns + taskTables
	for what, c := range map[string]struct{ query, want string }{
		"task":            {list + " AND t.id = ?", "sqlite_autoindex_tasks_1"},
		"tasks of a user": {list + " AND t.user = ? AND t.num < ? ORDER BY t.num DESC LIMIT ?", "tasks_user"},
		"tasks of a session": {
			list + " AND t.session = (SELECT num FROM sessions WHERE user = ? AND id = ?) AND t.num < ? ORDER BY t.num DESC LIMIT ?", "tasks_session",
		},
		"tasks of a status": {list + " AND t.status = ? AND t.num < ? ORDER BY t.num DESC LIMIT ?", "tasks_status"},
		"all tasks":         {list + " AND t.num < ? ORDER BY t.num DESC LIMIT ?", "INTEGER PRIMARY KEY"},
		"cached": {list + ` AND t.user = ? AND t.cache_key = ? AND t.cache_key <> '' AND t.status = 'succeeded' AND t.cached = 0
			AND t.ended > ? ORDER BY t.ended DESC, t.num DESC LIMIT 1`, "tasks_cache"},
		"cancel requests":   {"SELECT id FROM tasks WHERE owner = ? AND cancel = 1 AND ended IS NULL ORDER BY num", "tasks_cancel"},
		"events":            {"SELECT e.id" + taskParts("events e", "e.task = t.num AND e.id > ?2") + " ORDER BY e.id LIMIT ?3", "PRIMARY KEY (task=? AND id>?)"},
		"last event":        {"SELECT coalesce(max(id), 0) FROM events WHERE task = ?", "PRIMARY KEY (task=?)"},
		"users of webhooks": {"SELECT user FROM webhooks WHERE user > ? ORDER BY user LIMIT 1", "webhooks_user"},
		"ready session":     {"SELECT num, user FROM sessions WHERE ready = 1 AND user > ? ORDER BY user, due LIMIT 1", "sessions_ready"},
		"due sessions":      {"SELECT num FROM sessions WHERE ready = 0 AND due <= ? ORDER BY due LIMIT ?", "sessions_due"},
		"next due session":  {"SELECT due FROM sessions WHERE ready = 0 AND due IS NOT NULL ORDER BY due LIMIT 1", "sessions_due"},
		"next of a session": {
			"SELECT num, id FROM tasks WHERE session = ? AND ended IS NULL AND owner = '' ORDER BY started IS NULL, due, num LIMIT 1", "tasks_waiting",
		},
		"dead owners": {"SELECT num, session FROM tasks WHERE ended IS NULL AND owner <> '' AND owner = ? LIMIT ?", "tasks_owned"},
		"sessions of a user": {
			"SELECT s.id FROM sessions s WHERE s.closed IS NULL AND (s.expires IS NULL OR s.expires > ?) AND s.user = ? ORDER BY s.num DESC LIMIT ?",
			"sessions_user",
		},
		"key": {"SELECT id FROM keys WHERE hash = ?", "sqlite_autoindex_keys_2"},
	} {
		plan := explainPlan(t, s, c.query)
		if !strings.Contains(plan, c.want) || strings.Contains(plan, "TEMP B-TREE") {
			t.Errorf("%s: want %s and no sorting, got:\n%s", what, c.want, plan)
		}
	}
}

func explainPlan(t *testing.T, s *Store, query string) string {
	t.Helper()
	rows, err := s.read.Query("EXPLAIN QUERY PLAN "+query, make([]any, strings.Count(query, "?"))...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var plan strings.Builder
	for rows.Next() {
		var id, parent, unused sql.NullInt64
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			t.Fatal(err)
		}
		plan.WriteString(detail + "\n")
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return plan.String()
}

package servers

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"mcp-code-exec-harness/internal/demo/dataset"
)

// patient returns arguments with a timeout that suffices under the race detector on a busy machine.
func patient(query string) arguments { return arguments{"query": query, "timeout_ms": 60_000} }

// TestSalesTotals runs the query of the well-known example: the amounts of thousands of rows add up to the sum that SQL computes.
func TestSalesTotals(t *testing.T) {
	t.Parallel()
	c := sharedDatabase(t)
	type sale struct {
		Date   string
		Amount float64
	}
	rows := call[[]sale](t, c, "query", patient("SELECT * FROM sales WHERE date > '2024-01-01'"))
	if len(rows) < 5000 {
		t.Fatalf("%d rows, want thousands", len(rows))
	}
	total := 0.0
	for _, r := range rows {
		total += r.Amount
	}
	type sum struct {
		N     int
		Total float64
	}
	direct := patient("SELECT count(*) AS n, sum(amount) AS total FROM sales WHERE date > ?")
	direct["params"] = []any{"2024-01-01"}
	want := call[[]sum](t, c, "query", direct)[0]
	if len(rows) != want.N || total != want.Total || total <= 0 {
		t.Errorf("rows give %d and %v, SQL gives %d and %v", len(rows), total, want.N, want.Total)
	}
	generated := 0.0
	for _, s := range dataset.Load().Sales {
		if s.Date > "2024-01-01" {
			generated += s.Amount
		}
	}
	if total != generated {
		t.Errorf("rows give %v, the generated data %v", total, generated)
	}
}

func TestForeignKeys(t *testing.T) {
	t.Parallel()
	c := sharedDatabase(t)
	orphans := call[[]map[string]any](t, c, "query", patient(`SELECT s.id FROM sales s
		LEFT JOIN customers c ON c.id = s.customer_id LEFT JOIN products p ON p.name = s.product
		WHERE c.id IS NULL OR p.name IS NULL OR c.region <> s.region`))
	if len(orphans) != 0 {
		t.Errorf("%d sales refer to nothing, e.g. %v", len(orphans), orphans[0])
	}
}

func TestTables(t *testing.T) {
	t.Parallel()
	c := sharedDatabase(t)
	list := call[struct{ Tables []tableInfo }](t, c, "list_tables", nil).Tables
	rows := map[string]int{}
	for _, info := range list {
		rows[info.Name] = info.Rows
	}
	data := dataset.Load()
	for name, want := range map[string]int{
		"products": len(data.Products), "customers": dataset.Customers, "sales": len(data.Sales),
	} {
		if rows[name] != want {
			t.Errorf("%s has %d rows, want %d", name, rows[name], want)
		}
		described := call[struct {
			Columns []column
			Rows    int
			Samples []map[string]any
		}](t, c, "describe_table", map[string]any{"table": strings.ToUpper(name)})
		if described.Rows != want || len(described.Samples) != 2 {
			t.Errorf("describe_table %s: %d rows, %d samples", name, described.Rows, len(described.Samples))
		}
		for _, column := range described.Columns {
			if _, ok := described.Samples[0][column.Name]; !ok {
				t.Errorf("sample of %s lacks column %s", name, column.Name)
			}
		}
	}
	if got := refused(t, c, "describe_table", map[string]any{"table": "orders"}); !strings.Contains(got, "products, customers, sales") {
		t.Errorf("error %q does not name the tables", got)
	}
}

func TestValues(t *testing.T) {
	t.Parallel()
	c := sharedDatabase(t)
	for _, tc := range []struct {
		query  string
		params []any
		want   string
	}{
		{query: `SELECT 1 AS a, 2.5 AS b, 'x"y\z<é' AS c, NULL AS d, x'6869' AS e`, want: `[{"a":1,"b":2.5,"c":"x\"y\\z<é","d":null,"e":"aGk="}]`},
		{query: "SELECT 1 AS a, 2 AS a, 3 AS a_2, 4 AS a", want: `[{"a":1,"a_2":2,"a_2_2":3,"a_3":4}]`},
		{query: "SELECT 9e999 AS big, 1e300 AS large, -0.25 AS small", want: `[{"big":null,"large":1e300,"small":-0.25}]`},
		{query: "SELECT ? AS i, ? AS f, ? AS s, ? AS n, ? AS b", params: []any{7, 1.5, "x", nil, true}, want: `[{"i":7,"f":1.5,"s":"x","n":null,"b":1}]`},
		{query: "SELECT typeof(?) AS t", params: []any{7}, want: `[{"t":"integer"}]`},
		{query: "SELECT id FROM sales WHERE id < 0", want: `[]`},
		{query: "VALUES (1)", want: `[{"column1":1}]`},
		{query: "SELECT ';' AS a, \"id\" AS b FROM sales WHERE id = 1; -- ; the end\n /* ; */ ;", want: `[{"a":";","b":1}]`},
		{query: "SELECT value FROM json_each('[3]')", want: `[{"value":3}]`},
		{query: "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 3) SELECT sum(i) AS s FROM n", want: `[{"s":6}]`},
	} {
		arguments := patient(tc.query)
		if tc.params != nil {
			arguments["params"] = tc.params
		}
		value, problem := c.try(t, "query", arguments)
		if problem != "" {
			t.Errorf("%s: %s", tc.query, problem)
			continue
		}
		if got, want := canonical(t, value), canonical(t, []byte(tc.want)); got != want {
			t.Errorf("%s\n got %s\nwant %s", tc.query, got, want)
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	outside := filepath.Join(t.TempDir(), "outside.db")
	c := sharedDatabase(t)
	count := patient("SELECT count(*) AS n, total(amount) AS t, (SELECT count(*) FROM sqlite_schema) AS s FROM sales")
	before, _ := c.try(t, "query", count)
	for _, tc := range []struct{ query, want string }{
		{"DROP TABLE sales", "read-only"},
		{"INSERT INTO products VALUES ('x', 'y', 1)", "INSERT into products"},
		{"INSERT INTO products VALUES ('x', 'y', 1) RETURNING name", "INSERT into products"},
		{"WITH a AS (SELECT 1) INSERT INTO products SELECT 'x', 'y', 1 FROM a", "INSERT into products"},
		{"REPLACE INTO products VALUES ('Toner', 'y', 1)", "read-only"},
		{"UPDATE sales SET amount = 0", "UPDATE of sales"},
		{"DELETE FROM sales", "DELETE from sales"},
		{"EXPLAIN DELETE FROM sales", "DELETE from sales"},
		{"CREATE TABLE t(a)", "read-only"},
		{"CREATE TEMP TABLE t(a)", "read-only"},
		{"CREATE TEMP VIEW v AS SELECT 1", "read-only"},
		{"CREATE VIRTUAL TABLE f USING fts5(a)", "read-only"},
		{"CREATE TRIGGER t AFTER INSERT ON sales BEGIN DELETE FROM sales; END", "more than one statement"},
		{"ALTER TABLE sales ADD COLUMN x", "read-only"},
		{"ATTACH '" + outside + "' AS o", "ATTACH"},
		{"VACUUM", "read-only"},
		{"VACUUM INTO '" + outside + "'", "read-only"},
		{"REINDEX", "read-only"},
		{"ANALYZE", "read-only"},
		{"PRAGMA writable_schema = 1", "PRAGMA writable_schema"},
		{"PRAGMA hard_heap_limit = 0", "PRAGMA hard_heap_limit"},
		{"PRAGMA query_only", "PRAGMA query_only"},
		{"SELECT * FROM pragma_table_info('sales')", "PRAGMA table_info"},
		{"UPDATE sqlite_schema SET sql = ''", "may not be modified"},
		{"SELECT load_extension('/lib/evil.so')", "function load_extension"},
		{"SELECT LOAD_EXTENSION('/lib/evil.so', 'x')", "function load_extension"},
		{"BEGIN", "transaction"},
		{"COMMIT", "transaction"},
		{"SAVEPOINT a", "transaction"},
		{"SELECT 1; DROP TABLE sales", "more than one statement"},
		{"SELECT 1; SELECT 2", "more than one statement"},
		{"SELECT ';' /* ; */; SELECT 2", "more than one statement"},
		{"SELECT 1 AS [;], ';' AS \";\", `id` FROM sales;;\nSELECT 2", "more than one statement"},
		{"SELECT 1\x00; DROP TABLE sales", "NUL"},
		{" -- nothing\n;", "empty"},
		{"/* SELECT 1", "empty"},
		{"SELEC 1", "syntax error"},
		{"SELECT 'open", "unrecognized token"},
		{"SELECT * FROM orders", "the tables are products, customers, sales"},
		{"SELECT price FROM sales", "describe_table"},
		{"SELECT ?", "missing"},
		{"SELECT zeroblob(100000000)", "too big"},
		{"SELECT a.* FROM sales a, sales b", "page with LIMIT"},
		{"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT i FROM n", "more than 100000 rows"},
	} {
		if got := refused(t, c, "query", patient(tc.query)); !strings.Contains(got, tc.want) {
			t.Errorf("%s\nwas refused with %q, want mention of %q", tc.query, got, tc.want)
		}
	}
	if after, _ := c.try(t, "query", count); string(after) != string(before) {
		t.Errorf("the database changed from %s to %s", before, after)
	}
	if _, err := os.Stat(outside); !os.IsNotExist(err) {
		t.Errorf("a statement made a file: %v", err)
	}
}

// TestQueryTimeout checks that endless statements are stopped, and that the server then still answers.
func TestQueryTimeout(t *testing.T) {
	t.Parallel()
	c := sharedDatabase(t)
	const numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) "
	for _, query := range []string{
		numbers + "SELECT count(*) FROM n",
		numbers + "SELECT i FROM n WHERE i < 0",
		numbers + "SELECT 1 FROM n ORDER BY i",
		"SELECT count(*) FROM sales a, sales b, sales c",
	} {
		got := refused(t, c, "query", arguments{"query": query, "timeout_ms": 300})
		// Sorting an endless table may reach the memory limit before the timeout.
		if !strings.Contains(got, "stopped after 300ms") && !strings.Contains(got, "out of memory") {
			t.Errorf("%s was refused with %q", query, got)
		}
		if n := call[[]map[string]float64](t, c, "query", patient("SELECT count(*) AS n FROM products")); n[0]["n"] == 0 {
			t.Error("the database is empty after a query was stopped")
		}
	}
}

func TestParallelQueries(t *testing.T) {
	t.Parallel()
	c := sharedDatabase(t)
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			got := call[[]map[string]float64](t, c, "query", patient(fmt.Sprintf("SELECT %d AS i", i)))
			if len(got) != 1 || got[0]["i"] != float64(i) {
				t.Errorf("query %d: %v", i, got)
			}
		})
	}
	wg.Wait()
}

func TestColumnKeys(t *testing.T) {
	t.Parallel()
	got := columnKeys([]string{"a", `q"`, "a", "a_2", "a"})
	want := []string{`{"a":`, `,"q\"":`, `,"a_2":`, `,"a_2_2":`, `,"a_3":`}
	if !slices.Equal(got, want) {
		t.Errorf("keys %q, want %q", got, want)
	}
}

func TestEncodeValue(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		in   any
		want string
	}{
		{int64(math.MinInt64), "-9223372036854775808"},
		{0.1, "0.1"},
		{6416853.25, "6416853.25"},
		{1e20, "100000000000000000000"},
		{2e-7, "2e-7"},
		{1e21, "1e+21"},
		{math.Inf(-1), "null"},
		{"a\x01\xffb", `"a\u0001\ufffdb"`},
	} {
		got, err := encodeValue(tc.in)
		if err != nil || string(got) != tc.want || !json.Valid(got) {
			t.Errorf("%v is written as %s (%v), want %s", tc.in, got, err, tc.want)
		}
	}
	if _, err := encodeValue(func() {}); err == nil {
		t.Error("a function was accepted")
	}
}

func FuzzCheckOneStatement(f *testing.F) {
	for _, s := range []string{"SELECT 1", "SELECT ';'", "--;\n;x;y", "/*", "[;", "'", "a''b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		_ = checkOneStatement(s) // it must return and not panic
		if err := checkOneStatement(s + "\n;x"); err == nil && checkOneStatement(s) == nil && !strings.ContainsAny(s, "'\"`[*") {
			t.Errorf("a statement behind %q was not seen", s)
		}
	})
}

package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/testing/journaltest"
	"mcp-code-exec-harness/internal/testing/postgrestest"
)

// traced are the statements that a store executes on a server, with the arguments of one execution each.
type traced struct {
	mu  sync.Mutex
	all map[string][]any
}

// TraceQueryStart implements pgx.QueryTracer.
func (tr *traced) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	tr.add(data.SQL, data.Args)
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (tr *traced) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (tr *traced) add(text string, args []any) {
	switch word, _, _ := strings.Cut(strings.TrimSpace(text), " "); word {
	case "SELECT", "INSERT", "UPDATE", "DELETE":
		tr.mu.Lock()
		defer tr.mu.Unlock()
		tr.all[text] = slices.Clone(args)
	}
}

// trace records the statements that a store executes from now on, except those of its lease.
func trace(t testing.TB, s *Store, url string) *traced {
	t.Helper()
	tr := &traced{all: map[string][]any{}}
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Tracer = tr
	cfg.RuntimeParams["enable_seqscan"], cfg.RuntimeParams["jit"] = "off", "off"
	pool := stdlib.OpenDB(*cfg)
	t.Cleanup(func() { _ = pool.Close() })
	s.statements.of = pool
	s.statements.all.Clear()
	if err := s.write(context.Background(), 0, func(c *conn) {
		tracing, send := *c.dialect, c.dialect.send
		tracing.send = func(c *conn, all []statement) error {
			for _, s := range all {
				tr.add(translate(s.query), c.statements.stored(slices.Clone(s.args)))
			}
			return send(c, all)
		}
		c.dialect = &tracing
	}); err != nil {
		t.Fatal(err)
	}
	return tr
}

// planNode is a node of a plan of Postgres.
type planNode struct {
	Type      string     `json:"Node Type"`
	Relation  string     `json:"Relation Name"`
	Index     string     `json:"Index Name"`
	Condition string     `json:"Index Cond"`
	Plans     []planNode `json:"Plans"`
}

// few are the tables that have few rows, and the partial indexes of few rows.
var few = []string{
	"processes", "commits", "total_parts", "schema_version", "reviews", "session_uses",
	"runs_purged", "tasks_purged", "sessions_closed", "runs_unfinished", "tasks_owned", "sessions_ready", "sessions_due",
}

// check checks that each statement finds its rows by an index, in one partition of each divided table. It returns the number of the statements that use
// divided tables. Statements of a purge that look for references to a blob use all partitions.
func (tr *traced) check(t testing.TB, url string) (divided int) {
	t.Helper()
	c, err := pgx.Connect(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background()) //nolint:errcheck // it has only read
	if _, err := c.Exec(context.Background(), "SET enable_seqscan = off"); err != nil {
		t.Fatal(err)
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, text := range slices.Sorted(maps.Keys(tr.all)) {
		var plans []struct{ Plan planNode }
		var found []byte
		if err := c.QueryRow(context.Background(), "EXPLAIN (FORMAT JSON) "+text, tr.all[text]...).Scan(&found); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if err := json.Unmarshal(found, &plans); err != nil {
			t.Fatal(err)
		}
		used := map[string]map[string]bool{} // partitions by table
		plans[0].Plan.walk(false, func(n planNode, limited bool) {
			for _, table := range dividedTables {
				if strings.HasPrefix(n.Relation, table+"_") && !(table == "blobs" && strings.HasPrefix(n.Relation, "blob_refs")) {
					if used[table] == nil {
						used[table] = map[string]bool{}
					}
					used[table][n.Relation] = true
				}
			}
			scans := n.Type == "Seq Scan" || strings.HasPrefix(n.Type, "Index") && n.Condition == "" && !limited
			if scans && !slices.Contains(few, n.Relation) && !slices.Contains(few, n.Index) {
				t.Errorf("%s of %s %s in\n%s", n.Type, n.Relation, n.Index, text)
			}
		})
		for table, partitions := range used {
			if len(partitions) > 1 && !(table == "blob_refs" && strings.Contains(text, "NOT EXISTS (SELECT 1 FROM blob_refs WHERE blob =")) {
				t.Errorf("%d partitions of %s in\n%s", len(partitions), table, text)
			}
		}
		if len(used) > 0 || slices.ContainsFunc(dividedTables, func(table string) bool { return strings.HasPrefix(text, "INSERT INTO "+table+" ") }) {
			divided++
		}
	}
	return divided
}

// walk calls f with a node and the nodes below it, and tells whether a limit is above the node.
func (n planNode) walk(limited bool, f func(n planNode, limited bool)) {
	f(n, limited)
	for _, below := range n.Plans {
		below.walk(limited || n.Type == "Limit", f)
	}
}

// TestPostgresPlans: the statements of runs find their rows by indexes, and in one partition.
func TestPostgresPlans(t *testing.T) {
	t.Parallel()
	url := postgrestest.Start(t, postgrestest.Fast...).Schema(t)
	c := clockAt(noon)
	s := openServer(t, url, Options{Now: c.now, Quotas: Quotas{Bytes: 1 << 40}})
	for d := range 5 {
		c.set(noon.Add(time.Duration(d) * oneDay))
		for i := range 20 {
			putAt(t, s, c, fmt.Sprintf("run_%d_%d", d, i))
		}
	}
	if _, err := s.read.Exec("ANALYZE"); err != nil {
		t.Fatal(err)
	}
	tr := trace(t, s, url)
	w := mustWriter(t, s, "run_a")
	w.Append(startAt("run_a", c.now().UnixMicro()))
	if err := w.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Append(journaltest.Call(1))
	w.Append(bigAnswer(1, "shared"))
	w.Append(bigAnswer(2, "new"))
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w, _, err := s.Resume(t.Context(), "run_a"); err != nil {
		t.Error(err)
	} else {
		w.Append(endAt(c.now().UnixMicro()))
		if err := w.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.ReadPage(t.Context(), "run_1_1", 1, 2, 1<<20); err != nil {
		t.Error(err)
	}
	for _, f := range []journal.Filter{{}, {User: "ann"}, {Session: "s"}, {Status: "failed"}, {Limit: 1}} {
		_, next, err := s.Runs(t.Context(), f)
		if err == nil && next != "" {
			f.Cursor = next
			_, _, err = s.Runs(t.Context(), f)
		}
		if err != nil {
			t.Error(err)
		}
	}
	if n := tr.check(t, url); n < 7 {
		t.Errorf("%d statements use the divided tables", n)
	}
}

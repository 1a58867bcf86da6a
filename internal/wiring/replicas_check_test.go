package wiring_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/task"
)

// check compares what the clients, the upstream server and the store have seen. It returns a summary.
func (c *cluster) check(total int) string {
	c.t.Helper()
	db, err := c.connect(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	defer db.Close(c.t.Context())
	number := func(query string) (n int) {
		c.t.Helper()
		if err := db.QueryRow(c.t.Context(), query).Scan(&n); err != nil {
			c.t.Fatalf("%s: %v", query, err)
		}
		return n
	}
	for query, want := range map[string]int{
		"SELECT count(*) FROM tasks":                                                                          total,
		"SELECT count(*) FROM tasks WHERE status = 'succeeded'":                                               total,
		"SELECT count(*) FROM events WHERE type = 'task.ended'":                                               total,
		"SELECT count(*) FROM runs WHERE status = 'succeeded'":                                                2 * total,
		"SELECT count(*) FROM runs":                                                                           2 * total,
		"SELECT count(*) FROM sessions WHERE working <> 0 OR due IS NOT NULL":                                 0,
		"SELECT tasks FROM totals":                                                                            0,
		"SELECT (bytes - (SELECT sum(bytes) FROM tasks) - (SELECT sum(bytes) FROM runs))::BIGINT FROM totals": 0,
		"SELECT count(*) FROM (SELECT task FROM events GROUP BY task HAVING count(*) <> max(id)) gaps":        0,
		"SELECT count(*) FROM (SELECT run FROM journal GROUP BY run HAVING count(*) <> max(seq)) gaps":        0,
		"SELECT count(*) FROM (SELECT task FROM steps GROUP BY task HAVING count(*) <> max(seq)) of_tasks":    0,
	} {
		if got := number(query); got != want {
			c.t.Errorf("%s: %d, want %d", query, got, want)
		}
	}
	states, doubts := c.checkEvents()
	if listed := number("SELECT count(*) FROM doubts"); listed != doubts {
		c.t.Errorf("%d writes are in doubt by the events, %d in the store's list", doubts, listed)
	}
	c.checkWrites(states)
	history := readHistory(c.t, db, c.dead)
	for i, bad := range wrong(history) {
		if i == 5 {
			break
		}
		var lines strings.Builder
		for _, op := range bad {
			fmt.Fprintf(&lines, "%d to %d %v\n", op.Call, op.Return, op.Input)
		}
		c.t.Errorf("this history is not one of a store with fences:\n%s", &lines)
	}
	resumed := 0
	for _, a := range c.tasks {
		resumed += a.resumed
	}
	return fmt.Sprintf("%d writes, %d in doubt; %d watchers went on elsewhere; %d claims of tasks, %d of runs; %d operations checked",
		len(c.writes), doubts, resumed, number("SELECT count(*) FROM history WHERE what = 'claim' AND thing LIKE 'task%'"),
		number("SELECT count(*) FROM history WHERE what = 'claim' AND thing LIKE 'run%'"), len(history))
}

// checkEvents checks the events that watchers received: every write is called once and answered once. It returns the answers by write, and the number
// of writes in doubt.
func (c *cluster) checkEvents() (states map[arrival]string, doubts int) {
	c.t.Helper()
	states = map[arrival]string{}
	for _, a := range c.tasks {
		calls := map[string]arrival{}
		for i, e := range a.events {
			var d struct {
				RunID string
				N     int
				Name  string
				OK    bool
				Error json.RawMessage
				Args  struct{ Input struct{ Part, K int } }
			}
			if e.Type != task.EventCall && e.Type != task.EventAnswer || json.Unmarshal(e.Data, &d) != nil {
				continue
			}
			call := fmt.Sprint(d.RunID, " ", d.N)
			if e.Type == task.EventCall {
				tool := strings.TrimPrefix(d.Name, "up__")
				if tool == "read" {
					continue
				}
				w := arrival{tool: tool, task: a.n, part: d.Args.Input.Part, k: d.Args.Input.K}
				if _, before := states[w]; before {
					c.t.Errorf("task %d: event %d calls %+v again", a.n, i+1, w)
				}
				calls[call], states[w] = w, ""
				continue
			}
			w, known := calls[call]
			switch {
			case !known:
			case states[w] != "":
				c.t.Errorf("task %d: event %d answers %+v again", a.n, i+1, w)
			case d.OK:
				states[w] = "done"
			case strings.Contains(string(d.Error), `"in_doubt"`):
				states[w] = "in doubt"
				doubts++
			default:
				c.t.Errorf("task %d: %+v failed: %s", a.n, w, d.Error)
			}
		}
		for p := range 2 {
			for k, name := range writesOfPart {
				tool, _, _ := strings.Cut(name, " ")
				if w := (arrival{tool: tool, task: a.n, part: p + 1, k: k + 1}); states[w] == "" {
					c.t.Errorf("task %d: %+v has no answer", a.n, w)
				}
			}
		}
	}
	return states, doubts
}

// checkWrites compares the writes that reached the upstream server with the answers in the events.
func (c *cluster) checkWrites(states map[arrival]string) {
	c.t.Helper()
	came := map[arrival][]string{} // keys by write
	sessions := map[int]string{}
	for _, a := range c.tasks {
		sessions[a.n] = a.session
	}
	last := map[string]int{} // number of the task whose write came last, by session
	for _, w := range c.writes {
		if want := fmt.Sprintf("ann.%d@example.com", w.task); w.to != want {
			c.t.Errorf("%+v has not the address %s", w, want)
		}
		of := arrival{tool: w.tool, task: w.task, part: w.part, k: w.k}
		if states[of] == "done" && len(came[of]) == 0 { // a write in doubt and a repeated put may come late
			if session := sessions[w.task]; w.task < last[session] {
				c.t.Errorf("%+v came after a write of task %d, which is later in %s", w, last[session], session)
			} else {
				last[session] = w.task
			}
		}
		came[of] = append(came[of], w.key)
	}
	byKey := map[string]arrival{}
	for w, keys := range came {
		for _, key := range keys {
			if other, found := byKey[key]; found && other != w || key == "" {
				c.t.Errorf("%+v and %+v have the key %q", w, other, key)
			}
			byKey[key] = w
		}
		if _, known := states[w]; !known {
			c.t.Errorf("%+v came without an event", w)
		}
		if len(slices.Compact(slices.Sorted(slices.Values(keys)))) > 1 || w.tool == "send" && len(keys) > 1 {
			c.t.Errorf("%+v, which is %s, came with the keys %q", w, states[w], keys)
		}
	}
	for w, state := range states {
		if state == "done" && len(came[w]) == 0 {
			c.t.Errorf("%+v is said to be done and did not come", w)
		}
	}
}

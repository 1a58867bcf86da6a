package wiring_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/jackc/pgx/v5"
)

// historyTriggers are statements that make a database record the changes of processes in the table history. A process is named by the application_name of
// its connections. A claim also records the numbers of steps, events and records that it sees of its task or run.
const historyTriggers = `
CREATE TABLE history (
	n BIGINT GENERATED ALWAYS AS IDENTITY, at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(), process TEXT NOT NULL DEFAULT current_setting('application_name'),
	thing TEXT NOT NULL, what TEXT NOT NULL, owner TEXT NOT NULL DEFAULT '', number BIGINT NOT NULL DEFAULT 0, steps BIGINT NOT NULL DEFAULT 0,
	events BIGINT NOT NULL DEFAULT 0, alive BOOLEAN NOT NULL DEFAULT false);
CREATE FUNCTION lives(owner TEXT) RETURNS BOOLEAN LANGUAGE sql AS $$ SELECT EXISTS (SELECT 1 FROM processes WHERE id = owner AND expires > clock_timestamp()) $$;
CREATE FUNCTION note() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
	CASE regexp_replace(TG_TABLE_NAME, '^journal_.*', 'journal') -- a trigger of a partition has the partition's name
	WHEN 'processes' THEN INSERT INTO history (thing, what, owner) VALUES ('process', 'register', new.id);
	WHEN 'steps' THEN INSERT INTO history (thing, what, number) VALUES ('task ' || new.task, 'step', new.seq);
	WHEN 'events' THEN INSERT INTO history (thing, what, number) VALUES ('task ' || new.task, 'event', new.id);
	WHEN 'journal' THEN INSERT INTO history (thing, what, number) VALUES ('run ' || new.run, 'step', new.seq);
	WHEN 'sessions' THEN INSERT INTO history (thing, what, number) VALUES ('session ' || new.num, CASE new.working WHEN 0 THEN 'leave' ELSE 'take' END, new.working);
	WHEN 'tasks' THEN
		IF TG_OP = 'INSERT' THEN
			INSERT INTO history (thing, what) VALUES ('task ' || new.num, 'create');
			INSERT INTO history (thing, what, number) VALUES ('session ' || new.session, 'create', new.num);
		ELSIF new.fence <> old.fence THEN
			INSERT INTO history (thing, what, owner, number, steps, events) VALUES ('task ' || new.num, 'claim', new.owner, new.fence,
				(SELECT count(*) FROM steps WHERE task = new.num), (SELECT count(*) FROM events WHERE task = new.num));
		ELSIF new.owner = '' AND old.owner <> '' THEN
			INSERT INTO history (thing, what, owner, alive) VALUES ('task ' || new.num, 'free', old.owner, lives(old.owner));
		ELSIF new.ended IS NOT NULL THEN
			INSERT INTO history (thing, what) VALUES ('task ' || new.num, 'end');
			INSERT INTO history (thing, what, number) VALUES ('session ' || new.session, 'end', new.num);
		END IF;
	WHEN 'runs' THEN
		IF TG_OP = 'INSERT' THEN
			INSERT INTO history (thing, what) VALUES ('run ' || new.num, 'create');
			INSERT INTO history (thing, what, owner) VALUES ('run ' || new.num, 'begin', new.owner);
		ELSIF new.fence <> old.fence THEN
			INSERT INTO history (thing, what, owner, alive) VALUES ('run ' || new.num, 'free', old.owner, lives(old.owner) AND NOT EXISTS (
				SELECT 1 FROM sessions s JOIN tasks t ON t.num = s.working WHERE s."user" = new."user" AND s.id = new.session AND t.owner = new.owner));
			INSERT INTO history (thing, what, owner, number, steps) VALUES ('run ' || new.num, 'claim', new.owner, new.fence,
				(SELECT count(*) FROM journal WHERE run = new.num));
		ELSIF new.ended IS NOT NULL THEN
			INSERT INTO history (thing, what) VALUES ('run ' || new.num, 'end');
		END IF;
	END CASE;
	RETURN NULL;
END $$;
CREATE TRIGGER note_inserted AFTER INSERT ON processes FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER note_inserted AFTER INSERT ON steps FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER note_inserted AFTER INSERT ON events FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER note_inserted AFTER INSERT ON journal FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER note_inserted AFTER INSERT ON tasks FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER note_inserted AFTER INSERT ON runs FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER note_changed AFTER UPDATE ON tasks FOR EACH ROW
	WHEN ((new.owner, new.fence, new.status, new.ended) IS DISTINCT FROM (old.owner, old.fence, old.status, old.ended)) EXECUTE FUNCTION note();
CREATE TRIGGER note_changed AFTER UPDATE ON runs FOR EACH ROW
	WHEN ((new.owner, new.fence, new.status, new.ended) IS DISTINCT FROM (old.owner, old.fence, old.status, old.ended)) EXECUTE FUNCTION note();
CREATE TRIGGER note_changed AFTER UPDATE OF working ON sessions FOR EACH ROW WHEN (new.working <> old.working) EXECUTE FUNCTION note();
`

// stateChange is a change of a task, a run or a session by a process.
type stateChange struct {
	process string
	what    string
	owner   string // process that gets a claim, or loses it
	number  int64  // fence of a claim, task of a session's change, or number of a step, record or event
	steps   int64  // steps or records that a claim could see
	events  int64  // events that a claim could see
	alive   bool   // true if the process that loses a claim lives; for a run, only if the new owner does not work the run's task
}

// transaction is an operation of a history: the changes that one transaction makes to one task, run or session, in order.
type transaction struct {
	thing   string
	changes []stateChange
}

func (x transaction) String() string { return fmt.Sprintf("%s: %+v", x.thing, x.changes) }

// claimed is the state of a task or a run.
type claimed struct {
	created, ended       bool
	creator, owner       string
	fence, steps, events int64
}

// apply makes a change, and reports whether the state permits it.
func (s *claimed) apply(c stateChange) bool {
	owns := s.owner != "" && s.owner == c.process && !s.ended
	switch c.what {
	case "create":
		ok := !s.created
		s.created, s.creator = true, c.process
		return ok
	case "begin": // a run is created by its owner
		s.owner = c.owner
		return c.owner == c.process
	case "claim":
		ok := s.created && !s.ended && s.owner == "" && c.owner == c.process && c.number == s.fence+1 && c.steps == s.steps && c.events == s.events
		s.owner, s.fence = c.owner, c.number
		return ok
	case "free":
		ok := s.owner != "" && s.owner == c.owner && !s.ended && (c.process == s.owner || !c.alive)
		s.owner = ""
		return ok
	case "step":
		s.steps++
		return owns && c.number == s.steps
	case "event":
		s.events++
		first := s.events == 1 && s.creator == c.process
		return (first || owns) && c.number == s.events
	case "end":
		s.ended = true
		return owns
	}
	return false
}

// queue is the state of a session: its tasks are worked in order, one at a time.
type queue struct {
	waiting []int64 // tasks that have not ended, in order
	working int64
}

func (q *queue) apply(c stateChange) bool {
	first := len(q.waiting) > 0 && q.waiting[0] == c.number
	switch c.what {
	case "create":
		ok := len(q.waiting) == 0 || q.waiting[len(q.waiting)-1] < c.number
		q.waiting = append(slices.Clone(q.waiting), c.number)
		return ok
	case "take":
		ok := q.working == 0 && first
		q.working = c.number
		return ok
	case "leave":
		ok := q.working != 0
		q.working = 0
		return ok
	case "end":
		if first {
			q.waiting = q.waiting[1:]
		}
		return first && q.working == c.number
	}
	return false
}

// claims is the sequential specification of what processes may do to tasks, runs and sessions.
var claims = porcupine.Model{
	Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
		at := map[string]int{}
		for _, op := range history {
			thing := op.Input.(transaction).thing
			i, found := at[thing]
			if !found {
				i = len(parts)
				at[thing] = i
				parts = append(parts, nil)
			}
			parts[i] = append(parts[i], op)
		}
		return parts
	},
	Init: func() any { return nil },
	Step: func(state, input, _ any) (bool, any) {
		x := input.(transaction)
		if strings.HasPrefix(x.thing, "session") {
			q, _ := state.(queue)
			for _, c := range x.changes {
				if !q.apply(c) {
					return false, nil
				}
			}
			return true, q
		}
		s, _ := state.(claimed)
		for _, c := range x.changes {
			if !s.apply(c) {
				return false, nil
			}
		}
		return true, s
	},
	Equal: reflect.DeepEqual,
}

// wrong returns the transactions of each task, run or session whose history violates claims.
func wrong(history []porcupine.Operation) (all [][]porcupine.Operation) {
	for _, part := range claims.Partition(history) {
		if porcupine.CheckOperationsTimeout(claims, part, time.Minute) != porcupine.Ok {
			all = append(all, part)
		}
	}
	return all
}

// readHistory reads the history that historyTriggers have recorded. An operation lasts from its first statement to its commit. dead contains, by process,
// the time from which other processes could take the process for dead.
func readHistory(t testing.TB, c *pgx.Conn, dead map[string]time.Time) (history []porcupine.Operation) {
	t.Helper()
	rows, err := c.Query(t.Context(), `SELECT xmin::text, at, pg_xact_commit_timestamp(xmin), process, thing, what, owner, number, steps, events, alive FROM history ORDER BY n`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	names := map[string]string{"": ""} // names of processes, by owner id
	type key struct{ transaction, thing string }
	index := map[key]int{}
	clients := map[string]int{}
	for rows.Next() {
		var k key
		var at, committed time.Time
		var n stateChange
		if err := rows.Scan(&k.transaction, &at, &committed, &n.process, &k.thing, &n.what, &n.owner, &n.number, &n.steps, &n.events, &n.alive); err != nil {
			t.Fatal(err)
		}
		if n.what == "register" {
			names[n.owner] = n.process
			continue
		}
		owner, known := names[n.owner]
		if !known {
			t.Errorf("%s of %s: unknown owner %q", n.what, k.thing, n.owner)
		}
		n.owner = owner
		if since, found := dead[owner]; found && since.Before(committed) {
			n.alive = false
		}
		i, found := index[k]
		if !found {
			i = len(history)
			index[k] = i
			if _, known := clients[n.process]; !known {
				clients[n.process] = len(clients)
			}
			history = append(history, porcupine.Operation{
				ClientId: clients[n.process], Input: transaction{thing: k.thing}, Call: at.UnixMicro(), Return: committed.UnixMicro(),
			})
		}
		x := history[i].Input.(transaction)
		x.changes = append(x.changes, n)
		history[i].Input = x
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return history
}

// TestHistoryChecker: the checker of histories accepts what a store may do, and finds planted faults.
func TestHistoryChecker(t *testing.T) {
	t.Parallel()
	do := func(thing string, from, to int64, changes ...stateChange) porcupine.Operation {
		return porcupine.Operation{Input: transaction{thing, changes}, Call: from, Return: to}
	}
	const of = "task 1"
	create := do(of, 1, 2, stateChange{process: "x", what: "create"}, stateChange{process: "x", what: "event", number: 1})
	claimA := do(of, 3, 4, stateChange{process: "a", what: "claim", owner: "a", number: 1, events: 1})
	stepA := do(of, 5, 6, stateChange{process: "a", what: "step", number: 1}, stateChange{process: "a", what: "event", number: 2})
	freed := do(of, 7, 8, stateChange{process: "b", what: "free", owner: "a"})
	claimB := do(of, 9, 10, stateChange{process: "b", what: "claim", owner: "b", number: 2, steps: 1, events: 2})
	endB := do(of, 11, 12, stateChange{process: "b", what: "event", number: 3}, stateChange{process: "b", what: "end"})
	first := do("session 1", 1, 2, stateChange{what: "create", number: 1}, stateChange{what: "create", number: 2})
	take := do("session 1", 3, 4, stateChange{what: "take", number: 1})
	leave := do("session 1", 5, 6, stateChange{what: "leave"})
	again := do("session 1", 7, 8, stateChange{what: "take", number: 1})
	ended := do("session 1", 9, 10, stateChange{what: "end", number: 1}, stateChange{what: "leave"})
	for name, c := range map[string]struct {
		history []porcupine.Operation
		wrong   bool
	}{
		"taken over":                    {[]porcupine.Operation{create, claimA, stepA, freed, claimB, endB}, false},
		"released by its owner":         {[]porcupine.Operation{create, claimA, do(of, 5, 6, stateChange{process: "a", what: "free", owner: "a", alive: true})}, false},
		"a session in order":            {[]porcupine.Operation{first, take, leave, again, ended, do("session 1", 11, 12, stateChange{what: "take", number: 2})}, false},
		"claimed by two":                {[]porcupine.Operation{create, claimA, do(of, 3, 4, stateChange{process: "b", what: "claim", owner: "b", number: 1, events: 1})}, true},
		"claimed from its owner":        {[]porcupine.Operation{create, claimA, stepA, claimB}, true},
		"freed while its owner lives":   {[]porcupine.Operation{create, claimA, do(of, 5, 6, stateChange{process: "b", what: "free", owner: "a", alive: true})}, true},
		"a stale commit":                {[]porcupine.Operation{create, claimA, stepA, freed, claimB, do(of, 11, 12, stateChange{process: "a", what: "step", number: 2})}, true},
		"a stale commit during a claim": {[]porcupine.Operation{create, claimA, do(of, 5, 12, stateChange{process: "a", what: "step", number: 1}), freed, do(of, 9, 10, stateChange{process: "b", what: "claim", owner: "b", number: 2, events: 1})}, true},
		"a lost step":                   {[]porcupine.Operation{create, claimA, stepA, do(of, 7, 8, stateChange{process: "a", what: "step", number: 3})}, true},
		"ended twice":                   {[]porcupine.Operation{create, claimA, stepA, freed, claimB, endB, do(of, 13, 14, stateChange{process: "b", what: "end"})}, true},
		"a change after the end":        {[]porcupine.Operation{create, claimA, stepA, freed, claimB, endB, do(of, 13, 14, stateChange{process: "b", what: "event", number: 4})}, true},
		"two tasks of a session":        {[]porcupine.Operation{first, take, do("session 1", 5, 6, stateChange{what: "take", number: 2})}, true},
		"a session out of order":        {[]porcupine.Operation{first, do("session 1", 3, 4, stateChange{what: "take", number: 2})}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if found := wrong(c.history); len(found) > 0 != c.wrong {
				t.Errorf("found %v", found)
			}
		})
	}
}

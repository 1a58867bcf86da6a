package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"mcp-code-exec-harness/internal/task"
)

// Steps implements task.Store.
func (s *Store) Steps(ctx context.Context, id string) ([]task.Step, error) {
	var steps []task.Step
	err := s.ofTask(ctx, id, "SELECT p.seq, p.data"+taskParts("steps p", "p.task = t.num")+" ORDER BY p.seq", nil,
		func(rows *sql.Rows) error {
			var seq sql.NullInt64
			var data sql.RawBytes
			if err := rows.Scan(&seq, &data); err != nil || !seq.Valid {
				return err
			}
			var step task.Step
			if err := json.Unmarshal(data, &step); err != nil {
				return fmt.Errorf("step %d as it is stored: %w", seq.Int64, err)
			}
			step.Seq = int(seq.Int64)
			steps = append(steps, step)
			return nil
		})
	if err != nil {
		return nil, fmt.Errorf("steps of task %q: %w", id, err)
	}
	return steps, nil
}

// Events implements task.Store. A limit of 0 is none.
func (s *Store) Events(ctx context.Context, id string, after int64, limit int) ([]task.Event, error) {
	if limit <= 0 {
		limit = -1
	}
	var events []task.Event
	err := s.ofTask(ctx, id, "SELECT e.id, e.type, e.time, e.key, e.data"+
		taskParts("events e", "e.task = t.num AND e.id > ?2")+" ORDER BY e.id LIMIT ?3", []any{after, limit},
		func(rows *sql.Rows) error {
			var num, at sql.NullInt64
			var kind, key sql.NullString
			var data []byte
			if err := rows.Scan(&num, &kind, &at, &key, &data); err != nil || !num.Valid {
				return err
			}
			events = append(events, task.Event{
				ID: num.Int64, Type: kind.String, Time: instant(at.Int64), Key: key.String, Data: data,
			})
			return nil
		})
	for i := range events {
		if e := &events[i]; err == nil && e.Type == task.EventEnded && len(e.Data) == 0 {
			var ended task.Task
			if ended, err = s.Task(ctx, id); err == nil {
				e.Data, err = json.Marshal(ended)
			}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("events of task %q: %w", id, err)
	}
	return events, nil
}

// taskParts joins a task, parameter 1, to what belongs to it: one row of NULLs where that is nothing, so that one
// statement tells it from a task that is not there.
func taskParts(table, on string) string {
	return " FROM tasks t CROSS JOIN sessions s ON s.num = t.session LEFT JOIN " + table + " ON " + on +
		" WHERE t.id = ?1 AND t.purged = 0 AND s.closed IS NULL"
}

// ofTask calls scan with each row of a query with taskParts.
func (s *Store) ofTask(ctx context.Context, id, query string, args []any, scan func(*sql.Rows) error) error {
	rows, err := s.query(ctx, query, append([]any{id}, args...)...)
	if err != nil {
		return s.fail(err)
	}
	defer rows.Close()
	found := false
	for rows.Next() {
		found = true
		if err := scan(rows); err != nil {
			return s.fail(err)
		}
	}
	if err := rows.Err(); err != nil {
		return s.fail(err)
	}
	if !found {
		return task.ErrNotFound
	}
	return nil
}

package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"
	"math"

	"mcp-code-exec-harness/internal/task"
)

// numOfTask selects the num of a task by its id, if readers may see the task.
const numOfTask = "(SELECT t.num" + openTask + ")"

// Steps implements task.Store.
func (s *Store) Steps(ctx context.Context, id string) (steps []task.Step, err error) {
	defer wrap(&err, "steps of task %q", id)
	steps, err = list(ctx, s, scanStep, "SELECT seq, data FROM steps WHERE task = "+numOfTask+" ORDER BY seq", id)
	return steps, s.known(ctx, id, len(steps), err)
}

func scanStep(row scanner) (step task.Step, err error) {
	var seq int
	if err := row.Scan(&seq, object{&step}); err != nil {
		return step, fmt.Errorf("step %d as it is stored: %w", seq, err)
	}
	step.Seq = seq
	return step, nil
}

// Events implements task.Store. A limit of 0 means no limit.
func (s *Store) Events(ctx context.Context, id string, after int64, limit int) (events []task.Event, err error) {
	defer wrap(&err, "events of task %q", id)
	if limit <= 0 {
		limit = math.MaxInt32
	}
	events, err = list(ctx, s, func(row scanner) (e task.Event, err error) {
		err = row.Scan(&e.ID, &e.Type, instant{&e.Time}, &e.Key, (*[]byte)(&e.Data))
		return e, err
	}, "SELECT id, type, time, key, data FROM events WHERE task = "+numOfTask+" AND id > ?2 ORDER BY id LIMIT ?3", id, after, limit)
	if err := s.known(ctx, id, len(events), err); err != nil {
		return nil, err
	}
	for i := range events {
		if e := &events[i]; e.Type == task.EventEnded && len(e.Data) == 0 {
			ended, err := s.Task(ctx, id)
			if err != nil {
				return nil, err
			}
			if e.Data, err = json.Marshal(ended); err != nil {
				return nil, err
			}
		}
	}
	return events, nil
}

// known returns err or, if n is 0 because no such task exists, task.ErrNotFound.
func (s *Store) known(ctx context.Context, id string, n int, err error) error {
	if n > 0 || err != nil {
		return err
	}
	num, err := one(ctx, s, nil, value[*int64], "SELECT "+numOfTask, id)
	if err == nil && num == nil {
		err = task.ErrNotFound
	}
	return err
}

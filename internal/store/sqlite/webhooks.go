package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"mcp-code-exec-harness/internal/task"
)

// webhookTables are the webhooks that are to be delivered.
const webhookTables = ` FROM webhooks w CROSS JOIN tasks t ON t.num = w.task CROSS JOIN sessions s ON s.num = t.session
	WHERE w.due IS NOT NULL AND t.purged = 0 AND s.deleted = 0`

// Webhooks implements task.Store.
func (s *Store) Webhooks(ctx context.Context, now time.Time, limit int) ([]task.Webhook, error) {
	hooks, err := s.webhooks(ctx, now, limit)
	if err != nil {
		return nil, fmt.Errorf("list webhooks: %w", s.fail(err))
	}
	return hooks, nil
}

func (s *Store) webhooks(ctx context.Context, now time.Time, limit int) (hooks []task.Webhook, err error) {
	rows, err := s.query(ctx, "SELECT w.id, t.id, w.url, w.body, w.created, w.attempts"+webhookTables+
		" AND w.due <= ? ORDER BY w.due, w.num LIMIT ?", now.UnixMicro(), limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var w task.Webhook
		var created int64
		if err := rows.Scan(&w.ID, &w.TaskID, &w.URL, &w.Body, &created, &w.Attempts); err != nil {
			return nil, err
		}
		w.Created = instant(created)
		hooks = append(hooks, w)
	}
	return hooks, rows.Err()
}

// SettleWebhook implements task.Store. The error wraps task.ErrNotFound for one that was settled before, or whose session
// was deleted.
func (s *Store) SettleWebhook(ctx context.Context, id string, delivered bool, next time.Time, reason string) error {
	due := someMicros(next)
	if delivered {
		due, reason = nil, ""
	}
	if err := s.decide(ctx, 0, func(c *conn) error {
		res, err := c.exec("UPDATE webhooks SET attempts = attempts + 1, due = ?, reason = ? WHERE id = ? AND due IS NOT NULL",
			due, reason, id)
		return foundOne(res, err)
	}); err != nil {
		return fmt.Errorf("settle webhook %q: %w", id, err)
	}
	return nil
}

// NextWebhook implements task.Store.
func (s *Store) NextWebhook(ctx context.Context) (due time.Time, ok bool, err error) {
	var at int64
	err = s.queryRow(ctx, "SELECT w.due"+webhookTables+" ORDER BY w.due LIMIT 1").Scan(&at)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return time.Time{}, false, nil
	case err != nil:
		return time.Time{}, false, fmt.Errorf("next webhook: %w", s.fail(err))
	}
	return instant(at), true, nil
}

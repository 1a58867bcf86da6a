package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"
	"time"

	"mcp-code-exec-harness/internal/task"
)

// TakeWebhooks implements task.Store. Users take turns.
func (s *Store) TakeWebhooks(ctx context.Context, q task.WebhookQuery) (hooks []task.Webhook, next time.Time, err error) {
	var taken []task.Webhook
	var later *time.Time
	if err := s.decide(ctx, 0, func(c *conn) (err error) {
		taken, later, err = takeWebhooks(c, q)
		return err
	}); err != nil {
		return nil, time.Time{}, fmt.Errorf("list webhooks: %w", err)
	}
	if later != nil {
		next = *later
	}
	return taken, next, nil
}

func takeWebhooks(c *conn, q task.WebhookQuery) (hooks []task.Webhook, next *time.Time, err error) {
	for user := ""; len(hooks) < q.Limit; {
		found, err := c.row("SELECT user FROM webhooks WHERE user > ? ORDER BY user LIMIT 1", []any{user}, &user)
		if err != nil || !found {
			return hooks, next, err
		}
		each := min(q.Each-q.InFlight[user], q.Limit-len(hooks))
		if each <= 0 {
			continue
		}
		first := len(hooks)
		if err := c.each(`SELECT w.id, t.id, w.url, w.attempts, w.due FROM webhooks w CROSS JOIN tasks t ON t.num = w.task
			CROSS JOIN sessions s ON s.num = t.session
			WHERE w.user = ? AND t.purged = 0 AND s.closed IS NULL ORDER BY w.due, w.num LIMIT ?`, []any{user, each},
			func(row []driver.Value) error {
				w := task.Webhook{ID: row[0].(string), TaskID: row[1].(string), UserID: user, URL: row[2].(string), Attempts: int(row[3].(int64)), Due: instant(row[4].(int64))}
				if !w.Due.After(q.Now) {
					hooks = append(hooks, w)
				} else if next == nil || w.Due.Before(*next) {
					next = &w.Due
				}
				return nil
			}); err != nil {
			return nil, nil, err
		}
		for _, w := range hooks[first:] {
			if _, err := c.exec("UPDATE webhooks SET due = ? WHERE id = ?", q.Until.UnixMicro(), w.ID); err != nil {
				return nil, nil, err
			}
		}
	}
	return hooks, next, nil
}

// SettleWebhook implements task.Store. The error wraps task.ErrNotFound for one that was settled before, or whose session
// was deleted.
func (s *Store) SettleWebhook(ctx context.Context, id string, next time.Time) error {
	if err := s.decide(ctx, 0, func(c *conn) error {
		if next.IsZero() {
			return foundOne(c.exec("DELETE FROM webhooks WHERE id = ?", id))
		}
		return foundOne(c.exec("UPDATE webhooks SET attempts = attempts + 1, due = ? WHERE id = ?", next.UnixMicro(), id))
	}); err != nil {
		return fmt.Errorf("settle webhook %q: %w", id, err)
	}
	return nil
}

package sqlstore

import (
	"context"
	"time"

	"mcp-code-exec-harness/internal/task"
)

// TakeWebhooks implements task.Store. Users take turns.
func (s *Store) TakeWebhooks(ctx context.Context, q task.WebhookQuery) (_ []task.Webhook, next time.Time, err error) {
	defer wrap(&err, "take webhooks")
	var taken []task.Webhook
	var later time.Time
	if err := s.write(ctx, 0, func(c *conn) { taken, later = takeWebhooks(c, q) }); err != nil {
		return nil, time.Time{}, err
	}
	return taken, later, nil
}

func takeWebhooks(c *conn, q task.WebhookQuery) (hooks []task.Webhook, next time.Time) {
	for user, wrapped := q.After, false; len(hooks) < q.Limit; {
		if !c.row("SELECT user FROM webhooks WHERE user > ? ORDER BY user LIMIT 1", []any{user}, &user) || wrapped && user > q.After {
			if wrapped || c.err != nil {
				break
			}
			user, wrapped = "", true
			continue
		}
		each := min(q.Each-q.InFlight[user], q.Limit-len(hooks))
		if each <= 0 {
			continue
		}
		first := len(hooks)
		c.each(`SELECT w.id, coalesce(t.id, ''), w.approval, w.url, w.attempts, w.due FROM webhooks w LEFT JOIN tasks t ON t.num = w.task
			LEFT JOIN sessions s ON s.num = t.session
			WHERE w.user = ? AND (w.approval <> '' OR t.purged = 0 AND s.closed IS NULL) ORDER BY w.due, w.num LIMIT ? /*+ FOR UPDATE OF w SKIP LOCKED */`, []any{user, each},
			func(row scanner) error {
				w := task.Webhook{UserID: user}
				if err := row.Scan(&w.ID, &w.TaskID, &w.Approval, &w.URL, &w.Attempts, instant{&w.Due}); err != nil {
					return err
				}
				if !w.Due.After(q.Now) {
					hooks = append(hooks, w)
				} else if next.IsZero() || w.Due.Before(next) {
					next = w.Due
				}
				return nil
			})
		for _, w := range hooks[first:] {
			c.exec("UPDATE webhooks SET due = ? WHERE id = ?", q.Until, w.ID)
		}
	}
	return hooks, next
}

// SettleWebhook implements task.Store. If the webhook does not exist any more, the error wraps task.ErrNotFound.
func (s *Store) SettleWebhook(ctx context.Context, id string, next time.Time) (err error) {
	defer wrap(&err, "settle webhook %q", id)
	return s.write(ctx, 0, func(c *conn) {
		if next.IsZero() {
			c.execOne("DELETE FROM webhooks WHERE id = ?", id)
		} else {
			c.execOne("UPDATE webhooks SET attempts = attempts + 1, due = ? WHERE id = ?", next, id)
		}
	})
}

package sqlite

import (
	"fmt"

	"mcp-code-exec-harness/internal/task"
)

// Quotas bound what one user may have in the store. A zero bound is none. All users together may have shareOfAll times as much.
type Quotas struct {
	Bytes     int64 // of journals and tasks
	Tasks     int64 // unfinished ones
	Sessions  int64
	Schedules int64
}

const shareOfAll = 50

// quota is one bound of Quotas.
type quota struct {
	column string // of the table owners
	key    string // of the configuration
	things string
	bound  func(Quotas) int64
}

var (
	quotaBytes     = quota{"bytes", "quotas.journal", "bytes of journals and tasks", func(q Quotas) int64 { return q.Bytes }}
	quotaTasks     = quota{"tasks", "quotas.tasks", "unfinished tasks", func(q Quotas) int64 { return q.Tasks }}
	quotaSessions  = quota{"sessions", "quotas.sessions", "sessions", func(q Quotas) int64 { return q.Sessions }}
	quotaSchedules = quota{"schedules", "quotas.schedules", "schedules", func(q Quotas) int64 { return q.Schedules }}
)

// admit refuses (task.ErrQuota) where a user, or all together, has as much of something as a quota allows.
func (s *Store) admit(c *conn, user string, quotas ...quota) error {
	for _, q := range quotas {
		bound := q.bound(s.quotas)
		if bound <= 0 {
			continue
		}
		var own, all int64
		if _, err := c.row("SELECT "+q.column+" FROM owners WHERE user = ?", []any{user}, &own); err != nil {
			return err
		}
		if own >= bound {
			return refuse(fmt.Errorf("%w: %d %s for each user (%s); delete some, or wait until the retention does", task.ErrQuota, bound, q.things, q.key))
		}
		if _, err := c.row("SELECT coalesce(sum("+q.column+"), 0) FROM owners", nil, &all); err != nil {
			return err
		}
		if all >= bound*shareOfAll {
			return refuse(fmt.Errorf("%w: %d %s for all users together (%d times %s); try again later", task.ErrQuota,
				bound*shareOfAll, q.things, shareOfAll, q.key))
		}
	}
	return nil
}

package sqlstore

import (
	"fmt"

	"mcp-code-exec-harness/internal/task"
)

// Quotas bounds what one user may store. A bound of zero means no bound. All users together may store shareOfAll times as much.
type Quotas struct {
	Bytes     int64 // bytes of journals and tasks
	Tasks     int64 // unfinished tasks
	Sessions  int64
	Schedules int64
	Waiting   int64 // runs that wait for an approval
}

const shareOfAll = 50

// quota is one bound of Quotas.
type quota struct {
	column string // column of the tables owners and totals
	key    string // key of the configuration
	things string
	bound  func(Quotas) int64
}

var (
	quotaBytes     = quota{"bytes", "quotas.journal", "bytes of journals and tasks", func(q Quotas) int64 { return q.Bytes }}
	quotaTasks     = quota{"tasks", "quotas.tasks", "unfinished tasks", func(q Quotas) int64 { return q.Tasks }}
	quotaSessions  = quota{"sessions", "quotas.sessions", "sessions", func(q Quotas) int64 { return q.Sessions }}
	quotaWaiting   = quota{"waiting", "quotas.waiting", "runs that wait for an approval", func(q Quotas) int64 { return q.Waiting }}
	quotaSchedules = quota{"schedules", "quotas.schedules", "schedules", func(q Quotas) int64 { return q.Schedules }}
)

// remedy returns advice for a user who has reached the bound.
func (q quota) remedy() string {
	if q.column == "waiting" {
		return "decide some, or wait until they expire"
	}
	return "delete some, or wait until the retention does"
}

// exceeded returns an error (task.ErrQuota) if a user has reached a quota, or all users together have reached their bound.
func (s *Store) exceeded(c *conn, user string, q quota) error {
	check := s.queueQuota(c, user, q)
	c.flush()
	return check()
}

// queueQuota queues a query for what a user and all users have of a quota. After the next flush, check returns the error that exceeded describes.
func (s *Store) queueQuota(c *conn, user string, q quota) (check func() error) {
	bound := q.bound(s.quotas)
	if bound <= 0 {
		return func() error { return nil }
	}
	var own, all int64
	c.later(func(row scanner) error { return row.Scan(&own, &all) },
		"SELECT coalesce(owners."+q.column+", 0), totals."+q.column+" FROM totals LEFT JOIN owners ON user = ?", user)
	return func() error {
		switch {
		case own >= bound:
			return fmt.Errorf("%w: %d %s for each user (%s); %s", task.ErrQuota, bound, q.things, q.key, q.remedy())
		case all >= bound*shareOfAll:
			return fmt.Errorf("%w: %d %s for all users together (%d times %s); try again later", task.ErrQuota,
				bound*shareOfAll, q.things, shareOfAll, q.key)
		}
		return nil
	}
}

// admit refuses a change if a quota is used up.
func (s *Store) admit(c *conn, user string, q quota) {
	if err := s.exceeded(c, user, q); err != nil {
		c.refuse(err)
	}
}

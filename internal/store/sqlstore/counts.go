package sqlstore

import (
	"context"
	"time"
)

// purgeCounts is the maximum number of expired counts that one call removes.
const purgeCounts = 20

// Reached reports whether the calls of a user under a key have reached the limit.
func (s *Store) Reached(ctx context.Context, user, key string, limit int) (_ bool, err error) {
	defer wrap(&err, "look for the calls that count for a limit")
	calls, err := one(ctx, s, nil, value[int], "SELECT calls FROM counts WHERE user = ? AND key = ?", user, key)
	return calls >= limit, err
}

// Count counts a call of a user under a key; the count expires at the given time. If the limit is reached, Count does not count the call and ok
// is false.
func (s *Store) Count(ctx context.Context, user, key string, limit int, now, expires time.Time) (ok bool, err error) {
	defer wrap(&err, "count a call for a limit")
	added := false
	err = s.write(ctx, 0, func(c *conn) {
		c.exec("DELETE FROM counts WHERE num IN (SELECT num FROM counts WHERE expires < ? LIMIT ? /*+ FOR UPDATE SKIP LOCKED */)", now, purgeCounts)
		added = c.changed(`INSERT INTO counts (user, key, calls, expires) VALUES (?1, ?2, 1, ?3)
			ON CONFLICT (user, key) DO UPDATE SET calls = counts.calls + 1, expires = ?3 WHERE counts.calls < ?4`, user, key, expires, limit) > 0
	})
	return err == nil && added, err
}

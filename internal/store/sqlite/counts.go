package sqlite

import (
	"context"
	"time"
)

// purgeCounts is how many expired counts one call removes.
const purgeCounts = 20

// Reached reports whether a user has as many calls under a key as the limit allows.
func (s *Store) Reached(ctx context.Context, user, key string, limit int) (_ bool, err error) {
	defer wrap(&err, "look for the calls that count for a limit")
	calls, err := one(ctx, s, nil, value[int], "SELECT calls FROM counts WHERE user = ? AND key = ?", user, key)
	return calls >= limit, err
}

// Count counts a call of a user under a key until it expires; ok is false, and it is not counted, if there are as many as the limit allows.
func (s *Store) Count(ctx context.Context, user, key string, limit int, now, expires time.Time) (ok bool, err error) {
	defer wrap(&err, "count a call for a limit")
	added := false
	err = s.write(ctx, 0, func(c *conn) {
		c.exec("DELETE FROM counts WHERE num IN (SELECT num FROM counts WHERE expires < ? LIMIT ?)", now, purgeCounts)
		added = c.exec(`INSERT INTO counts (user, key, calls, expires) VALUES (?1, ?2, 1, ?3)
			ON CONFLICT (user, key) DO UPDATE SET calls = calls + 1, expires = ?3 WHERE calls < ?4`, user, key, expires, limit).rows > 0
	})
	return err == nil && added, err
}

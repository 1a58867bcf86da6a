package sqlstore

import (
	"context"
	"time"

	"mcp-code-exec-harness/internal/auth"
)

var _ auth.Rates = (*Store)(nil)

// microseconds is the server's time in microseconds since the Unix epoch. The clocks of the processes' machines may differ.
const microseconds = "(extract(epoch FROM statement_timestamp()) * 1000000)::bigint"

// takeRate counts requests by the generic cell rate algorithm: calls is the time at which all requests have drained. It also removes some expired
// rows. The transaction is not flushed to the disk: after a crash of the server, the requests of less than a second are not counted. expires is
// rounded, so that it changes seldom: it is indexed.
const takeRate = `WITH gone AS (DELETE FROM counts WHERE num IN (
		SELECT num FROM counts WHERE expires < ` + microseconds + ` AND NOT (user = ?1 AND key = ?2) LIMIT ?5 FOR UPDATE SKIP LOCKED)),
	taken AS (INSERT INTO counts (user, key, calls, expires) VALUES (?1, ?2, ` + microseconds + ` + ?3, (` + microseconds + ` / ?4 + 2) * ?4)
		ON CONFLICT (user, key) DO UPDATE SET calls = greatest(counts.calls, ` + microseconds + `) + ?3, expires = excluded.expires
			WHERE greatest(counts.calls, ` + microseconds + `) + ?3 <= ` + microseconds + ` + ?4
		RETURNING calls - ` + microseconds + ` AS ahead, set_config('synchronous_commit', 'off', true))
	SELECT 1, ahead FROM taken UNION ALL
	SELECT 0, calls - ` + microseconds + ` FROM counts WHERE user = ?1 AND key = ?2 AND NOT EXISTS (SELECT 1 FROM taken)`

// Take implements auth.Rates. It works only in a store for which Remote is true.
func (s *Store) Take(ctx context.Context, caller, limit string, n int, every, all time.Duration) (ok bool, ahead time.Duration, err error) {
	defer wrap(&err, "count requests of a caller")
	err = s.each(ctx, takeRate, []any{caller, "rate " + limit, int64(n) * every.Microseconds(), all.Microseconds(), purgeCounts}, func(row scanner) error {
		var taken, micros int64
		err := row.Scan(&taken, &micros)
		ok, ahead = taken == 1, time.Duration(micros)*time.Microsecond
		return err
	})
	return ok, ahead, err
}

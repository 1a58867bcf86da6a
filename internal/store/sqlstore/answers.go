package sqlstore

import (
	"context"
	"time"

	"mcp-code-exec-harness/internal/answers"
)

// Maximum numbers of kept answers of a user and of all users, and of expired ones that one call removes.
const (
	answersOfUser = 200
	answersOfAll  = 10_000
	purgeAnswers  = 20
)

var _ answers.Store = (*Store)(nil)

// Answer implements answers.Store.
func (s *Store) Answer(ctx context.Context, user, server string, key []byte, oldest time.Time) (k answers.Kept, err error) {
	defer wrap(&err, "find a kept answer of server %q", server)
	state, err := one(ctx, s, nil, value[int64], "SELECT n FROM answer_states WHERE server = ?", server)
	if err != nil {
		return k, err
	}
	k, err = one(ctx, s, nil, func(row scanner) (k answers.Kept, err error) {
		err = row.Scan(&k.Sealed, instant{&k.At})
		return k, err
	}, "SELECT sealed, made FROM answers WHERE user = ? AND key = ? AND state = ? AND made >= ? AND expires > ?", user, key, state, oldest, s.now())
	k.State = state
	return k, err
}

// KeepAnswer implements answers.Store.
func (s *Store) KeepAnswer(ctx context.Context, user, server string, key []byte, k answers.Kept, expires time.Time) (err error) {
	defer wrap(&err, "keep an answer of server %q", server)
	now := s.now()
	return s.write(ctx, len(k.Sealed), func(c *conn) {
		c.exec("DELETE FROM answers WHERE num IN (SELECT num FROM answers WHERE expires <= ? LIMIT ? /*+ FOR UPDATE SKIP LOCKED */)", now, purgeAnswers)
		c.exec(`INSERT INTO answers (user, key, state, made, expires, sealed) SELECT ?1, ?2, ?3, ?4, ?5, ?6 WHERE (SELECT count(*) FROM answers) < ?7
			ON CONFLICT (user, key) DO UPDATE SET state = ?3, made = ?4, expires = ?5, sealed = ?6`, user, key, k.State, k.At, expires, k.Sealed, answersOfAll)
		c.exec("DELETE FROM answers WHERE num IN (SELECT num FROM answers WHERE user = ? ORDER BY num DESC LIMIT ? OFFSET ?)", user, purgeAnswers, answersOfUser)
	})
}

// ChangeAnswers implements answers.Store.
func (s *Store) ChangeAnswers(ctx context.Context, server string) (err error) {
	defer wrap(&err, "drop the kept answers of server %q", server)
	return s.write(ctx, 0, func(c *conn) {
		c.exec("INSERT INTO answer_states (server, n) VALUES (?, 1) ON CONFLICT (server) DO UPDATE SET n = answer_states.n + 1", server)
	})
}

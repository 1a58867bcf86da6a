package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"mcp-code-exec-harness/internal/auth"
)

var _ auth.KeyStore = (*Store)(nil)

// touchInterval is how much older than the last use the stored one may be.
const touchInterval = time.Minute

// CreateKey adds a key. The error wraps task.ErrExists if its id or hash is taken.
func (s *Store) CreateKey(ctx context.Context, k auth.Key) error {
	if k.Roles == nil {
		k.Roles = []string{}
	}
	roles, err := encodeJSON(k.Roles)
	if err == nil {
		err = s.decide(ctx, 0, func(c *conn) error {
			_, err := c.exec(`INSERT INTO keys (id, hash, name, user, roles, created, last_used, expires, revoked)
				VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`, k.ID, k.Hash, k.Name, k.User, string(roles), k.Created.UnixMicro(),
				micros(k.LastUsed), micros(k.Expires), micros(k.Revoked))
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("create key %q: %w", k.ID, err)
	}
	return nil
}

const keyColumns = "id, hash, name, user, roles, created, last_used, expires, revoked"

func scanKey(rows scanner) (k auth.Key, err error) {
	var created int64
	var used, expires, revoked *int64
	var roles []byte
	if err := rows.Scan(&k.ID, &k.Hash, &k.Name, &k.User, &roles, &created, &used, &expires, &revoked); err != nil {
		return k, err
	}
	if err := json.Unmarshal(roles, &k.Roles); err != nil {
		return k, fmt.Errorf("roles of key %q as they are stored: %w", k.ID, err)
	}
	k.Created = instant(created)
	k.LastUsed, k.Expires, k.Revoked = instantOrNil(used), instantOrNil(expires), instantOrNil(revoked)
	return k, nil
}

// Keys lists all keys, revoked and expired ones too, the oldest first.
func (s *Store) Keys(ctx context.Context) ([]auth.Key, error) {
	keys, err := s.keys(ctx)
	if err != nil {
		return nil, fmt.Errorf("list keys: %w", s.fail(err))
	}
	return keys, nil
}

func (s *Store) keys(ctx context.Context) (keys []auth.Key, err error) {
	rows, err := s.query(ctx, "SELECT "+keyColumns+" FROM keys ORDER BY num")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		k, err := scanKey(rows)
		if err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	return keys, rows.Err()
}

// KeyByHash implements auth.KeyStore. It returns revoked and expired keys too.
func (s *Store) KeyByHash(ctx context.Context, hash []byte) (k auth.Key, ok bool, err error) {
	k, err = scanKey(s.queryRow(ctx, "SELECT "+keyColumns+" FROM keys WHERE hash = ?", hash))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return auth.Key{}, false, nil
	case err != nil:
		return auth.Key{}, false, fmt.Errorf("find the key of a hash: %w", s.fail(err))
	}
	return k, true, nil
}

// RevokeKey notes that a key is not to be accepted any more; one that is revoked stays as it is. The error wraps
// task.ErrNotFound.
func (s *Store) RevokeKey(ctx context.Context, id string, at time.Time) error {
	if err := s.decide(ctx, 0, func(c *conn) error {
		return foundOne(c.exec("UPDATE keys SET revoked = coalesce(revoked, ?) WHERE id = ?", at.UnixMicro(), id))
	}); err != nil {
		return fmt.Errorf("revoke key %q: %w", id, err)
	}
	return nil
}

// TouchKey notes that a key was used. It writes at most once a minute for each key, so that it may be called for every
// request.
func (s *Store) TouchKey(ctx context.Context, id string, at time.Time) error {
	s.mu.Lock()
	last, known := s.used[id]
	fresh := known && at.Sub(last) < touchInterval
	if !fresh {
		s.used[id] = at
	}
	s.mu.Unlock()
	if fresh {
		return nil
	}
	if err := s.do(ctx, func(c *conn) error {
		_, err := c.exec("UPDATE keys SET last_used = ?1 WHERE id = ?2 AND coalesce(last_used, 0) < ?1", at.UnixMicro(), id)
		return err
	}); err != nil {
		return fmt.Errorf("note the use of key %q: %w", id, err)
	}
	return nil
}

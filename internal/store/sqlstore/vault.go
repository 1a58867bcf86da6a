package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/pii"
)

var _ pii.Vault = (*Vault)(nil)

// Vault stores tokens beside the journals that mention them. While no other process uses the store, entries given to Add wait for the next
// transaction of the store, whatever its changes are. So an entry is stored in the same transaction as the first record that contains its token, or
// before.
type Vault struct{ s *Store }

// Vault returns the vault of this store.
func (s *Store) Vault() *Vault { return &Vault{s} }

// numbersOfProcess separates the token numbers of live processes that share a session. The first process numbers its tokens from 1, each further
// process from a multiple of numbersOfProcess.
const numbersOfProcess = 1_000_000

// runPrefix is the prefix of run ids. The tokens of a run without a session are stored under the id of the run. At first no other
// process uses these tokens, so Load claims no range of numbers for a new run.
const runPrefix = "run_"

// Load implements pii.Vault.
func (v *Vault) Load(ctx context.Context, scope pii.Scope) (out pii.Loaded, err error) {
	defer wrap(&err, "read the vault of session %q", scope.Session)
	if err := v.Sync(ctx); err != nil {
		return out, err
	}
	out.First = 1
	var num int64
	if err := v.s.each(ctx, `SELECT coalesce((SELECT num FROM vaults WHERE user = ?1 AND session = ?2), 0),
		coalesce((SELECT tokens FROM vault_owners WHERE user = ?1), 0), coalesce((SELECT bytes FROM vault_owners WHERE user = ?1), 0)`,
		[]any{scope.User, scope.Session}, func(row scanner) error { return row.Scan(&num, &out.Tokens, &out.Bytes) }); err != nil {
		return out, err
	}
	if num != 0 || !strings.HasPrefix(scope.Session, runPrefix) {
		if num, out.First, err = v.claim(ctx, scope); err != nil {
			return out, err
		}
	}
	if num == 0 { // a run of which nothing is stored yet
		v.s.marks.set(scope, 0)
		return out, nil
	}
	out.Entries, out.Mark, err = v.entries(ctx, "SELECT num, type, n, key, sealed, origin FROM tokens WHERE vault = ? ORDER BY num", num)
	if err == nil {
		v.s.marks.set(scope, out.Mark)
	}
	return out, err
}

// entries returns the entries that a query selects, and the number of the last one.
func (v *Vault) entries(ctx context.Context, query string, args ...any) (all []pii.Entry, last int64, err error) {
	err = v.s.each(ctx, query, args, func(row scanner) error {
		var e pii.Entry
		err := row.Scan(&last, &e.Type, &e.N, &e.Key, &e.Sealed, &e.Origin)
		all = append(all, e)
		return err
	})
	return all, last, err
}

// Shared implements pii.Vault. A process claims its lease before it loads a session that others may use.
func (v *Vault) Shared() bool { return v.s.lease.Others() }

// Since implements pii.Vault.
func (v *Vault) Since(ctx context.Context, scope pii.Scope, mark int64) (all []pii.Entry, next int64, err error) {
	defer wrap(&err, "read the vault of session %q", scope.Session)
	all, next, err = v.entries(ctx, `SELECT t.num, t.type, t.n, t.key, t.sealed, t.origin FROM vaults v JOIN tokens t ON t.vault = v.num AND t.num > ?3
		WHERE v.user = ?1 AND v.session = ?2 ORDER BY t.num`, scope.User, scope.Session, mark)
	return all, max(next, mark), err
}

// maxMarks is the maximum number of sessions that marks remembers.
const maxMarks = 100_000

// marks holds the number of the last entry that this process knows of each session. It is safe for concurrent use.
type marks struct {
	mu sync.Mutex
	of map[pii.Scope]int64
}

func (m *marks) set(scope pii.Scope, mark int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of == nil || len(m.of) >= maxMarks {
		m.of = map[pii.Scope]int64{} // sessions without a mark are loaded again
	}
	m.of[scope] = mark
}

func (m *marks) get(scope pii.Scope) (mark int64, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	mark, ok = m.of[scope]
	return mark, ok
}

// addShared stores entries of a session to which other processes may add entries too. If another process may have stored a token or value that is in
// entries, addShared returns pii.ErrConflict.
func (v *Vault) addShared(ctx context.Context, scope pii.Scope, entries []pii.Entry) error {
	mark, ok := v.s.marks.get(scope)
	if !ok {
		return pii.ErrConflict
	}
	taken := map[string]bool{}
	token := func(e pii.Entry) string { return fmt.Sprintf("%s_%d", e.Type, e.N) }
	for _, e := range entries {
		if e.Sealed != nil {
			taken["k"+string(e.Key)], taken["t"+token(e)] = true, true
		}
	}
	ch, last := v.change(scope, entries), mark
	err := v.s.write(ctx, ch.bytes, func(c *conn) {
		last = mark // the change may be applied again
		conflict := false
		c.each("SELECT num, type, n, key FROM tokens WHERE vault = ? AND num > ? AND sealed IS NOT NULL ORDER BY num", []any{v.num(c, scope), mark}, func(row scanner) error {
			var e pii.Entry
			err := row.Scan(&last, &e.Type, &e.N, &e.Key)
			conflict = conflict || taken["k"+string(e.Key)] || taken["t"+token(e)]
			return err
		})
		if conflict {
			c.refuse(pii.ErrConflict)
			return
		}
		ch.apply(c)
	})
	if err == nil {
		v.s.marks.set(scope, last)
	}
	return err
}

// claim makes this process the one that numbers a session's tokens from 1. If another live process already does so, this process gets a separate
// range of numbers. claim returns the number of the session's row, and the first token number for this process.
func (v *Vault) claim(ctx context.Context, scope pii.Scope) (num int64, first int, err error) {
	if err := v.s.lease.Claim(); err != nil {
		return 0, 0, err
	}
	dead, err := v.s.deadOwners(ctx)
	if err != nil {
		return 0, 0, err
	}
	err = v.s.write(ctx, 0, func(c *conn) {
		num = v.num(c, scope)
		var owner string
		var others int
		c.row("SELECT owner, others FROM vaults WHERE num = ?", []any{num}, &owner, &others)
		if first = 1; owner == v.s.lease.ID() {
			return
		}
		if slices.Contains(dead, owner) {
			c.exec("UPDATE vaults SET owner = ? WHERE num = ?", v.s.lease.ID(), num)
			return
		}
		first = (others + 1) * numbersOfProcess
		c.exec("UPDATE vaults SET others = others + 1 WHERE num = ?", num)
	})
	return num, first, err
}

// num returns the number of a session's row, and creates a missing row.
func (v *Vault) num(c *conn, scope pii.Scope) (num int64) {
	if !c.row("SELECT num FROM vaults WHERE user = ? AND session = ? /*+ FOR UPDATE */", []any{scope.User, scope.Session}, &num) {
		num = c.insert("INSERT INTO vaults (user, session, owner, used) VALUES (?, ?, ?, ?) RETURNING num",
			scope.User, scope.Session, v.s.lease.ID(), v.s.now())
	}
	return num
}

// maxRiders is the maximum number of entries of one Add that are stored together with other callers' changes. Those changes wait for the entries.
const maxRiders = 200

// Add implements pii.Vault. If other processes may use the store, Add stores all entries before it returns. If not, at most maxRiders entries wait
// for the next transaction; Add stores the entries before them in several transactions, so that other callers get their turn in between.
func (v *Vault) Add(ctx context.Context, scope pii.Scope, entries []pii.Entry) (err error) {
	defer wrap(&err, "add to the vault of session %q", scope.Session)
	if v.Shared() {
		return v.addShared(ctx, scope, entries)
	}
	for ; len(entries) > maxRiders; entries = entries[maxRiders:] {
		if err := v.addSome(ctx, scope, entries[:maxRiders]); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	ch := v.change(scope, entries)
	ch.done = make(chan struct{})
	return v.s.writer.ride(ch)
}

// addSome stores entries in a transaction. Users take turns, and the queue of the writer holds one such transaction at a time.
func (v *Vault) addSome(ctx context.Context, scope pii.Scope, entries []pii.Entry) error {
	release, err := v.s.vaults.Acquire(ctx, scope.User, 1)
	if err != nil {
		return err
	}
	defer release()
	ch := v.change(scope, entries)
	return v.s.write(ctx, ch.bytes, ch.apply)
}

// change returns a change that stores a copy of entries.
func (v *Vault) change(scope pii.Scope, entries []pii.Entry) *change {
	entries = slices.Clone(entries)
	bytes := 0
	for i := range entries {
		entries[i].Key, entries[i].Sealed = slices.Clone(entries[i].Key), slices.Clone(entries[i].Sealed)
		bytes += len(entries[i].Sealed)
	}
	now := v.s.now()
	return &change{bytes: bytes, apply: func(c *conn) { v.store(c, scope, entries, bytes, now) }}
}

func (v *Vault) store(c *conn, scope pii.Scope, entries []pii.Entry, bytes int, now time.Time) {
	num, tokens := v.num(c, scope), 0
	for _, e := range entries {
		var key, sealed any // NULL in an entry that only adds an origin
		if e.Sealed != nil {
			key, sealed = e.Key, e.Sealed
			tokens++
		}
		c.expect(func(rows int64) {
			if rows == 0 { // claim prevents this
				v.s.log.Error("a token has two values; the first one counts", "session", scope.Session, "type", e.Type, "number", e.N)
			}
		}, `INSERT INTO tokens (vault, type, n, key, sealed, origin) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			num, e.Type, e.N, key, sealed, []byte(e.Origin))
	}
	c.exec("UPDATE vaults SET tokens = tokens + ?, bytes = bytes + ?, used = ? WHERE num = ?", tokens, bytes, now, num)
}

// Sync implements pii.Vault.
func (v *Vault) Sync(ctx context.Context) error {
	if riding, _ := v.s.writer.riding(); !riding {
		return nil
	}
	if err := v.s.write(ctx, 0, func(*conn) {}); err != nil {
		return err
	}
	if _, err := v.s.writer.riding(); err != nil {
		return fmt.Errorf("write the vault: %w", err)
	}
	return nil
}

// Delete implements pii.Vault.
func (v *Vault) Delete(ctx context.Context, scope pii.Scope) (err error) {
	defer wrap(&err, "forget the tokens of session %q", scope.Session)
	for some := true; some && err == nil; {
		err = v.s.write(ctx, 0, func(c *conn) {
			some = deleteTokens(c, scope)
		})
	}
	return err
}

// purgeTokens limits the rows that one transaction deletes: at most purgeTokens rows with a value, and at most purgeTokens rows without one.
const purgeTokens = 2000

// deleteTokens deletes some tokens of a session, and the session's row when no token is left. It reports whether there was a row.
func deleteTokens(c *conn, scope pii.Scope) bool {
	var vault int64
	if !c.row("SELECT num FROM vaults WHERE user = ? AND session = ? /*+ FOR UPDATE */", []any{scope.User, scope.Session}, &vault) {
		return false
	}
	const some = "DELETE FROM tokens WHERE num IN (SELECT num FROM tokens WHERE vault = ? AND sealed IS %s LIMIT ?)"
	tokens := c.changed(fmt.Sprintf(some, "NOT NULL"), vault, purgeTokens)
	if tokens < purgeTokens && c.changed(fmt.Sprintf(some, "NULL"), vault, purgeTokens) < purgeTokens {
		c.exec("DELETE FROM vaults WHERE num = ?", vault)
	}
	return true
}

// keepVaults is the time for which tokens are kept although their session, run or schedule is not in the store. A run with such tokens may be about
// to be stored.
const keepVaults = time.Hour

// deleteOrphans deletes the tokens whose session, run or schedule is gone.
func (s *Store) deleteOrphans(ctx context.Context) error {
	orphans, err := list(ctx, s, func(row scanner) (scope pii.Scope, err error) {
		err = row.Scan(&scope.User, &scope.Session)
		return scope, err
	}, `SELECT user, session FROM vaults v WHERE used < ?
		AND NOT EXISTS (SELECT 1 FROM sessions WHERE user = v.user AND id = v.session)
		AND NOT EXISTS (SELECT 1 FROM runs WHERE id = v.session)
		AND NOT EXISTS (SELECT 1 FROM schedules WHERE id = v.session)`, s.now().Add(-keepVaults))
	for i := 0; i < len(orphans) && ctx.Err() == nil; i++ {
		err = errors.Join(err, s.Vault().Delete(ctx, orphans[i]))
	}
	return err
}

// Stats implements pii.Vault.
func (v *Vault) Stats(ctx context.Context, user, session string) (counts map[string]int64, err error) {
	defer wrap(&err, "count the tokens of user %q", user)
	counts = map[string]int64{}
	query := `SELECT t.type, count(*) FROM vaults v JOIN tokens t ON t.vault = v.num AND t.sealed IS NOT NULL WHERE v.user = ?`
	args := []any{user}
	if session != "" {
		query += " AND v.session = ?"
		args = append(args, session)
	}
	err = v.s.each(ctx, query+" GROUP BY t.type", args, func(row scanner) error {
		var kind string
		var n int64
		if err := row.Scan(&kind, &n); err != nil {
			return err
		}
		counts[kind] = n
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the vault: %w", err)
	}
	return counts, nil
}

// Ends returns the sealed values of the 500 oldest and the 500 newest tokens. A master key that was lost has sealed the oldest ones, and a wrong one the
// newest.
func (v *Vault) Ends(ctx context.Context) (sealed [][]byte, err error) {
	defer wrap(&err, "read the vault")
	if err := v.Sync(ctx); err != nil {
		return nil, err
	}
	for _, order := range []string{"ASC", "DESC"} {
		if err := v.s.each(ctx, "SELECT sealed FROM tokens ORDER BY num "+order+" LIMIT 500", nil, func(row scanner) error {
			var s []byte
			err := row.Scan(&s)
			sealed = append(sealed, s)
			return err
		}); err != nil {
			return nil, err
		}
	}
	return sealed, nil
}

package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"mcp-code-exec-harness/internal/pii"
)

var _ pii.Vault = (*Vault)(nil)

// Vault stores tokens beside the journals that mention them. What Add is given waits for the next transaction of the store, of
// whatever it is: so it is stored in the same transaction as the first record with a new token, or before.
type Vault struct{ s *Store }

// Vault is the vault in this store.
func (s *Store) Vault() *Vault { return &Vault{s} }

// Each process that shares a session with another one that lives numbers its tokens from a multiple of this.
const numbersOfProcess = 1_000_000

// Load implements pii.Vault.
func (v *Vault) Load(ctx context.Context, scope pii.Scope) (out pii.Loaded, err error) {
	defer wrap(&err, "read the vault of session %q", scope.Session)
	if err := v.Sync(ctx); err != nil {
		return out, err
	}
	out.First = 1
	var num int64
	var shared bool
	if err := v.s.each(ctx, `SELECT coalesce((SELECT num FROM vaults WHERE user = ?1 AND session = ?2), 0),
		EXISTS (SELECT 1 FROM sessions WHERE user = ?1 AND id = ?2),
		coalesce((SELECT tokens FROM vault_owners WHERE user = ?1), 0), coalesce((SELECT bytes FROM vault_owners WHERE user = ?1), 0)`,
		[]any{scope.User, scope.Session}, func(row scanner) error { return row.Scan(&num, &shared, &out.Tokens, &out.Bytes) }); err != nil {
		return out, err
	}
	if shared || num != 0 {
		if num, out.First, err = v.claim(ctx, scope); err != nil {
			return out, err
		}
	}
	if num == 0 {
		return out, nil
	}
	// One statement reads one state of the database.
	var last pii.Entry
	err = v.s.each(ctx, `SELECT t.type, t.n, t.sealed, o.origin FROM tokens t LEFT JOIN token_origins o ON o.vault = t.vault AND o.type = t.type AND o.n = t.n
		WHERE t.vault = ? ORDER BY t.type, t.n, o.nth`, []any{num}, func(row scanner) error {
		var e pii.Entry
		var sealed sql.RawBytes
		if err := row.Scan(&e.Type, &e.N, &sealed, &e.Origin); err != nil {
			return err
		}
		if e.Type != last.Type || e.N != last.N {
			e.Sealed = slices.Clone(sealed)
		}
		last = e
		out.Entries = append(out.Entries, e)
		return nil
	})
	return out, err
}

// claim makes this process the one that numbers a session's tokens from 1, unless another one that lives does; then it gets numbers
// of its own.
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

// num is the row of a session, which is made if need be.
func (v *Vault) num(c *conn, scope pii.Scope) (num int64) {
	if !c.row("SELECT num FROM vaults WHERE user = ? AND session = ?", []any{scope.User, scope.Session}, &num) {
		num = c.exec("INSERT INTO vaults (user, session, owner, used) VALUES (?, ?, ?, ?)",
			scope.User, scope.Session, v.s.lease.ID(), v.s.now()).id
	}
	return num
}

// Add implements pii.Vault. An error means that the store is closed.
func (v *Vault) Add(_ context.Context, scope pii.Scope, entries []pii.Entry) error {
	entries = slices.Clone(entries)
	bytes := 0
	for i := range entries {
		bytes += len(entries[i].Sealed)
	}
	now := v.s.now()
	return v.s.writer.ride(&change{bytes: bytes, done: make(chan struct{}), apply: func(c *conn) { v.store(c, scope, entries, bytes, now) }})
}

func (v *Vault) store(c *conn, scope pii.Scope, entries []pii.Entry, bytes int, now time.Time) {
	num, tokens := v.num(c, scope), 0
	for _, e := range entries {
		if e.Sealed != nil {
			c.exec("INSERT INTO tokens (vault, type, n, sealed) VALUES (?, ?, ?, ?)", num, e.Type, e.N, e.Sealed)
			tokens++
		}
		c.exec(`INSERT INTO token_origins (vault, type, n, nth, origin)
			SELECT ?1, ?2, ?3, count(*), ?4 FROM token_origins WHERE vault = ?1 AND type = ?2 AND n = ?3`, num, e.Type, e.N, e.Origin)
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

// purgeTokens is how many tokens one transaction deletes.
const purgeTokens = 2000

// deleteTokens deletes some tokens of a session, and its row when none is left. It reports whether there was a row.
func deleteTokens(c *conn, scope pii.Scope) bool {
	const some = "SELECT type, n FROM tokens WHERE vault = ?1 ORDER BY type, n LIMIT ?2"
	var vault int64
	if !c.row("SELECT num FROM vaults WHERE user = ? AND session = ?", []any{scope.User, scope.Session}, &vault) {
		return false
	}
	c.exec("DELETE FROM token_origins WHERE vault = ?1 AND (type, n) IN ("+some+")", vault, purgeTokens)
	if c.exec("DELETE FROM tokens WHERE vault = ?1 AND (type, n) IN ("+some+")", vault, purgeTokens).rows < purgeTokens {
		c.exec("DELETE FROM token_origins WHERE vault = ?", vault)
		c.exec("DELETE FROM vaults WHERE num = ?", vault)
	}
	return true
}

// keepVaults is how long tokens of no session, run or schedule stay: a run may be about to be stored.
const keepVaults = time.Hour

// deleteOrphans forgets the tokens whose session, run or schedule is gone.
func (s *Store) deleteOrphans(ctx context.Context) error {
	orphans, err := list(ctx, s, func(row scanner) (scope pii.Scope, err error) {
		err = row.Scan(&scope.User, &scope.Session)
		return scope, err
	}, `SELECT user, session FROM vaults v WHERE used < ?
		AND NOT EXISTS (SELECT 1 FROM sessions WHERE user = v.user AND id = v.session)
		AND NOT EXISTS (SELECT 1 FROM runs WHERE id = v.session)
		AND NOT EXISTS (SELECT 1 FROM schedules WHERE id = v.session)`, s.now().Add(-keepVaults))
	for i := 0; i < len(orphans) && err == nil; i++ {
		err = s.Vault().Delete(ctx, orphans[i])
	}
	return err
}

// Stats implements pii.Vault.
func (v *Vault) Stats(ctx context.Context, user, session string) (counts map[string]int64, err error) {
	defer wrap(&err, "count the tokens of user %q", user)
	counts = map[string]int64{}
	query := `SELECT t.type, count(*) FROM vaults v JOIN tokens t ON t.vault = v.num WHERE v.user = ?`
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

package pii

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Entry is one record of a vault: the value of a token, or an additional origin of the value.
type Entry struct {
	Type   string // type of the value, such as EMAIL
	N      int    // number of the token, such as 1 in [EMAIL_1]
	Key    []byte // 16 bytes derived from session and value, used to look up the token of a value. Nil in an entry that adds an origin
	Sealed []byte // the value, encrypted. Nil in an entry that adds an origin
	Origin string // source of the value, such as crm__search
}

// Loaded is the content of a vault for a session.
type Loaded struct {
	Entries []Entry // entries in the order in which they were stored
	First   int     // lowest number for new tokens of this process; it prevents conflicts between processes
	Tokens  int64   // number of tokens in all sessions of the user, this one included
	Bytes   int64   // size of the sealed values of these tokens
	Mark    int64   // argument for Vault.Since
}

// ErrConflict reports that another process has meanwhile added the same token, or a token for the same value. The session is then loaded
// again.
var ErrConflict = errors.New("another process has added tokens to this session")

// ErrUnavailable reports that a vault does not respond. A later attempt may succeed.
var ErrUnavailable = errors.New("the vault is unavailable")

// Vault stores the tokens of sessions. Its methods are safe for concurrent use.
type Vault interface {
	// Load returns the stored entries of a session and opens the session for Add. A session that has no entries yet is no error.
	Load(ctx context.Context, s Scope) (Loaded, error)
	// Add stores entries of a session. If it returns an error, it may have stored all, some or none of them. They are durable before
	// anything that the harness's store commits after Add has returned. ErrConflict is possible if processes share the vault.
	Add(ctx context.Context, s Scope, entries []Entry) error
	// Shared reports whether other processes may currently add to sessions. It is called before each use of tokens and takes microseconds.
	Shared() bool
	// Since returns the entries of a loaded session that were stored after a mark, perhaps including this process's own, and the next
	// mark. ErrConflict means that the session must be loaded again.
	Since(ctx context.Context, s Scope, mark int64) (entries []Entry, next int64, err error)
	// Sync returns when everything added before is durable.
	Sync(ctx context.Context) error
	// Delete removes a session. It may do nothing in a vault whose sessions the store deletes.
	Delete(ctx context.Context, s Scope) error
	// Stats counts the tokens of a user by type: in one session, or in all if session is empty.
	Stats(ctx context.Context, user, session string) (map[string]int64, error)
}

// Keeper is a Vault that deletes sessions that have not been used for some time.
type Keeper interface {
	// Keep keeps sessions for at least d from now, and at least for the vault's own retention time.
	Keep(ctx context.Context, d time.Duration, sessions ...Scope) error
}

const (
	// keepSlack is how long tokens are kept after the time at which work with them is due: the harness may be stopped at that time.
	keepSlack = 7 * 24 * time.Hour
	// touchEvery is the minimum interval between two calls of Keeper.Keep for a session that is in use and has its tokens in memory.
	touchEvery = 10 * time.Minute
)

// Keep keeps the tokens of the session for a week after due, the time at which work with the tokens is to begin. If the vault is not a Keeper,
// Keep does nothing.
func (s Session) Keep(ctx context.Context, due time.Time) error {
	if s.filter == nil {
		return nil
	}
	vault, err := s.filter.opt.Vault()
	if err != nil {
		return err
	}
	if keeper, ok := vault.(Keeper); ok {
		if err := keeper.Keep(ctx, due.Sub(s.filter.opt.Now())+keepSlack, s.scope); err != nil {
			return fmt.Errorf("keep tokens: %w", err)
		}
	}
	return nil
}

// touch tells a Keeper that the session is in use.
func (t *table) touch(ctx context.Context) error {
	now := t.f.opt.Now()
	keeper, ok := t.vault.(Keeper)
	if !ok || now.Sub(t.touched) < touchEvery {
		return nil
	}
	t.touched = now
	return keeper.Keep(ctx, 0, t.scope)
}

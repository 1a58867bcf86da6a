package pii

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Entry is what a vault stores of a token: what the token stands for, or one more place where its value came from.
type Entry struct {
	Type   string // EMAIL
	N      int    // number in [EMAIL_1]: 1
	Key    []byte // 16 bytes that depend on session and value: they find the token of a value. Nil in an entry that adds an origin
	Sealed []byte // the value, encrypted. Nil in an entry that adds an origin
	Origin string // source of the value, such as crm__search
}

// Loaded is what a vault has of a session.
type Loaded struct {
	Entries []Entry // entries in the order of their storage
	First   int     // the least number that new tokens of this process may have; it keeps several processes apart
	Tokens  int64   // tokens of all sessions of the user, this one included
	Bytes   int64   // bytes of their sealed values
	Mark    int64   // for Vault.Since
}

// ErrConflict says that another process has given one of the tokens, or one of the values, a meaning in the meantime. The session
// is loaded again then.
var ErrConflict = errors.New("another process has added tokens to this session")

// ErrUnavailable says that a vault does not answer. It may do so another time.
var ErrUnavailable = errors.New("the vault is unavailable")

// Vault stores the tokens of sessions. Its methods are safe for concurrent use.
type Vault interface {
	// Load returns what is stored of a session, and opens it for Add; a session without entries is empty.
	Load(ctx context.Context, s Scope) (Loaded, error)
	// Add stores entries of a session: all of them, or perhaps some, or none, if it returns an error. They are durable before anything that
	// the harness's store commits after Add has returned. ErrConflict is possible where processes share the vault.
	Add(ctx context.Context, s Scope, entries []Entry) error
	// Shared reports whether other processes may add to sessions at present. It is asked before each use of tokens and takes microseconds.
	Shared() bool
	// Since returns what was stored of a loaded session after a mark, perhaps with entries that this process has added itself, and the next mark.
	// ErrConflict says that the session is to be loaded again.
	Since(ctx context.Context, s Scope, mark int64) (entries []Entry, next int64, err error)
	// Sync returns once everything added before is durable.
	Sync(ctx context.Context) error
	// Delete forgets a session; a vault whose sessions a store deletes may do nothing else.
	Delete(ctx context.Context, s Scope) error
	// Stats counts the tokens of a user by type: in one session, or in all if session is empty.
	Stats(ctx context.Context, user, session string) (map[string]int64, error)
}

// Keeper is a Vault that forgets sessions which have not been used for some time.
type Keeper interface {
	// Keep makes sessions stay for at least d from now, and for the vault's own time.
	Keep(ctx context.Context, d time.Duration, sessions ...Scope) error
}

const (
	// keepSlack is how long after it is due work may begin, because the harness was stopped.
	keepSlack = 7 * 24 * time.Hour
	// touchEvery is how often a Keeper learns that a session is used whose tokens are in memory.
	touchEvery = 10 * time.Minute
)

// Keep makes the tokens of the session stay until work with them is due, and a week longer. Vaults that forget nothing ignore it.
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

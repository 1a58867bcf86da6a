package pii

import (
	"context"
	"errors"
)

// Entry is what a vault stores of a token: what the token stands for, or one more place where its value came from.
type Entry struct {
	Type   string // EMAIL
	N      int    // of [EMAIL_1]: 1
	Key    []byte // 16 bytes that depend on session and value: they find the token of a value. Nil in an entry that adds an origin
	Sealed []byte // the value, encrypted. Nil in an entry that adds an origin
	Origin string // where the value came from, such as crm__search
}

// Loaded is what a vault has of a session.
type Loaded struct {
	Entries []Entry // in the order of their storage
	First   int     // the least number that new tokens of this process may have; it keeps several processes apart
	Tokens  int64   // of all sessions of the user, this one included
	Bytes   int64   // of their sealed values
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
	// Sync returns once everything added before is durable.
	Sync(ctx context.Context) error
	// Delete forgets a session; a vault whose sessions a store deletes may do nothing else.
	Delete(ctx context.Context, s Scope) error
	// Stats counts the tokens of a user by type: in one session, or in all if session is empty.
	Stats(ctx context.Context, user, session string) (map[string]int64, error)
}

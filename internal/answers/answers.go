// Package answers keeps the results of tools that only read, so that a later call with the same arguments gets the result without asking the server. Which
// calls that are, and for how long, is said by rules of policy (see policy.Rule.Cache).
//
// A result belongs to one user, to one definition of its tool, and to a state of its server: each call that may change something there begins a new state,
// before it is sent and again when it has ended, so that no result is found that was read before the end of the change. The store holds results sealed with
// the keys of personal data, and knows neither the arguments nor the tool.
package answers

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"mcp-code-exec-harness/internal/pii/seal"
)

// MaxResult is the maximum size in bytes of a result that is kept.
const MaxResult = 64 << 10

// Kept is a result in the store.
type Kept struct {
	State  int64     // state of the server in which the result was read
	At     time.Time // time of the call
	Sealed []byte
}

// Store keeps sealed results. It is safe for concurrent use, also by several processes.
type Store interface {
	// Answer returns the present state of a server, and the sealed result that a user has under a key, if it was read in this state and not before
	// oldest. Sealed is nil if there is none.
	Answer(ctx context.Context, user, server string, key []byte, oldest time.Time) (Kept, error)
	// KeepAnswer stores a result under a key in place of an earlier one, until it expires. It stores nothing if the table is full of answers of others;
	// a user with too many answers loses the oldest.
	KeepAnswer(ctx context.Context, user, server string, key []byte, k Kept, expires time.Time) error
	// ChangeAnswers begins a new state of a server.
	ChangeAnswers(ctx context.Context, server string) error
}

// Tool names a tool and the definition that its server gives it now.
type Tool struct {
	Server, Name string
	Definition   string // digest
}

// Cache keeps results. It is safe for concurrent use.
type Cache struct {
	Store func() (Store, error)
	Keys  func() (*seal.Keys, error)
	Now   func() time.Time
}

// Answer is what the cache knows about a call before it is made.
type Answer struct {
	Result json.RawMessage // result of an earlier call; nil if none is kept
	At     time.Time       // time of the earlier call, or the present time if there is none

	user, server string
	key          []byte
	state        int64
	within       time.Duration
}

// Find looks for the result of a user's earlier call of a tool with the same arguments, which is not older than within.
func (c *Cache) Find(ctx context.Context, user string, tool Tool, args json.RawMessage, within time.Duration) (Answer, error) {
	now := c.Now()
	a := Answer{At: now, user: user, server: tool.Server, within: within}
	store, keys, err := c.open()
	if err != nil {
		return a, err
	}
	call, err := json.Marshal([]string{tool.Server, tool.Name, tool.Definition, string(args)})
	if err != nil {
		return a, err
	}
	key := keys.Key(a.scope(), "answer", string(call))
	a.key = key[:]
	kept, err := store.Answer(ctx, user, tool.Server, a.key, now.Add(-within))
	if err != nil {
		return a, err
	}
	a.state = kept.State
	if kept.Sealed == nil {
		return a, nil
	}
	result, err := keys.Open(a.scope(), kept.Sealed)
	if err != nil {
		return a, err
	}
	a.Result, a.At = json.RawMessage(result), kept.At
	return a, nil
}

// Keep stores the result of a call for which Find found none. It does not store a result that is too large.
func (c *Cache) Keep(ctx context.Context, a Answer, result json.RawMessage) error {
	if a.key == nil || len(result) > MaxResult {
		return nil
	}
	store, keys, err := c.open()
	if err != nil {
		return err
	}
	sealed, err := keys.Seal(a.scope(), string(result))
	if err != nil {
		return err
	}
	return store.KeepAnswer(ctx, a.user, a.server, a.key, Kept{a.state, a.At, sealed}, a.At.Add(a.within))
}

// Changed says that a call which is sent, or was sent, may change what the tools of a server answer.
func (c *Cache) Changed(ctx context.Context, server string) error {
	store, err := c.Store()
	if err == nil {
		err = store.ChangeAnswers(ctx, server)
	}
	if err != nil {
		return fmt.Errorf("drop the kept answers of server %q: %w", server, err)
	}
	return nil
}

func (c *Cache) open() (Store, *seal.Keys, error) {
	store, err := c.Store()
	if err != nil {
		return nil, nil, err
	}
	keys, err := c.Keys()
	return store, keys, err
}

// scope separates the answers of users from each other, and from values of sessions.
func (a *Answer) scope() seal.Scope {
	return seal.Scope{User: a.user, Session: "answers of " + a.server}
}

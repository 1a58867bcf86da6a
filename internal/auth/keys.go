package auth

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// touchEvery is the precision of a key's last use. It spares the store a write for every request.
const touchEvery = time.Minute

// KeyStore stores API keys. Its methods are safe for concurrent use.
type KeyStore interface {
	CreateKey(ctx context.Context, k Key) error
	// Keys returns all keys, including revoked and expired ones.
	Keys(ctx context.Context) ([]Key, error)
	// KeyByHash returns the key with the given hash. ok is false if there is none.
	KeyByHash(ctx context.Context, hash []byte) (k Key, ok bool, err error)
	// KeyByID returns the key with the given id. ok is false if there is none.
	KeyByID(ctx context.Context, id string) (k Key, ok bool, err error)
	// RevokeKey marks a key as revoked. Revoking it again changes nothing; an unknown id is an error.
	RevokeKey(ctx context.Context, id string, at time.Time) error
	// TouchKey records the time of a use.
	TouchKey(ctx context.Context, id string, at time.Time) error
}

// Keys creates and checks API keys. Its methods are safe for concurrent use.
type Keys struct {
	store KeyStore
}

// NewKeys returns the Keys of a store.
func NewKeys(s KeyStore) *Keys { return &Keys{store: s} }

// NewKey describes a key to create.
type NewKey struct {
	Name  string
	User  string        // the user that the key acts for; empty for any user
	Roles []Role        // roles of the key; if empty, the key has the role User
	TTL   time.Duration // lifetime of the key; 0 means that the key does not expire
}

// Create creates a key. The key's value is only returned, never stored.
func (k *Keys) Create(ctx context.Context, n NewKey) (key Key, value string, err error) {
	if len(n.Roles) == 0 {
		n.Roles = []Role{User}
	}
	key = Key{ID: keyIDPrefix + strings.ToLower(rand.Text()[:16]), Name: n.Name, User: n.User, Created: time.Now().UTC()}
	for _, role := range n.Roles {
		if _, err := ParseRole(string(role)); err != nil {
			return Key{}, "", fmt.Errorf("create key: %w", err)
		}
		key.Roles = append(key.Roles, string(role))
	}
	if n.User != "" {
		if err := CleanUser(n.User); err != nil {
			return Key{}, "", fmt.Errorf("create key: %w", err)
		}
	}
	if n.TTL < 0 {
		return Key{}, "", errors.New("create key: it would have expired already; give a positive duration")
	}
	if n.TTL > 0 {
		expires := key.Created.Add(n.TTL)
		key.Expires = &expires
	}
	value = newKeyValue()
	key.Hash = hashKey(value)
	if err := k.store.CreateKey(ctx, key); err != nil {
		return Key{}, "", fmt.Errorf("create key: %w", err)
	}
	return key, value, nil
}

// List returns all keys, including revoked and expired ones, the newest first.
func (k *Keys) List(ctx context.Context) ([]Key, error) {
	keys, err := k.store.Keys(ctx)
	if err != nil {
		return nil, fmt.Errorf("list keys: %w", err)
	}
	slices.SortStableFunc(keys, func(a, b Key) int { return b.Created.Compare(a.Created) })
	return keys, nil
}

// Any reports whether any key was ever created, even if it is revoked or has expired by now.
func (k *Keys) Any(ctx context.Context) (bool, error) {
	keys, err := k.List(ctx)
	return len(keys) > 0, err
}

// Revoke invalidates a key at once. The error for an unknown id comes from the store.
func (k *Keys) Revoke(ctx context.Context, id string) error {
	if err := k.store.RevokeKey(ctx, id, time.Now().UTC()); err != nil {
		return fmt.Errorf("revoke key %q: %w", id, err)
	}
	return nil
}

// Authenticate returns the identity of a key's holder. An error wraps ErrUnauthenticated or comes from the store, and never contains the
// value. If there is an error and the key is known, the Identity has the id of the key, for the log.
func (k *Keys) Authenticate(ctx context.Context, value string) (Identity, error) {
	if err := checkKey(value); err != nil {
		return Identity{}, fmt.Errorf("%w: %w", ErrUnauthenticated, err)
	}
	key, ok, err := k.store.KeyByHash(ctx, hashKey(value))
	if err != nil {
		return Identity{}, fmt.Errorf("look up the API key: %w", err)
	}
	if !ok {
		return Identity{}, fmt.Errorf("%w: the API key is not known here", ErrUnauthenticated)
	}
	now := time.Now().UTC()
	if err := key.valid(now); err != nil {
		return Identity{Principal: key.ID}, err
	}
	if key.LastUsed == nil || now.Sub(*key.LastUsed) >= touchEvery {
		_ = k.store.TouchKey(ctx, key.ID, now) // the error is ignored, because a full disk must not lock keys out
	}
	return Identity{Principal: key.ID, User: key.User, Roles: key.roles()}, nil
}

// roles returns the roles of a key, without roles that this version does not know.
func (k *Key) roles() (roles []Role) {
	for _, name := range k.Roles {
		if role, err := ParseRole(name); err == nil { // a later version may have more roles
			roles = append(roles, role)
		}
	}
	return roles
}

// Roles returns the current roles of a principal. The argument had contains the roles that the principal had when it requested work. For an API
// key, Roles returns the roles of the key, or nil if the key is no longer accepted. For other principals it returns had, because the harness does
// not learn of changes to their roles.
func (k *Keys) Roles(ctx context.Context, principal string, had []Role) ([]Role, error) {
	if !strings.HasPrefix(principal, keyIDPrefix) {
		return had, nil
	}
	key, err := k.key(ctx, principal)
	if errors.Is(err, ErrUnauthenticated) {
		return nil, nil
	}
	return key.roles(), err
}

// key returns the key with an id. The error wraps ErrUnauthenticated if the key is unknown or no longer accepted.
func (k *Keys) key(ctx context.Context, id string) (Key, error) {
	key, ok, err := k.store.KeyByID(ctx, id)
	switch {
	case err != nil:
		return Key{}, fmt.Errorf("look up API key %s: %w", id, err)
	case !ok:
		return Key{}, fmt.Errorf("%w: the API key is not known here", ErrUnauthenticated)
	}
	return key, key.valid(time.Now())
}

// State returns the state of the key: valid, expired or revoked.
func (k *Key) State(now time.Time) string {
	switch {
	case k.Revoked != nil:
		return "revoked"
	case k.Expires != nil && !now.Before(*k.Expires):
		return "expired"
	}
	return "valid"
}

// valid returns an error that wraps ErrUnauthenticated if the key is no longer accepted.
func (k *Key) valid(now time.Time) error {
	switch k.State(now) {
	case "revoked":
		return fmt.Errorf("%w: the API key was revoked", ErrUnauthenticated)
	case "expired":
		return fmt.Errorf("%w: the API key has expired", ErrUnauthenticated)
	}
	return nil
}

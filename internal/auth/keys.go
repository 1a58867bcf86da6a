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

// touchEvery is the precision of a key's last use. It saves the store a write for every request.
const touchEvery = time.Minute

// KeyStore stores API keys. Its methods are safe for concurrent use.
type KeyStore interface {
	CreateKey(ctx context.Context, k Key) error
	// Keys returns all keys, revoked and expired ones too.
	Keys(ctx context.Context) ([]Key, error)
	// KeyByHash finds a key. ok is false if there is none.
	KeyByHash(ctx context.Context, hash []byte) (k Key, ok bool, err error)
	// KeyByID finds a key. ok is false if there is none.
	KeyByID(ctx context.Context, id string) (k Key, ok bool, err error)
	// RevokeKey marks a key. Revoking again changes nothing; an id that does not exist is an error.
	RevokeKey(ctx context.Context, id string, at time.Time) error
	// TouchKey records a use.
	TouchKey(ctx context.Context, id string, at time.Time) error
}

// Keys makes and checks API keys. Its methods are safe for concurrent use.
type Keys struct {
	store KeyStore
}

// NewKeys returns the keys of a store.
func NewKeys(s KeyStore) *Keys { return &Keys{store: s} }

// NewKey describes a key to make.
type NewKey struct {
	Name  string
	User  string        // the user that it acts for; empty: any user
	Roles []Role        // none: User
	TTL   time.Duration // 0: it does not expire
}

// Create makes a key. Its value is returned here and stored nowhere.
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

// List returns all keys, the newest first; revoked and expired ones are among them.
func (k *Keys) List(ctx context.Context) ([]Key, error) {
	keys, err := k.store.Keys(ctx)
	if err != nil {
		return nil, fmt.Errorf("list keys: %w", err)
	}
	slices.SortStableFunc(keys, func(a, b Key) int { return b.Created.Compare(a.Created) })
	return keys, nil
}

// Any says whether a key was ever made, also one that is revoked or has expired by now.
func (k *Keys) Any(ctx context.Context) (bool, error) {
	keys, err := k.List(ctx)
	return len(keys) > 0, err
}

// Revoke ends a key at once. The error for an unknown id is the store's.
func (k *Keys) Revoke(ctx context.Context, id string) error {
	if err := k.store.RevokeKey(ctx, id, time.Now().UTC()); err != nil {
		return fmt.Errorf("revoke key %q: %w", id, err)
	}
	return nil
}

// Authenticate returns the identity of a key's value. An error wraps ErrUnauthenticated, or is the store's; it never holds the
// value, and the Identity with it has the id of a known key, for the log.
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
		_ = k.store.TouchKey(ctx, key.ID, now) // the date is optional: a full disk must not refuse keys
	}
	return Identity{Principal: key.ID, User: key.User, Roles: key.roles()}, nil
}

// roles are the roles of a key that this version knows.
func (k *Key) roles() (roles []Role) {
	for _, name := range k.Roles {
		if role, err := ParseRole(name); err == nil { // a later version may have more roles
			roles = append(roles, role)
		}
	}
	return roles
}

// Roles returns the roles of a principal who asked for work earlier and had the given roles then. Those of an API key are its roles of
// today, nil if it is no longer accepted. Other principals keep the roles that they had: no change of them is reported.
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

// key returns the key of an id. The error wraps ErrUnauthenticated if it is unknown or no longer accepted.
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

// State says what has become of the key: valid, expired or revoked.
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

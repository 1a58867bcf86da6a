package seal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
)

// Common has the secrets that all processes on one store share. They are in the store, sealed. Its methods are safe for concurrent use.
type Common struct {
	Keys   func() (*Keys, error)
	Store  func() (CommonStore, error)
	Logger *slog.Logger
}

// CommonStore is the part of the store that keeps secrets. Its methods are safe for concurrent use.
type CommonStore interface {
	// Remote reports whether processes on other machines may use the store.
	Remote() bool
	// Replace sets the value of a subject if its value is old, or if old is nil and it has none. It returns the value that the subject has then.
	Replace(ctx context.Context, subject string, old, value []byte) (now []byte, err error)
	// OtherWorker returns the name of another process that works the queue, or "" if there is none.
	OtherWorker(ctx context.Context) (name string, err error)
}

// Key returns the secret of this name. own returns the secret of this process, which stays its own on a store of one machine. The secret of other
// stores is that of the first process which called Key. If this process cannot open it, Key replaces it, but only if no other process works the queue:
// else the error says that the keys of personal data differ.
func (c *Common) Key(ctx context.Context, name string, own func() ([]byte, error)) ([]byte, error) {
	store, err := c.Store()
	if err != nil {
		return nil, err
	}
	key, err := own()
	if err != nil || !store.Remote() {
		return key, err
	}
	keys, err := c.Keys()
	if err != nil {
		return nil, err
	}
	scope := Scope{Session: name}
	var stored []byte
	for range 5 { // another process may replace it at the same moment
		sealed, err := keys.Seal(scope, string(key))
		if err != nil {
			return nil, err
		}
		if stored, err = store.Replace(ctx, "sealed "+name, stored, sealed); err != nil {
			return nil, err
		}
		if bytes.Equal(stored, sealed) {
			return key, nil
		}
		opened, err := keys.Open(scope, stored)
		switch {
		case err == nil:
			key = []byte(opened) // sealed again, because an older key may have sealed it
			continue
		case !errors.Is(err, ErrUnknownKey):
			return nil, fmt.Errorf("%s as the store has it: %w", name, err)
		}
		other, err := store.OtherWorker(ctx)
		if err != nil {
			return nil, err
		}
		if other != "" {
			return nil, fmt.Errorf("this process has another key of personal data than %s, which works with the same store: give all processes the same one in %s", other, keys.from)
		}
		c.Logger.Warn("a secret in the store was sealed with a key of personal data that this process does not have, and is replaced", "secret", name)
	}
	return nil, fmt.Errorf("%s in the store changes again and again: give all processes the same key of personal data in %s", name, keys.from)
}

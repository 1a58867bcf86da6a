package seal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
)

// Common provides the secrets that all processes with the same store share. The store holds them sealed. Its methods are safe for concurrent use.
type Common struct {
	Keys   func() (*Keys, error)
	Store  func() (CommonStore, error)
	Logger *slog.Logger
}

// CommonStore is the part of the store that keeps secrets. Its methods are safe for concurrent use.
type CommonStore interface {
	// Remote reports whether processes on other machines may use the store.
	Remote() bool
	// Replace sets the value of a subject if the current value is old, or if old is nil and the subject has no value. It returns the value that the subject
	// has afterwards.
	Replace(ctx context.Context, subject string, old, value []byte) (now []byte, err error)
	// OtherWorker returns the name of another process that works the queue, or "" if there is none.
	OtherWorker(ctx context.Context) (name string, err error)
}

// Getter returns a function that calls Key.
func (c *Common) Getter(name string, own func() ([]byte, error)) func() ([]byte, error) {
	return func() ([]byte, error) { return c.Key(context.Background(), name, own) }
}

// Key returns the secret with this name. own returns the secret of this process. If the store is used on one machine only, Key returns the secret of this
// process. Otherwise it returns the secret in the store, which is that of the first process that called Key. If this process cannot open the secret in the
// store, Key replaces it by that of this process, unless another process works the queue; then the error says that the keys of personal data differ.
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
	for range 5 { // another process may replace the secret at the same moment
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
			key = []byte(opened) // the next round seals it again, because an older key may have sealed it
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

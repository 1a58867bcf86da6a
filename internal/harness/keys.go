package harness

import (
	"context"
	"errors"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/store"
	"mcp-code-exec-harness/internal/task"
)

// Keys are the API keys in the store.
func (h *Harness) Keys() (*auth.Keys, error) {
	keep, err := h.store()
	if err != nil {
		return nil, err
	}
	return auth.NewKeys(keyStore{keep}), nil
}

// keyStore is the store as package auth sees it.
type keyStore struct{ *store.Store }

var _ auth.KeyStore = keyStore{}

func (s keyStore) CreateKey(ctx context.Context, k auth.Key) error {
	return s.Store.CreateKey(ctx, store.Key(k))
}

func (s keyStore) Keys(ctx context.Context) ([]auth.Key, error) {
	stored, err := s.Store.Keys(ctx)
	keys := make([]auth.Key, len(stored))
	for i, k := range stored {
		keys[i] = auth.Key(k)
	}
	return keys, err
}

func (s keyStore) KeyByHash(ctx context.Context, hash []byte) (auth.Key, bool, error) {
	k, err := s.Store.KeyByHash(ctx, hash)
	if errors.Is(err, task.ErrNotFound) {
		return auth.Key{}, false, nil
	}
	return auth.Key(k), err == nil, err
}

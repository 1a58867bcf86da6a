package sqlstore

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"mcp-code-exec-harness/internal/pii"
)

// Add stores many tokens in several short transactions, so that other callers do not wait for all of them.
func TestVaultOfManyTokens(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "harness.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	scope := pii.Scope{User: "ann", Session: "run_1"}
	const tokens = 10*maxRiders + 1
	var entries []pii.Entry
	for n := range tokens {
		entries = append(entries, pii.Entry{Type: "EMAIL", N: n + 1, Key: []byte{byte(n), byte(n >> 8)}, Sealed: []byte("sealed"), Origin: "crm__get"})
	}
	before := s.writer.transactions.Load()
	if err := s.Vault().Add(t.Context(), scope, entries); err != nil {
		t.Fatal(err)
	}
	if n := s.writer.transactions.Load() - before; n < 10 {
		t.Errorf("%d transactions before it returns, want 10 or more", n)
	}
	got, err := s.Vault().Load(t.Context(), scope)
	if err != nil || len(got.Entries) != tokens || got.Entries[tokens-1].N != tokens || got.Tokens != tokens || got.Bytes != 6*tokens {
		t.Errorf("%d entries, %d tokens, %d bytes, %v", len(got.Entries), got.Tokens, got.Bytes, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Vault().Add(ctx, scope, entries); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the caller: %v", err)
	}
}

package pii

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
)

// Memory is a vault in the memory of this process.
type Memory struct {
	first    int // lowest number of a new token
	mu       sync.Mutex
	sessions map[string]map[string]*memorySession // sessions by user, then by session
}

var _ Vault = (*Memory)(nil)

type memorySession struct {
	entries []Entry // existing elements are never changed
	tokens  map[memoryToken]bool
	keys    map[string]bool
	types   map[string]int64
	bytes   int64
}

type memoryToken struct {
	typ string
	n   int
}

// NewMemory returns an empty vault whose tokens have numbers from first on. If sessions outlive the process, each process needs a different first, so
// that a token from an earlier process is not restored to another value.
func NewMemory(first int) *Memory {
	return &Memory{first: first, sessions: map[string]map[string]*memorySession{}}
}

// NewMemoryApart returns an empty vault whose first token number is random, so that tokens differ from those of earlier processes. At
// least a billion numbers above it are free.
func NewMemoryApart() *Memory { return NewMemory(1 + rand.IntN(1<<30)) }

// Load implements Vault.
func (m *Memory) Load(ctx context.Context, s Scope) (loaded Loaded, err error) {
	if err := ctx.Err(); err != nil {
		return loaded, fmt.Errorf("load tokens: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	loaded.First = m.first // the numbers of other processes are not known here; Add detects conflicts
	for name, session := range m.sessions[s.User] {
		if name == s.Session {
			loaded.Entries = slices.Clip(session.entries)
		}
		loaded.Tokens += int64(len(session.tokens))
		loaded.Bytes += session.bytes
	}
	return loaded, nil
}

// Add implements Vault.
func (m *Memory) Add(ctx context.Context, s Scope, entries []Entry) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("add tokens: %w", err)
	}
	if len(entries) == 0 {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	session := m.sessions[s.User][s.Session]
	if session == nil {
		session = &memorySession{tokens: map[memoryToken]bool{}, keys: map[string]bool{}, types: map[string]int64{}}
	}
	if session.clashes(entries) {
		return ErrConflict
	}
	if m.sessions[s.User] == nil {
		m.sessions[s.User] = map[string]*memorySession{}
	}
	m.sessions[s.User][s.Session] = session
	for _, e := range entries {
		session.add(e)
	}
	return nil
}

// clashes reports whether entries contain a token or a value twice, or a token or a value that the session already has.
func (s *memorySession) clashes(entries []Entry) bool {
	tokens, keys := map[memoryToken]bool{}, map[string]bool{}
	for _, e := range entries {
		token := memoryToken{e.Type, e.N}
		if e.Sealed == nil {
			continue
		}
		if s.tokens[token] || tokens[token] || s.keys[string(e.Key)] || keys[string(e.Key)] {
			return true
		}
		tokens[token], keys[string(e.Key)] = true, true
	}
	return false
}

func (s *memorySession) add(e Entry) {
	e.Key, e.Sealed = bytes.Clone(e.Key), bytes.Clone(e.Sealed)
	s.entries = append(s.entries, e)
	if e.Sealed == nil {
		return
	}
	s.tokens[memoryToken{e.Type, e.N}], s.keys[string(e.Key)] = true, true
	s.types[e.Type]++
	s.bytes += int64(len(e.Sealed))
}

// Shared implements Vault: only this process uses the vault.
func (m *Memory) Shared() bool { return false }

// Since implements Vault.
func (m *Memory) Since(context.Context, Scope, int64) (entries []Entry, next int64, err error) {
	return nil, 0, nil
}

// Sync implements Vault: nothing here is durable.
func (m *Memory) Sync(ctx context.Context) error { return ctx.Err() }

// Delete implements Vault.
func (m *Memory) Delete(ctx context.Context, s Scope) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("delete tokens: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.sessions[s.User], s.Session)
	if len(m.sessions[s.User]) == 0 {
		delete(m.sessions, s.User)
	}
	return nil
}

// Stats implements Vault.
func (m *Memory) Stats(ctx context.Context, user, session string) (map[string]int64, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("count tokens: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	types := map[string]int64{}
	for name, s := range m.sessions[user] {
		if session != "" && session != name {
			continue
		}
		for typ, n := range s.types {
			types[typ] += n
		}
	}
	return types, nil
}

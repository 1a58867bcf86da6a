package origin

import (
	"container/list"
	"hash/maphash"
	"sync"
)

// Limits bound the memory of sessions, in bytes.
type Limits struct {
	Owner int64 // bound of the sessions of one owner
	All   int64 // bound of all sessions
}

// DefaultLimits are the limits of a process. The table of an answer of 8 MiB takes about 20 MiB.
var DefaultLimits = Limits{Owner: 32 << 20, All: 128 << 20}

// Memory holds sessions. It is safe for concurrent use.
type Memory struct {
	limits Limits
	seed   maphash.Seed

	mu       sync.Mutex
	sessions map[key]*Session
	idle     *list.List // sessions that no run uses, the most recently used at the end
	owners   map[string]int64
	all      int64
}

type key struct{ owner, name string }

// NewMemory returns a memory without sessions.
func NewMemory(l Limits) *Memory {
	return &Memory{limits: l, seed: maphash.MakeSeed(), sessions: map[key]*Session{}, idle: list.New(), owners: map[string]int64{}}
}

// Open returns the session with the given owner and name, and creates it if there is none. The caller closes it. If keep is false, the session is
// dropped when its last caller has closed it.
func (m *Memory) Open(owner, name string, keep bool) *Session {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := key{owner, name}
	s := m.sessions[k]
	if s == nil {
		s = &Session{memory: m, key: k, table: table{}, names: newNames(), runs: map[string]bool{}}
		m.sessions[k] = s
	}
	if s.idle != nil {
		m.idle.Remove(s.idle)
		s.idle = nil
	}
	s.uses++
	s.keep = keep
	return s
}

// Close ends a caller's use of a session that Open returned.
func (s *Session) Close() {
	m := s.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	s.uses--
	switch {
	case s.uses > 0 || s.dropped:
	case s.keep && s.bytes > 0:
		s.idle = m.idle.PushBack(s)
	default:
		m.drop(s)
	}
}

// drop forgets a session. The caller holds mu.
func (m *Memory) drop(s *Session) {
	if s.idle != nil {
		m.idle.Remove(s.idle)
		s.idle = nil
	}
	s.dropped = true
	delete(m.sessions, s.key)
	m.give(s, s.bytes)
}

// take reserves bytes for a session and drops idle sessions if necessary. It reports false if there is no room, or if the session was dropped.
func (m *Memory) take(s *Session, bytes int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.dropped || bytes > m.limits.Owner {
		return false
	}
	for e := m.idle.Front(); e != nil && m.owners[s.key.owner]+bytes > m.limits.Owner; {
		next := e.Next()
		if other := e.Value.(*Session); other.key.owner == s.key.owner {
			m.drop(other)
		}
		e = next
	}
	for e := m.idle.Front(); e != nil && m.all+bytes > m.limits.All; e = m.idle.Front() {
		m.drop(e.Value.(*Session))
	}
	if m.owners[s.key.owner]+bytes > m.limits.Owner || m.all+bytes > m.limits.All {
		return false
	}
	m.owners[s.key.owner] += bytes
	m.all += bytes
	s.bytes += bytes
	return true
}

// give releases bytes of a session. The caller holds mu.
func (m *Memory) give(s *Session, bytes int64) {
	m.all -= bytes
	s.bytes -= bytes
	if m.owners[s.key.owner] -= bytes; m.owners[s.key.owner] == 0 {
		delete(m.owners, s.key.owner)
	}
}

// Bytes returns the memory that all sessions take now.
func (m *Memory) Bytes() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.all
}

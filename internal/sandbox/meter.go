package sandbox

import (
	"sync"
	"time"
)

// meter adds up the time that several spend at the same time. It is safe for concurrent use.
type meter struct {
	mu    sync.Mutex
	n     int
	since time.Time // when n last changed
	sum   time.Duration
}

// add says that some more, or fewer, are at it from now on.
func (m *meter) add(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count()
	m.n += n
}

// total is the time of all until now.
func (m *meter) total() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count()
	return m.sum
}

func (m *meter) count() {
	now := time.Now()
	m.sum += time.Duration(m.n) * now.Sub(m.since)
	m.since = now
}

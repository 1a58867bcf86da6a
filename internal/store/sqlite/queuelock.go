package sqlite

import (
	"context"
	"fmt"
	"os"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/task"
)

// LockQueue implements task.Store. Closing the store releases the lock too. The file stays when it is unlocked: if it were deleted,
// one process could lock the deleted file and another a new one.
func (s *Store) LockQueue(context.Context) (release func() error, err error) {
	defer wrap(&err, "lock the queue")
	path := s.path + ".queue-lock"
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, journal.ErrClosed
	}
	f, err := lockPid(path)
	if err != nil {
		return nil, err
	}
	if f == nil {
		holder := ""
		if pid := readPid(path); pid != "" {
			holder = " (process " + pid + ")"
		}
		return nil, fmt.Errorf("%w%s: end it first, or name another file in store.url", task.ErrQueueLocked, holder)
	}
	s.queue = f
	return func() error { return s.unlockQueue(f) }, nil
}

// unlockQueue releases the lock of f, if it is still held. If f is nil, it releases whatever lock is held.
func (s *Store) unlockQueue(f *os.File) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queue == nil || f != nil && f != s.queue {
		return nil
	}
	f, s.queue = s.queue, nil
	return f.Close()
}

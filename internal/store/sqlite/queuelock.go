package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/task"
)

// LockQueue implements task.Store. It does not wait: while another process works the queue, the error wraps
// task.ErrQueueLocked. Closing the store gives the lock up too.
//
// The file stays when it is unlocked: if it were deleted, one process could lock the deleted file and another a new one.
func (s *Store) LockQueue(context.Context) (release func() error, err error) {
	path := s.path + ".queue-lock"
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fmt.Errorf("lock the queue: %w", journal.ErrClosed)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the queue: %w", err)
	}
	locked, err := lockFile(f, true)
	if err == nil && !locked {
		holder := ""
		if pid := readPid(path); pid != "" {
			holder = " (process " + pid + ")"
		}
		err = fmt.Errorf("%w%s: end it first, or name another file in store.url", task.ErrQueueLocked, holder)
	}
	if err == nil {
		err = writePid(f)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock the queue: %w", err), f.Close())
	}
	s.queue = f
	return func() error { return s.unlockQueue(f) }, nil
}

// unlockQueue gives a lock up, if it is still held; nil is whichever is.
func (s *Store) unlockQueue(f *os.File) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queue == nil || f != nil && f != s.queue {
		return nil
	}
	f, s.queue = s.queue, nil
	return f.Close()
}

package sqlstore

import (
	"context"
	"fmt"
	"os"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/task"
)

// LockQueue implements task.Store. Closing the store releases the lock too. The file stays when it is unlocked: if it were deleted,
// one process could lock the deleted file and another a new one.
func (d *file) LockQueue(context.Context) (release func() error, err error) {
	defer wrap(&err, "lock the queue")
	path := d.path + ".queue-lock"
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
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
	d.queue = f
	return func() error { return d.unlockQueue(f) }, nil
}

// unlockQueue releases the lock of the queue if f is the file that holds it. If f is nil, it releases the lock in any case.
func (d *file) unlockQueue(f *os.File) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.queue == nil || f != nil && f != d.queue {
		return nil
	}
	f, d.queue = d.queue, nil
	return f.Close()
}

func (d *file) user(ctx context.Context) (name string, err error) {
	if name, err = d.QueueWorker(ctx); name != "" || err != nil {
		return name, err
	}
	if name = newFileLease(d.path).other(); name != "" {
		name = "process " + name
	}
	return name, nil
}

// QueueWorker implements task.Store.
func (d *file) QueueWorker(context.Context) (name string, err error) {
	defer wrap(&err, "look for a process that works the queue")
	f, err := lockPid(d.path + ".queue-lock")
	if err != nil {
		return "", err
	}
	if f == nil {
		return "process " + readPid(d.path+".queue-lock"), nil
	}
	return "", f.Close()
}

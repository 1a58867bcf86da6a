package disk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// lockPause is the time between two attempts of Lock; Lock gets no notice when another process releases the lock.
const lockPause = 50 * time.Millisecond

// Lock waits until it has the lock of the file at path, or until ctx ends; then the error wraps the cause of ctx. Lock creates the file and its directory if
// they are absent. waited reports whether Lock had to wait for another holder, in this or another process. unlock does not remove the file; a holder that
// wants to remove it must do so before unlocking.
func Lock(ctx context.Context, path string) (unlock func() error, waited bool, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, false, err
	}
	for {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, waited, err
		}
		taken, err := TryLock(file, true)
		if err != nil {
			return nil, waited, errors.Join(err, file.Close())
		}
		if taken && isAt(file, path) {
			return file.Close, waited, nil
		}
		if err := file.Close(); err != nil {
			return nil, waited, err
		}
		if taken { // an earlier holder has removed the file since it was opened
			continue
		}
		waited = true
		select {
		case <-ctx.Done():
			return nil, true, fmt.Errorf("another has the lock %s: %w", path, context.Cause(ctx))
		case <-time.After(lockPause):
		}
	}
}

// isAt reports whether an open file is still the one at path.
func isAt(file *os.File, path string) bool {
	now, err := os.Stat(path)
	if err != nil {
		return false
	}
	opened, err := file.Stat()
	return err == nil && os.SameFile(opened, now)
}

package disk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// lockPause is how long Lock waits before it tries again; it learns by nothing else that another process gave the lock up.
const lockPause = 50 * time.Millisecond

// Lock takes the lock of the file at path, which it makes if it is absent, with its directory. It waits until ctx ends, whose cause the error
// wraps. waited says that another had the lock, in this process or another one. The file stays, unless its holder removes it before it unlocks.
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
		if taken { // the holder has removed the file since it was opened
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

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
// wraps. waited says that another had the lock, in this process or another one. The file stays.
func Lock(ctx context.Context, path string) (unlock func() error, waited bool, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, false, err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, false, err
	}
	for {
		taken, err := TryLock(file, true)
		switch {
		case err != nil:
			return nil, waited, errors.Join(err, file.Close())
		case taken:
			return file.Close, waited, nil
		}
		waited = true
		select {
		case <-ctx.Done():
			return nil, true, errors.Join(fmt.Errorf("another has the lock %s: %w", path, context.Cause(ctx)), file.Close())
		case <-time.After(lockPause):
		}
	}
}

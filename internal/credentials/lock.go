package credentials

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"mcp-code-exec-harness/internal/disk"
)

// lockPause is how long a process waits before it tries again to take a lock that another one has; it learns of its end by nothing else.
const lockPause = 50 * time.Millisecond

// locked runs f while no other process changes the grant of a user: a refresh token may be used once only.
func (o *OAuth) locked(ctx context.Context, user string, f func() error) (err error) {
	name := sha256.Sum256([]byte(o.server.Name + "\x00" + user))
	if err := os.MkdirAll(o.opt.Dir, 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(o.opt.Dir, "login-"+hex.EncodeToString(name[:8])+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	for {
		taken, err := disk.TryLock(file, true)
		if err != nil {
			return fmt.Errorf("lock the login of server %q: %w", o.server.Name, err)
		}
		if taken {
			return f()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for another process that renews the login of server %q: %w", o.server.Name, ctx.Err())
		case <-time.After(lockPause):
		}
	}
}

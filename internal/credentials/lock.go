package credentials

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"

	"mcp-code-exec-harness/internal/disk"
)

// locked runs f while no other process changes the grant of a user: a refresh token can be used only once. Processes of one machine wait for a file, and
// those of other machines for a lock in the store that they share.
func (o *OAuth) locked(ctx context.Context, user string, f func() error) (err error) {
	name := sha256.Sum256([]byte(o.server.Name + "\x00" + user))
	unlock, _, err := disk.Lock(ctx, filepath.Join(o.opt.Dir, "login-"+hex.EncodeToString(name[:8])+".lock"))
	if err != nil {
		return fmt.Errorf("lock the login of server %q: %w", o.server.Name, err)
	}
	defer func() { err = errors.Join(err, unlock()) }()
	store, err := o.opt.Store()
	if err != nil {
		return err
	}
	return store.Exclusively(ctx, "login "+hex.EncodeToString(name[:]), f)
}

package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// CacheDir returns the user's cache directory. If that directory cannot be created, as in a container without a home, CacheDir makes a temporary
// directory for this process alone, because other users could put code into a shared one. remove deletes the temporary directory, but never the
// user's cache directory.
func CacheDir() (dir string, remove func() error, err error) {
	user, err := os.UserCacheDir()
	if err == nil {
		dir = filepath.Join(user, "mcp-code-exec-harness")
		if err = os.MkdirAll(dir, 0o700); err == nil {
			return dir, func() error { return nil }, nil
		}
	}
	dir, failed := os.MkdirTemp("", "harness-cache-")
	if failed != nil {
		return "", nil, fmt.Errorf("make the cache directory: %w; set HARNESS_CACHE_DIR to one that you may write to", errors.Join(err, failed))
	}
	return dir, func() error { return os.RemoveAll(dir) }, nil
}

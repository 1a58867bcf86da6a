package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// CacheDir is the user's cache directory, or where there is none that can be written, as in a container without a home, one for this process alone,
// which remove removes: others could have put code into a directory that is shared. remove does nothing to the user's.
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

package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Private makes sure that a directory for code that this user executes exists, and that no other user can write to it. The error says what to do.
func Private(dir string) error {
	if dir == "" {
		return errors.New("a cache directory is missing")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the cache directory: %w; set HARNESS_CACHE_DIR to one that you may write to", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if problem := Shared(info); problem != "" {
		return fmt.Errorf("the cache directory %s %s: it holds code that workers execute; give it to this user alone "+
			"(chmod 700) or set HARNESS_CACHE_DIR to another", dir, problem)
	}
	return nil
}

// Shared returns the reason why other users can write to a file or directory, "" if they cannot. It does not look at the directories above it.
func Shared(info fs.FileInfo) string { return shared(info) }

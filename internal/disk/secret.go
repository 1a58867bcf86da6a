package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

const (
	maxSecret  = 64 << 10    // maximum size of a file in bytes
	secretWait = time.Second // time to wait until the process that created the file has written it, on file systems where Create takes two steps
)

// ErrReadable means that other users of the machine can read a file that should be secret.
var ErrReadable = errors.New("other users of this machine can read it")

// Secret returns the content of a file that only its owner may read. If there is no file, Secret creates it and its directory; the content is
// the result of fresh. If there is no file and fresh is nil, Secret returns fs.ErrNotExist. Concurrent callers in several processes get the
// same content.
func Secret(path string, fresh func() string) ([]byte, error) {
	if _, err := os.Stat(path); fresh != nil && errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return nil, err
		}
		if err := Create(path, []byte(fresh()), 0o600); err != nil && !errors.Is(err, fs.ErrExist) { // another process was first
			return nil, err
		}
	}
	for end := time.Now().Add(secretWait); ; time.Sleep(time.Millisecond) {
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return nil, err
		case runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0:
			return nil, fmt.Errorf("%s: %w", path, ErrReadable)
		case info.Size() > maxSecret:
			return nil, fmt.Errorf("%s has more than %d bytes", path, maxSecret)
		}
		if text, err := os.ReadFile(path); err != nil || len(text) > 0 || time.Now().After(end) {
			return text, err
		}
	}
}

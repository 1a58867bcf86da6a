package auth

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

const (
	localPrefix = "hl_"
	localLength = len(localPrefix) + 26 // of rand.Text: 130 bits
	localWait   = 10 * time.Second      // for the process that has made the file to write it
)

// LocalToken returns the token of the machine's user, and the path of its file, local.token in a directory. It makes both if they
// are absent. The error names a file that other users can read, or that holds something else.
func LocalToken(dir string) (token, path string, err error) {
	path = filepath.Join(dir, "local.token")
	if err := makeLocalToken(dir, path); err != nil {
		return "", path, fmt.Errorf("make the local token: %w", err)
	}
	for end := time.Now().Add(localWait); ; time.Sleep(time.Millisecond) {
		info, err := os.Stat(path)
		if err != nil {
			return "", path, fmt.Errorf("read the local token: %w", err)
		}
		if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
			return "", path, fmt.Errorf("other users of this machine can read %s: delete it, and the next command makes a new one", path)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return "", path, fmt.Errorf("read the local token: %w", err)
		}
		if token = strings.TrimSpace(string(text)); len(token) == localLength && strings.HasPrefix(token, localPrefix) {
			return token, path, nil
		}
		if len(text) > 0 || time.Now().After(end) {
			return "", path, fmt.Errorf("%s holds no local token: delete it, and the next command makes a new one", path)
		}
	}
}

// makeLocalToken writes the file unless it exists.
func makeLocalToken(dir, path string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(localPrefix + rand.Text() + "\n")
	return errors.Join(err, f.Close())
}

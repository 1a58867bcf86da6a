// Package secrets keeps the secrets that users give on the command line: in the keyring of the system, where there is one,
// else in a file that only its owner can read. harness.yaml names them as ${secret:NAME}.
package secrets

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"mcp-code-exec-harness/internal/disk"
)

// Keyring is a store of secrets that the system protects. Its methods may be called from any goroutine; they may ask the user
// to unlock it.
type Keyring interface {
	// Get returns a secret; the error for one that is not there matches fs.ErrNotExist.
	Get(name string) (string, error)
	Set(name, value string) error
	// Delete deletes a secret; deleting one that is not there is no error.
	Delete(name string) error
}

// Store is where the secrets of a user are.
type Store struct {
	Keyring Keyring // nil: there is none
	File    string  // used where the keyring is missing or fails; its directory is made. Empty: there is none
}

// Put keeps a secret and says where it is: "the keyring of the system", or the path of the file.
func (s *Store) Put(name, value string) (where string, err error) {
	if s.Keyring != nil {
		if err = s.Keyring.Set(name, value); err == nil {
			return "the keyring of the system", nil
		}
	}
	if s.File == "" {
		return "", fmt.Errorf("keep the secret: %w", cmp.Or(err, errors.New("there is no keyring, and no home directory for a file; "+
			"set a variable, and write ${NAME} in place of the value")))
	}
	if err := s.change(func(all map[string]string) { all[name] = value }); err != nil {
		return "", fmt.Errorf("keep the secret in %s: %w", s.File, err)
	}
	return s.File, nil
}

// Get returns a secret; the error for one that is not there matches fs.ErrNotExist.
func (s *Store) Get(name string) (string, error) {
	all, err := s.read()
	if err != nil {
		return "", err
	}
	if value, ok := all[name]; ok {
		return value, nil
	}
	if s.Keyring == nil {
		return "", fs.ErrNotExist
	}
	return s.Keyring.Get(name)
}

// Delete forgets a secret, wherever it is.
func (s *Store) Delete(name string) error {
	all, err := s.read()
	if _, ok := all[name]; ok {
		err = s.change(func(all map[string]string) { delete(all, name) })
	} else if s.Keyring != nil {
		err = errors.Join(err, s.Keyring.Delete(name))
	}
	return err
}

// read returns the secrets of the file; none if there is no file.
func (s *Store) read() (map[string]string, error) {
	if s.File == "" {
		return nil, nil
	}
	text, err := disk.Secret(s.File, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var all map[string]string
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if errors.Is(err, disk.ErrReadable) {
		err = fmt.Errorf("%w; chmod 600 %s", err, s.File)
	}
	if err != nil {
		return nil, fmt.Errorf("read the secrets in %s: %w", s.File, err)
	}
	return all, nil
}

// lockWait is how long a change waits for that of another process.
const lockWait = 5 * time.Second

// change rewrites the file in one step, one process at a time.
func (s *Store) change(edit func(all map[string]string)) error {
	if err := os.MkdirAll(filepath.Dir(s.File), 0o700); err != nil {
		return err
	}
	lock, err := os.OpenFile(s.File+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close() // and unlocks it
	for end := time.Now().Add(lockWait); ; time.Sleep(10 * time.Millisecond) {
		ok, err := disk.TryLock(lock, true)
		if err != nil {
			return err
		}
		if ok {
			break
		}
		if time.Now().After(end) {
			return fmt.Errorf("another process has held %s for %s", lock.Name(), lockWait)
		}
	}
	all, err := s.read()
	if err != nil {
		return err
	}
	if all == nil {
		all = map[string]string{}
	}
	edit(all)
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return disk.Replace(s.File, append(text, '\n'), 0o600)
}

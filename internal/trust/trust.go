// Package trust remembers which configuration files the user trusts. It remembers the path of each file and a hash of its content, so a file that
// someone else changes has to be trusted again.
package trust

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"mcp-code-exec-harness/internal/disk"
)

// State is the user's decision about a file.
type State int

// The states of a file.
const (
	Unknown State = iota // the user has not decided
	Changed              // the content of a trusted file has changed
	Trusted
)

// Store is a file with decisions. Its methods are safe for concurrent use, also by several processes. A nil Store trusts nothing and
// cannot be changed.
type Store struct {
	File string // path of the file, whose directory is created; empty: the store trusts nothing
}

// Of returns the state of the file at path with the given content.
func (s *Store) Of(path string, content []byte) (State, error) {
	all, err := s.read()
	switch known, ok := all[Path(path)]; {
	case err != nil || !ok:
		return Unknown, err
	case !slices.Contains(known, sum(content)):
		return Changed, nil
	}
	return Trusted, nil
}

// Trust records that the files with the given paths are trusted with the given contents. Earlier contents of these files are no longer trusted.
func (s *Store) Trust(contents map[string][]byte) error {
	return s.change(func(all map[string][]string) {
		for path, content := range contents {
			all[Path(path)] = []string{sum(content)}
		}
	})
}

// Change records the content that a trusted file is about to get. Until Trust is called, both the old and the new content are trusted.
func (s *Store) Change(path string, content []byte) error {
	return s.change(func(all map[string][]string) { all[Path(path)] = append(all[Path(path)], sum(content)) })
}

// Forget removes the trust in the files of a directory and returns their paths.
func (s *Store) Forget(dir string) (forgotten []string, err error) {
	dir = filepath.Dir(Path(filepath.Join(dir, "any")))
	err = s.change(func(all map[string][]string) {
		maps.DeleteFunc(all, func(path string, _ []string) bool {
			if filepath.Dir(path) != dir {
				return false
			}
			forgotten = append(forgotten, path)
			return true
		})
	})
	return forgotten, err
}

// Path returns the name of a file in the store: its path with the links in the directory resolved. A link in place of the file itself is
// not resolved, because relative paths in the file are relative to the directory of the link.
func Path(path string) string {
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(dir, filepath.Base(path))
	}
	return filepath.Clean(path)
}

func sum(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

func (s *Store) read() (map[string][]string, error) {
	if s == nil {
		return nil, nil
	}
	all, err := disk.Owned[[]string]{File: s.File}.Read()
	if err != nil {
		err = fmt.Errorf("find out which folders are trusted: %w", err)
	}
	return all, err
}

func (s *Store) change(edit func(all map[string][]string)) error {
	if s == nil || s.File == "" {
		return errors.New("there is no place to note trusted folders, because the home directory is unknown; set HOME, or give the file with --config")
	}
	if err := (disk.Owned[[]string]{File: s.File}).Edit(edit); err != nil {
		return fmt.Errorf("note which folders are trusted: %w", err)
	}
	return nil
}

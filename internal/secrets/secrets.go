// Package secrets keeps the secrets that users give on the command line: in the keyring of the system, where there is one,
// else in a file that only its owner can read. harness.yaml names them as ${secret:NAME}. Each belongs to the file that it was stored for:
// another one that names it does not get it.
package secrets

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

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
	// File has what the keyring does not: which file a secret belongs to, and the values where the keyring is missing or fails. Its directory is
	// made. Empty: there is none, and secrets cannot be kept.
	File string
	// Bound, if it is not nil, is called when a secret of an earlier version, which belongs to no file, becomes that of the file that names it.
	Bound func(name, file string)
}

// entry is what the file has of a secret. In files of earlier versions it is the value alone.
type entry struct {
	Value *string `json:"value,omitempty"` // nil: the keyring has it
	For   string  `json:"for,omitempty"`   // the configuration file that it belongs to
}

// UnmarshalJSON implements json.Unmarshaler.
func (e *entry) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '"' {
		return json.Unmarshal(text, &e.Value)
	}
	type plain entry
	return json.Unmarshal(text, (*plain)(e))
}

// ElsewhereError is the error for a secret that belongs to another file than the one that names it.
type ElsewhereError struct{ Name, For string }

func (e *ElsewhereError) Error() string {
	return fmt.Sprintf("the secret %s was stored for %s and is given to no other file; store it for this one (harness servers add --replace), or write ${VARIABLE}", e.Name, e.For)
}

// Put keeps a secret for a configuration file and says where it is: "the keyring of the system", or the path of the file.
func (s *Store) Put(name, value, file string) (where string, err error) {
	if s.File == "" {
		return "", errors.New("keep the secret: there is no home directory for it; set a variable, and write ${NAME} in place of the value")
	}
	e, where := entry{For: file}, "the keyring of the system"
	if s.Keyring == nil || s.Keyring.Set(name, value) != nil {
		e.Value, where = &value, s.File
	}
	if err := s.file().Edit(func(all map[string]entry) { all[name] = e }); err != nil {
		return "", fmt.Errorf("keep the secret in %s: %w", s.File, err)
	}
	return where, nil
}

// Get returns a secret for the configuration file that names it. The error for one that is not there matches fs.ErrNotExist; one that belongs to another
// file is an *ElsewhereError. A secret of an earlier version becomes that of file.
func (s *Store) Get(name, file string) (string, error) {
	all, err := s.file().Read()
	if err != nil {
		return "", err
	}
	e := all[name]
	switch {
	case e.For != "" && e.For != file:
		return "", &ElsewhereError{name, e.For}
	case e.Value == nil && s.Keyring == nil:
		return "", fs.ErrNotExist
	case e.Value == nil:
		value, err := s.Keyring.Get(name)
		if err != nil {
			return "", err
		}
		if e.For == file {
			return value, nil
		}
		return value, s.bind(name, file, entry{})
	case e.For == "":
		return *e.Value, s.bind(name, file, e)
	}
	return *e.Value, nil
}

// bind makes a secret of an earlier version that of a file.
func (s *Store) bind(name, file string, e entry) error {
	if s.File == "" {
		return errors.New("there is no home directory to note which file it belongs to; set HOME")
	}
	var elsewhere error
	err := s.file().Edit(func(all map[string]entry) {
		if now := all[name]; now.For != "" && now.For != file { // another process was first
			elsewhere = &ElsewhereError{name, now.For}
			return
		}
		e.For = file
		all[name] = e
	})
	if err = errors.Join(err, elsewhere); err == nil && s.Bound != nil {
		s.Bound(name, file)
	}
	return err
}

// Delete forgets a secret, wherever it is.
func (s *Store) Delete(name string) error {
	all, err := s.file().Read()
	e, known := all[name]
	if known {
		err = s.file().Edit(func(all map[string]entry) { delete(all, name) })
	}
	if e.Value == nil && s.Keyring != nil {
		err = errors.Join(err, s.Keyring.Delete(name))
	}
	return err
}

func (s *Store) file() disk.Owned[entry] { return disk.Owned[entry]{File: s.File} }

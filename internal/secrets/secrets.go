// Package secrets keeps the secrets that users give on the command line: in the keyring of the system if there is one, otherwise in a file that only
// its owner can read. harness.yaml refers to them as ${secret:NAME}. Each secret belongs to the configuration file that it was stored for; another
// file that refers to it does not get it.
package secrets

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"mcp-code-exec-harness/internal/disk"
)

// Keyring is a store of secrets that the system protects. Its methods may be called from any goroutine. They may ask the user to unlock the keyring.
type Keyring interface {
	// Get returns a secret. The error for a missing secret matches fs.ErrNotExist.
	Get(name string) (string, error)
	Set(name, value string) error
	// Delete deletes a secret. It ignores a missing secret.
	Delete(name string) error
}

// Store stores the secrets of a user.
type Store struct {
	Keyring Keyring // nil if there is no keyring
	// File is the path of the file that records which configuration file each secret belongs to. It also holds the values if the keyring is
	// missing or fails. Its directory is created if needed. If File is empty, secrets cannot be kept.
	File string
	// Bound, if it is not nil, is called when a secret is bound to the configuration file that refers to it. This happens only to
	// secrets that an earlier version stored, because those belong to no file yet.
	Bound func(name, file string)
}

// entry is the record of a secret in Store.File. Earlier versions stored the value alone, as a JSON string.
type entry struct {
	Value *string `json:"value,omitempty"` // value of the secret; nil if it is in the keyring
	For   string  `json:"for,omitempty"`   // configuration file that the secret belongs to
}

// UnmarshalJSON implements json.Unmarshaler.
func (e *entry) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '"' {
		return json.Unmarshal(text, &e.Value)
	}
	type plain entry
	return json.Unmarshal(text, (*plain)(e))
}

// ElsewhereError reports that the configuration file that refers to a secret is not the file that the secret belongs to.
type ElsewhereError struct{ Name, For string }

func (e *ElsewhereError) Error() string {
	return fmt.Sprintf("the secret %s was stored for %s and is given to no other file; store it for this one (harness servers add --replace), or write ${VARIABLE}", e.Name, e.For)
}

// Put stores a secret for a configuration file and returns where it is: "the keyring of the system", or the path of Store.File.
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

// Get returns a secret for the configuration file that refers to it. The error for a missing secret matches fs.ErrNotExist. The error for a secret of
// another configuration file is an *ElsewhereError. A secret that an earlier version stored is bound to the file.
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

// bind binds a secret that an earlier version stored to a configuration file.
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

// Delete deletes a secret from the file and the keyring.
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

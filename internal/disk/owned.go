package disk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// editWait is the maximum time that an edit waits for other processes.
const editWait = 30 * time.Second

// Exclusively calls do while it holds a lock for path. Calls with the same path wait for the lock, also in other processes. The lock is a file whose
// name is path with the suffix .lock. Exclusively removes this file at the end.
func Exclusively(path string, do func() error) (err error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), editWait, fmt.Errorf("another process has changed it for %s", editWait))
	defer cancel()
	unlock, _, err := Lock(ctx, path+".lock")
	if err != nil {
		return err
	}
	defer func() {
		_ = os.Remove(path + ".lock") // fails on Windows while another process has the file open; the file then stays
		err = errors.Join(err, unlock())
	}()
	return do()
}

// Owned is a file of named values that only its user may read and change. Its methods are safe for use by several goroutines and processes.
type Owned[V any] struct {
	File string // path of the file, whose directory is created; if empty, there is no file and Read returns no values
}

// Read returns the values, or nil if there is no file.
func (o Owned[V]) Read() (all map[string]V, err error) {
	if o.File == "" {
		return nil, nil
	}
	text, err := Secret(o.File, nil)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.Is(err, ErrReadable):
		err = fmt.Errorf("%w; chmod 600 %s", err, o.File)
	case err == nil:
		if err = Exposed(o.File); err == nil {
			err = json.Unmarshal(text, &all)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", o.File, err)
	}
	return all, nil
}

// Edit changes the values in one step.
func (o Owned[V]) Edit(edit func(all map[string]V)) error {
	return Exclusively(o.File, func() error {
		all, err := o.Read()
		if err != nil {
			return err
		}
		if all == nil {
			all = map[string]V{}
		}
		edit(all)
		text, err := json.MarshalIndent(all, "", "  ")
		if err != nil {
			return err
		}
		return Replace(o.File, append(text, '\n'), 0o600)
	})
}

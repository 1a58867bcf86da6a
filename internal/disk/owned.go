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

// editWait is how long an edit waits for that of another process.
const editWait = 30 * time.Second

// Exclusively does something while no other process does something exclusively with the same path; one waits for the other. The lock is a file
// beside it meanwhile.
func Exclusively(path string, do func() error) (err error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), editWait, fmt.Errorf("another process has changed it for %s", editWait))
	defer cancel()
	unlock, _, err := Lock(ctx, path+".lock")
	if err != nil {
		return err
	}
	defer func() {
		_ = os.Remove(path + ".lock") // Windows keeps it while it is open; then it stays
		err = errors.Join(err, unlock())
	}()
	return do()
}

// Owned is a file with values by name that only its user may read and change. Its methods may be called from any goroutine and process.
type Owned[V any] struct {
	File string // file with its directory, which is created; empty: no file and no values
}

// Read returns the values; none if there is no file.
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

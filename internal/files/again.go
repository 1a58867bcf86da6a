package files

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
)

// before is the state of a path before a call changed it. It is needed for calls that cannot simply be repeated after a crash: appendFile, rename,
// mkdir without recursive, and rm without force. All other calls lead to the same state however often they are executed.
type before struct {
	Exists bool  `json:"exists"`         // whether the path existed; for a rename, the old path
	Size   int64 `json:"size,omitempty"` // size of the file before the append
}

// guarded returns the path whose state shows whether a call took effect, or "" if the call can safely be repeated.
func guarded(name string, a *arguments) string {
	switch {
	case name == "appendFile", name == "mkdir" && !a.Recursive, name == "rm" && !a.Force:
		return a.Path
	case name == "rename":
		return a.From
	}
	return ""
}

// Precondition returns data that the journal stores with the intent of a changing call, so that AlreadyDone can judge the call after a
// crash. It returns nil if the call can simply be repeated, or if its arguments are invalid.
func (s *Space) Precondition(name string, args json.RawMessage) (json.RawMessage, error) {
	a, err := decode(args)
	if err == nil && guarded(name, a) != "" {
		if now, err := s.state(guarded(name, a)); err == nil {
			return json.Marshal(now)
		}
	}
	return nil, nil // the call can be repeated, or it fails now and also fails when it is repeated
}

// AlreadyDone judges a changing call whose answer was lost in a crash: it reports whether the call took effect. If not, the caller executes the call
// again. AlreadyDone removes the partial data of an append that the crash interrupted. The call must be the last changing call of its run.
func (s *Space) AlreadyDone(name string, args, precondition json.RawMessage) (bool, error) {
	a, err := decode(args)
	if err != nil || len(precondition) == 0 || guarded(name, a) == "" {
		return false, nil // the call can be repeated; if its arguments are invalid, it fails again
	}
	var was before
	if err := json.Unmarshal(precondition, &was); err != nil {
		return false, fmt.Errorf("read the precondition of %s: %w", name, err)
	}
	now, err := s.state(guarded(name, a))
	if err != nil {
		return false, err
	}
	switch name {
	case "mkdir":
		return !was.Exists && now.Exists, nil
	case "rm":
		return was.Exists && !now.Exists, nil
	case "rename":
		to, err := s.state(a.To)
		return was.Exists && !now.Exists && to.Exists, err
	}
	if !now.Exists || now.Size < was.Size { // another run replaced the file
		return false, nil
	}
	return s.appended(a, was.Size)
}

// appended reports whether a file contains the data of an append. size is the size of the file before the append; only the bytes after it are
// searched.
func (s *Space) appended(a *arguments, size int64) (bool, error) {
	data, err := a.data()
	if err != nil {
		return false, nil // the repeated call fails with the same error
	}
	d, rel, err := s.target(a.Path)
	if err != nil {
		return false, err
	}
	tail, err := d.ReadFile(rel, size, MaxRead)
	e, _ := errors.AsType[*Error](err)
	switch {
	case e != nil && e.Code == IO:
		return false, err
	case err != nil: // The file cannot be read, for example because the path is a directory. The append counts as not done; the caller repeats it and gets the error then.
		return false, nil
	case bytes.Contains(tail, data): // possibly after data that another run appended
		return true, nil
	case len(tail) > 0 && bytes.HasPrefix(data, tail):
		return false, d.truncate(rel, size)
	}
	return false, nil
}

func (s *Space) state(p string) (before, error) {
	d, rel, err := s.target(p)
	if err != nil {
		return before{}, err
	}
	e, err := d.Stat(rel)
	if errors.Is(err, fs.ErrNotExist) {
		return before{}, nil
	}
	return before{Exists: err == nil, Size: e.Size}, err
}

package journal

import "errors"

// Errors of a Store. They come wrapped with the run's id; compare with errors.Is.
var (
	ErrNotFound = errors.New("no such run")
	ErrExists   = errors.New("run exists")
	ErrEnded    = errors.New("run has ended")
	ErrBusy     = errors.New("run is being written by another writer") // in this process or another that is alive
	ErrClosed   = errors.New("journal is closed")
)

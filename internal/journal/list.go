package journal

import (
	"errors"
	"time"
)

// RunInfo is what a list shows of a run.
type RunInfo struct {
	ID         string
	User       string
	Session    string
	File       string
	Tier       string
	Status     string // running, or that of its end
	ErrorKind  string // of its end
	Calls      int
	SourceHash string // SHA-256 of the program as written, hexadecimal
	Started    time.Time
	Ended      time.Time // zero while it is running
	Duration   time.Duration
	Owner      string // the process that works on it, or did
}

// Filter chooses runs; an empty field chooses all.
type Filter struct {
	User    string
	Session string
	Status  string
	Limit   int    // default 50, at most 1000
	Cursor  string // the next of an earlier answer
}

// ErrCursor reports a Filter.Cursor that no list returned.
var ErrCursor = errors.New("invalid cursor")

package journal

import (
	"errors"
	"time"
)

// RunInfo is what a list shows of a run.
type RunInfo struct {
	ID        string        `json:"id"`
	User      string        `json:"user,omitempty"`
	Session   string        `json:"session,omitempty"`
	File      string        `json:"file,omitempty"`
	Tier      string        `json:"sandbox"`
	Status    string        `json:"status"`          // running, or that of its end
	ErrorKind string        `json:"error,omitempty"` // error kind at its end
	Calls     int           `json:"calls"`
	Started   time.Time     `json:"startedAt"`
	Ended     time.Time     `json:"endedAt,omitzero"` // zero while it is running
	Duration  time.Duration `json:"-"`
	Owner     string        `json:"-"` // the process that works on it, or did
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

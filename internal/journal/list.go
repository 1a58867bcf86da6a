package journal

import (
	"errors"
	"time"
)

// RunInfo is the entry of a run in a list.
type RunInfo struct {
	ID        string        `json:"id"`
	User      string        `json:"user,omitempty"`
	Session   string        `json:"session,omitempty"`
	File      string        `json:"file,omitempty"`
	Tier      string        `json:"sandbox"`
	Status    string        `json:"status"`          // running, or End.Status
	ErrorKind string        `json:"error,omitempty"` // kind of the error with which the run ended
	Calls     int           `json:"calls"`
	Started   time.Time     `json:"startedAt"`
	Ended     time.Time     `json:"endedAt,omitzero"` // zero while the run has not ended
	Duration  time.Duration `json:"-"`
	Owner     string        `json:"-"` // process that works on the run, or worked on it last
}

// Filter selects runs; an empty field selects all.
type Filter struct {
	User    string
	Session string
	Status  string
	Limit   int    // maximum number of results; default 50, at most 1000
	Cursor  string // value of next from an earlier result
}

// ErrCursor reports a Filter.Cursor that is not a value of next.
var ErrCursor = errors.New("invalid cursor")

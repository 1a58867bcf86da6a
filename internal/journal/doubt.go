package journal

import (
	"errors"
	"time"
)

// Verdict is what a person found out about a write in doubt. It leaves Open once, and does not change after that.
type Verdict string

// The verdicts.
const (
	Open    Verdict = "open"     // not settled yet
	Done    Verdict = "done"     // the write had its effect
	NotDone Verdict = "not_done" // the write had no effect
)

// Settlement is what a person said about a write in doubt. It is no record of the journal: a replay knows nothing of it.
type Settlement struct {
	Verdict Verdict    `json:"verdict" enum:"open,done,not_done" doc:"Whether the write was done, as a person found out; open: nobody has said anything."`
	At      *time.Time `json:"settledAt,omitempty"`
	By      string     `json:"settledBy,omitempty"`
	Note    string     `json:"note,omitempty"`
}

// Doubt is a write with an intent whose outcome stays unknown: its answer says so, or its run has ended without one. While a run has not
// ended, a write without an answer is no doubt yet: the answer may come, and a resumed run may make the call again.
type Doubt struct {
	Run     string
	User    string
	Session string
	Call    Call      // record of the call
	Sent    time.Time // time of the intent
}

// DoubtFilter chooses doubts; an empty field chooses all.
type DoubtFilter struct {
	User   string
	Limit  int    // default 50, at most 1000
	Cursor string // the next of an earlier answer
}

// Errors of settlements.
var (
	// ErrNoDoubt reports a call that is not in doubt.
	ErrNoDoubt = errors.New("the call is not in doubt")
	// ErrSettled reports a doubt that was settled with another verdict.
	ErrSettled = errors.New("it was settled with another verdict")
)

package journal

import (
	"errors"
	"time"
)

// Verdict is the result of a person's check of a write in doubt. Open changes to another verdict once; after that the verdict is final.
type Verdict string

// Verdicts.
const (
	Open    Verdict = "open"     // not settled yet
	Done    Verdict = "done"     // the write had its effect
	NotDone Verdict = "not_done" // the write had no effect
)

// Settlement is a person's statement about a write in doubt. It is not a record of the journal, so a replay does not see it.
type Settlement struct {
	Verdict Verdict    `json:"verdict" enum:"open,done,not_done" doc:"Whether the write was done, as a person found out; open: nobody has said anything."`
	At      *time.Time `json:"settledAt,omitempty"`
	By      string     `json:"settledBy,omitempty"`
	Note    string     `json:"note,omitempty"`
}

// Doubt is a write with an intent whose outcome stays unknown: its answer is an in-doubt error, or its run has ended without an answer. While a
// run has not ended, a write without an answer is not in doubt yet: the answer may come, or a resumed run may make the call again.
type Doubt struct {
	Run     string
	User    string
	Session string
	Call    Call      // record of the call
	Sent    time.Time // time of the intent
}

// DoubtFilter selects doubts; an empty field selects all.
type DoubtFilter struct {
	User   string
	Limit  int    // maximum number of results; default 50, at most 1000
	Cursor string // value of next from an earlier result
}

// Errors of settlements.
var (
	// ErrNoDoubt reports a call that is not in doubt.
	ErrNoDoubt = errors.New("the call is not in doubt")
	// ErrSettled reports a doubt that was settled with another verdict.
	ErrSettled = errors.New("it was settled with another verdict")
)

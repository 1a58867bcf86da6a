// Package versions describes the versions of users' skills as a store keeps them. It imports no other package of the harness.
package versions

import (
	"errors"
	"time"
)

// Bounds of a history. A store enforces them.
const (
	MaxOfSkill   = 100      // maximum number of versions of a skill; the oldest one that is not in use makes room
	MaxOfUser    = 10_000   // maximum number of versions of all skills of a user
	MaxUserBytes = 64 << 20 // maximum size in bytes of the archives of all versions of a user
)

// Errors of a store.
var (
	// ErrNotFound reports a version or a skill of which nothing is stored.
	ErrNotFound = errors.New("no such version")
	// ErrState reports a version that has another state than the caller assumes.
	ErrState = errors.New("the version has another state by now")
	// ErrFull reports a user who has reached a bound.
	ErrFull = errors.New("the history of skills is full")
	// ErrShares reports a user who has reached a bound of what users share.
	ErrShares = errors.New("too many shares")
	// ErrBase reports that others have moved on from the version that a proposal, or a decision about one, was made from.
	ErrBase = errors.New("there is a newer version")
)

// State says what a version is.
type State string

// The states of a version.
const (
	Kept    State = "kept"    // the version is or was the content of the skill
	Held    State = "held"    // the version was imported or proposed, and waits for a person's review
	Refused State = "refused" // a person has refused it
)

// Origin says where an imported version comes from.
type Origin struct {
	Source string `json:"source"`           // URL or path
	Commit string `json:"commit,omitempty"` // commit of a git repository
	Digest string `json:"digest,omitempty"` // digest that the source states
}

// Version is one content of a skill.
type Version struct {
	Name    string    `json:"name"`   // path of the skill inside /skills: "crm/dedupe.ts", "pdf"
	Num     int       `json:"num"`    // 1, 2, …; a number is never used again
	Digest  string    `json:"digest"` // SHA-256 of the content in hexadecimal
	Bytes   int64     `json:"bytes"`  // size of the compressed archive
	Created time.Time `json:"created"`
	Used    time.Time `json:"used"`             // the latest time at which the version became the content of the skill
	Author  string    `json:"author,omitempty"` // id of the run, or name of the person or source, that made the version
	Origin  *Origin   `json:"origin,omitempty"` // nil unless the version was imported
	State   State     `json:"state"`
	// Base is the number of the version that a proposal was made from; 0 unless another user, Author, has proposed the version.
	Base int `json:"base,omitempty"`
}

// From says where a version that waits for a review comes from.
func (v Version) From() string {
	switch {
	case v.Base > 0:
		return "proposed by " + v.Author
	case v.Origin != nil:
		return v.Origin.Source
	}
	return v.Author
}

// Tested is the result of the tests of a skill.
type Tested struct {
	Digest string    `json:"digest"` // digest of the tested content
	Passed int       `json:"passed"`
	Failed int       `json:"failed"`
	At     time.Time `json:"at"`
}

// Promoted makes a skill a tool of its user's clients.
type Promoted struct {
	Digest string    `json:"digest"` // digest of the promoted content; another content is not offered
	By     string    `json:"by"`
	At     time.Time `json:"at"`
}

// Status is what is stored of a skill beside its versions.
type Status struct {
	Tested   *Tested   `json:"tested,omitempty"`   // nil if the skill was never tested
	Promoted *Promoted `json:"promoted,omitempty"` // nil if the skill is not promoted
}

// Bounds of the uses of skills. A store enforces them.
const (
	MaxUses         = 500 // maximum number of skills of a user of which uses are stored; the one that was not used for the longest time makes room
	MaxRequests     = 8   // maximum number of requests that are stored of a skill; the oldest makes room
	MaxRequestBytes = 400 // maximum size in bytes of a request; a longer one is cut
)

// Uses says how programs of a user have used a skill.
type Uses struct {
	Runs      int       `json:"runs"` // ended runs that imported the skill or called it
	Failed    int       `json:"failed"`
	Last      time.Time `json:"last"`               // end of the latest run
	Succeeded time.Time `json:"succeeded,omitzero"` // end of the latest run that succeeded
	// Requests are the texts of the latest tasks in which the skill was used and the run succeeded, the oldest first. They hold tokens in place of personal
	// data.
	Requests []string `json:"-"`
}

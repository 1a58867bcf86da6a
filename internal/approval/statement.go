package approval

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"mcp-code-exec-harness/internal/journal"
)

// Sign signs a statement for a person who has entered their passphrase.
type Sign func(statement []byte) []byte

// Signature is the signature of an approval.
type Signature struct {
	Shown []string `json:"shown"` // hash of what the person saw for each call, in the order of the request's calls; see Shown
	Bytes []byte   `json:"bytes"` // Ed25519 signature; empty if a security key has signed
	// Assertion is the response of the security key that has signed; nil if none has.
	Assertion *Assertion `json:"assertion,omitempty"`
}

// Shown returns a hash of what a person sees of a call before deciding.
func Shown(c Call) string {
	text, _ := json.Marshal(struct { // Strings, booleans and valid JSON always encode.
		Tool                                         string
		Args                                         json.RawMessage
		ReadOnly, Destructive, Idempotent, OpenWorld bool
		Values                                       []Value `json:",omitempty"`
	}{c.Tool, valid(journal.Canonical(c.Args)), c.ReadOnly, c.Destructive, c.Idempotent, c.OpenWorld, c.Values})
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// statedCall is a call in a statement.
type statedCall struct {
	N          int    `json:"call"`
	Tool       string `json:"tool"`
	Definition string `json:"definition"`
	Args       string `json:"args"`
	Shown      string `json:"shown"`
}

// statement returns the text that a person signs to approve a request. It contains everything that the approval covers, including the
// decision.
func (r Request) statement(shown []string) []byte {
	s := struct {
		Purpose  string       `json:"purpose"`
		Request  string       `json:"request"`
		Run      string       `json:"run"`
		Task     string       `json:"task"`
		Session  string       `json:"session"`
		User     string       `json:"user"`
		Decision Status       `json:"decision"`
		Remember bool         `json:"remember"`
		By       string       `json:"by"`
		Decided  int64        `json:"decided"` // microseconds since the Unix epoch, the precision of the store
		Expires  int64        `json:"expires"`
		Calls    []statedCall `json:"calls"`
	}{
		Purpose: "harness: approve calls", Request: r.ID, Run: r.Run, Task: r.Task, Session: r.Session, User: r.User,
		Decision: r.Status, Remember: r.Remember, By: r.DecidedBy, Expires: r.Expires.UnixMicro(),
	}
	if r.DecidedAt != nil {
		s.Decided = r.DecidedAt.UnixMicro()
	}
	for i, c := range r.Calls {
		stated := statedCall{N: c.N, Tool: c.Tool, Definition: c.Binding.Definition, Args: c.Binding.Args}
		if i < len(shown) {
			stated.Shown = shown[i]
		}
		s.Calls = append(s.Calls, stated)
	}
	text, _ := json.Marshal(s) // Strings, booleans and numbers always encode.
	return text
}

// Sight identifies a request as a person saw it.
type Sight struct {
	Shown  []string // result of Shown for each call
	Digest string   // hash of the request and of Shown
}

// Sight returns what a person sees of a request. The arguments of all calls must be present.
func (r Request) Sight() Sight {
	s := Sight{}
	for _, c := range r.Calls {
		s.Shown = append(s.Shown, Shown(c))
	}
	s.Digest = r.digest(s.Shown)
	return s
}

func (r Request) digest(shown []string) string {
	sum := sha256.Sum256(r.statement(shown))
	return hex.EncodeToString(sum[:])
}

// Is reports whether a request is the one that the person saw.
func (s Sight) Is(r Request) bool { return s.Digest == r.digest(s.Shown) }

// Signed returns a request as approved by the decision, with the signature of the person who decides.
func (d Decision) Signed(r Request) Request {
	at := d.Time.Truncate(time.Microsecond) // precision of the store
	r.Status, r.Remember, r.DecidedBy, r.DecidedAt = Approved, d.Remember, d.By, &at
	r.Signature = &Signature{Shown: d.Seen.Shown, Assertion: d.Assertion}
	if d.Sign != nil {
		r.Signature.Bytes = d.Sign(r.statement(d.Seen.Shown))
	}
	return r
}

// Confirmation is a person's confirmation of something other than calls, such as a policy.
type Confirmation struct {
	Hash  string    `json:"hash"` // hash of the confirmed content
	Time  time.Time `json:"time"`
	Bytes []byte    `json:"bytes"` // Ed25519 signature
	// Content is the confirmed content. It is stored only where it is needed again.
	Content json.RawMessage `json:"content,omitempty"`
}

// statement returns the text that a person signs to confirm a subject.
func (c Confirmation) statement(subject string) []byte {
	text, _ := json.Marshal(struct { // Strings and a number always encode.
		Purpose, Subject, Hash string
		Time                   int64
	}{"harness: confirm", subject, c.Hash, c.Time.UnixMicro()})
	return text
}

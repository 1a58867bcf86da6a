package approval

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"mcp-code-exec-harness/internal/journal"
)

// Definition is the description of a tool by its server. If Tool is empty, it is the description of the server itself.
type Definition struct {
	Tool         string          `json:"tool" doc:"Name of the tool at its server; empty: the server's title and instructions."`
	Title        string          `json:"title,omitempty"`
	Description  string          `json:"description,omitempty"`
	InputSchema  json.RawMessage `json:"inputSchema,omitempty"`
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
	Annotations  json.RawMessage `json:"annotations,omitempty"`
	Content      string          `json:"content,omitempty" doc:"Digest of the code, for a skill."`
}

// Hash returns a hash of the definition. If the hash of a tool's definition differs from the earlier one, the tool has changed. White space and the
// order of keys in schemas do not affect the hash.
func (d Definition) Hash() string {
	d.InputSchema, d.OutputSchema, d.Annotations = valid(d.InputSchema), valid(d.OutputSchema), valid(d.Annotations)
	text, _ := json.Marshal(d) // Strings and valid JSON always encode.
	sum := sha256.Sum256(journal.Canonical(text))
	return hex.EncodeToString(sum[:])
}

// valid returns raw, or raw as a JSON string if it is not valid JSON.
func valid(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || json.Valid(raw) {
		return raw
	}
	text, _ := json.Marshal(string(raw)) // A string always encodes.
	return text
}

// size returns the size of a definition in bytes, which counts towards maxPinBytes.
func (d Definition) size() int {
	return len(d.Tool) + len(d.Title) + len(d.Description) + len(d.InputSchema) + len(d.OutputSchema) + len(d.Annotations)
}

// says reports whether a definition contains any text to review.
func (d Definition) says() bool { return d.size() > 0 }

// differences names the fields in which two definitions of a tool differ.
func (d Definition) differences(other Definition) (fields []string) {
	same := func(a, b json.RawMessage) bool { return bytes.Equal(journal.Canonical(a), journal.Canonical(b)) }
	for _, f := range []struct {
		name string
		same bool
	}{
		{"title", d.Title == other.Title},
		{"description", d.Description == other.Description},
		{"inputSchema", same(d.InputSchema, other.InputSchema)},
		{"outputSchema", same(d.OutputSchema, other.OutputSchema)},
		{"annotations", same(d.Annotations, other.Annotations)},
	} {
		if !f.same {
			fields = append(fields, f.name)
		}
	}
	return fields
}

// Quarantine selects which definitions are held until a person approves them.
type Quarantine string

// The settings of the quarantine.
const (
	HoldNone    Quarantine = "off"
	HoldChanged Quarantine = "changed" // definitions that differ from the approved one; the first definition of each tool is approved automatically
	HoldNew     Quarantine = "new"     // changed definitions, and tools that were never approved
)

// Limits on the pins of one server, enough for two listings of the maximum size. Without them, a server that lists new tools every time could fill
// the store. Definitions beyond the limits are held.
const (
	maxPins     = 40_000
	maxPinBytes = 32 << 20
)

// Errors of reviews.
var (
	// ErrNotHeld reports that a definition does not wait for approval: it was approved, or its server has sent a different one since.
	ErrNotHeld = errors.New("no such definition is held")
	// ErrTooManyPins reports a server with too many approved definitions.
	ErrTooManyPins = errors.New("the server has too many approved definitions; harness servers remove forgets them")
)

// Pin is the stored state of a tool's definition. Approved and Seen are hashes of definitions, or "".
type Pin struct {
	Approved string
	Bytes    int    // size of the approved definition
	Seen     string // hash of the latest definition from the server; "" if the server does not list the tool
}

// held reports whether the latest definition differs from the approved one.
func (p Pin) held() bool { return p.Seen != "" && p.Seen != p.Approved }

// Reviewed is the result of reviewing a listing.
type Reviewed struct {
	Held    []string       // names of tools that are not offered, sorted; "" stands for the server's own text
	New     []string       // held tools whose definition was not held before
	Trusted []string       // tools whose first definition was approved automatically
	Changed map[string]Pin // changed pins by tool; a zero Pin means that the pin has to be deleted
}

// Confirmed holds the definitions of a server that a person has confirmed: hashes by tool. It is nil if no confirmation is required.
type Confirmed map[string]string

// Review compares a server's listing with the stored pins. It does not modify its arguments. If a tool is listed twice, the first entry
// counts. With HoldNew, an approval without a required confirmation is ignored. A definition that a person has confirmed is approved even
// if the pins differ, because a review that began before the confirmation may have stored its pins after the confirmation.
func Review(mode Quarantine, confirmed Confirmed, pins map[string]Pin, listed []Definition) Reviewed {
	r := Reviewed{Changed: map[string]Pin{}}
	count, bytes := approved(pins)
	found := make(map[string]bool, len(listed))
	for _, d := range listed {
		if found[d.Tool] {
			continue
		}
		found[d.Tool] = true
		was := pins[d.Tool]
		is := Pin{Approved: was.Approved, Bytes: was.Bytes, Seen: d.Hash()}
		if mode == HoldNew && confirmed != nil && is.Approved != "" && d.says() && confirmed[d.Tool] != is.Approved {
			count, bytes = count-1, bytes-is.Bytes
			is.Approved, is.Bytes = "", 0
		}
		fits := count < maxPins && bytes+d.size() <= maxPinBytes
		switch {
		case is.Approved == "" && fits && mode == HoldNew && d.says() && confirmed[d.Tool] == is.Seen:
			is.Approved, is.Bytes = is.Seen, d.size()
			count, bytes = count+1, bytes+is.Bytes
		case is.Approved == "" && fits && (mode == HoldChanged || !d.says()):
			is.Approved, is.Bytes = is.Seen, d.size()
			count, bytes = count+1, bytes+is.Bytes
			r.Trusted = append(r.Trusted, d.Tool)
		case !d.says() && is.held(): // nothing is left to review
			is.Seen = ""
		}
		if is.held() {
			r.Held = append(r.Held, d.Tool)
			if is.Seen != was.Seen {
				r.New = append(r.New, d.Tool)
			}
		}
		if is != was {
			r.Changed[d.Tool] = is
		}
	}
	for tool, p := range pins {
		if !found[tool] && p.Seen != "" {
			p.Seen = ""
			r.Changed[tool] = p
		}
	}
	for _, names := range [][]string{r.Held, r.New, r.Trusted} {
		slices.Sort(names)
	}
	return r
}

// approved returns the number of approved definitions of a server and their size in bytes.
func approved(pins map[string]Pin) (count, bytes int) {
	for _, p := range pins {
		if p.Approved != "" {
			count, bytes = count+1, bytes+p.Bytes
		}
	}
	return count, bytes
}

// Held is a definition that waits for a review.
type Held struct {
	Server   string      `json:"server"`
	Hash     string      `json:"hash" doc:"Names the definition in an approval."`
	Since    time.Time   `json:"since"`
	Changed  []string    `json:"changed,omitempty" doc:"In which fields it differs from the approved one; absent if none was approved."`
	Approved *Definition `json:"approved,omitempty" doc:"What was approved."`
	Seen     Definition  `json:"seen" doc:"What the server says now."`
}

// NewHeld compares a held definition with the approved one, which may be nil.
func NewHeld(server string, since time.Time, approved *Definition, seen Definition) Held {
	h := Held{Server: server, Hash: seen.Hash(), Since: since, Approved: approved, Seen: seen}
	if approved != nil {
		h.Changed = approved.differences(seen)
	}
	return h
}

// ApprovedDefinition records who approved a definition, and when.
type ApprovedDefinition struct {
	Tool string    `json:"tool" doc:"Name of the tool at its server; empty: the server's title and instructions."`
	Hash string    `json:"hash"`
	By   string    `json:"by" doc:"The id of a key, oidc: and the subject of a token, or local."`
	At   time.Time `json:"at"`
}

// Approve returns the pin of a held definition after its approval. The error wraps ErrNotHeld or ErrTooManyPins.
func Approve(pins map[string]Pin, d Definition) (Pin, error) {
	is := pins[d.Tool]
	if !is.held() || is.Seen != d.Hash() {
		return is, ErrNotHeld
	}
	count, bytes := approved(pins)
	if is.Approved == "" {
		count++
	}
	if count > maxPins || bytes-is.Bytes+d.size() > maxPinBytes {
		return is, ErrTooManyPins
	}
	return Pin{Approved: is.Seen, Bytes: d.size(), Seen: is.Seen}, nil
}

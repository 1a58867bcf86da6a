package redis

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"mcp-code-exec-harness/internal/pii"
)

// entryVersion is the first byte of an encoded entry.
const entryVersion = 1

var errEntry = errors.New("an entry is damaged, or of a later version of the harness")

// newID returns an ID for a new life of a session (see the type life).
func newID() string { return rand.Text() }

// encode encodes an entry. Numbers are uvarints; each string follows its length. The lengths of Key and Sealed are stored plus one; 0
// means nil.
func encode(e pii.Entry) []byte {
	b := make([]byte, 0, 16+len(e.Type)+len(e.Key)+len(e.Sealed)+len(e.Origin))
	b = append(b, entryVersion)
	b = append(binary.AppendUvarint(b, uint64(len(e.Type))), e.Type...)
	b = binary.AppendUvarint(b, uint64(e.N))
	for _, part := range [][]byte{e.Key, e.Sealed} {
		if part == nil {
			b = append(b, 0)
			continue
		}
		b = append(binary.AppendUvarint(b, uint64(len(part))+1), part...)
	}
	return append(binary.AppendUvarint(b, uint64(len(e.Origin))), e.Origin...)
}

func decode(text string) (e pii.Entry, err error) {
	r := reader{[]byte(text), nil}
	if r.number() != entryVersion {
		return e, errEntry
	}
	e.Type = string(r.bytes(r.number()))
	e.N = int(r.number())
	for _, to := range []*[]byte{&e.Key, &e.Sealed} {
		if n := r.number(); n > 0 {
			*to = r.bytes(n - 1)
		}
	}
	e.Origin = string(r.bytes(r.number()))
	if r.err != nil || len(r.rest) > 0 {
		return pii.Entry{}, errEntry
	}
	return e, nil
}

type reader struct {
	rest []byte
	err  error
}

func (r *reader) number() uint64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 {
		r.rest, r.err = nil, errEntry
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

func (r *reader) bytes(n uint64) []byte {
	if n > uint64(len(r.rest)) {
		r.rest, r.err = nil, errEntry
		return nil
	}
	part := r.rest[:n:n]
	r.rest = r.rest[n:]
	return part
}

// counts are the numbers of tokens and bytes in a session, or the numbers that one Add adds to it.
type counts struct {
	Tokens int64            `json:"n"`
	Bytes  int64            `json:"b"`
	Types  map[string]int64 `json:"t"`
}

func decodeCounts(text string) (c counts, err error) {
	err = json.Unmarshal([]byte(text), &c)
	return c, err
}

// batch is the data that one Add stores.
type batch struct {
	entries []any // encoded entries
	used    []any // members for the set of tokens and lookup keys in use
	counts  string
	last    int // highest number of a token below pii.FirstCode
}

// newBatch checks and encodes entries. It returns pii.ErrConflict if two of them conflict.
func newBatch(entries []pii.Entry) (b batch, err error) {
	if len(entries) > maxEntries {
		return b, fmt.Errorf("%d entries are more than %d at once", len(entries), maxEntries)
	}
	c := counts{Types: map[string]int64{}}
	seen := make(map[string]bool, 2*len(entries))
	size := 0
	for _, e := range entries {
		switch {
		case len(e.Sealed) > maxSealed:
			return b, fmt.Errorf("a sealed value of %d bytes is longer than %d", len(e.Sealed), maxSealed)
		case len(e.Type) > maxText || len(e.Origin) > maxText || e.N < 0:
			return b, fmt.Errorf("the type or origin of a token is longer than %d bytes, or its number is negative", maxText)
		}
		encoded := encode(e)
		if size += len(encoded); size > maxBytes {
			return b, fmt.Errorf("the entries have more than %d bytes at once", maxBytes)
		}
		b.entries = append(b.entries, encoded)
		if e.Sealed == nil {
			continue
		}
		for _, member := range []string{fmt.Sprintf("t%d:%s", e.N, e.Type), "k" + string(e.Key)} {
			if seen[member] {
				return b, pii.ErrConflict
			}
			seen[member] = true
			b.used = append(b.used, member)
		}
		c.Tokens++
		c.Bytes += int64(len(e.Sealed))
		c.Types[e.Type]++
		if e.N < pii.FirstCode {
			b.last = max(b.last, e.N)
		}
	}
	text, err := json.Marshal(c)
	b.counts = string(text)
	return b, err
}

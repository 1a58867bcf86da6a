// Package seal encrypts the values that vaults store.
//
// A value is encrypted with AES-SIV (RFC 5297), and its session is the associated data: what is sealed for one session cannot be opened for another.
// Sealed values show which values of a session are equal, and how long they are, but nothing else.
//
// All keys are derived from master keys, which are configured or generated (see [Open]). New values are sealed with the first master key. The others
// are its predecessors; they only open the values that were sealed with them.
package seal

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"slices"
	"sync"

	"github.com/tink-crypto/tink-go/v2/daead/subtle"
)

// Overhead is the size in bytes of what sealing adds to a value: the id of the key, and the synthetic IV.
const Overhead = idSize + 16

const idSize = 4

// The uses of a master key, which are the info parameters of HKDF.
const (
	useSeal   = "mcp-code-exec-harness pii seal, version 1"
	useLookup = "mcp-code-exec-harness pii lookup, version 1"
	useID     = "mcp-code-exec-harness pii key id, version 1"
)

var (
	// ErrUnknownKey reports a value that was sealed with a master key that is not configured.
	ErrUnknownKey = errors.New("the key of this value is missing")
	// ErrDamaged reports a value that was changed since it was sealed, or that was sealed for another session.
	ErrDamaged = errors.New("the stored value is damaged, or belongs to another session")
)

// Scope is the session to which values belong. A pii.Scope converts to it.
type Scope struct {
	User, Session string
}

// LookupKey finds the token of a value. Without the master key it reveals nothing about the value.
type LookupKey [16]byte

// Keys seal and open values. They are safe for concurrent use.
type Keys struct {
	keys []*key // derived keys, one element for each master key, the newest first; only the first element seals
	from string // places where the keys are configured, for errors
}

// key holds the keys that are derived from one master key.
type key struct {
	id     [idSize]byte
	cipher *subtle.AESSIV
	macs   sync.Pool // keyed hashes, of type hash.Hash
}

// New derives keys from master keys of at least 32 bytes, the newest first. from names the places where users configure them, for errors.
func New(from string, masters ...[]byte) (*Keys, error) {
	if len(masters) == 0 {
		return nil, fmt.Errorf("there is no key for personal data in %s", from)
	}
	k := &Keys{from: from}
	for _, master := range masters {
		derived, err := derive(master)
		if err != nil {
			return nil, fmt.Errorf("the key for personal data in %s: %w", from, err)
		}
		if k.find(derived.id) == nil {
			k.keys = append(k.keys, derived)
		}
	}
	return k, nil
}

func derive(master []byte) (*key, error) {
	if err := check(master); err != nil {
		return nil, err
	}
	sealing, err := hkdf.Key(sha256.New, master, nil, useSeal, subtle.AESSIVKeySize)
	if err != nil {
		return nil, err
	}
	lookup, err := hkdf.Key(sha256.New, master, nil, useLookup, sha256.Size)
	if err != nil {
		return nil, err
	}
	id, err := hkdf.Key(sha256.New, master, nil, useID, idSize)
	if err != nil {
		return nil, err
	}
	cipher, err := subtle.NewAESSIV(sealing)
	if err != nil {
		return nil, err
	}
	k := &key{id: [idSize]byte(id), cipher: cipher}
	k.macs.New = func() any { return hmac.New(sha256.New, lookup) }
	return k, nil
}

func (k *Keys) find(id [idSize]byte) *key {
	for _, candidate := range k.keys {
		if candidate.id == id {
			return candidate
		}
	}
	return nil
}

// Seal encrypts a value with the newest key. Equal values of a scope have equal results.
func (k *Keys) Seal(s Scope, value string) ([]byte, error) {
	sealed, err := k.keys[0].cipher.EncryptDeterministically([]byte(value), s.bytes())
	if err != nil {
		return nil, fmt.Errorf("seal a value: %w", err)
	}
	return append(append(make([]byte, 0, idSize+len(sealed)), k.keys[0].id[:]...), sealed...), nil
}

// Open decrypts a value. The error wraps ErrUnknownKey or ErrDamaged and contains no part of the value.
func (k *Keys) Open(s Scope, sealed []byte) (string, error) {
	if len(sealed) < Overhead {
		return "", fmt.Errorf("open a value: %w", ErrDamaged)
	}
	id := [idSize]byte(sealed)
	found := k.find(id)
	if found == nil {
		return "", fmt.Errorf("open a value: %w: it was sealed with key %s, which is not in %s; add that key there, behind the newest one",
			ErrUnknownKey, hex.EncodeToString(id[:]), k.from)
	}
	value, err := found.cipher.DecryptDeterministically(sealed[idSize:], s.bytes())
	if err != nil {
		return "", fmt.Errorf("open a value: %w", ErrDamaged)
	}
	return string(value), nil
}

// Missing says, for each master key that sealed one of the values and is not configured, that it is missing.
func (k *Keys) Missing(sealed [][]byte) (texts []string) {
	for _, s := range sealed {
		if len(s) < Overhead || k.find([idSize]byte(s)) != nil {
			continue
		}
		text := fmt.Sprintf("stored values were sealed with key %s, which is not in %s: what needs them fails until that key is there, behind the newest one",
			hex.EncodeToString(s[:idSize]), k.from)
		if !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return texts
}

// Key returns the lookup key with which new entries for a value are stored. The newest master key determines it. typ is the type of the value, and
// value is its canonical form.
func (k *Keys) Key(s Scope, typ, value string) LookupKey { return k.keys[0].lookup(s, typ, value) }

// Older returns one lookup key of a value for each older master key. Entries that were stored when that master key was the newest have this lookup
// key. If there is only one master key, Older returns nothing.
func (k *Keys) Older(s Scope, typ, value string) []LookupKey {
	var all []LookupKey
	for _, old := range k.keys[1:] {
		all = append(all, old.lookup(s, typ, value))
	}
	return all
}

func (k *key) lookup(s Scope, typ, value string) (found LookupKey) {
	mac := k.macs.Get().(hash.Hash)
	defer k.macs.Put(mac)
	mac.Reset()
	text := make([]byte, 0, 128)
	for _, part := range [...]string{s.User, s.Session, typ, value} {
		text = appendPart(text, part)
	}
	mac.Write(text)
	var sum [sha256.Size]byte
	copy(found[:], mac.Sum(sum[:0]))
	return found
}

// IDs returns the ids of the keys, the newest first. They reveal nothing about the master keys.
func (k *Keys) IDs() []string {
	ids := make([]string, len(k.keys))
	for i, key := range k.keys {
		ids[i] = hex.EncodeToString(key.id[:])
	}
	return ids
}

// bytes returns the scope as associated data: different scopes have different bytes, even if user and session are equal when joined.
func (s Scope) bytes() []byte {
	return appendPart(appendPart(make([]byte, 0, 64), s.User), s.Session)
}

func appendPart(to []byte, part string) []byte {
	return append(binary.AppendUvarint(to, uint64(len(part))), part...)
}

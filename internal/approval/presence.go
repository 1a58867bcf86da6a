package approval

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"
)

// Limit on wrong passphrases in a process. After maxAttempts wrong passphrases within attemptsWait, Unlock tries no passphrase until attemptsWait
// has passed since the oldest of these attempts.
const (
	maxAttempts  = 5
	attemptsWait = 15 * time.Minute
)

// lookForKey is the interval at which a process without a key checks whether one exists now.
const lookForKey = 2 * time.Second

// Errors of confirmations.
var (
	// ErrUnconfirmed reports a decision that lacks the confirmation of a person.
	ErrUnconfirmed = errors.New("a person confirms this with their passphrase")
	// ErrAttempts reports too many wrong passphrases.
	ErrAttempts = errors.New("the passphrase was wrong too often")
	// ErrNoKey reports that this state directory has no key: no key was created, or the key is in a different state directory.
	ErrNoKey = errors.New("there is no key that signs approvals in this state directory; harness approvals setup makes one")
)

// Records is the part of the store that keeps confirmations. A subject is the name under which a value or a number is stored. The methods of
// Records are safe for concurrent use.
type Records interface {
	// Confirmation returns the value of a subject, or nil if there is none.
	Confirmation(ctx context.Context, subject string) ([]byte, error)
	// Confirm sets the value of a subject.
	Confirm(ctx context.Context, subject string, value []byte) error
	// Advance raises the number of a subject to a value. If the value is not higher than the stored number, Advance stores nothing and returns false.
	Advance(ctx context.Context, subject string, to uint32) (bool, error)
}

// keySubject is the subject of the stored public key.
const keySubject = "key"

// Presence verifies that a person was present at a decision. The state directory has the private key, sealed with the passphrase of the person, and
// the store has the public key. If the state directory or the store has a key, approvals need a signature, whatever the configuration is; if both
// have one, the keys must be equal. A process that has found a key uses this key until the process exits. The methods are safe for concurrent use;
// a nil Presence requires no confirmation.
type Presence struct {
	Dir     string                  // the state directory
	Records func() (Records, error) // returns the store's records
	Wanted  bool                    // whether the configuration requires confirmation, even if there is no key yet
	Now     func() time.Time
	// Failed is called after each wrong passphrase; it may be nil.
	Failed func()

	mu       sync.Mutex
	keys     []ed25519.PublicKey // keys that must all have signed; empty if there is no key yet
	looked   time.Time
	attempts []time.Time // times of wrong passphrases
	answered answers     // answered questions to security keys
}

// Keys returns the public keys for approvals. An approval is valid only if all of these keys have signed it. Normally there is one key, or none
// before setup. If the key in the state directory differs from the key in the store, Keys returns both, and no approval is valid.
func (p *Presence) Keys(ctx context.Context) ([]ed25519.PublicKey, error) {
	if p == nil {
		return nil, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if len(p.keys) > 0 || !p.looked.IsZero() && now.Sub(p.looked) < lookForKey {
		return p.keys, nil
	}
	keys, err := p.look(ctx)
	if err != nil {
		return nil, err
	}
	p.keys, p.looked = keys, now
	return keys, nil
}

// look reads the keys of the state directory and the store. If the store has no key, look stores the key of the state directory there.
func (p *Presence) look(ctx context.Context) (keys []ed25519.PublicKey, err error) {
	sealed, err := LoadSealedKey(p.Dir)
	switch {
	case err == nil:
		keys = append(keys, sealed.Public)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	stored, err := p.Stored(ctx)
	switch {
	case err != nil:
		return nil, err
	case stored == nil && sealed != nil:
		err = p.Anchor(ctx, sealed.Public)
	case stored != nil && (sealed == nil || !bytes.Equal(sealed.Public, stored)):
		keys = append(keys, stored)
	}
	return keys, err
}

// Stored returns the public key in the store, or nil if there is none.
func (p *Presence) Stored(ctx context.Context) (ed25519.PublicKey, error) {
	records, err := p.Records()
	if err != nil {
		return nil, err
	}
	stored, err := records.Confirmation(ctx, keySubject)
	switch {
	case err != nil:
		return nil, err
	case stored != nil && len(stored) != ed25519.PublicKeySize:
		return make(ed25519.PublicKey, ed25519.PublicKeySize), nil // an invalid key, for which no signature is valid
	}
	return stored, nil
}

// Anchor stores a public key in the store.
func (p *Presence) Anchor(ctx context.Context, public ed25519.PublicKey) error {
	records, err := p.Records()
	if err != nil {
		return err
	}
	return records.Confirm(ctx, keySubject, public)
}

// Required reports whether approvals need a signature.
func (p *Presence) Required(ctx context.Context) (bool, error) {
	keys, err := p.Keys(ctx)
	return p != nil && (p.Wanted || len(keys) > 0), err
}

// Unlock opens the key with a passphrase. The error wraps ErrNoKey, ErrPassphrase or ErrAttempts. Concurrent attempts run one after the
// other.
func (p *Presence) Unlock(passphrase string) (Sign, error) {
	if p == nil {
		return nil, ErrNoKey
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.Now()
	p.attempts = slices.DeleteFunc(p.attempts, func(at time.Time) bool { return now.Sub(at) > attemptsWait })
	if len(p.attempts) >= maxAttempts {
		return nil, fmt.Errorf("%w: try again in %s", ErrAttempts, (attemptsWait - now.Sub(p.attempts[0])).Round(time.Second))
	}
	sealed, err := LoadSealedKey(p.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoKey
	}
	if err != nil {
		return nil, err
	}
	sign, err := sealed.Open(passphrase)
	if errors.Is(err, ErrPassphrase) {
		p.attempts = append(p.attempts, now)
		if p.Failed != nil {
			p.Failed()
		}
	}
	return sign, err
}

// Check returns an error that wraps ErrUnconfirmed if an approved request lacks a required signature.
func (p *Presence) Check(ctx context.Context, r Request) error {
	needed, err := p.Required(ctx)
	if err != nil || !needed {
		return err
	}
	s := r.Signature
	if s == nil || r.DecidedAt == nil || r.DecidedAt.After(r.Expires) || len(s.Shown) != len(r.Calls) {
		return ErrUnconfirmed
	}
	if a := s.Assertion; a != nil {
		stated := r.Stated()
		if !slices.ContainsFunc(a.Statements, func(of []byte) bool { return bytes.Equal(of, stated) }) {
			return ErrUnconfirmed
		}
		_, _, err := p.verifyAssertion(ctx, r.DecidedBy, *r.DecidedAt, a)
		return err
	}
	return p.verify(ctx, r.statement(s.Shown), s.Bytes)
}

// verify returns an error that wraps ErrUnconfirmed unless all keys have signed a statement.
func (p *Presence) verify(ctx context.Context, statement, signature []byte) error {
	keys, err := p.Keys(ctx)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if !ed25519.Verify(key, statement, signature) {
			return ErrUnconfirmed
		}
	}
	if len(keys) == 0 {
		return ErrUnconfirmed
	}
	return nil
}

// Confirm stores that a person has confirmed the current content of a subject. hash is the hash of the content.
func (p *Presence) Confirm(ctx context.Context, sign Sign, subject, hash string) error {
	return p.confirm(ctx, sign, subject, Confirmation{Hash: hash})
}

func (p *Presence) confirm(ctx context.Context, sign Sign, subject string, c Confirmation) error {
	c.Time = p.Now().Truncate(time.Microsecond)
	c.Bytes = sign(c.statement(subject))
	if err := p.verify(ctx, c.statement(subject), c.Bytes); err != nil {
		return err
	}
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	records, err := p.Records()
	if err != nil {
		return err
	}
	return records.Confirm(ctx, subject, text)
}

// Confirmed reports whether a person has confirmed the content with this hash. If no confirmation is required, it returns true.
func (p *Presence) Confirmed(ctx context.Context, subject, hash string) (bool, error) {
	needed, err := p.Required(ctx)
	if err != nil || !needed {
		return err == nil, err
	}
	c, err := p.confirmation(ctx, subject)
	return c != nil && c.Hash == hash, err
}

// confirmation returns the confirmation of a subject, or nil if there is none with a valid signature.
func (p *Presence) confirmation(ctx context.Context, subject string) (*Confirmation, error) {
	records, err := p.Records()
	if err != nil {
		return nil, err
	}
	text, err := records.Confirmation(ctx, subject)
	if err != nil || text == nil {
		return nil, err
	}
	var c Confirmation
	if json.Unmarshal(text, &c) != nil {
		return nil, nil
	}
	switch err := p.verify(ctx, c.statement(subject), c.Bytes); {
	case errors.Is(err, ErrUnconfirmed):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &c, nil
}

func hashOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

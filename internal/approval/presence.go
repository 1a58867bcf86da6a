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

// How often a passphrase may be wrong in a process before it is not tried for some time.
const (
	maxAttempts  = 5
	attemptsWait = 15 * time.Minute
)

// lookForKey is how soon a process notices that approvals have got a key.
const lookForKey = 2 * time.Second

// Errors of confirmations.
var (
	// ErrUnconfirmed reports a decision that a person has to confirm and has not.
	ErrUnconfirmed = errors.New("a person confirms this with their passphrase")
	// ErrAttempts reports too many wrong passphrases.
	ErrAttempts = errors.New("the passphrase was wrong too often")
	// ErrNoKey reports that no key opens here: approvals have none, or it is in another state directory.
	ErrNoKey = errors.New("there is no key that signs approvals in this state directory; harness approvals setup makes one")
)

// Records are what the store keeps of confirmations. They are safe for concurrent use.
type Records interface {
	// Confirmation returns what is kept of a subject, nil for nothing.
	Confirmation(ctx context.Context, subject string) ([]byte, error)
	// Confirm keeps a value for a subject.
	Confirm(ctx context.Context, subject string, value []byte) error
	// Advance keeps a number for a subject if it is above the one that is kept, and reports whether it is.
	Advance(ctx context.Context, subject string, to uint32) (bool, error)
}

// keySubject is the subject of the store's copy of the public key.
const keySubject = "key"

// Presence says whether a person was present when something was decided. The state directory has the key that their passphrase opens, the store
// its public half: where one of them has a key, approvals need a signature, whatever the configuration says; where both have one, it has to be the same.
// A process that has seen a key uses it until its end. The methods are safe for concurrent use; a nil Presence asks for no confirmation.
type Presence struct {
	Dir     string                  // the state directory
	Records func() (Records, error) // opens the store
	Wanted  bool                    // the configuration asks for confirmation, also before there is a key
	Now     func() time.Time
	// Failed is called with each wrong passphrase; may be nil.
	Failed func()

	mu       sync.Mutex
	keys     []ed25519.PublicKey // keys that must have signed; none: no key exists yet
	looked   time.Time
	attempts []time.Time // times of wrong passphrases
	answered answers     // answers of security keys
}

// Keys returns the public keys with each of which approvals have to be signed; there are two where state directory and store do not agree, and then
// nothing is valid.
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

// look reads the keys of the state directory and the store. A store that knows of no key is given the state directory's.
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

// Stored is the key that the store knows, nil for none.
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
		return make(ed25519.PublicKey, ed25519.PublicKeySize), nil // nothing is signed with it
	}
	return stored, nil
}

// Anchor has the store know a key.
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

// Unlock opens the key with a passphrase. The error wraps ErrNoKey, ErrPassphrase or ErrAttempts. Passphrases are tried one after the other.
func (p *Presence) Unlock(passphrase string) (Sign, error) {
	if p == nil {
		return nil, ErrNoKey
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.Now()
	p.attempts = slices.DeleteFunc(p.attempts, func(at time.Time) bool { return now.Sub(at) > attemptsWait })
	if len(p.attempts) >= maxAttempts {
		return nil, fmt.Errorf("%w: try again in %s", ErrAttempts, attemptsWait)
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

// Check returns an error that wraps ErrUnconfirmed if an approved request has to be signed and is not.
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

// Confirm keeps that a person has confirmed a thing that has this hash now.
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

// Confirmed reports whether a person has confirmed a thing with this hash. Where no confirmation is required, everything is confirmed.
func (p *Presence) Confirmed(ctx context.Context, subject, hash string) (bool, error) {
	needed, err := p.Required(ctx)
	if err != nil || !needed {
		return err == nil, err
	}
	c, err := p.confirmation(ctx, subject)
	return c != nil && c.Hash == hash, err
}

// confirmation returns what a person has confirmed of a subject, nil if nothing is validly signed.
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

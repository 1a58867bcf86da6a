package approval

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// SecurityKey is a security key or passkey (WebAuthn) that one principal uses to approve on the dashboard.
type SecurityKey struct {
	ID        []byte    `json:"id"`     // credential ID
	Public    []byte    `json:"public"` // public key in COSE format
	Principal string    `json:"principal"`
	Name      string    `json:"name"`
	Origin    string    `json:"origin"` // address of the dashboard where the key was registered; the key signs for no other address
	Added     time.Time `json:"added"`
	Counter   uint32    `json:"counter"` // signature counter at the registration
}

// maxSecurityKeys is the maximum number of security keys in a store.
const maxSecurityKeys = 100

// securityKeysSubject is the subject (see Records) of the list of security keys. A person confirms the list: it is signed with the key that
// their passphrase opens.
const securityKeysSubject = "security keys"

// ErrNoSecurityKey reports an unknown security key.
var ErrNoSecurityKey = errors.New("no such security key")

// Code returns an identifier of a security key that people can compare. It has 60 bits, so that no second key with the same code can be
// found.
func (k SecurityKey) Code() string {
	sum := sha256.Sum256(slices.Concat(k.ID, k.Public))
	text := base32.StdEncoding.EncodeToString(sum[:])
	return text[:4] + "-" + text[4:8] + "-" + text[8:12]
}

// SecurityKeys returns the security keys that a person has confirmed with their passphrase.
func (p *Presence) SecurityKeys(ctx context.Context) ([]SecurityKey, error) {
	if keys, err := p.Keys(ctx); err != nil || len(keys) == 0 {
		return nil, err
	}
	c, err := p.confirmation(ctx, securityKeysSubject)
	if err != nil || c == nil || c.Hash != hashOf(c.Content) {
		return nil, err
	}
	var all []SecurityKey
	if json.Unmarshal(c.Content, &all) != nil {
		return nil, nil
	}
	return all, nil
}

// SecurityKeysOf returns the security keys of one principal.
func (p *Presence) SecurityKeysOf(ctx context.Context, principal string) ([]SecurityKey, error) {
	all, err := p.SecurityKeys(ctx)
	return slices.DeleteFunc(all, func(k SecurityKey) bool { return k.Principal != principal }), err
}

// AddSecurityKey stores a security key that a person has confirmed.
func (p *Presence) AddSecurityKey(ctx context.Context, sign Sign, key SecurityKey) error {
	all, err := p.SecurityKeys(ctx)
	switch {
	case err != nil:
		return err
	case slices.ContainsFunc(all, func(k SecurityKey) bool { return string(k.ID) == string(key.ID) }):
		return errors.New("the security key is registered already")
	case len(all) >= maxSecurityKeys:
		return fmt.Errorf("there are %d security keys, and no more can be registered: remove one", len(all))
	}
	return p.confirmSecurityKeys(ctx, sign, append(all, key))
}

// RemoveSecurityKey removes the security key with a code. Approvals that the key signed then count as not decided. The error wraps
// ErrNoSecurityKey.
func (p *Presence) RemoveSecurityKey(ctx context.Context, sign Sign, code string) error {
	all, err := p.SecurityKeys(ctx)
	if err != nil {
		return err
	}
	left := slices.DeleteFunc(slices.Clone(all), func(k SecurityKey) bool { return k.Code() == code })
	if len(left) == len(all) {
		return fmt.Errorf("%w: %q", ErrNoSecurityKey, code)
	}
	return p.confirmSecurityKeys(ctx, sign, left)
}

func (p *Presence) confirmSecurityKeys(ctx context.Context, sign Sign, all []SecurityKey) error {
	content, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return p.confirm(ctx, sign, securityKeysSubject, Confirmation{Hash: hashOf(content), Content: content})
}

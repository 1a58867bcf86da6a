package auth

import (
	"bytes"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// MinSecret is the least length of a configured secret, in bytes. Whoever is given a capability could try short ones.
const MinSecret = 16

// Capability is what a run may be trusted with when it calls back over HTTP: to be itself. Nothing else that it says
// about user or session is believed.
type Capability struct {
	RunID     string
	User      string
	Session   string
	Principal string // who started the run
	Expires   time.Time
}

// Identity is the caller that a capability stands for.
func (c Capability) Identity() Identity {
	return Identity{Principal: c.Principal, User: c.User, Roles: []Role{User}}
}

// Capabilities issues and checks the tokens of runs. A token is the text
//
//	hc1.<claims>.<signature>
//
// both base64url: JSON of the capability, and HMAC-SHA-256 over all before the last dot. It is signed, not encrypted:
// a run can read its own ids. The methods may be called from several goroutines.
type Capabilities struct {
	key []byte
	ttl time.Duration
}

const (
	capabilityPrefix = "hc1."
	capabilityUse    = "mcp-code-exec-harness run capability, version 1" // HKDF info: other uses of the secret get other keys
	maxCapability    = 4 << 10                                           // bytes of a token
)

var base64url = base64.RawURLEncoding

// NewCapabilities returns capabilities that live for ttl. All processes with the same secret accept each other's tokens;
// without a secret they end with the process.
func NewCapabilities(secret []byte, ttl time.Duration) (*Capabilities, error) {
	switch {
	case len(secret) == 0:
		secret = make([]byte, sha256.Size)
		rand.Read(secret) // never fails
	case len(secret) < MinSecret:
		return nil, fmt.Errorf("the secret has less than %d bytes; take what `openssl rand -base64 32` prints, or leave it empty", MinSecret)
	}
	if ttl <= 0 {
		return nil, errors.New("run capabilities need a positive lifetime")
	}
	key, err := hkdf.Key(sha256.New, secret, nil, capabilityUse, sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("derive the key of run capabilities: %w", err)
	}
	return &Capabilities{key: key, ttl: ttl}, nil
}

// capabilityClaims is a Capability inside a token.
type capabilityClaims struct {
	Run       string `json:"run"`
	User      string `json:"user"`
	Session   string `json:"session,omitempty"`
	Principal string `json:"principal,omitempty"`
	Expires   int64  `json:"exp"` // seconds since 1970
}

// Issue returns a token for a run and when it expires: after the lifetime of capabilities, or before, when c.Expires says so.
func (s *Capabilities) Issue(c Capability) (token string, expires time.Time, err error) {
	if c.RunID == "" || c.User == "" {
		return "", expires, errors.New("issue capability: it needs a run and a user")
	}
	expires = time.Now().Add(s.ttl)
	if !c.Expires.IsZero() && c.Expires.Before(expires) {
		expires = c.Expires
	}
	claims, err := json.Marshal(capabilityClaims{c.RunID, c.User, c.Session, c.Principal, expires.Unix()})
	if err != nil {
		return "", expires, fmt.Errorf("issue capability: %w", err)
	}
	body := capabilityPrefix + base64url.EncodeToString(claims)
	token = body + "." + string(s.sign(body))
	if len(token) > maxCapability {
		return "", expires, fmt.Errorf("issue capability: the ids are longer than %d bytes together", maxCapability)
	}
	return token, time.Unix(expires.Unix(), 0), nil
}

// Check returns what a token stands for. Errors wrap ErrCapability and never hold the token.
func (s *Capabilities) Check(token string) (Capability, error) {
	c, err := s.parse(token)
	switch {
	case err != nil:
		return Capability{}, fmt.Errorf("%w: %w", ErrCapability, err)
	case !time.Now().Before(c.Expires):
		return Capability{}, fmt.Errorf("%w: it has expired", ErrCapability)
	}
	return c, nil
}

// parse believes nothing before the signature is checked.
func (s *Capabilities) parse(token string) (Capability, error) {
	malformed := errors.New("it is malformed")
	if len(token) > maxCapability || !strings.HasPrefix(token, capabilityPrefix) {
		return Capability{}, malformed
	}
	dot := strings.LastIndexByte(token, '.')
	if dot < len(capabilityPrefix) {
		return Capability{}, malformed
	}
	if !hmac.Equal([]byte(token[dot+1:]), s.sign(token[:dot])) { // in constant time
		return Capability{}, errors.New("it was not issued here")
	}
	claims, err := base64url.DecodeString(token[len(capabilityPrefix):dot])
	if err != nil {
		return Capability{}, malformed
	}
	var c capabilityClaims
	d := json.NewDecoder(bytes.NewReader(claims))
	d.DisallowUnknownFields() // a later version would bind more than this one checks
	if d.Decode(&c) != nil || c.Run == "" || c.User == "" {
		return Capability{}, malformed
	}
	return Capability{c.Run, c.User, c.Session, c.Principal, time.Unix(c.Expires, 0).UTC()}, nil
}

// sign returns the signature in its encoded form: decoders accept several forms of the same bytes.
func (s *Capabilities) sign(body string) []byte {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(body))
	return base64url.AppendEncode(nil, mac.Sum(nil))
}

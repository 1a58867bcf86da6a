package auth

import (
	"bytes"
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
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

	mu      sync.Mutex
	revoked map[string]time.Time // by run: until when its tokens are refused, for then they have expired
	order   []string             // of revocation, and therefore of those times
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
	return &Capabilities{key: key, ttl: ttl, revoked: map[string]time.Time{}}, nil
}

// capabilityClaims is a Capability inside a token.
type capabilityClaims struct {
	Run       string `json:"run"`
	User      string `json:"user"`
	Session   string `json:"session,omitempty"`
	Principal string `json:"principal,omitempty"`
	Expires   int64  `json:"exp"` // seconds since 1970
}

// Issue returns a token for a run. It expires with the lifetime of capabilities, or before: when c.Expires is set, or
// ctx has a deadline.
func (s *Capabilities) Issue(ctx context.Context, c Capability) (string, error) {
	if c.RunID == "" || c.User == "" {
		return "", errors.New("issue capability: it needs a run and a user")
	}
	if s.isRevoked(c.RunID) {
		return "", fmt.Errorf("issue capability: run %s has ended", c.RunID)
	}
	expires := time.Now().Add(s.ttl)
	if !c.Expires.IsZero() && c.Expires.Before(expires) {
		expires = c.Expires
	}
	if d, ok := ctx.Deadline(); ok && d.Before(expires) {
		expires = d
	}
	claims, err := json.Marshal(capabilityClaims{c.RunID, c.User, c.Session, c.Principal, expires.Unix()})
	if err != nil {
		return "", fmt.Errorf("issue capability: %w", err)
	}
	body := capabilityPrefix + base64url.EncodeToString(claims)
	token := body + "." + string(s.sign(body))
	if len(token) > maxCapability {
		return "", fmt.Errorf("issue capability: the ids are longer than %d bytes together", maxCapability)
	}
	return token, nil
}

// Check returns what a token stands for. Errors wrap ErrCapability and never hold the token.
func (s *Capabilities) Check(token string) (Capability, error) {
	c, err := s.parse(token)
	switch {
	case err != nil:
		return Capability{}, fmt.Errorf("%w: %w", ErrCapability, err)
	case !time.Now().Before(c.Expires):
		return Capability{}, fmt.Errorf("%w: it has expired", ErrCapability)
	case s.isRevoked(c.RunID):
		return Capability{}, fmt.Errorf("%w: its run has ended", ErrCapability)
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

// Revoke ends all capabilities of a run that this process has issued or will see: call it when a run ends that Issue was
// called for. It is remembered as long as such a token can live.
func (s *Capabilities) Revoke(runID string) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.order) > 0 && now.After(s.revoked[s.order[0]]) {
		delete(s.revoked, s.order[0])
		s.order = s.order[1:]
	}
	if _, ok := s.revoked[runID]; ok {
		return
	}
	s.revoked[runID] = now.Add(s.ttl)
	s.order = append(s.order, runID)
}

func (s *Capabilities) isRevoked(runID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.revoked[runID]
	return ok
}

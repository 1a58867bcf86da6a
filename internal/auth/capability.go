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

// MinSecret is the minimum length of a configured secret in bytes: the holder of a capability could guess a shorter secret.
const MinSecret = 16

// Capability lets its holder call back over HTTP as a run. User and session are taken only from the capability, never from the rest of a request.
type Capability struct {
	RunID     string    `json:"run"`
	User      string    `json:"user"`
	Session   string    `json:"session,omitempty"`
	Principal string    `json:"principal,omitempty"` // caller who started the run
	Expires   time.Time `json:"exp"`
}

// Identity returns the caller that a capability stands for.
func (c Capability) Identity() Identity {
	return Identity{Principal: c.Principal, User: c.User, Roles: []Role{User}}
}

// Capabilities issues and checks the tokens of runs. A token is the text
//
//	hc1.<claims>.<signature>
//
// The claims are the Capability as JSON. The signature is HMAC-SHA-256 over the text before the last dot. Both are encoded as base64url. A token is signed,
// not encrypted, so a run can read its own ids. The methods of Capabilities are safe for concurrent use.
type Capabilities struct {
	key []byte
	ttl time.Duration
}

const (
	capabilityPrefix = "hc1."
	capabilityUse    = "mcp-code-exec-harness run capability, version 1" // HKDF info, so that other uses of the secret derive other keys
	maxCapability    = 4 << 10                                           // maximum size of a token in bytes
)

var base64url = base64.RawURLEncoding

// NewCapabilities returns Capabilities that issue tokens with the lifetime ttl. The tokens are valid in every process with the same secret. Without a
// secret, they are valid only in this process.
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

// Issue returns a token and its expiry: the end of the lifetime ttl, or c.Expires if that is earlier.
func (s *Capabilities) Issue(c Capability) (token string, expires time.Time, err error) {
	if c.RunID == "" || c.User == "" {
		return "", expires, errors.New("issue capability: it needs a run and a user")
	}
	expires = time.Now().Add(s.ttl)
	if c.Expires.IsZero() || c.Expires.After(expires) {
		c.Expires = expires
	}
	c.Expires = c.Expires.UTC().Truncate(time.Second)
	claims, err := json.Marshal(c)
	if err != nil {
		return "", expires, fmt.Errorf("issue capability: %w", err)
	}
	body := capabilityPrefix + base64url.EncodeToString(claims)
	token = body + "." + string(s.sign(body))
	if len(token) > maxCapability {
		return "", expires, fmt.Errorf("issue capability: the ids are longer than %d bytes together", maxCapability)
	}
	return token, c.Expires, nil
}

// Check returns the capability of a token. Errors wrap ErrCapability and never contain the token.
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

// parse decodes a token. It checks the signature before it decodes the claims.
func (s *Capabilities) parse(token string) (c Capability, err error) {
	malformed := errors.New("it is malformed")
	dot := strings.LastIndexByte(token, '.')
	if len(token) > maxCapability || !strings.HasPrefix(token, capabilityPrefix) || dot < len(capabilityPrefix) {
		return c, malformed
	}
	if !hmac.Equal([]byte(token[dot+1:]), s.sign(token[:dot])) { // a comparison in constant time
		return c, errors.New("it was not issued here")
	}
	claims, err := base64url.DecodeString(token[len(capabilityPrefix):dot])
	if err != nil {
		return c, malformed
	}
	d := json.NewDecoder(bytes.NewReader(claims))
	d.DisallowUnknownFields() // an unknown field of a later version may be a restriction
	if d.Decode(&c) != nil || c.RunID == "" || c.User == "" {
		return c, malformed
	}
	return c, nil
}

// sign returns the encoded signature. Comparing encoded signatures rejects other encodings of the same bytes.
func (s *Capabilities) sign(body string) []byte {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(body))
	return base64url.AppendEncode(nil, mac.Sum(nil))
}

package approval

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/netip"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/protocol/webauthncose"
)

// RegistrationLife is the time for which the link to register a security key is valid.
const RegistrationLife = 10 * time.Minute

// ErrRegistration reports a registration that does not exist or is no longer valid.
var ErrRegistration = errors.New("the link was used, has expired, or was replaced by another one: harness approvals security-keys add makes one")

// Algorithms lists the COSE algorithms that security keys may sign with, in order of preference.
var Algorithms = []int{int(webauthncose.AlgES256), int(webauthncose.AlgEdDSA), int(webauthncose.AlgRS256)}

// registrationSubject is the subject (see Records) of the registration; there is at most one registration at a time.
const registrationSubject = "registration of a security key"

// Registration is the registration of a security key in progress. A command in a terminal starts it, the dashboard adds the key, and in
// the terminal a person confirms the key with their passphrase. A stored registration alone approves nothing.
type Registration struct {
	Token   []byte       `json:"token"` // SHA-256 of the secret in the link
	Name    string       `json:"name"`
	Origin  string       `json:"origin"`
	Expires time.Time    `json:"expires"`
	Key     *SecurityKey `json:"key,omitempty"`
	MAC     []byte       `json:"mac,omitempty"` // MAC of Key, computed with the secret of the link, as proof that Key was added through the link
}

// BeginRegistration starts a registration and returns the secret for its link. The new registration replaces any earlier one.
func (p *Presence) BeginRegistration(ctx context.Context, name, origin string) (token string, err error) {
	if _, err := RPID(origin); err != nil {
		return "", err
	}
	token = rand.Text()
	sum := sha256.Sum256([]byte(token))
	return token, p.keepRegistration(ctx, &Registration{Token: sum[:], Name: name, Origin: origin, Expires: p.Now().Add(RegistrationLife)})
}

func (p *Presence) keepRegistration(ctx context.Context, r *Registration) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	records, err := p.Records()
	if err != nil {
		return err
	}
	return records.Confirm(ctx, registrationSubject, text)
}

// Registration returns the registration to which a link belongs; token is the secret in the link. If the link is no longer valid, the error wraps
// ErrRegistration.
func (p *Presence) Registration(ctx context.Context, token string) (*Registration, error) {
	if p == nil {
		return nil, ErrRegistration
	}
	records, err := p.Records()
	if err != nil {
		return nil, err
	}
	text, err := records.Confirmation(ctx, registrationSubject)
	if err != nil {
		return nil, err
	}
	var r Registration
	sum := sha256.Sum256([]byte(token))
	if text == nil || json.Unmarshal(text, &r) != nil || !hmac.Equal(r.Token, sum[:]) || !p.Now().Before(r.Expires) {
		return nil, ErrRegistration
	}
	return &r, nil
}

// RegistrationChallenge returns the challenge that a new security key of the principal signs. token is the secret in the link.
func RegistrationChallenge(token, principal string) []byte {
	return macOf(token, "challenge "+principal)
}

func macOf(token, text string) []byte {
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

// Attestation is the response of a security key to its registration.
type Attestation struct {
	ClientData []byte
	Object     []byte // attestation object of WebAuthn
}

// Register adds a principal's security key to the registration of a link. The key approves nothing until a person has confirmed it. The
// error wraps ErrRegistration or ErrAssertion.
func (p *Presence) Register(ctx context.Context, token, principal string, a Attestation) (SecurityKey, error) {
	r, err := p.Registration(ctx, token)
	switch {
	case err != nil:
		return SecurityKey{}, err
	case r.Key != nil:
		return SecurityKey{}, ErrRegistration
	}
	host, err := RPID(r.Origin)
	if err != nil {
		return SecurityKey{}, assertionError{err.Error()}
	}
	response := protocol.AuthenticatorAttestationResponse{
		AuthenticatorResponse: protocol.AuthenticatorResponse{ClientDataJSON: a.ClientData}, AttestationObject: a.Object,
	}
	parsed, err := response.Parse()
	if err != nil {
		return SecurityKey{}, assertionError{"it is malformed"}
	}
	challenge := base64.RawURLEncoding.EncodeToString(RegistrationChallenge(token, principal))
	if err := parsed.CollectedClientData.Verify(challenge, protocol.CreateCeremony, []string{r.Origin}, nil, nil, protocol.TopOriginExplicitVerificationMode, false); err != nil {
		return SecurityKey{}, assertionError{whyRefused(err)}
	}
	var params []protocol.CredentialParameter
	for _, alg := range Algorithms {
		params = append(params, protocol.CredentialParameter{Type: protocol.PublicKeyCredentialType, Algorithm: webauthncose.COSEAlgorithmIdentifier(alg)})
	}
	sum := sha256.Sum256(a.ClientData)
	object := parsed.AttestationObject
	// The manufacturer's attestation is not required, because a person confirms the key. Some keys send one anyway.
	if err := object.Verify(host, sum[:], true, true, nil, params, protocol.AttestationPolicy{}, protocol.SignaturePolicy{}); err != nil {
		return SecurityKey{}, assertionError{whyRefused(err)}
	}
	if _, err := webauthncose.ParsePublicKey(object.AuthData.AttData.CredentialPublicKey); err != nil {
		return SecurityKey{}, assertionError{"its public key is malformed"}
	}
	r.Key = &SecurityKey{
		ID: object.AuthData.AttData.CredentialID, Public: object.AuthData.AttData.CredentialPublicKey, Principal: principal,
		Name: r.Name, Origin: r.Origin, Added: p.Now().UTC().Truncate(time.Second), Counter: object.AuthData.Counter,
	}
	text, err := json.Marshal(r.Key)
	if err != nil {
		return SecurityKey{}, err
	}
	r.MAC = macOf(token, string(text))
	return *r.Key, p.keepRegistration(ctx, r)
}

// Registered returns the key that was added to the registration of a link, or nil if there is none yet. It returns an error if the key was
// added without the link's secret or for another origin.
func (p *Presence) Registered(ctx context.Context, token, origin string) (*SecurityKey, error) {
	r, err := p.Registration(ctx, token)
	if err != nil || r.Key == nil {
		return nil, err
	}
	text, err := json.Marshal(r.Key)
	if err != nil {
		return nil, err
	}
	if !hmac.Equal(r.MAC, macOf(token, string(text))) || r.Key.Origin != origin {
		return nil, errors.New("the security key in the store was not put there by the page of the link")
	}
	return r.Key, nil
}

// isAddress reports whether a host is an IP address.
func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

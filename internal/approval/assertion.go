package approval

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
)

// ErrAssertion reports a rejected response of a security key. Such errors also match ErrUnconfirmed.
var ErrAssertion = errors.New("the answer of the security key was refused")

// assertionError is the reason why a response is rejected.
type assertionError struct{ why string }

func (e assertionError) Error() string { return ErrAssertion.Error() + ": " + e.why }

// Is makes the error match ErrAssertion and ErrUnconfirmed.
func (e assertionError) Is(target error) bool {
	return target == ErrAssertion || target == ErrUnconfirmed
}

// Assertion is the response of a security key that approves one or more requests. A request that is approved by an Assertion needs no
// signature of the SealedKey.
type Assertion struct {
	Key           []byte   `json:"key"` // ID of the security key
	Nonce         []byte   `json:"nonce"`
	Statements    [][]byte `json:"statements"` // SHA-256 of the statement of each approved request
	ClientData    []byte   `json:"clientData"` // the browser's JSON with challenge and origin
	Authenticator []byte   `json:"authenticatorData"`
	Signature     []byte   `json:"signature"`
}

// Challenge returns what a security key signs: a hash of everything that is approved, of who approves it, and when.
func Challenge(by string, at time.Time, nonce []byte, statements [][]byte) []byte {
	text, _ := json.Marshal(struct { // Strings, bytes and a number always encode.
		Purpose, By       string
		Time              int64
		Nonce             []byte
		StatementsOfCalls [][]byte
	}{"harness: approve calls with a security key", by, at.UnixMicro(), nonce, statements})
	sum := sha256.Sum256(text)
	return sum[:]
}

// Stated returns the hash of the statement that approves r, for a decision by a security key. r must be a result of Decision.Signed.
func (r Request) Stated() []byte {
	sum := sha256.Sum256(r.statement(r.Signature.Shown))
	return sum[:]
}

// RPID returns the WebAuthn relying party ID of an origin, which is its host. The error is the reason why security keys cannot be used there.
func RPID(origin string) (string, error) {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || origin != u.Scheme+"://"+u.Host || u.Scheme != "https" && !(u.Scheme == "http" && u.Hostname() == "localhost") {
		return "", fmt.Errorf("browsers use security keys on pages at https:// and at http://localhost only, and %q is neither", origin)
	}
	if isAddress(u.Hostname()) {
		return "", fmt.Errorf("browsers use no security keys on pages at an IP address, as in %q: use the name of the host", origin)
	}
	return u.Hostname(), nil
}

// verifyAssertion checks the response of a security key to a question. The argument by is the principal who was asked, and at is the time of the
// question. verifyAssertion does not check which requests the response approves. It returns the key, and the signature counter that the response
// contains. The error for an invalid response wraps ErrAssertion.
func (p *Presence) verifyAssertion(ctx context.Context, by string, at time.Time, a *Assertion) (key SecurityKey, counter uint32, err error) {
	all, err := p.SecurityKeys(ctx)
	if err != nil {
		return key, 0, err
	}
	i := slices.IndexFunc(all, func(k SecurityKey) bool { return string(k.ID) == string(a.Key) })
	if i < 0 || all[i].Principal != by {
		return key, 0, assertionError{"no security key of this caller is registered that has signed it"}
	}
	key = all[i]
	host, err := RPID(key.Origin)
	if err != nil {
		return key, 0, assertionError{err.Error()}
	}
	id := base64.RawURLEncoding.EncodeToString(a.Key)
	parsed, err := protocol.CredentialAssertionResponse{
		PublicKeyCredential: protocol.PublicKeyCredential{Credential: protocol.Credential{ID: id, Type: string(protocol.PublicKeyCredentialType)}, RawID: a.Key},
		AssertionResponse: protocol.AuthenticatorAssertionResponse{
			AuthenticatorResponse: protocol.AuthenticatorResponse{ClientDataJSON: a.ClientData}, AuthenticatorData: a.Authenticator, Signature: a.Signature,
		},
	}.Parse()
	if err != nil {
		return key, 0, assertionError{"it is malformed"}
	}
	challenge := base64.RawURLEncoding.EncodeToString(Challenge(by, at, a.Nonce, a.Statements))
	err = parsed.Verify(challenge, host, "", []string{key.Origin}, nil, nil, protocol.TopOriginExplicitVerificationMode, false, true, true, key.Public, protocol.SignaturePolicy{})
	if err != nil {
		return key, 0, assertionError{whyRefused(err)}
	}
	return key, parsed.Response.AuthenticatorData.Counter, nil
}

// whyRefused describes why the library rejected a response. The library's own messages are not used, because they may quote what was sent.
func whyRefused(err error) string {
	var e *protocol.Error
	if !errors.As(err, &e) {
		return "it is malformed"
	}
	return cmp.Or(map[string]string{
		"Error validating challenge": "it is for something else", "Error validating origin": "it was given to a page at another address than the one where the key is registered",
		"Error validating ceremony type": "it is no answer to a question", "Error validating cross origin flag": "it was given to a page within another one",
	}[e.Details], "its signature, its key or the check of the user does not hold")
}

// TakeAssertion verifies the response of a security key. If the key has a counter, TakeAssertion stores it. Call TakeAssertion before the
// response is used as a decision. The error wraps ErrAssertion if the response is not valid, or if the counter is not above the stored one. In
// the second case a copy of the key may exist.
func (p *Presence) TakeAssertion(ctx context.Context, by string, at time.Time, a *Assertion) error {
	key, counter, err := p.verifyAssertion(ctx, by, at, a)
	if err != nil || counter == 0 && key.Counter == 0 { // Keys that several devices share, such as passkeys, have no counter.
		return err
	}
	records, err := p.Records()
	if err != nil {
		return err
	}
	advanced, err := records.Advance(ctx, "counter of "+hex.EncodeToString(key.ID), counter)
	if err == nil && (!advanced || counter <= key.Counter) {
		err = assertionError{"its counter is not above the last one, so the key may have been copied: remove it (harness approvals security-keys remove " + key.Code() + "), and register another"}
	}
	return err
}

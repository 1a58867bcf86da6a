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

// ErrAssertion reports an answer of a security key that is not accepted. Such errors are ErrUnconfirmed too.
var ErrAssertion = errors.New("the answer of the security key was refused")

// assertionError says why an answer is refused.
type assertionError struct{ why string }

func (e assertionError) Error() string { return ErrAssertion.Error() + ": " + e.why }

// Is makes it an ErrAssertion and an ErrUnconfirmed.
func (e assertionError) Is(target error) bool {
	return target == ErrAssertion || target == ErrUnconfirmed
}

// Assertion is the answer of a security key, which approves one request or several. It takes the place of the signature by the key that the passphrase opens.
type Assertion struct {
	Key           []byte   `json:"key"` // id of the security key
	Nonce         []byte   `json:"nonce"`
	Statements    [][]byte `json:"statements"` // SHA-256 of the statement of each request that it approves
	ClientData    []byte   `json:"clientData"` // the browser's JSON with challenge and origin
	Authenticator []byte   `json:"authenticatorData"`
	Signature     []byte   `json:"signature"`
}

// Challenge is what a security key signs. It is a hash of all that is approved, of who approves it and when.
func Challenge(by string, at time.Time, nonce []byte, statements [][]byte) []byte {
	text, _ := json.Marshal(struct { // strings and a number
		Purpose, By       string
		Time              int64
		Nonce             []byte
		StatementsOfCalls [][]byte
	}{"harness: approve calls with a security key", by, at.UnixMicro(), nonce, statements})
	sum := sha256.Sum256(text)
	return sum[:]
}

// Stated is the hash of what an approval of r states, for a decision by a security key; r is as Signed leaves it.
func (r Request) Stated() []byte {
	sum := sha256.Sum256(r.statement(r.Signature.Shown))
	return sum[:]
}

// RPID is the relying party of an origin, as WebAuthn has it: its host. The error says why security keys cannot be used there.
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

// verifyAssertion checks the answer of a security key of a principal at a time, whichever requests it is for, and returns the key and its counter. An error for
// an answer that does not hold wraps ErrAssertion.
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

// whyRefused says in words what the library does not accept. Its own texts can have what was sent.
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

// TakeAssertion checks the answer of a security key before it decides something, and counts it. The error wraps ErrAssertion, also for an answer whose counter
// says that there is a second key with the same secret.
func (p *Presence) TakeAssertion(ctx context.Context, by string, at time.Time, a *Assertion) error {
	key, counter, err := p.verifyAssertion(ctx, by, at, a)
	if err != nil || counter == 0 && key.Counter == 0 { // keys without a counter, such as passkeys of several devices
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

package api

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"time"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/telemetry"
)

// Confirming describes how the approvals of a caller are confirmed.
type Confirming struct {
	Required bool          `json:"required" doc:"Approvals have to be confirmed by a person."`
	Keys     []SecurityKey `json:"keys" doc:"The caller's security keys."`
}

// SecurityKey is a security key of the caller.
type SecurityKey struct {
	Code   string    `json:"code" doc:"Identifies it." example:"ABCD-EFGH-IJKL"`
	Name   string    `json:"name"`
	Origin string    `json:"origin" doc:"The address of the dashboard where it approves." example:"https://harness.example.com"`
	Added  time.Time `json:"addedAt"`
}

// NewQuestion selects the approval requests that a security key is asked to approve.
type NewQuestion struct {
	_        struct{}      `additionalProperties:"true"`
	Origin   string        `json:"origin" maxLength:"300" doc:"The origin of the page that asks." example:"https://harness.example.com"`
	Requests []SeenRequest `json:"requests" minItems:"1" maxItems:"100"`
	Remember bool          `json:"remember,omitempty" doc:"Later calls of the same tools in the same task, or run, are not asked about."`
}

// SeenRequest is an approval request with the digest of what the person was shown.
type SeenRequest struct {
	ID     string `json:"id" maxLength:"100"`
	Digest string `json:"digest" maxLength:"100"`
}

// Question is the challenge to a security key.
type Question struct {
	Batch     string            `json:"batch" doc:"Goes back with the answer."`
	Expires   time.Time         `json:"expiresAt" doc:"2 minutes from now."`
	PublicKey CredentialRequest `json:"publicKey" doc:"PublicKeyCredentialRequestOptionsJSON, as WebAuthn has it."`
}

// CredentialRequest holds the options of navigator.credentials.get.
type CredentialRequest struct {
	Challenge        string          `json:"challenge" doc:"In base64url, as are all ids."`
	RPID             string          `json:"rpId"`
	AllowCredentials []CredentialRef `json:"allowCredentials"`
	UserVerification string          `json:"userVerification" enum:"required"`
	Timeout          int64           `json:"timeout" doc:"Milliseconds."`
}

// CredentialRef names a credential.
type CredentialRef struct {
	ID   string `json:"id"`
	Type string `json:"type" enum:"public-key"`
}

// NewAnswer is the answer of a security key.
type NewAnswer struct {
	_          struct{}      `additionalProperties:"true"`
	Batch      string        `json:"batch" maxLength:"16384"`
	Credential KeyCredential `json:"credential" doc:"The credential of navigator.credentials.get as JSON; bytes are in base64url."`
}

// KeyCredential is the credential that signed an answer.
type KeyCredential struct {
	_        struct{}     `additionalProperties:"true"`
	ID       string       `json:"id" maxLength:"2048"`
	Response KeyAssertion `json:"response"`
}

// KeyAssertion is the signed response of a credential.
type KeyAssertion struct {
	_                 struct{} `additionalProperties:"true"`
	ClientDataJSON    string   `json:"clientDataJSON" maxLength:"8192"`
	AuthenticatorData string   `json:"authenticatorData" maxLength:"4096"`
	Signature         string   `json:"signature" maxLength:"4096"`
}

// AnsweredList lists the results of the requests that a security key was asked to approve.
type AnsweredList struct {
	Approvals []Answered `json:"approvals"`
}

// Answered is the result of one request.
type Answered struct {
	ID       string `json:"id"`
	Approved bool   `json:"approved"`
	Problem  string `json:"problem,omitempty" doc:"Why it is not approved."`
}

// NewRegistration is the request to register a security key.
type NewRegistration struct {
	_            struct{} `additionalProperties:"true"`
	Registration string   `json:"registration" maxLength:"100" doc:"The secret of the link that harness approvals security-keys add prints."`
}

// CredentialCreation holds the options of navigator.credentials.create.
type CredentialCreation struct {
	Challenge              string          `json:"challenge" doc:"In base64url, as are all ids."`
	RP                     Named           `json:"rp"`
	User                   Named           `json:"user"`
	PubKeyCredParams       []CredentialAlg `json:"pubKeyCredParams"`
	ExcludeCredentials     []CredentialRef `json:"excludeCredentials"`
	AuthenticatorSelection KeySelection    `json:"authenticatorSelection"`
	Attestation            string          `json:"attestation" enum:"none"`
	Timeout                int64           `json:"timeout" doc:"Milliseconds."`
}

// KeySelection restricts which keys can be registered.
type KeySelection struct {
	UserVerification string `json:"userVerification" enum:"required"`
	ResidentKey      string `json:"residentKey" enum:"discouraged"`
}

// Named is a relying party or a user.
type Named struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	DisplayName string `json:"displayName,omitempty"`
}

// CredentialAlg is an algorithm that a key may sign with.
type CredentialAlg struct {
	Type string `json:"type" enum:"public-key"`
	Alg  int    `json:"alg"`
}

// Registering is the challenge to a new security key.
type Registering struct {
	Origin    string             `json:"origin" doc:"The address of the dashboard where it is registered."`
	Name      string             `json:"name"`
	PublicKey CredentialCreation `json:"publicKey" doc:"PublicKeyCredentialCreationOptionsJSON, as WebAuthn has it."`
}

// NewSecurityKey is the answer of a new security key.
type NewSecurityKey struct {
	_            struct{}         `additionalProperties:"true"`
	Registration string           `json:"registration" maxLength:"100"`
	Credential   NewKeyCredential `json:"credential" doc:"The credential of navigator.credentials.create as JSON; bytes are in base64url."`
}

// NewKeyCredential is the credential of a new security key.
type NewKeyCredential struct {
	_        struct{}       `additionalProperties:"true"`
	Response KeyAttestation `json:"response"`
}

// KeyAttestation contains the public key of a new credential.
type KeyAttestation struct {
	_                 struct{} `additionalProperties:"true"`
	ClientDataJSON    string   `json:"clientDataJSON" maxLength:"8192"`
	AttestationObject string   `json:"attestationObject" maxLength:"32768"`
}

// Registered is a registered security key that a person has not confirmed yet.
type Registered struct {
	Code string `json:"code" doc:"The terminal shows the same."`
}

const (
	publicKey      = "public-key"
	userVerified   = "required" // the key verifies its user, by a PIN or a fingerprint
	keyAnswersIn   = 2 * time.Minute
	registersKeyIn = 5 * time.Minute
)

// text64 encodes bytes in base64url, as WebAuthn does in JSON.
func text64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// bytes64 decodes fields in base64url.
func bytes64(fields ...string) (all [][]byte, err error) {
	for _, field := range fields {
		b, err := base64.RawURLEncoding.DecodeString(field)
		if err != nil {
			return nil, problem(http.StatusBadRequest, "a field of credential is not in base64url")
		}
		all = append(all, b)
	}
	return all, nil
}

// questionOf converts a challenge to security keys into the form that web pages get.
func questionOf(q approval.Question) Question {
	return Question{
		Batch: q.Batch, Expires: q.Expires,
		PublicKey: CredentialRequest{text64(q.Challenge), q.RPID, refs(q.Keys), userVerified, keyAnswersIn.Milliseconds()},
	}
}

// assertion decodes the answer of a security key.
func (n NewAnswer) assertion() (a approval.Assertion, err error) {
	fields, err := bytes64(n.Credential.ID, n.Credential.Response.ClientDataJSON, n.Credential.Response.AuthenticatorData, n.Credential.Response.Signature)
	if err != nil {
		return a, err
	}
	return approval.Assertion{Key: fields[0], ClientData: fields[1], Authenticator: fields[2], Signature: fields[3]}, nil
}

func refs(ids [][]byte) []CredentialRef {
	all := []CredentialRef{}
	for _, id := range ids {
		all = append(all, CredentialRef{text64(id), publicKey})
	}
	return all
}

func approver(ctx context.Context) error { return identity(ctx).Require(auth.Approver) }

func (a *API) addSecurityKeys() {
	presence := a.opt.Harness.Presence

	operation(a, endpoint{
		"getConfirming", "GET /v1/security-keys", "approvals", http.StatusOK, "How approvals are confirmed, with the caller's security keys",
		"A security key is registered with `harness approvals security-keys add`, which asks for the passphrase.",
	}, func(ctx context.Context, _ *struct{}) (*body[Confirming], error) {
		needed, err := presence().Required(ctx)
		if err != nil {
			return nil, err
		}
		keys, err := presence().SecurityKeysOf(ctx, identity(ctx).Principal)
		out := &body[Confirming]{Confirming{Required: needed, Keys: []SecurityKey{}}}
		for _, k := range keys {
			out.Body.Keys = append(out.Body.Keys, SecurityKey{k.Code(), k.Name, k.Origin, k.Added})
		}
		return out, err
	})

	operation(a, endpoint{
		"askSecurityKey", "POST /v1/approvals/questions", "approvals", http.StatusOK, "Ask the caller's security key to approve requests",
		"Takes the role approver. The answer is for these requests as they are now, within 2 minutes, once.",
	}, func(ctx context.Context, in *struct{ Body NewQuestion }) (*body[Question], error) {
		var chosen []runs.Seen
		for _, r := range in.Body.Requests {
			chosen = append(chosen, runs.Seen(r))
		}
		q, err := a.opt.Harness.Runs().Ask(ctx, identity(ctx), in.Body.Origin, chosen, in.Body.Remember)
		if err != nil {
			return nil, ownApproval(err)
		}
		return &body[Question]{questionOf(q)}, nil
	})

	operation(a, endpoint{
		"answerSecurityKey", "POST /v1/approvals/answers", "approvals", http.StatusOK, "Approve by the answer of a security key",
		"Takes the role approver. Every request is approved by itself: one that was decided meanwhile stops no other.",
	}, func(ctx context.Context, in *struct{ Body NewAnswer }) (*body[AnsweredList], error) {
		given, err := in.Body.assertion()
		if err != nil {
			return nil, err
		}
		all, err := a.opt.Harness.Runs().Answer(ctx, identity(ctx), in.Body.Batch, given)
		if err != nil {
			return nil, ownApproval(err)
		}
		out := &body[AnsweredList]{AnsweredList{[]Answered{}}}
		for _, of := range all {
			one := Answered{ID: of.Request.ID, Approved: of.Err == nil}
			if of.Err != nil {
				one.Problem = a.fail(ctx, ownApproval(of.Err)).Error()
			} else {
				a.opt.Tasks.Decided(of.Request.Task)
			}
			out.Body.Approvals = append(out.Body.Approvals, one)
		}
		return out, nil
	})

	operation(a, endpoint{
		"beginSecurityKey", "POST /v1/security-keys/questions", "approvals", http.StatusOK, "Ask a new security key to register itself",
		"Takes the role approver, and the secret of a link that `harness approvals security-keys add` prints.",
	}, func(ctx context.Context, in *struct{ Body NewRegistration }) (*body[Registering], error) {
		if err := approver(ctx); err != nil {
			return nil, err
		}
		r, err := presence().Registration(ctx, in.Body.Registration)
		if err != nil {
			return nil, registration(err)
		}
		host, err := approval.RPID(r.Origin)
		if err != nil {
			return nil, err
		}
		who := identity(ctx)
		keys, err := presence().SecurityKeysOf(ctx, who.Principal)
		if err != nil {
			return nil, err
		}
		var known [][]byte
		for _, k := range keys {
			known = append(known, k.ID)
		}
		user := sha256.Sum256([]byte(who.Principal))
		options := CredentialCreation{
			Challenge: text64(approval.RegistrationChallenge(in.Body.Registration, who.Principal)), RP: Named{ID: host, Name: "harness"},
			User: Named{text64(user[:]), who.Caller(), who.Caller()}, ExcludeCredentials: refs(known), Attestation: "none", Timeout: registersKeyIn.Milliseconds(),
			AuthenticatorSelection: KeySelection{userVerified, "discouraged"},
		}
		for _, alg := range approval.Algorithms {
			options.PubKeyCredParams = append(options.PubKeyCredParams, CredentialAlg{publicKey, alg})
		}
		return &body[Registering]{Registering{r.Origin, r.Name, options}}, nil
	})

	operation(a, endpoint{
		"registerSecurityKey", "POST /v1/security-keys", "approvals", http.StatusOK, "Register a security key",
		"Takes the role approver. The key approves nothing before a person has confirmed it with their passphrase, at the terminal that has printed the link.",
	}, func(ctx context.Context, in *struct{ Body NewSecurityKey }) (*body[Registered], error) {
		if err := approver(ctx); err != nil {
			return nil, err
		}
		fields, err := bytes64(in.Body.Credential.Response.ClientDataJSON, in.Body.Credential.Response.AttestationObject)
		if err != nil {
			return nil, err
		}
		key, err := presence().Register(ctx, in.Body.Registration, identity(ctx).Principal, approval.Attestation{ClientData: fields[0], Object: fields[1]})
		if err != nil {
			return nil, registration(err)
		}
		a.audit(ctx, telemetry.Event{
			Type: telemetry.KeyChange, Severity: telemetry.Medium, UserID: identity(ctx).User,
			Details: map[string]any{"key": "security key", "code": key.Code(), "origin": key.Origin, "change": "registered, not confirmed"},
		})
		return &body[Registered]{Registered{key.Code()}}, nil
	})
}

// registration returns the problem for a registration that is refused. It returns other errors unchanged.
func registration(err error) error {
	if errors.Is(err, approval.ErrRegistration) {
		return problem(http.StatusForbidden, err.Error())
	}
	return err
}

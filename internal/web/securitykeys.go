package web

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"mcp-code-exec-harness/internal/api"
)

// confirming tells how the reader can confirm approvals on this page.
type confirming struct {
	Required  bool
	Here      bool     // reports whether a security key of the reader works at this address
	Elsewhere []string // addresses of the same page at which a security key of the reader works
	Command   string   // command that asks for the passphrase at a terminal
}

// confirming finds out how the reader can confirm approvals. command is the command that confirms them at a terminal.
func (v *visit) confirming(command string) (c confirming, err error) {
	c.Command = command
	got, err := read[api.Confirming](v, "/v1/security-keys")
	c.Required = got.Required
	for _, k := range got.Keys {
		if u, err := url.Parse(k.Origin); err == nil && strings.EqualFold(u.Host, v.r.Host) {
			c.Here = true
		} else {
			c.Elsewhere = append(c.Elsewhere, k.Origin+v.r.URL.Path)
		}
	}
	return c, err
}

// Offers reports whether the page has a button to approve.
func (c confirming) Offers() bool { return !c.Required || c.Here }

// seen returns the digests of the requests that the page has shown. Each field named seen contains "ID DIGEST".
func (v *visit) seen() (all []api.SeenRequest) {
	for _, field := range v.r.PostForm["seen"] {
		id, digest, _ := strings.Cut(field, " ")
		all = append(all, api.SeenRequest{ID: id, Digest: digest})
	}
	return all
}

// askSecurityKey answers the script with the challenge that a security key has to sign to approve requests.
func (v *visit) askSecurityKey() error {
	return v.relay("/v1/approvals/questions", api.NewQuestion{Origin: v.form("origin"), Requests: v.seen(), Remember: v.form("remember") != ""})
}

// beginSecurityKey answers the script with the challenge for the registration of a new security key.
func (v *visit) beginSecurityKey() error {
	return v.relay("/v1/security-keys/questions", api.NewRegistration{Registration: v.form("registration")})
}

// relay sends a request to the API and passes the answer to a script of the page.
func (v *visit) relay(path string, body any) error {
	var got json.RawMessage
	err := v.send(http.MethodPost, path, body, &got)
	status := http.StatusOK
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		status = refused.Status
		got, err = json.Marshal(map[string]string{"detail": refused.Error()})
		if err != nil {
			return err
		}
	case err != nil:
		return err
	}
	v.w.Header().Set("Content-Type", "application/json")
	v.w.WriteHeader(status)
	_, _ = v.w.Write(got) // the browser may be gone
	return nil
}

// approveBySecurityKey approves the requests that a security key has confirmed.
func (v *visit) approveBySecurityKey() (all []api.Answered, err error) {
	if !json.Valid([]byte(v.form("credential"))) {
		return nil, &refusal{Status: http.StatusBadRequest, Detail: "the answer of the security key is no JSON"}
	}
	var got api.AnsweredList
	err = v.send(http.MethodPost, "/v1/approvals/answers", map[string]any{"batch": v.form("batch"), "credential": json.RawMessage(v.form("credential"))}, &got)
	return got.Approvals, err
}

// newSecurityKey shows the page whose address harness approvals security-keys add prints.
func (v *visit) newSecurityKey() error {
	return v.show("securitykey", view{Title: "Register a security key", Nav: "approvals", Body: map[string]string{"Registration": v.query("registration")}})
}

// registerSecurityKey registers the key that the script created, and shows its code.
func (v *visit) registerSecurityKey() error {
	var got api.Registered
	if !json.Valid([]byte(v.form("credential"))) {
		return &refusal{Status: http.StatusBadRequest, Detail: "registering a security key needs JavaScript"}
	}
	err := v.send(http.MethodPost, "/v1/security-keys", map[string]any{"registration": v.form("registration"), "credential": json.RawMessage(v.form("credential"))}, &got)
	if err != nil {
		return err
	}
	return v.show("securitykey", view{Title: "Register a security key", Nav: "approvals", Body: map[string]string{"Code": got.Code}})
}

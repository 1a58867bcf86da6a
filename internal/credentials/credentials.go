// Package credentials provides the credentials of requests to upstream servers: OAuth tokens, the output of a command, or a key for each user.
// No part of a credential is logged or contained in an error.
package credentials

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"mcp-code-exec-harness/internal/clip"
)

// Source provides the header that authorizes requests to one server. Its methods are safe for concurrent use.
type Source interface {
	// Header returns the name and the value of the header for requests of a user, a [*NeedsLogin] if a person has to log in first, or another
	// error if the credential is not available at the moment.
	Header(ctx context.Context, user string) (name, value string, err error)
	// Refused is called after the server answered 401 or 403 to a request with the given header value. If Refused returns nil, the caller sends
	// the request again, with a new header. again reports whether the refused request was itself sent after a refusal. The error is a
	// [*NeedsLogin] if a person has to log in, and [ErrNotMeant] if the refusal is not about the credential. Any other error is the reason why
	// there is no other credential.
	Refused(ctx context.Context, user, value string, again bool, status int, answer http.Header) error
}

// ErrNotMeant means that a server refused a request for a reason other than the credential, so that another credential would not help.
var ErrNotMeant = errors.New("the server refuses what the credential permits")

// NeedsLogin means that a person has to log in before a server can be used. Its text is also for programs and models.
type NeedsLogin struct {
	Server string
	Scopes []string // scopes for the login, if the server named any
	Reason string   // why an earlier login is not enough, for the operator; may be empty
}

// Error returns how to log in.
func (e *NeedsLogin) Error() string {
	name := e.Server
	if strings.Contains(name, " ") {
		name = "'" + name + "'"
	}
	text := "needs login: harness servers login " + name
	if len(e.Scopes) > 0 {
		text += " (scopes: " + strings.Join(e.Scopes, " ") + ")"
	}
	return text
}

const (
	maxScopes = 64  // maximum number of scopes of one server
	maxScope  = 128 // maximum bytes of a scope
	maxSaid   = 200 // maximum bytes of a server's text in an error
)

// scopes returns the valid scopes in a server's list (RFC 6749, section 3.3).
func scopes(text string) (list []string) {
	for scope := range strings.FieldsSeq(clip.Text(text, maxScopes*maxScope)) {
		if len(list) == maxScopes {
			return list
		}
		if len(scope) <= maxScope && strings.IndexFunc(scope, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }) < 0 {
			list = append(list, scope)
		}
	}
	return list
}

// joined returns the scopes of two lists without repetition, at most maxScopes.
func joined(list []string, more ...string) []string {
	seen := map[string]bool{}
	var all []string
	for _, scope := range append(append([]string{}, list...), more...) {
		if !seen[scope] && len(all) < maxScopes {
			seen[scope] = true
			all = append(all, scope)
		}
	}
	return all
}

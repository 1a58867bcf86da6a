// Package credentials gives requests to upstream servers what authorizes them: OAuth tokens, what a command prints, or a key of each
// user. Nothing of it is logged, and no error holds a part of it.
package credentials

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"mcp-code-exec-harness/internal/clip"
)

// Source gives the header that authorizes requests to one server. Its methods are safe for concurrent use.
type Source interface {
	// Header returns the name and the value of the header for requests of a user, a [*NeedsLogin] if a person has to log in
	// first, or another error if the credential cannot be had at the moment.
	Header(ctx context.Context, user string) (name, value string, err error)
	// Refused tells that the server answered 401 or 403 to a request with a value. Without an error the request is to be sent
	// again, with a new header; again says that it was already. A [*NeedsLogin] says that a person has to log in, [ErrNotMeant] that the
	// refusal has nothing to do with the credential; any other error says why there is no other credential.
	Refused(ctx context.Context, user, value string, again bool, status int, answer http.Header) error
}

// ErrNotMeant reports a refusal that no other credential would change.
var ErrNotMeant = errors.New("the server refuses what the credential permits")

// NeedsLogin reports that a person has to log in before a server can be used. Its text is for programs and models, too.
type NeedsLogin struct {
	Server string
	Scopes []string // scopes for the login, if the server named any
	Reason string   // for the operator: why an earlier login does not do; may be empty
}

// Error says how to log in.
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
	maxScopes = 64  // most scopes of one server
	maxScope  = 128 // bytes of one
	maxSaid   = 200 // bytes of what a server says of an error
)

// scopes are the valid ones of a list as servers write it (RFC 6749, section 3.3).
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

// joined is a list of scopes with those of another that it lacks.
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

// Package auth authenticates the senders of requests, by API keys, JWTs of an OpenID Connect issuer, and capabilities of runs. It decides what the
// senders may do, by roles and rate limits. It does not know tasks or tools.
package auth

import (
	"errors"
	"fmt"
	"slices"
)

// Errors of this package wrap one of these errors if the fault is the caller's or the issuer's.
var (
	ErrUnauthenticated = errors.New("not authenticated")               // HTTP 401, with the header that Challenge returns
	ErrForbidden       = errors.New("not allowed")                     // HTTP 403
	ErrUnavailable     = errors.New("authentication is not available") // HTTP 503: the issuer does not answer
	ErrCapability      = errors.New("invalid auth token")              // HTTP 403, for the token of a run, see Capabilities
)

// Role is a set of permissions.
type Role string

// The roles. Admin includes the permissions of all others. No key has the role Anonymous.
const (
	Anonymous Role = "anonymous" // POST /task and /task/stream, on a harness without keys
	User      Role = "user"      // own tasks, runs, sessions and skills
	Approver  Role = "approver"  // permissions of User, and approvals
	Admin     Role = "admin"     // all permissions: also servers, keys, other users, metrics
)

// ParseRole returns the role with the given name.
func ParseRole(name string) (Role, error) {
	switch r := Role(name); r {
	case User, Approver, Admin:
		return r, nil
	default:
		return "", fmt.Errorf("unknown role %q; there are user, approver and admin", name)
	}
}

// Principals that are not API keys.
const (
	local      = "local" // principal of every caller of a harness without keys, whatever user a request names
	oidcPrefix = "oidc:" // prefix of the subject of a JWT, so that no subject can pass for an API key or for local
)

// Identity is the sender of a request. The zero value has no permissions.
type Identity struct {
	// Principal is the authenticated credential: "key_…" for an API key, "oidc:" and the subject of a JWT, or "local".
	Principal string
	User      string // the user that the sender acts for; empty for any user
	Roles     []Role
}

// Local returns the identity of the user of this machine, an admin.
func Local() Identity {
	return Identity{Principal: local, Roles: []Role{User, Approver, Admin}}
}

// Caller returns the name under which limits count requests: the user that the credential is bound to, else the principal.
func (i Identity) Caller() string {
	if i.User != "" {
		return "user:" + i.User
	}
	return i.Principal
}

// May reports whether the identity has the permissions of a role.
func (i Identity) May(role Role) bool {
	return slices.Contains(i.Roles, role) || slices.Contains(i.Roles, Admin) ||
		role == User && slices.Contains(i.Roles, Approver)
}

// Require returns an error that wraps ErrForbidden unless the identity has the permissions of a role.
func (i Identity) Require(role Role) error {
	if i.May(role) {
		return nil
	}
	if slices.Contains(i.Roles, Anonymous) {
		return errNoLocalToken
	}
	return roleError{role}
}

// roleError reports a role that an identity lacks.
type roleError struct{ role Role }

func (e roleError) Error() string { return fmt.Sprintf("role %q required", string(e.role)) }

// Is makes a roleError match ErrForbidden.
func (e roleError) Is(target error) bool { return target == ErrForbidden }

// ActFor returns an error that wraps ErrForbidden unless the identity may act for the user. Admins may act for every user.
func (i Identity) ActFor(user string) error {
	switch {
	case !i.May(User) && !i.May(Anonymous):
		return i.Require(User)
	case i.User == "" || i.User == user || i.May(Admin):
		return nil
	default:
		return fmt.Errorf("%w: the credential belongs to another user", ErrForbidden)
	}
}

package policy

import (
	"fmt"
	"slices"

	"mcp-code-exec-harness/internal/auth"
)

// Callers selects callers by their user and their roles. The user must match one of the patterns, and the caller must have one of the roles. An empty
// list of patterns or of roles selects all.
type Callers struct {
	users patterns
	roles []string
}

// NewCallers compiles patterns of users and checks roles. The error names a role that does not exist.
func NewCallers(users, roles []string) (Callers, error) {
	c := Callers{roles: roles}
	for _, text := range users {
		c.users = append(c.users, exactPattern(text))
	}
	return c, checkRoles(roles)
}

func checkRoles(roles []string) error {
	for _, text := range roles {
		if _, err := auth.ParseRole(text); err != nil && auth.Role(text) != auth.Anonymous {
			return fmt.Errorf("%q is not one of user, approver, admin, anonymous", text)
		}
	}
	return nil
}

// Have reports whether a caller is selected. Unknown roles (nil) match every list of roles.
func (c Callers) Have(user string, roles []auth.Role) bool {
	if len(c.users) > 0 && !c.users.match(user) {
		return false
	}
	return len(c.roles) == 0 || roles == nil ||
		slices.ContainsFunc(roles, func(role auth.Role) bool { return slices.Contains(c.roles, string(role)) })
}

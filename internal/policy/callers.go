package policy

import (
	"fmt"
	"slices"

	"mcp-code-exec-harness/internal/auth"
)

// Callers are some of those who ask for calls and runs: users by patterns, and one of several roles; an empty list stands for all.
type Callers struct {
	users patterns
	roles []string
}

// NewCallers compiles callers. An error is about roles.
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

// Have reports whether a caller is one of them. Roles that are not known (nil) might be any.
func (c Callers) Have(user string, roles []auth.Role) bool {
	if len(c.users) > 0 && !c.users.match(user) {
		return false
	}
	return len(c.roles) == 0 || roles == nil ||
		slices.ContainsFunc(roles, func(role auth.Role) bool { return slices.Contains(c.roles, string(role)) })
}

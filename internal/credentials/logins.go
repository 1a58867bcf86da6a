package credentials

import "fmt"

// Logins are the OAuth logins of the configured servers. They must not change while they are in use.
type Logins map[string]Login

// Login is the login of one server.
type Login struct {
	OAuth *OAuth // nil if the server has no OAuth
	Err   error  // why the server cannot be used
}

// Of returns the OAuth source by which people log in to a server. The error is the reason why no person logs in to it.
func (l Logins) Of(server string) (*OAuth, error) {
	login, known := l[server]
	switch {
	case !known:
		return nil, fmt.Errorf("unknown server %q; harness servers list shows all", server)
	case login.Err != nil:
		return nil, login.Err
	case login.OAuth == nil:
		return nil, fmt.Errorf("server %q has no login; set mcpServers.%[1]s.auth.type to oauth", server)
	case login.OAuth.server.Machine:
		return nil, fmt.Errorf("server %q needs no login: its client gets tokens for itself (mcpServers.%[1]s.auth.grant)", server)
	}
	return login.OAuth, nil
}

package credentials

import "fmt"

// Logins has an entry for each configured server, by the server's name. It must not change while it is in use.
type Logins map[string]Login

// Login says how people log in to one server.
type Login struct {
	OAuth *OAuth // source of the server's tokens; nil if the server does not use OAuth
	Err   error  // reason why the configured server cannot be used; nil if it can
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

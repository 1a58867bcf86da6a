package wiring

import (
	"cmp"
	"path/filepath"
	"time"

	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/credentials"
)

// credentials are what authorizes requests to a server; perUser, if each user has others. Without it, the source is nil.
func (h *Harness) credentials(c *config.MCPServer) (source credentials.Source, perUser bool) {
	h.logins[c.Name] = credentials.Login{Err: c.Err}
	a := c.Auth
	if a == nil || c.Err != nil {
		return nil, false
	}
	switch a.Type {
	case "command":
		return &credentials.Command{
			Server: c.Name, Name: a.Command, Args: a.Args, Environ: h.out.Environ, HeaderIn: a.Header, CacheFor: a.CacheFor, Now: time.Now,
		}, false
	case "keys":
		return &credentials.Keys{Server: c.Name, HeaderIn: a.Header, ByUser: a.Keys}, true
	}
	login := credentials.NewOAuth(credentials.Server{
		Name: c.Name, URL: cmp.Or(c.URL, c.OpenAPI), Headers: c.Headers, ClientID: a.ClientID, ClientSecret: a.ClientSecret, Issuer: a.Issuer, Scopes: a.Scopes,
		RedirectPort: a.RedirectPort, PerUser: a.Per == "user", AllowPrivate: a.AllowPrivate, Machine: a.Machine(),
	}, credentials.Options{
		Store: func() (credentials.Store, error) { return h.store() }, Keys: h.keys, Dir: filepath.Join(h.cfg.StateDir, "logins"), Now: time.Now,
	})
	h.logins[c.Name] = credentials.Login{OAuth: login}
	return login, a.Per == "user"
}

// Logins is what logs in to a server.
func (h *Harness) Logins(server string) (*credentials.OAuth, error) { return h.logins.Of(server) }

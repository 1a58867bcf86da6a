package credentials

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/oauth2"

	"mcp-code-exec-harness/internal/pii/seal"
)

// Store keeps sealed credentials. Its methods are safe for concurrent use, by several processes too.
type Store interface {
	// Credential returns the credential that was last put for a server and user, or nil if there is none. The user of a shared credential is "".
	Credential(ctx context.Context, server, user string) ([]byte, error)
	PutCredential(ctx context.Context, server, user string, sealed []byte) error
	DeleteCredential(ctx context.Context, server, user string) error
	// Exclusively calls f while no process of another machine calls a function under the same name.
	Exclusively(ctx context.Context, name string, f func() error) error
}

// grant has the tokens of a login and what their renewal needs. It is stored sealed.
type grant struct {
	URL      string `json:"url"`      // address of the server at the login
	Resource string `json:"resource"` // resource of the tokens (RFC 8707)
	Issuer   string `json:"issuer"`

	TokenURL     string           `json:"tokenUrl"`
	RevokeURL    string           `json:"revokeUrl,omitempty"`
	ClientID     string           `json:"clientId"`
	ClientSecret string           `json:"clientSecret,omitempty"`
	AuthStyle    oauth2.AuthStyle `json:"authStyle"`

	Access  string    `json:"access,omitempty"`
	Refresh string    `json:"refresh,omitempty"`
	Expiry  time.Time `json:"expiry,omitzero"` // expiry of the access token; zero if unknown
	Scopes  []string  `json:"scopes,omitempty"`
	Wanted  []string  `json:"wanted,omitempty"` // scopes for the next login: the granted ones, and those that the server has asked for since
	Void    string    `json:"void,omitempty"`   // reason why the tokens can no longer be used; empty if they can
}

// config returns the configuration of x/oauth2 for a grant.
func (g *grant) config() *oauth2.Config {
	return &oauth2.Config{
		ClientID: g.ClientID, ClientSecret: g.ClientSecret,
		Endpoint: oauth2.Endpoint{TokenURL: g.TokenURL, AuthStyle: g.AuthStyle},
	}
}

// scope returns the scope to which a sealed grant is bound: the grant cannot be opened for another server or user.
func (o *OAuth) scope(user string) seal.Scope {
	return seal.Scope{User: user, Session: "credential of server " + o.server.Name}
}

// load returns the stored grant of a user, or nil if there is none or it was granted for another address.
func (o *OAuth) load(ctx context.Context, user string) (*grant, error) {
	if o.server.PerUser && user == "" {
		return nil, nil // a grant without a user belongs to a login for all users
	}
	store, err := o.opt.Store()
	if err != nil {
		return nil, err
	}
	sealed, err := store.Credential(ctx, o.server.Name, user)
	if err != nil || sealed == nil {
		return nil, err
	}
	keys, err := o.opt.Keys()
	if err != nil {
		return nil, err
	}
	text, err := keys.Open(o.scope(user), sealed)
	if err != nil {
		return nil, fmt.Errorf("the login of server %q cannot be read: %w", o.server.Name, err)
	}
	g := new(grant)
	if err := json.Unmarshal([]byte(text), g); err != nil {
		return nil, fmt.Errorf("the login of server %q cannot be read; log in again", o.server.Name)
	}
	if g.URL != o.server.URL {
		return nil, nil
	}
	return g, nil
}

// save stores a grant and replaces an earlier one.
func (o *OAuth) save(ctx context.Context, user string, g *grant) error {
	text, err := json.Marshal(g)
	if err != nil {
		return err
	}
	keys, err := o.opt.Keys()
	if err != nil {
		return err
	}
	sealed, err := keys.Seal(o.scope(user), string(text))
	if err != nil {
		return err
	}
	store, err := o.opt.Store()
	if err != nil {
		return err
	}
	return store.PutCredential(ctx, o.server.Name, user, sealed)
}

package credentials

import (
	"net/http"
	"time"
)

// SetTimeout bounds a request to an authorization server.
func (o *OAuth) SetTimeout(d time.Duration) { o.client.Timeout = d }

// Client is what asks authorization servers.
func (o *OAuth) Client() *http.Client { return o.client }

// Check says why requests do not go to an address.
func (o *OAuth) Check(address string) error { return o.check(address) }

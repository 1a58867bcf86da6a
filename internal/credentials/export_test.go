package credentials

import (
	"net/http"
	"time"
)

// SetTimeout sets the time limit of a request to an authorization server.
func (o *OAuth) SetTimeout(d time.Duration) { o.client.Timeout = d }

// Client returns the client for requests to authorization servers.
func (o *OAuth) Client() *http.Client { return o.client }

// Check returns an error if requests must not go to an address.
func (o *OAuth) Check(address string) error { return o.check(address) }

package task

import "net/http"

// SetTransport has webhooks delivered without a network: a bubble of synctest has none.
func (s *Service) SetTransport(t http.RoundTripper) { s.client.Transport = t }

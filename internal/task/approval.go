package task

// Decided has tasks go on whose runs were approved or denied, and the webhooks of new requests delivered. id is the task that is
// known; it may be empty.
func (s *Service) Decided(id string) {
	if id != "" {
		s.publish(id, nil)
	}
	wake(s.ready)
	wake(s.outbox)
}

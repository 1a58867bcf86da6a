package task

// Decided wakes the loop that continues tasks whose runs were approved or denied, and the loop that delivers the webhooks of new requests. id is the
// task, if known; it may be empty.
func (s *Service) Decided(id string) {
	if id != "" {
		s.publish(id, nil)
	}
	s.announce("")
	wake(s.outbox)
}

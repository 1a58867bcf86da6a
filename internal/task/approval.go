package task

// Decided has tasks go on whose runs were approved or denied. id is the one that is known; it may be empty.
func (s *Service) Decided(id string) {
	if id != "" {
		s.hub.publish(id, nil)
	}
	wake(s.ready)
}

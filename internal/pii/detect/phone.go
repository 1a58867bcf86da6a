package detect

func (s *scanner) phone(n *number) int { return 0 }

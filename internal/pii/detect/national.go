package detect

func (s *scanner) nationalNumber(n *number) int { return 0 }
func (s *scanner) date(n *number) int           { return 0 }
func (s *scanner) zip(n *number) int            { return 0 }

func (s *scanner) lettered(start int) int { return 0 }

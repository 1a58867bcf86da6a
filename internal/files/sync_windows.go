package files

// syncDir does nothing: Windows cannot sync a directory, NTFS journals the rename.
func (s *state) syncDir(string) error { return nil }

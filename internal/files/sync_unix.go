//go:build !windows

package files

// syncDir makes a rename in dir survive a power failure.
func (s *state) syncDir(dir string) error {
	f, err := s.root.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

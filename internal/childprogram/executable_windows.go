package childprogram

import "os"

// executable reports whether a file exists.
func executable(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

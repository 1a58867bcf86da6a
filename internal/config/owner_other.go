//go:build !unix

package config

// trusted reports whether a configuration file above the working directory may be used. On Windows the roots of drives and
// the directories of other users cannot be written by everybody.
func trusted(string, string) bool { return true }

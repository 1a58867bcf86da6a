//go:build unix

package childprogram

import "golang.org/x/sys/unix"

// executable reports whether a file can be executed; some file systems are mounted noexec.
func executable(path string) bool { return unix.Access(path, unix.X_OK) == nil }

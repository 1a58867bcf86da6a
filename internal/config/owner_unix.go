//go:build unix

package config

import (
	"os"
	"syscall"
)

// trusted reports whether a configuration file above the working directory may be used: it names commands to start, so in
// a directory such as /tmp it could be another user's trap. It must belong to this user, to root, or to the owner of
// the working directory.
func trusted(path, cwd string) bool {
	file, ok := owner(path)
	dir, _ := owner(cwd)
	return ok && (file == 0 || file == os.Getuid() || file == dir)
}

// owner returns the user id of a file's owner; -1 and false if it cannot be found out.
func owner(path string) (int, bool) {
	info, err := os.Stat(path)
	if err != nil {
		return -1, false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return -1, false
	}
	return int(stat.Uid), true
}

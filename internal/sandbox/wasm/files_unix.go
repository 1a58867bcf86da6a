//go:build unix

package wasm

import (
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// shared returns the reason why other users can write to a directory, "" if they cannot.
func shared(info fs.FileInfo) string {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != os.Geteuid() {
		return "belongs to another user"
	}
	if info.Mode().Perm()&0o022 != 0 {
		return "can be written by others"
	}
	return ""
}

// executable reports whether a file can be executed; some file systems are mounted noexec.
func executable(path string) bool { return unix.Access(path, unix.X_OK) == nil }

// workerEnv returns the environment of a worker.
func workerEnv() []string { return []string{} }

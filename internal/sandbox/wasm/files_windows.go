package wasm

import (
	"io/fs"
	"os"
)

// shared checks nothing on Windows: the cache directory is in the user's profile, to which others cannot write.
func shared(fs.FileInfo) string { return "" }

// executable returns true: Windows has no file systems that forbid execution.
func executable(string) bool { return true }

// workerEnv returns the environment of a worker: programs on Windows need SYSTEMROOT.
func workerEnv() []string { return []string{"SYSTEMROOT=" + os.Getenv("SYSTEMROOT")} }

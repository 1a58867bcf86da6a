package wasm

import (
	"io/fs"
	"os"
)

// shared cannot tell on Windows: the cache directory lies in the user's profile, which others cannot write to.
func shared(fs.FileInfo) string { return "" }

// executable is true: Windows has no file systems from which nothing is executed.
func executable(string) bool { return true }

// workerEnv is the environment of a worker: Windows needs to know where it lives.
func workerEnv() []string { return []string{"SYSTEMROOT=" + os.Getenv("SYSTEMROOT")} }

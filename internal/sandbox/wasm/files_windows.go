package wasm

import (
	"io/fs"
	"os"
)

// shared cannot tell on Windows: the cache directory lies in the user's profile, which others cannot write to.
func shared(fs.FileInfo) string { return "" }

// workerEnv is the environment of a worker: Windows needs to know where it lives.
func workerEnv() []string { return []string{"SYSTEMROOT=" + os.Getenv("SYSTEMROOT")} }

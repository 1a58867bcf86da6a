package wasm

import "os"

// workerEnv returns the environment of a worker: programs on Windows need SYSTEMROOT.
func workerEnv() []string { return []string{"SYSTEMROOT=" + os.Getenv("SYSTEMROOT")} }

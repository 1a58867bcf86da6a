//go:build unix

package wasm

// workerEnv returns the environment of a worker.
func workerEnv() []string { return []string{} }

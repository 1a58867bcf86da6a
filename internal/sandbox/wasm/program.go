//go:build !embedworker

package wasm

// workerProgram is the separate program that serves as the worker; empty if it is not embedded.
var workerProgram []byte

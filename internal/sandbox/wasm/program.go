//go:build !embedworker

package wasm

// workerProgram is the worker as a program of its own; empty if it is not embedded.
var workerProgram []byte

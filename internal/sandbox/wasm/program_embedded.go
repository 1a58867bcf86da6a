//go:build embedworker

package wasm

import _ "embed"

// workerProgram is the worker as a program of its own, which `make build` builds first for the same platform.
//
//go:embed worker.bin
var workerProgram []byte

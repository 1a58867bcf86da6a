// Command harness-worker is the guest process of the wasm tier as a program of its own. `make build` embeds it into the
// harness; a harness without it re-executes itself instead.
package main

import (
	"os"

	"mcp-code-exec-harness/internal/sandbox/wasm/worker"
)

func main() { os.Exit(worker.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

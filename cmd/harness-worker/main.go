// Command harness-worker is the guest process of the wasm tier, built as a separate program. `make build` embeds this program
// into the harness. A harness without an embedded worker re-executes itself instead.
package main

import (
	"os"

	"mcp-code-exec-harness/internal/sandbox/wasm/worker"
)

func main() { os.Exit(worker.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

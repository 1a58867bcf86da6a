// Command harness runs programs that agents write, in a sandbox, with MCP tools.
package main

import (
	"os"
	"time"

	"mcp-code-exec-harness/internal/cli"
	"mcp-code-exec-harness/internal/secrets"
)

func main() {
	// Workers, compilers, supervisors and demo servers are processes of this same binary. Hidden runs them before all other work, so that they start fast.
	if code, ok := cli.Hidden(os.Args[1:], os.Stdin, os.Stdout, os.Stderr); ok {
		os.Exit(code)
	}
	ctx, stop := cli.WithSignals()
	dir, _ := os.Getwd()
	self, _ := os.Executable()
	code := cli.Main(ctx, cli.World{
		Args: os.Args[1:], Environ: os.Environ(), Dir: dir, Executable: self,
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Now: time.Now, Keyring: secrets.System(os.Getenv),
	})
	stop()
	os.Exit(code)
}

// Command harness-child is the program of the harness's child processes. `make build` embeds it into the harness (see internal/childprogram).
package main

import (
	"fmt"
	"os"

	"mcp-code-exec-harness/internal/childprogram"
)

func main() {
	code, ok := childprogram.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	if !ok {
		fmt.Fprintln(os.Stderr, "this program is internal: the harness starts it")
		code = 2
	}
	os.Exit(code)
}

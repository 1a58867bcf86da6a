package cli

import (
	"context"
	"fmt"
	"io"

	"mcp-code-exec-harness/internal/childprogram"
	demo "mcp-code-exec-harness/internal/demo/servers"
	"mcp-code-exec-harness/internal/startup"
)

// demoServerCommand is the internal command that makes this binary a server of the demo.
const demoServerCommand = "__demo-server"

// Hidden executes an internal command if args name one: a command of package childprogram, or demoServerCommand. It does nothing else, because its time is part
// of the start of every worker.
func Hidden(args []string, stdin io.Reader, stdout, stderr io.Writer) (code int, ok bool) {
	if len(args) == 0 {
		return 0, false
	}
	if args[0] == demoServerCommand {
		startup.Done()
		return serveDemo(args[1:], stdin, stdout, stderr), true
	}
	return childprogram.Main(args, stdin, stdout, stderr)
}

// serveDemo runs one of the demo's servers. Its arguments are NAME DIR.
func serveDemo(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) != 2 {
		fmt.Fprintln(stderr, "usage: harness", demoServerCommand, "NAME DIR")
		return exitUsage
	}
	if err := demo.Serve(context.Background(), args[0], args[1], stdin, stdout); err != nil {
		fmt.Fprintln(stderr, err)
		return exitFailed
	}
	return exitDone
}

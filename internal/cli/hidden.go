package cli

import (
	"context"
	"fmt"
	"io"

	"mcp-code-exec-harness/internal/confine"
	demo "mcp-code-exec-harness/internal/demo/servers"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/program"
	"mcp-code-exec-harness/internal/sandbox/wasm"
)

// demoServerCommand is the internal command that makes this binary a server of the demo.
const demoServerCommand = "__demo-server"

// Hidden runs an internal command, if args are one: the binary starts itself as worker, compiler, supervisor or demo
// server. It does nothing else, because its time is part of every worker's start.
func Hidden(args []string, stdin io.Reader, stdout, stderr io.Writer) (code int, ok bool) {
	if len(args) == 0 {
		return 0, false
	}
	switch args[0] {
	case wasm.WorkerCommand:
		return wasm.WorkerMain(args[1:], stdin, stdout, stderr), true
	case program.CompilerCommand:
		return program.CompilerMain(args[1:], stdin, stdout), true
	case mcpclient.SuperviseArg:
		return mcpclient.Supervise(args[1:]), true
	case confine.Command:
		return confine.Main(args[1:]), true
	case demoServerCommand:
		if len(args) != 3 {
			fmt.Fprintln(stderr, "usage: harness", demoServerCommand, "NAME DIR")
			return exitUsage, true
		}
		if err := demo.Serve(context.Background(), args[1], args[2], stdin, stdout); err != nil {
			fmt.Fprintln(stderr, err)
			return exitFailed, true
		}
		return exitDone, true
	}
	return 0, false
}

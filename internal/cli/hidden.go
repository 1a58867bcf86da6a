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
	"mcp-code-exec-harness/internal/startup"
)

// demoServerCommand is the internal command that makes this binary a server of the demo.
const demoServerCommand = "__demo-server"

// Hidden runs an internal command if args name one. With these commands the binary starts itself as a worker, compiler, supervisor or demo server.
// Hidden does nothing else, because its time is part of every worker's start.
func Hidden(args []string, stdin io.Reader, stdout, stderr io.Writer) (code int, ok bool) {
	if len(args) == 0 {
		return 0, false
	}
	main, ok := map[string]func(args []string) int{
		wasm.WorkerCommand:      func(args []string) int { return wasm.WorkerMain(args, stdin, stdout, stderr) },
		program.CompilerCommand: func(args []string) int { return program.CompilerMain(args, stdin, stdout) },
		mcpclient.SuperviseArg:  mcpclient.Supervise,
		confine.Command:         confine.Main,
		demoServerCommand:       func(args []string) int { return serveDemo(args, stdin, stdout, stderr) },
	}[args[0]]
	if !ok {
		return 0, false
	}
	startup.Done()
	return main(args[1:]), true
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

package gate

import (
	"errors"
	"fmt"

	"mcp-code-exec-harness/internal/mcpclient"
)

// failure is what a guest may know of a request that failed: the server's own words and what happened to the request.
// Why a server is not reached stays outside: its command, address and stderr may hold paths and secrets of the host.
func failure(err error) string {
	call, ok := errors.AsType[*mcpclient.CallError](err)
	if !ok {
		return err.Error()
	}
	switch call.Kind {
	case mcpclient.KindUnavailable:
		return unavailable(call.Server)
	case mcpclient.KindNeedsLogin:
		return fmt.Sprintf("server %q: %s", call.Server, call.Message)
	case mcpclient.KindConnectionLost:
		return fmt.Sprintf("server %q: the connection was lost before an answer came", call.Server)
	}
	bare := *call
	bare.Stderr = ""
	return bare.Error()
}

// unavailable is the message for a server that does not start; the reason may hold secrets and stays outside.
func unavailable(server string) string {
	return fmt.Sprintf("server %q is not available; the operator sees the reason with: harness servers test %s", server, server)
}

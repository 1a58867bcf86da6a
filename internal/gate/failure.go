package gate

import (
	"errors"
	"fmt"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/mcpclient"
)

// failure returns what a guest may know of a failed request: the server's own words and what happened to the request. The guest does not learn
// why a server cannot be reached: the server's command, address and stderr may contain paths and secrets of the host.
func failure(err error) string {
	call, ok := errors.AsType[*mcpclient.CallError](err)
	if !ok {
		return err.Error()
	}
	switch call.Kind {
	case mcpclient.KindUnavailable:
		return unavailable(call)
	case mcpclient.KindNeedsLogin:
		return fmt.Sprintf("server %q: %s", call.Server, call.Message)
	case mcpclient.KindConnectionLost:
		return fmt.Sprintf("server %q: the connection was lost before an answer came", call.Server)
	}
	bare := *call
	bare.Stderr = ""
	return bare.Error()
}

// unavailable returns the message for a server that does not start. The message omits the reason, which may contain secrets, except what the
// server itself said over HTTP.
func unavailable(call *mcpclient.CallError) string {
	why := ""
	if call.Refusal != nil {
		why = ": " + call.Refusal.Error()
	}
	return fmt.Sprintf("server %q is not available%s; the operator sees the reason with: harness servers test %s", call.Server, why, call.Server)
}

// told adds to an error what the server sent over HTTP instead of an answer: {status, headers, body}.
func told(failed *frame.Error, err error) *frame.Error {
	call, ok := errors.AsType[*mcpclient.CallError](err)
	if unknown, is := errors.AsType[*unknownYet](err); is {
		call, ok = unknown.server, true
	}
	if ok && call.Refusal != nil {
		failed.Data = call.Refusal.Data()
	}
	return failed
}

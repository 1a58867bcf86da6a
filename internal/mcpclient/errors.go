package mcpclient

import (
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// Kind classifies the failure of a request to a server.
type Kind string

const (
	// KindUnavailable: the server is disabled, unknown, unreachable or fails to start; Refusal is set if it refused the connection.
	KindUnavailable Kind = "unavailable"
	// KindTimeout: no answer came in time; a cancellation was sent to the server.
	KindTimeout Kind = "timeout"
	// KindProtocol: the server's answer is not valid MCP or exceeds a limit.
	KindProtocol Kind = "protocol"
	// KindCancelled: the caller's context ended; a cancellation was sent to the server.
	KindCancelled Kind = "cancelled"
	// KindConnectionLost: the connection ended before an answer came, or the connection that the caller asked for is gone.
	KindConnectionLost Kind = "connection_lost"
	// KindRefused: the harness refused to send the request; the message is addressed to programs.
	KindRefused Kind = "refused"
	// KindNeedsLogin: a person has to log in before the server accepts the request, which was not carried out; Err is a *credentials.NeedsLogin.
	KindNeedsLogin Kind = "needs_login"
	// KindHTTP: the server refused the request with an HTTP status; Refusal holds it.
	KindHTTP Kind = "http"
	// KindRPC: the server answered with a JSON-RPC error; Code is its code.
	KindRPC Kind = "rpc"
)

// CallError is the error of every failed request to a server.
type CallError struct {
	Server string
	Tool   string // name of the tool; empty if the request is not a tool call
	Kind   Kind
	// Sent reports that at least one byte of the request may have reached the server.
	Sent    bool
	Message string
	Code    int64  // code of a JSON-RPC error
	Stderr  string // last lines of the server's stderr, if they may explain the failure
	// Refusal is the HTTP response that the server sent instead of an answer; nil if it sent none. It holds no secrets of the
	// request, but like an answer it may hold personal data.
	Refusal *Refusal
	// Answered reports that the server's answer came but cannot be read. The request was certainly carried out.
	Answered bool
	Err      error // cause, for errors.Is with context.Canceled and context.DeadlineExceeded
}

// InDoubt reports whether the request may have had its effect: it was sent, and nothing proves that it was not carried out.
// Only the errors that JSON-RPC 2.0 defines for requests that are not carried out prove this; proxies and SDKs answer with
// other errors, such as -32001 for a timeout, even after a request was carried out.
func (e *CallError) InDoubt() bool {
	if e.Kind == KindRPC {
		switch e.Code {
		case jsonrpc.CodeParseError, jsonrpc.CodeInvalidRequest, jsonrpc.CodeMethodNotFound, jsonrpc.CodeInvalidParams:
			return false
		}
	}
	return e.Sent && !e.Answered
}

// Error returns the server, the tool and the message, with the end of the server's stderr if that may explain the failure.
func (e *CallError) Error() string {
	var b strings.Builder
	if e.Tool != "" {
		fmt.Fprintf(&b, "call tool %q of server %q: ", e.Tool, e.Server)
	} else {
		fmt.Fprintf(&b, "server %q: ", e.Server)
	}
	b.WriteString(e.Message)
	if e.Kind == KindRPC {
		fmt.Fprintf(&b, " (JSON-RPC error %d)", e.Code)
	}
	if e.Stderr != "" {
		b.WriteString("; stderr ends with:\n")
		b.WriteString(e.Stderr)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *CallError) Unwrap() error { return e.Err }

// fault is a failure of one request. The code that detects the failure knows its kind.
type fault struct {
	kind   Kind
	msg    string
	unsent bool // reports that the server provably did not carry out the request
	status int  // HTTP status; 0 if there is none
	err    error

	refusal *Refusal // refusal by an HTTP server; nil if there is none
	said    []byte   // bytes that the server sent instead of a message; a view of the read buffer
}

func newFault(kind Kind, format string, args ...any) *fault {
	return &fault{kind: kind, msg: fmt.Sprintf(format, args...)}
}

func (f *fault) Error() string { return f.msg }
func (f *fault) Unwrap() error { return f.err }

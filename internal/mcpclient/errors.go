package mcpclient

import (
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// Kind says what went wrong with a request to a server.
type Kind string

const (
	// KindUnavailable: the server is disabled, unknown, not reachable or failing to start; Refusal, if it refused to.
	KindUnavailable Kind = "unavailable"
	// KindTimeout: no answer in time; the server was told to stop.
	KindTimeout Kind = "timeout"
	// KindProtocol: the server answered with something that is not MCP, or more than is allowed.
	KindProtocol Kind = "protocol"
	// KindCancelled: the caller's context ended; the server was told to stop.
	KindCancelled Kind = "cancelled"
	// KindConnectionLost: the connection ended before an answer came, or is not the one the caller asked for.
	KindConnectionLost Kind = "connection_lost"
	// KindRefused: the harness does not send the request; the message is for programs.
	KindRefused Kind = "refused"
	// KindNeedsLogin: a person has to log in before the server takes the request; Err is a *credentials.NeedsLogin. It was not carried out.
	KindNeedsLogin Kind = "needs_login"
	// KindHTTP: the server refused the request with an HTTP status; Refusal says with which.
	KindHTTP Kind = "http"
	// KindRPC: the server answered with a JSON-RPC error; Code is its code.
	KindRPC Kind = "rpc"
)

// CallError is the error of every failed request to a server.
type CallError struct {
	Server string
	Tool   string // empty where the request is not a tool call
	Kind   Kind
	// Sent says that at least one byte of the request may have reached the server.
	Sent    bool
	Message string
	Code    int64  // code of a JSON-RPC error
	Stderr  string // the last lines the server wrote to stderr, where that may explain the failure
	// Refusal is what the server said over HTTP in place of an answer, nil if it said nothing. It is without the secrets of the
	// request and may hold personal data, as an answer may.
	Refusal *Refusal
	// Answered says that the server's answer came and cannot be read. It is not in doubt that the request was carried out.
	Answered bool
	Err      error // the cause, for errors.Is: context.Canceled, context.DeadlineExceeded
}

// InDoubt reports that the request may have had its effect: it was sent, and nothing proves that it was not carried out.
// Of the server's errors only those prove it that JSON-RPC 2.0 defines for requests that are not carried out; proxies
// and SDKs answer with others, such as -32001 for a timeout, after a request was carried out.
func (e *CallError) InDoubt() bool {
	if e.Kind == KindRPC {
		switch e.Code {
		case jsonrpc.CodeParseError, jsonrpc.CodeInvalidRequest, jsonrpc.CodeMethodNotFound, jsonrpc.CodeInvalidParams:
			return false
		}
	}
	return e.Sent && !e.Answered
}

// Error names the server, the tool and what happened, with the end of the server's stderr where it may explain it.
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

// fault is a failure of one request whose kind is known where it happens.
type fault struct {
	kind   Kind
	msg    string
	unsent bool // the server provably did not carry the request out
	status int  // HTTP status; 0 is none
	err    error

	refusal *Refusal // refusal by an HTTP server; nil is none
	said    []byte   // bytes that the server wrote in place of a message; a view of the read buffer
}

func newFault(kind Kind, format string, args ...any) *fault {
	return &fault{kind: kind, msg: fmt.Sprintf(format, args...)}
}

func (f *fault) Error() string { return f.msg }
func (f *fault) Unwrap() error { return f.err }

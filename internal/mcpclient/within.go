package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// Within is a server inside this process. Its methods may be called from any goroutine.
type Within interface {
	// Describe returns the server information for initialize, and the instructions. A changed version makes cached tools invalid.
	Describe() (Info, string)
	// Tools returns the tools. It ends when ctx ends.
	Tools(ctx context.Context) ([]Tool, error)
	// Call returns the result of tools/call as MCP JSON. It returns an error if there is no result: a *WithinError, or any other error,
	// which is treated as a lost connection. Before Call does anything that may have an effect, it calls the function sent. Call ends when ctx ends.
	Call(ctx context.Context, tool string, args json.RawMessage, sent func()) (json.RawMessage, error)
}

// Watched is a [Within] whose tools change while it is connected. Its tools are not cached: each process requests them.
type Watched interface {
	Within
	// Watch calls changed whenever the tools may have changed, one call at a time, and returns when ctx ends.
	Watch(ctx context.Context, changed func())
}

// WithinError is the error that Call of a [Within] returns if there is no result.
type WithinError struct {
	Kind    Kind
	Message string
	Unsent  bool // reports that the call provably had no effect
	Err     error
}

func (e *WithinError) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *WithinError) Unwrap() error { return e.Err }

// within makes a [Within] usable as a service.
type within struct {
	Within
	offered atomic.Pointer[[]Tool]
	limit   int // maximum size of an answer in bytes
	secrets *repeats
}

// inProcess connects to a server inside this process.
func (s *server) inProcess(ctx context.Context) (*conn, error) {
	offered, err := s.cfg.Within.Tools(ctx)
	if err != nil {
		return nil, err
	}
	of := &within{Within: s.cfg.Within, limit: s.m.opts.MaxResult, secrets: newRepeats(s.cfg.Secrets)}
	of.offered.Store(&offered)
	c := &conn{transport: TransportBuiltIn, local: &local{service: of}}
	c.link = newLink(c.local)
	err = s.handshake(ctx, c, legacyVersion)
	if watched, is := s.cfg.Within.(Watched); is && err == nil {
		s.work.Go(func() { watched.Watch(c.calls, func() { s.reread(c, of) }) })
	}
	return c, err
}

// reread requests the tools of a server inside this process again.
func (s *server) reread(c *conn, of *within) {
	ctx, cancel := context.WithTimeout(c.calls, s.cfg.StartupTimeout)
	defer cancel()
	offered, err := of.Tools(ctx)
	if err != nil {
		if c.calls.Err() == nil {
			s.m.opts.Logger.Warn("server changed its tools but did not list them", "server", s.cfg.Name, "error", err)
		}
		return
	}
	of.offered.Store(&offered)
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// volatile reports whether the tools must not be cached, because other processes cannot use the listing.
func (c Config) volatile() bool {
	_, is := c.Within.(Watched)
	return is
}

func (w *within) describe() (Info, string) { return w.Describe() }
func (w *within) tools() []Tool            { return *w.offered.Load() }
func (w *within) release()                 {}

func (w *within) call(ctx context.Context, tool string, args json.RawMessage, ex *exchange) (json.RawMessage, error) {
	if !slices.ContainsFunc(w.tools(), func(t Tool) bool { return t.Name == tool }) {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the server has no such tool"}
	}
	result, err := w.Call(ctx, tool, args, func() { ex.sent.Store(true) })
	if failed, is := errors.AsType[*WithinError](err); is {
		return nil, &fault{kind: failed.Kind, msg: string(w.secrets.clean([]byte(failed.Message))), unsent: failed.Unsent, err: err}
	}
	if err == nil && len(result) > w.limit {
		return nil, tooLarge(w.limit)
	}
	if err != nil {
		return nil, err
	}
	result = w.secrets.clean(result)
	return result, ex.charge.grow(ctx, int64(len(result)), 0)
}

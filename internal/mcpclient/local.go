package mcpclient

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// service is a server that does not speak MCP itself. It is safe for concurrent use.
type service interface {
	describe() (Info, string) // information for initialize, and the server's instructions
	tools() []Tool
	// call returns the result of tools/call. It returns an error if there is no result; ex.sent then tells whether the call may have
	// had its effect. It ends when ctx ends.
	call(ctx context.Context, tool string, args json.RawMessage, ex *exchange) (json.RawMessage, error)
	release() // frees the server's resources; no call is in flight then
}

// local carries messages to a service. It speaks MCP on behalf of the service, so that the rest of the package treats it like other servers.
type local struct {
	service
	link *link
	life context.Context // lifetime of the connection; nil until open
	end  context.CancelFunc
	work sync.WaitGroup
}

// open implements [carrier].
func (c *local) open(ctx context.Context, l *link) error {
	c.link = l
	c.life, c.end = context.WithCancel(ctx)
	return nil
}

// close implements [carrier].
func (c *local) close() {
	if c.end != nil {
		c.end()
	}
}

// release waits for the requests of a closed connection and releases the service.
func (c *local) release() {
	c.work.Wait()
	c.service.release()
}

// send implements [carrier].
func (c *local) send(ctx context.Context, msg jsonrpc.Message, ex *exchange) error {
	req, ok := msg.(*jsonrpc.Request)
	if !ok || !req.IsCall() {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(c.life, cancel)
	c.work.Go(func() {
		defer cancel()
		defer stop()
		result, err := c.answer(ctx, req, ex)
		if err != nil {
			c.link.reject(req.ID, err)
			return
		}
		_ = c.link.deliver(&jsonrpc.Response{ID: req.ID, Result: result}, nil) // a closed link answers every request itself
	})
	return nil
}

// answer returns the result of a request.
func (c *local) answer(ctx context.Context, req *jsonrpc.Request, ex *exchange) (json.RawMessage, error) {
	switch req.Method {
	case methodInitialize:
		info, instructions := c.describe()
		return json.Marshal(map[string]any{
			"protocolVersion": legacyVersion, "capabilities": map[string]any{"tools": struct{}{}}, "serverInfo": info, "instructions": instructions,
		})
	case "tools/list":
		return json.Marshal(map[string]any{"tools": c.tools()})
	case "tools/call":
		var params struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		}
		if err := json.Unmarshal(req.Params, &params); err != nil || ex == nil {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "no call of a tool"}
		}
		return c.call(ctx, params.Name, params.Arguments, ex)
	case "ping":
		return emptyResult, nil
	}
	return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "the server has no " + req.Method}
}

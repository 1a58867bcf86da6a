package mcpclient

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Limits of a completion. MCP allows 100 values.
const (
	maxCompletions = 100
	maxCompletion  = 4 << 10 // maximum size of a value in bytes; longer values are left out
)

// Completion holds the values that a server proposes for an argument of a prompt or resource template.
type Completion struct {
	Values  []string
	Total   int // number of all values; 0 if unknown
	HasMore bool
}

// Complete asks a server to complete an argument. The result is empty if the server does not support completion. Errors are *[CallError].
func (m *Manager) Complete(ctx context.Context, server string, params *mcp.CompleteParams, opts CallOptions) (Completion, error) {
	s, err := m.serverOf(opts.User, server)
	if err != nil {
		return Completion{}, err
	}
	c, err := s.connect(ctx, false)
	if err != nil {
		return Completion{}, err
	}
	if caps := c.session.InitializeResult().Capabilities; caps == nil || caps.Completions == nil {
		return Completion{}, nil
	}
	release, err := s.calls.Acquire(ctx, opts.User, 1)
	if err != nil {
		return Completion{}, s.unavailable(err.Error())
	}
	defer release()
	raw, _, err := s.request(ctx, opts, noProgress{}, func(ctx context.Context, c *conn) error {
		_, err := c.session.Complete(ctx, params)
		return err
	})
	if err != nil {
		return Completion{}, err
	}
	defer raw.charge.free()
	var got struct {
		Completion struct {
			Values  json.RawMessage `json:"values"`
			Total   int             `json:"total"`
			HasMore bool            `json:"hasMore"`
		} `json:"completion"`
	}
	if err := decodeLoosely(raw.json, &got); err != nil {
		return Completion{}, s.wrongShape("completion/complete", err)
	}
	values, err := decodeList[string](got.Completion.Values, maxCompletions)
	if err != nil {
		return Completion{}, s.wrongShape("completion/complete", err)
	}
	all := Completion{Total: got.Completion.Total, HasMore: got.Completion.HasMore}
	for _, value := range values {
		if len(value) <= maxCompletion { // a truncated value would be a different value
			all.Values = append(all.Values, strings.Clone(value)) // value is a view of the answer
		}
	}
	return all, nil
}

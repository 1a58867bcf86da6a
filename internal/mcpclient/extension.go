package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The extension of MCP for skills (SEP-2640), and its methods that are used.
const (
	SkillsExtension = "io.modelcontextprotocol/skills"
	ListSkills      = "skills/list"
	GetSkill        = "skills/get"
)

var extensionMethods = []string{ListSkills, GetSkill}

// ExtensionParams are the parameters of the methods of extensions.
type ExtensionParams struct {
	mcp.ParamsBase
	URI    string `json:"uri,omitempty"`
	Cursor string `json:"cursor,omitempty"`
}

// extensionResult stands for the result of a method: the exchange keeps the result itself.
type extensionResult struct{ mcp.ResultBase }

// ErrNoExtension reports a server that does not declare an extension. It gets no request.
var ErrNoExtension = errors.New("the server does not offer this extension of MCP")

// Extension makes a request of an extension that a server declares, and returns the result, which is an object. The caller calls release once the result is no
// longer used. The error is ErrNoExtension or a *[CallError].
func (m *Manager) Extension(ctx context.Context, server, extension, method string, params ExtensionParams, opts CallOptions) (
	result json.RawMessage, release func(), err error,
) {
	s, err := m.serverOf(opts.User, server)
	if err != nil {
		return nil, nil, err
	}
	c, err := s.connect(ctx, false)
	if err != nil {
		return nil, nil, err
	}
	caps := c.session.InitializeResult().Capabilities
	if caps == nil || caps.Extensions[extension] == nil || !slices.Contains(extensionMethods, method) {
		return nil, nil, ErrNoExtension
	}
	raw, _, err := s.request(ctx, opts, noProgress{}, func(ctx context.Context, c *conn) error {
		_, err := mcp.CallCustomMethod[*ExtensionParams, *extensionResult](ctx, c.session, method, &params)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	if !isObject(raw.json) {
		raw.charge.free()
		return nil, nil, s.wrongShape(method, errors.New("it is no object"))
	}
	return raw.json, raw.charge.free, nil
}

package gate

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/policy"
	"mcp-code-exec-harness/internal/run"
)

// method is an MCP request to a server that is not a call of a tool. It takes the steps of a call of a read-only tool with the name of the
// method, such as crm__resources/read.
type method struct {
	name        string
	description string
	// send sends the request with restored arguments. The caller calls release once it no longer uses the value. If send is nil, the request is
	// made elsewhere once it is admitted.
	send func(ctx context.Context, s Servers, server string, args json.RawMessage, o mcpclient.CallOptions) (value json.RawMessage, release func(), err error)
}

var methods = []*method{
	{"resources/read", "Reads a resource.", readResource},
	{"prompts/get", "Fills in a prompt.", getPrompt},
	{"completion/complete", "Completes an argument of a prompt or of a template of resources.", complete},
	{"resources/subscribe", "Tells of changes of a resource.", nil},
	{"resources/list", "Lists the resources.", nil},
	{"resources/templates/list", "Lists the templates of resources.", nil},
	{"prompts/list", "Lists the prompts.", nil},
}

// SessionServer is the name of the server for the files of sessions. Policy treats the files as resources of this server. No real server has
// this name.
const SessionServer = "session"

// sessionFile is the request of a client to read a file of a session. It is made elsewhere once it is admitted.
var sessionFile = &method{name: "resources/read", description: "Reads a file of a session."}

// SessionFile returns the request to read a file of a session, as a tool. No catalog contains this tool.
func SessionFile() *catalog.Tool { return sessionFile.tool(SessionServer) }

// tool returns the request as a tool of a server. No catalog contains this tool.
func (m *method) tool(server string) *catalog.Tool {
	yes, no := true, false
	open := &yes
	if m == sessionFile {
		open = &no
	}
	return &catalog.Tool{
		Server: server, Name: m.name, Description: m.description,
		Annotations: catalog.Annotations{ReadOnly: &yes, Destructive: &no, Idempotent: &yes, OpenWorld: open},
	}
}

// methodOf finds the MCP request that a program names: by a full name such as crm__resources/read, or by a name such as resources/read together
// with a server. methodOf returns nil if the name is not that of a request, or if the server has a tool with this name.
func (r *Run) methodOf(server, name string) (*method, string) {
	if !strings.Contains(name, "/") {
		return nil, ""
	}
	if _, err := r.gate.opt.Catalog.ResolveIn(server, name); err == nil {
		return nil, ""
	}
	if server == "" {
		server, name, _ = strings.Cut(name, "__")
	}
	if server == SessionServer && name == sessionFile.name {
		return sessionFile, server
	}
	i := slices.IndexFunc(methods, func(m *method) bool { return m.name == name })
	if i < 0 {
		return nil, ""
	}
	server, err := r.gate.opt.Catalog.ResolveServer(server)
	if err != nil {
		return nil, ""
	}
	return methods[i], server
}

func methodNamed(name string) *method {
	return methods[slices.IndexFunc(methods, func(m *method) bool { return m.name == name })]
}

// fetches reports whether a host call for a resource or prompt has arguments that go to the server. Such calls count as calls of tools.
func fetches(c *journal.Call) bool {
	return frame.Kind(c.Kind) == frame.Resource && (c.Name == "read" || c.Name == "prompt")
}

// resource prepares a host call that lists or fetches what servers offer besides tools: resources and prompts.
func (r *Run) resource(c *journal.Call) run.Pending {
	if fetches(c) {
		return r.tool(c, nil)
	}
	return r.redacted(c, pii.FromProgram, answer(func(ctx context.Context) (json.RawMessage, *frame.Error) { return r.list(ctx, c) }))
}

// fetching returns the request that a host call for a resource or prompt makes, with its arguments. The server's name is the one that the
// program uses.
func fetching(c *journal.Call) (m *method, server string, args json.RawMessage, failed *frame.Error) {
	var in struct {
		Server string            `json:"server"`
		URI    string            `json:"uri"`
		Name   string            `json:"name"`
		Args   map[string]string `json:"args"`
	}
	if failed = decode(c.Args, &in); failed != nil {
		return nil, "", nil, failed
	}
	if c.Name == "prompt" {
		args, failed = encode(map[string]any{"name": in.Name, "arguments": in.Args})
		return methodNamed("prompts/get"), in.Server, args, failed
	}
	args, failed = encode(map[string]any{"uri": in.URI})
	return methodNamed("resources/read"), in.Server, args, failed
}

// Fetched returns a recorded host call for a resource or prompt as the tool that policy judges, with its arguments. ok is false for other calls.
func Fetched(c *journal.Call) (tool *catalog.Tool, args json.RawMessage, ok bool) {
	if !fetches(c) {
		return nil, nil, false
	}
	m, server, args, failed := fetching(c)
	if failed != nil {
		return nil, nil, false
	}
	return m.tool(server), args, true
}

// fetch executes a pending host call that reads a resource or fills in a prompt.
func (t *toolCall) fetch(ctx context.Context) (json.RawMessage, *frame.Error) {
	m, named, shown, failed := fetching(t.call)
	if failed != nil {
		return nil, failed
	}
	server, err := t.run.gate.opt.Catalog.ResolveServer(named)
	if err != nil {
		return nil, toolError("", failure(err))
	}
	t.method = m
	return t.send(ctx, m.tool(server), shown, false)
}

// request makes a request that is not a call of a tool, after it was admitted.
func (t *toolCall) request(ctx context.Context, server string, args json.RawMessage, o mcpclient.CallOptions) (json.RawMessage, *frame.Error) {
	value, release, servers := json.RawMessage("{}"), func() {}, t.run.gate.opt.Servers
	err := servers.Request(ctx, server, t.method.name, t.call.N, func(ctx context.Context) (err error) {
		if t.method.send != nil {
			value, release, err = t.method.send(ctx, servers, server, args, o)
		}
		return err
	})
	if err != nil {
		return nil, t.failed(ctx, t.name, err)
	}
	defer release()
	if value, err = t.hideJSON(ctx, value); err == nil {
		value, err = t.run.fit(ctx, t.call.N, value)
	}
	if err != nil {
		return nil, undelivered(t.name, err.Error(), false)
	}
	t.run.tell(t.flight, t.name, value, "", nil)
	return slices.Clone(value), nil // the value may refer to memory that is released
}

func readResource(ctx context.Context, s Servers, server string, args json.RawMessage, o mcpclient.CallOptions) (json.RawMessage, func(), error) {
	var in struct{ URI string }
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, nil, err
	}
	contents, release, err := s.ReadResource(ctx, server, in.URI, o)
	if err != nil {
		return nil, nil, err
	}
	value, err := journal.Encode(map[string]any{"contents": contents})
	if err != nil {
		release()
	}
	return value, release, err
}

func getPrompt(ctx context.Context, s Servers, server string, args json.RawMessage, o mcpclient.CallOptions) (json.RawMessage, func(), error) {
	var in struct {
		Name      string
		Arguments map[string]text
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, nil, err
	}
	return s.Prompt(ctx, server, in.Name, texts(in.Arguments), o)
}

func complete(ctx context.Context, s Servers, server string, args json.RawMessage, o mcpclient.CallOptions) (json.RawMessage, func(), error) {
	var in struct {
		Ref      *mcp.CompleteReference
		Argument struct{ Name, Value text }
		Context  struct{ Arguments map[string]text }
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, nil, err
	}
	params := &mcp.CompleteParams{Ref: in.Ref, Argument: mcp.CompleteParamsArgument{Name: string(in.Argument.Name), Value: string(in.Argument.Value)}}
	if len(in.Context.Arguments) > 0 {
		params.Context = &mcp.CompleteContext{Arguments: texts(in.Context.Arguments)}
	}
	got, err := s.Complete(ctx, server, params, o)
	if err != nil {
		return nil, nil, err
	}
	value, err := journal.Encode(map[string]any{"values": append([]string{}, got.Values...), "total": got.Total, "hasMore": got.HasMore})
	return value, func() {}, err
}

// text is a string in an MCP request. If a restored token has turned the string into a JSON number, text has the characters of the number.
type text string

// UnmarshalJSON implements json.Unmarshaler.
func (t *text) UnmarshalJSON(raw []byte) error {
	if raw[0] != '"' {
		*t = text(raw)
		return nil
	}
	return json.Unmarshal(raw, (*string)(t))
}

func texts(of map[string]text) map[string]string {
	all := map[string]string{}
	for name, value := range of {
		all[name] = string(value)
	}
	return all
}

// list lists what servers offer. The request has no arguments, so it only has to pass policy and quarantine.
func (r *Run) list(ctx context.Context, c *journal.Call) (json.RawMessage, *frame.Error) {
	var in struct {
		Server string `json:"server"`
	}
	if err := decode(c.Args, &in); err != nil {
		return nil, err
	}
	servers, server := r.gate.opt.Servers, in.Server
	if server != "" {
		var err error
		if server, err = r.gate.opt.Catalog.ResolveServer(server); err != nil {
			return nil, toolError("", failure(err))
		}
	}
	switch c.Name {
	case "list":
		return listed(ctx, r, c, server, "resources/list", servers.Resources)
	case "templates":
		return listed(ctx, r, c, server, "resources/templates/list", servers.ResourceTemplates)
	case "prompts":
		return listed(ctx, r, c, server, "prompts/list", servers.Prompts)
	}
	return nil, runtimeError("TypeError", "there is no host call resource %s", c.Name)
}

// listed returns the results of list for a server, or for all servers if server is "". Personal data is hidden. For all servers, the result
// leaves out servers that fail or that policy denies to the caller. It is an error only if no server is left.
func listed[T any](
	ctx context.Context, r *Run, c *journal.Call, server, method string, list func(ctx context.Context, user, server string) ([]T, error),
) (json.RawMessage, *frame.Error) {
	of := func(ctx context.Context, server string) (json.RawMessage, error) {
		if err := r.mayList(ctx, c, server, method); err != nil {
			return nil, err
		}
		all, err := list(ctx, r.scope.User, server)
		if err != nil {
			return nil, unmade("", err)
		}
		value, failed := encode(append([]T{}, all...))
		if failed == nil {
			name := methodNamed(method).tool(server).FullName()
			if value, failed = r.hide(ctx, pii.Origin(name), method, value); failed == nil {
				(&toolCall{run: r, name: name}).saidBy(ctx, value)
			}
		}
		if failed != nil {
			return nil, failed
		}
		return value, nil
	}
	if server != "" {
		value, err := of(ctx, server)
		if failed, ok := errors.AsType[*frame.Error](err); ok {
			return nil, failed
		}
		return value, nil
	}
	r.gate.opt.Servers.EnsureTools(ctx, r.scope.User)
	servers := r.gate.opt.Catalog.Servers()
	lists, errs := make([]json.RawMessage, len(servers)), make([]error, len(servers))
	var wg sync.WaitGroup
	for i, s := range servers {
		wg.Go(func() { lists[i], errs[i] = of(ctx, s.Name) })
	}
	wg.Wait()
	all, ok := []json.RawMessage{}, len(servers) == 0
	var why []string
	for i := range servers {
		var one []json.RawMessage
		if errs[i] == nil {
			errs[i] = json.Unmarshal(lists[i], &one) // tokens in the list may make it invalid JSON
		}
		if failed, ok := errors.AsType[*frame.Error](errs[i]); ok {
			why = append(why, failed.Message)
		}
		all, ok = append(all, one...), ok || errs[i] == nil
	}
	if !ok {
		return nil, toolError("", strings.Join(why, "; "))
	}
	return encode(all)
}

// mayList returns a *frame.Error for a list that policy or quarantine deny to a caller. A list that a person would have to approve is denied,
// too.
func (r *Run) mayList(ctx context.Context, c *journal.Call, server, method string) error {
	tool := methodNamed(method).tool(server)
	if err := r.gate.opt.Catalog.HeldServer(server); err != nil {
		return (&toolCall{run: r, call: c}).notCalled(tool.FullName(), err)
	}
	if v := r.judge(ctx, tool, json.RawMessage("{}"), nil); v.Action != policy.Allow {
		return (&toolCall{run: r, call: c}).forbidden(tool.FullName(), v)
	}
	return nil
}

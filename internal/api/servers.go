package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/openapi"
	"mcp-code-exec-harness/internal/telemetry"
)

// ServerPath names an upstream server.
type ServerPath struct {
	Name string `path:"name" doc:"Its name in the configuration."`
}

// ServerList lists the upstream servers.
type ServerList struct {
	Servers []mcpclient.Status `json:"servers"`
}

// status returns the status of a server by its name.
func (a *API) status(ctx context.Context, name string) (mcpclient.Status, error) {
	all := a.opt.Harness.Servers().ServersOf(identity(ctx).User)
	i := slices.IndexFunc(all, func(s mcpclient.Server) bool { return s.Name == name })
	if i < 0 {
		return mcpclient.Status{}, absent("server")
	}
	return all[i].Status, nil
}

// visible returns the status of a server. For callers who are not admins, it clears the fields that only admins may see.
func visible(ctx context.Context, s mcpclient.Status) mcpclient.Status {
	if admin(ctx) != nil {
		s.Reason, s.StderrTail, s.PID = "", "", 0 // the fields may contain paths and addresses of the host
	}
	return s
}

func (a *API) addServers() {
	operation(a, endpoint{
		"listServers", "GET /v1/servers", "servers", http.StatusOK, "Upstream MCP servers",
		"Only admins see why a server is not available.",
	}, func(ctx context.Context, _ *struct{}) (*body[ServerList], error) {
		out := &body[ServerList]{ServerList{[]mcpclient.Status{}}}
		for _, s := range a.opt.Harness.Servers().ServersOf(identity(ctx).User) {
			out.Body.Servers = append(out.Body.Servers, visible(ctx, s.Status))
		}
		return out, nil
	})

	operation(a, endpoint{
		"getServer", "GET /v1/servers/{name}", "servers", http.StatusOK, "An upstream server",
		"Only admins see why it is not available.",
	}, func(ctx context.Context, in *ServerPath) (*body[mcpclient.Status], error) {
		s, err := a.status(ctx, in.Name)
		return &body[mcpclient.Status]{visible(ctx, s)}, err
	})

	operation(a, endpoint{
		"addServer", "POST /v1/servers", "servers", http.StatusCreated, "Add an upstream server",
		"Takes the role admin. It is reached at its url, or is the HTTP service of an OpenAPI document. The server exists until the harness stops; harness servers add adds one to the configuration.",
	}, func(ctx context.Context, in *body[NewServer]) (*created[mcpclient.Status], error) {
		if err := admin(ctx); err != nil {
			return nil, err
		}
		b := in.Body
		if b.Command != "" && !a.opt.AllowCommandServers {
			return nil, problem(http.StatusForbidden, "servers that are started by a command are not added over HTTP (server.allowCommandServers)")
		}
		if _, err := a.status(ctx, b.Name); err == nil {
			return nil, problem(http.StatusConflict, "there is a server of that name already")
		}
		c := mcpclient.Config{
			Name: b.Name, Transport: b.Transport, URL: b.URL, Headers: b.Headers, Command: b.Command, Args: b.Args, Env: b.Env, Security: b.Security,
		}
		if b.OpenAPI != nil {
			if err := b.OpenAPI.into(&c); err != nil {
				a.opt.Logger.WarnContext(ctx, "add a server", "error", err)
				return nil, problem(http.StatusBadRequest, "openapi is the http or https address of an OpenAPI 3 document, or the document itself, with openapi, paths, "+
					"and the schemes that security names; the log says what is wrong")
			}
		} else if b.Transport == "" && b.URL != "" {
			c.Transport = mcpclient.TransportHTTP
		}
		if err := a.opt.Harness.Servers().AddLater(c); err != nil {
			a.opt.Logger.WarnContext(ctx, "add a server", "error", err)
			return nil, problem(http.StatusBadRequest, "give a url that begins with http:// or https://, an OpenAPI document in openapi, or a command with the transport stdio")
		}
		if err := a.serverChange(ctx, "added", b.Name); err != nil {
			return nil, err
		}
		status, err := a.status(ctx, b.Name)
		return &created[mcpclient.Status]{"/v1/servers/" + b.Name, status}, err
	})

	operation(a, endpoint{
		"removeServer", "DELETE /v1/servers/{name}", "servers", http.StatusNoContent, "Remove an upstream server",
		"Takes the role admin. A server of the configuration returns when the harness starts again.",
	}, func(ctx context.Context, in *ServerPath) (*struct{}, error) {
		if err := a.serverChange(ctx, "removed", in.Name); err != nil {
			return nil, err
		}
		return nil, a.opt.Harness.Servers().Remove(ctx, in.Name)
	})

	operation(a, endpoint{
		"reconnectServer", "POST /v1/servers/{name}/reconnect", "servers", http.StatusOK, "Connect to an upstream server again",
		"Takes the role admin.",
	}, func(ctx context.Context, in *ServerPath) (*body[mcpclient.Status], error) {
		if err := a.serverChange(ctx, "reconnected", in.Name); err != nil {
			return nil, err
		}
		if err := a.opt.Harness.Servers().Reconnect(ctx, identity(ctx).User, in.Name); err != nil {
			a.opt.Logger.WarnContext(ctx, "reconnect a server", "error", err)
			return nil, problem(http.StatusBadGateway, "the server does not start; the list of servers says why")
		}
		status, err := a.status(ctx, in.Name)
		return &body[mcpclient.Status]{status}, err
	})
}

// Review lists two kinds of definitions of a server: those that wait for approval, and those that people have approved.
type Review struct {
	Held     []approval.Held               `json:"held" doc:"What is held, with what was approved before."`
	Approved []approval.ApprovedDefinition `json:"approved" doc:"The last 20 definitions that people have approved, the latest first."`
}

// NewReview is the request to approve definitions.
type NewReview struct {
	_       struct{}             `additionalProperties:"true"`
	Approve []ApprovedDefinition `json:"approve" minItems:"1" maxItems:"20000"`
}

// NewReviewQuestion selects the definitions that a security key is asked to approve.
type NewReviewQuestion struct {
	_       struct{}             `additionalProperties:"true"`
	Origin  string               `json:"origin" maxLength:"300" doc:"The origin of the page that asks." example:"https://harness.example.com"`
	Approve []ApprovedDefinition `json:"approve" minItems:"1" maxItems:"1000"`
}

// ApprovedDefinition identifies a definition that is to be approved.
type ApprovedDefinition struct {
	_    struct{} `additionalProperties:"true"`
	Tool string   `json:"tool" maxLength:"1024" doc:"Name of the tool at its server; empty: the server's title and instructions."`
	Hash string   `json:"hash" maxLength:"64" doc:"Its hash, as the review shows it. A definition that has changed since is not approved."`
}

// addReviews adds the endpoints for the review of held definitions.
func (a *API) addReviews() {
	// reviews returns an error if the caller may not review a server, or the server does not exist.
	reviews := func(ctx context.Context, name string) error {
		err := admin(ctx)
		if err == nil {
			_, err = a.status(ctx, name)
		}
		return err
	}
	held := func(ctx context.Context, name string) (*body[Review], error) {
		all, err := a.opt.Harness.Quarantine().Held(ctx, name)
		if err != nil {
			return nil, err
		}
		approved, err := a.opt.Harness.Quarantine().Approved(ctx, name, 20)
		return &body[Review]{Review{list(all), list(approved)}}, err
	}

	operation(a, endpoint{
		"getReview", "GET /v1/servers/{name}/review", "servers", http.StatusOK, "What is held of an upstream server",
		"Takes the role admin. Tools whose definition nobody has approved are not offered (quarantine).",
	}, func(ctx context.Context, in *ServerPath) (*body[Review], error) {
		if err := reviews(ctx, in.Name); err != nil {
			return nil, err
		}
		return held(ctx, in.Name)
	})

	operation(a, endpoint{
		"approveReview", "POST /v1/servers/{name}/review", "servers", http.StatusOK, "Approve what is held of an upstream server",
		"Takes the role admin. All of the definitions are approved, or none; the answer is what is still held.",
	}, func(ctx context.Context, in *struct {
		ServerPath
		Body NewReview
	},
	) (*body[Review], error) {
		if err := reviews(ctx, in.Name); err != nil {
			return nil, err
		}
		if err := a.opt.Harness.Quarantine().Approve(ctx, in.Name, identity(ctx).Principal, hashesOf(in.Body.Approve), nil); err != nil {
			return nil, notHeld(err)
		}
		return held(ctx, in.Name)
	})

	operation(a, endpoint{
		"askReview", "POST /v1/servers/{name}/review/questions", "servers", http.StatusOK, "Ask the caller's security key to approve what is held of an upstream server",
		"Takes the role admin. The answer is for these definitions, within 2 minutes, once.",
	}, func(ctx context.Context, in *struct {
		ServerPath
		Body NewReviewQuestion
	},
	) (*body[Question], error) {
		if err := reviews(ctx, in.Name); err != nil {
			return nil, err
		}
		q, err := a.opt.Harness.Quarantine().Ask(ctx, in.Name, identity(ctx).Principal, in.Body.Origin, hashesOf(in.Body.Approve))
		return &body[Question]{questionOf(q)}, notHeld(err)
	})

	operation(a, endpoint{
		"answerReview", "POST /v1/servers/{name}/review/answers", "servers", http.StatusOK, "Approve what is held of an upstream server by the answer of a security key",
		"Takes the role admin. All of the definitions are approved, or none; the answer is what is still held.",
	}, func(ctx context.Context, in *struct {
		ServerPath
		Body NewAnswer
	},
	) (*body[Review], error) {
		if err := reviews(ctx, in.Name); err != nil {
			return nil, err
		}
		given, err := in.Body.assertion()
		if err == nil {
			err = a.opt.Harness.Quarantine().Answer(ctx, in.Name, identity(ctx).Principal, in.Body.Batch, given)
		}
		if err != nil {
			return nil, notHeld(err)
		}
		return held(ctx, in.Name)
	})
}

// hashesOf returns the hashes of definitions by tool.
func hashesOf(all []ApprovedDefinition) map[string]string {
	hashes := map[string]string{}
	for _, d := range all {
		hashes[d.Tool] = d.Hash
	}
	return hashes
}

// notHeld returns the problem for a refused approval of definitions. It returns other errors unchanged.
func notHeld(err error) error {
	if errors.Is(err, approval.ErrNotHeld) || errors.Is(err, approval.ErrTooManyPins) {
		return problem(http.StatusConflict, err.Error())
	}
	return err
}

// serverChange writes an audit event about a change of a server. It returns an error if the caller is not an admin or if the server is unknown.
func (a *API) serverChange(ctx context.Context, change, name string) error {
	err := admin(ctx)
	if err == nil {
		_, err = a.status(ctx, name)
	}
	if err == nil {
		a.audit(ctx, telemetry.Event{
			UserID: identity(ctx).User, Type: telemetry.ServerChange, Severity: telemetry.Medium,
			Details: map[string]any{"server": name, "change": change},
		})
	}
	return err
}

// NewServer is an upstream server to add. A URL, an OpenAPI document or, where that is allowed, a command says how to reach the server.
type NewServer struct {
	_         struct{}          `additionalProperties:"true"`
	Name      string            `json:"name" minLength:"1" maxLength:"64" pattern:"^[A-Za-z0-9][A-Za-z0-9_.-]*$"`
	Transport string            `json:"transport,omitempty" enum:"http,sse,stdio,openapi"`
	URL       string            `json:"url,omitempty" doc:"Address of the server; with openapi, of the service, by default the one that the document says."`
	OpenAPI   *OpenAPIDocument  `json:"openapi,omitempty"`
	Security  map[string]string `json:"security,omitempty" doc:"Credentials by the names of the document's security schemes; of basic, user:password."`
	Headers   map[string]string `json:"headers,omitempty"`
	Command   string            `json:"command,omitempty"`
	Args      []string          `json:"args,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
}

// OpenAPIDocument is an OpenAPI 3 document: its http or https address, its text, or the document itself as JSON.
type OpenAPIDocument struct{ raw json.RawMessage }

// UnmarshalJSON implements json.Unmarshaler.
func (d *OpenAPIDocument) UnmarshalJSON(raw []byte) error {
	d.raw = bytes.Clone(raw)
	return nil
}

// Schema implements huma.SchemaProvider.
func (*OpenAPIDocument) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		Description: "An OpenAPI 3 document, whose operations become tools: its http or https address, its text in JSON or YAML, or the document itself.",
		OneOf:       []*huma.Schema{{Type: huma.TypeString}, {Type: huma.TypeObject, AdditionalProperties: true}},
	}
}

// into sets the document of a server in c. A document that is given as text or as JSON is parsed, so that mistakes are reported at once.
func (d *OpenAPIDocument) into(c *mcpclient.Config) error {
	var text string
	if json.Unmarshal(d.raw, &text) != nil {
		text = string(d.raw)
	} else if u, err := url.Parse(text); err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https") {
		c.OpenAPI = text
		return nil
	}
	doc, err := openapi.Parse([]byte(text))
	if err != nil {
		return fmt.Errorf("the OpenAPI document of server %q: %w", c.Name, err)
	}
	if err := doc.CheckCredentials(c.Security); err != nil {
		return fmt.Errorf("security of server %q: %w", c.Name, err)
	}
	c.Document = []byte(text)
	return nil
}

package api

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// resourcePath is the path at which MCP clients find out which issuer issues their tokens (RFC 9728).
const resourcePath = "/.well-known/oauth-protected-resource"

// addResource adds the endpoints that describe the endpoint for MCP clients as a protected resource. They answer 404 if no issuer is configured.
func (a *API) addResource(r *routes) {
	for id, path := range map[string]string{"mcpResource": resourcePath + mcpPath, "resource": resourcePath} {
		r.add(&huma.Operation{
			OperationID: id, Method: http.MethodGet, Path: path, Tags: []string{"mcp"}, Security: public,
			Summary:   "Where MCP clients get their tokens (RFC 9728)",
			Responses: answers("200", "Metadata", content("application/json", &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true})),
		}, func(w http.ResponseWriter, r *http.Request) error {
			if a.opt.Issuer == "" {
				return problem(http.StatusNotFound, "no issuer is configured: send an API key")
			}
			answer(w, http.StatusOK, map[string]any{
				"resource": a.resource(r).String(), "authorization_servers": []string{a.opt.Issuer}, "bearer_methods_supported": []string{"header"},
				"resource_name": "Code execution with MCP",
			})
			return nil
		})
	}
}

// resource returns the URL of the endpoint for MCP clients. If Options.Audience is a URL, resource returns the audience, because the issuer issues tokens for
// it. Otherwise resource returns the URL of mcpPath at the host that the request was sent to.
func (a *API) resource(r *http.Request) *url.URL {
	if at, err := url.Parse(a.opt.Audience); err == nil && at.Host != "" && strings.HasPrefix(at.Scheme, "http") {
		return at
	}
	at := &url.URL{Scheme: "http", Host: r.Host, Path: mcpPath}
	if a.opt.Proxies.Secure(r) {
		at.Scheme = "https"
	}
	return at
}

// withResource completes a challenge with the address at which MCP clients find the issuer.
func (a *API) withResource(challenge string, r *http.Request) string {
	if a.opt.Issuer == "" || r.URL.Path != mcpPath || challenge == "" {
		return challenge
	}
	at := a.resource(r)
	return challenge + `, resource_metadata="` + (&url.URL{Scheme: at.Scheme, Host: at.Host, Path: resourcePath + strings.TrimSuffix(at.Path, "/")}).String() + `"`
}

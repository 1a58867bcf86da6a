package api

import (
	"path"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// document is the configuration of huma without what it would add to answers: links, schemas, a page from elsewhere.
func (a *API) document() huma.Config {
	c := huma.DefaultConfig("mcp-code-exec-harness", strings.TrimPrefix(a.opt.Version, "v"))
	c.CreateHooks = nil
	c.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", schemaName)
	c.OpenAPIPath, c.DocsPath, c.SchemasPath = "/openapi", "", ""
	c.Info.Description = "Code execution with MCP: tasks and programs that find and call tools in a sandbox."
	c.Info.License = &huma.License{Name: "MIT", Identifier: "MIT"}
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"bearer": {Type: "http", Scheme: "bearer", Description: "An API key (hk_…) or a JWT of the configured issuer."},
	}
	c.Security = []map[string][]string{{"bearer": {}}}
	return c
}

// schemaName keeps types of the same name in different packages apart: TaskUsage, ModelUsage.
func schemaName(t reflect.Type, hint string) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	name := huma.DefaultSchemaNamer(t, hint)
	home := path.Base(t.PkgPath())
	if t.Name() == "" || home == "api" || home == "." || strings.HasPrefix(strings.ToLower(name), home) {
		return name
	}
	return strings.ToUpper(home[:1]) + home[1:] + name
}

// schemaOf is the schema of a type, by reference.
func (a *API) schemaOf(v any) *huma.Schema {
	return a.doc.OpenAPI().Components.Schemas.Schema(reflect.TypeOf(v), true, "")
}

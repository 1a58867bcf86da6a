package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	exact "github.com/segmentio/encoding/json"

	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/task"
)

// document returns the configuration of huma. It turns off what huma adds by default: links to schemas in answers, endpoints for schemas, and a
// documentation page with a script from another server.
func (a *API) document() huma.Config {
	c := huma.DefaultConfig("mcp-code-exec-harness", strings.TrimPrefix(a.opt.Version, "v"))
	c.CreateHooks = nil
	format := huma.Format{Marshal: huma.DefaultJSONFormat.Marshal, Unmarshal: decode}
	c.Formats = map[string]huma.Format{"application/json": format, "json": format}
	c.Servers = []*huma.Server{{URL: "/", Description: "This server."}}
	c.Components.Schemas = huma.NewMapRegistry(schemaPath, schemaName)
	c.Components.Schemas.RegisterTypeAlias(reflect.TypeFor[run.Millis](), reflect.TypeFor[float64]())
	c.OpenAPIPath, c.DocsPath, c.SchemasPath = "/openapi", "", ""
	c.Info.Description = "Code execution with MCP: tasks and programs that find and call tools in a sandbox."
	c.Info.License = &huma.License{Name: "MIT", Identifier: "MIT"}
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"bearer": {Type: "http", Scheme: "bearer", Description: "An API key (hk_…), a JWT of the configured issuer, or, while there are no keys, the local token."},
	}
	c.Security = []map[string][]string{{"bearer": {}}}
	return c
}

// decode reads a JSON body. Unlike encoding/json, it distinguishes upper and lower case in names, because the schema has checked the exact names.
func decode(text []byte, into any) error {
	if _, generic := into.(*any); generic || !json.Valid(text) { // json.Valid limits the nesting depth; the decoder does not
		return json.Unmarshal(text, into)
	}
	rest, err := exact.Parse(text, into, exact.DontMatchCaseInsensitiveStructFields)
	if err == nil && len(bytes.TrimSpace(rest)) > 0 {
		err = errors.New("there is more than one JSON value")
	}
	return err
}

// finish adds an error response to all operations, because every request can be refused. It also describes the webhook.
func (a *API) finish() {
	failed := &huma.Response{
		Description: "The request is refused; detail says why", Content: content("application/problem+json", a.schemaOf(Problem{})),
	}
	a.operations(func(_, _ string, op *huma.Operation) {
		op.Responses["4XX"] = failed
		if example, ok := examples[op.OperationID]; ok {
			op.RequestBody.Content["application/json"].Example = example
		}
	})
	a.addEventSchemas(taskEvent, task.EventData)
	a.addEventSchemas(runEvent, runs.EventData)
	schemas := a.doc.OpenAPI().Components.Schemas
	a.doc.OpenAPI().Webhooks = map[string]*huma.PathItem{"notification": {Post: &huma.Operation{
		OperationID: "notification", Summary: "What is posted to a callbackUrl, and to approvals.webhook",
		Description: "It is tried again until it is accepted, each time with the same X-Harness-Event-Id; a request for an approval only as " +
			"long as it waits. X-Harness-Signature is sha256= and the hexadecimal HMAC-SHA-256 of X-Harness-Timestamp, a dot and the " +
			"body, with server.webhooks.secret.",
		RequestBody: &huma.RequestBody{Required: true, Content: content("application/json", schemas.SchemaFromRef(a.schemaOf(task.Notification{}).Ref))}, // inline, because generators of clients lose schemas that only webhooks refer to
		Responses:   map[string]*huma.Response{"2XX": {Description: "It is accepted."}},
	}}}
}

// schemaPath is where schemas are in the document.
const schemaPath = "#/components/schemas/"

// addEventSchemas adds the schemas of the events of a stream to the document: one for each type, and one for all of them, which replaces that of the Go type of
// this name. data has a value of the Go type of each event's data.
func (a *API) addEventSchemas(name string, data map[string]any) {
	schemas := a.doc.OpenAPI().Components.Schemas.Map()
	all := &huma.Schema{
		Description:   "An event of a stream. Later versions may add types and fields.",
		Discriminator: &huma.Discriminator{PropertyName: "type", Mapping: map[string]string{}},
	}
	for _, kind := range slices.Sorted(maps.Keys(data)) {
		one := name
		for _, word := range strings.FieldsFunc(kind, func(r rune) bool { return r == '.' || r == '_' }) {
			one += strings.ToUpper(word[:1]) + word[1:]
		}
		schemas[one] = &huma.Schema{Type: huma.TypeObject, Required: []string{"type", "data"}, AdditionalProperties: true, Properties: map[string]*huma.Schema{
			"id":   {Type: huma.TypeInteger, Format: "int64", Description: "Its number in the stream; absent of an event that is not stored."},
			"type": {Type: huma.TypeString, Enum: []any{kind}},
			"time": {Type: huma.TypeString, Format: "date-time", Description: "Absent over SSE."},
			"data": a.schemaOf(data[kind]),
		}}
		all.OneOf = append(all.OneOf, &huma.Schema{Ref: schemaPath + one})
		all.Discriminator.Mapping[kind] = schemaPath + one
	}
	schemas[name] = all
}

// operations calls do for every operation of the document.
func (a *API) operations(do func(method, path string, op *huma.Operation)) {
	for path, item := range a.doc.OpenAPI().Paths {
		for _, op := range []*huma.Operation{item.Get, item.Put, item.Post, item.Delete} {
			if op != nil {
				do(op.Method, path, op)
			}
		}
	}
}

// schemaName returns the name of a type's schema. The package is a prefix, so that types of the same name differ: TaskUsage, ModelUsage.
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

// schemaOf returns a reference to the schema of a value's type.
func (a *API) schemaOf(v any) *huma.Schema {
	return a.doc.OpenAPI().Components.Schemas.Schema(reflect.TypeOf(v), true, "")
}

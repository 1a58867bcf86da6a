package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"mcp-code-exec-harness/internal/catalog"
)

// ToolLine is what a list shows of a tool.
type ToolLine struct {
	Name        string `json:"name" example:"crm__search"`
	Server      string `json:"server"`
	Description string `json:"description"`
}

// ToolList is every tool.
type ToolList struct {
	Tools []ToolLine `json:"tools"`
}

// ToolHits are tools that were searched for, the best first.
type ToolHits struct {
	Tools []catalog.Hit `json:"tools"`
}

func (a *API) addTools() {
	operation(a, huma.Operation{
		OperationID: "listTools", Method: http.MethodGet, Path: "/v1/tools", Tags: []string{"tools"}, Summary: "Every tool",
	}, func(ctx context.Context, in *struct {
		Server string `query:"server" maxLength:"1024" doc:"Only of this server."`
	},
	) (*body[ToolList], error) {
		a.opt.Harness.EnsureTools(ctx)
		out := &body[ToolList]{ToolList{[]ToolLine{}}}
		for _, t := range a.opt.Harness.Catalog().Tools() {
			if in.Server == "" || in.Server == t.Server {
				out.Body.Tools = append(out.Body.Tools, ToolLine{t.FullName(), t.Server, t.Description})
			}
		}
		return out, nil
	})

	operation(a, huma.Operation{
		OperationID: "searchTools", Method: http.MethodGet, Path: "/v1/tools/search", Tags: []string{"tools"}, Summary: "Find tools for a purpose",
	}, func(ctx context.Context, in *struct {
		Query string `query:"q" required:"true" minLength:"1" maxLength:"2000"`
		Limit int    `query:"limit" minimum:"1" maximum:"100" default:"10"`
	},
	) (*body[ToolHits], error) {
		a.opt.Harness.EnsureTools(ctx)
		return &body[ToolHits]{ToolHits{list(a.opt.Harness.Catalog().Search(ctx, in.Query, in.Limit))}}, nil
	})

	operation(a, huma.Operation{
		OperationID: "getTool", Method: http.MethodGet, Path: "/v1/tools/{name}", Tags: []string{"tools"}, Summary: "A tool with its schema and types",
	}, func(ctx context.Context, in *struct {
		Name string `path:"name" maxLength:"1024" example:"crm__search"`
	},
	) (*body[*catalog.Details], error) {
		a.opt.Harness.EnsureTools(ctx)
		details, err := a.opt.Harness.Catalog().Details(in.Name)
		return &body[*catalog.Details]{details}, err
	})

	operation(a, huma.Operation{
		OperationID: "getTypes", Method: http.MethodGet, Path: "/v1/tools.d.ts", Tags: []string{"tools"}, Summary: "TypeScript declarations of all tools",
		Responses: answers("200", "OK", content("text/plain", &huma.Schema{Type: huma.TypeString})),
	}, func(ctx context.Context, in *struct {
		Server string `query:"server" maxLength:"1024" doc:"Only of this server."`
	}) (*struct {
		ContentType string `header:"Content-Type"`
		Body        []byte
	}, error,
	) {
		a.opt.Harness.EnsureTools(ctx)
		text, err := a.opt.Harness.Catalog().Declarations(), error(nil)
		if in.Server != "" {
			text, err = a.opt.Harness.Catalog().ServerDeclaration(in.Server)
		}
		return &struct {
			ContentType string `header:"Content-Type"`
			Body        []byte
		}{"text/plain; charset=utf-8", []byte(text)}, err
	})
}

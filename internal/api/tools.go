package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/catalog/dts"
)

// ToolLine is a tool in a list.
type ToolLine struct {
	Name        string `json:"name" example:"crm__search"`
	Server      string `json:"server"`
	Description string `json:"description"`
	Call        string `json:"call" example:"tools.crm.search(input)" doc:"How a program calls it."`
}

// ToolList lists all tools.
type ToolList struct {
	Tools []ToolLine `json:"tools"`
}

// ToolOutline holds the fields that an editor completes in a call.
type ToolOutline struct {
	Arguments dts.Outline `json:"arguments"`
	Answer    dts.Outline `json:"answer" doc:"What the call gives: what the server declares, or else what was learned of its answers to the same user."`
}

// ToolHits are the results of a search, the best first.
type ToolHits struct {
	Tools []catalog.Hit `json:"tools"`
}

const searchPath = "/v1/tools/search"

func (a *API) addTools() {
	operation(a, endpoint{"listTools", "GET /v1/tools", "tools", http.StatusOK, "Every tool", ""}, func(ctx context.Context, in *struct {
		Server string `query:"server" maxLength:"1024" doc:"Only of this server."`
	},
	) (*body[ToolList], error) {
		a.opt.Harness.EnsureTools(ctx, identity(ctx).User)
		out := &body[ToolList]{ToolList{[]ToolLine{}}}
		tools := a.opt.Harness.Catalog().Of(ctx, known(ctx))
		for _, t := range tools.Tools() {
			if in.Server == "" || in.Server == t.Server {
				out.Body.Tools = append(out.Body.Tools, ToolLine{t.FullName(), t.Server, t.Description, tools.Call(t)})
			}
		}
		return out, nil
	})

	operation(a, endpoint{
		"searchTools", "GET " + searchPath, "tools", http.StatusOK, "Find tools for a purpose", "",
	}, func(ctx context.Context, in *struct {
		Query string `query:"q" required:"true" minLength:"1" maxLength:"2000"`
		Limit int    `query:"limit" minimum:"1" maximum:"100" default:"10"`
	},
	) (*body[ToolHits], error) {
		a.opt.Harness.EnsureTools(ctx, identity(ctx).User)
		return &body[ToolHits]{ToolHits{list(a.opt.Harness.Catalog().Of(ctx, known(ctx)).Search(ctx, known(ctx), in.Query, in.Limit))}}, nil
	})

	operation(a, endpoint{
		"getTool", "GET /v1/tools/{name}", "tools", http.StatusOK, "A tool with its schema and types", "",
	}, func(ctx context.Context, in *struct {
		Name string `path:"name" maxLength:"1024" example:"crm__search"`
	},
	) (*body[*catalog.Details], error) {
		a.opt.Harness.EnsureTools(ctx, identity(ctx).User)
		details, err := a.opt.Harness.Catalog().Of(ctx, known(ctx)).Reviewed(in.Name)
		if err == nil && a.opt.Destinations != nil {
			details.Destinations = a.opt.Destinations(details.Name, details.Destinations)
		}
		return &body[*catalog.Details]{details}, err
	})

	operation(a, endpoint{
		"getToolOutline", "GET /v1/tools/{name}/outline", "tools", http.StatusOK, "The fields of a tool's arguments and answer", "For editors. Large types are cut.",
	}, func(ctx context.Context, in *struct {
		Name string `path:"name" maxLength:"1024" example:"crm__search"`
	},
	) (*body[ToolOutline], error) {
		a.opt.Harness.EnsureTools(ctx, identity(ctx).User)
		arguments, answer, err := a.opt.Harness.Catalog().Of(ctx, known(ctx)).Outlines(in.Name)
		return &body[ToolOutline]{ToolOutline{arguments, answer}}, err
	})

	operation(a, endpoint{"getTypes", "GET /v1/tools.d.ts", "tools", http.StatusOK, "TypeScript declarations of all tools", ""}, a.types)
	a.doc.OpenAPI().Paths["/v1/tools.d.ts"].Get.Responses["200"].Content = content("text/plain", &huma.Schema{Type: huma.TypeString})
}

// known returns the user that a caller acts for. The catalog shows the caller the shapes of answers that were learned from calls of this user. known
// returns an empty string for a caller who may act for every user, except the local one; such a caller sees no learned shapes.
func known(ctx context.Context) string {
	user, _ := actFor(ctx, "") // an error means that no user is named
	return user
}

type text struct {
	ContentType string `header:"Content-Type"`
	Body        []byte
}

func (a *API) types(ctx context.Context, in *struct {
	Server string `query:"server" maxLength:"1024" doc:"Only of this server."`
},
) (*text, error) {
	a.opt.Harness.EnsureTools(ctx, identity(ctx).User)
	var types string
	var err error
	if tools := a.opt.Harness.Catalog().Of(ctx, known(ctx)); in.Server != "" {
		types, err = tools.ServerDeclaration(in.Server)
	} else {
		types = tools.Declarations()
	}
	return &text{"text/plain; charset=utf-8", []byte(types)}, err
}

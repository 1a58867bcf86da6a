package n8n

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"mcp-code-exec-harness/internal/clip"
)

// Bounds of requests to the public library.
const (
	publicPage = 50  // number of templates per request
	maxPublic  = 250 // maximum number of templates that a search by tags and nodes reads
)

// library reads templates from n8n's public library, or from one with the same API (N8N_TEMPLATES_HOST in n8n's documentation):
// GET /templates/search and /templates/workflows/ID. It sends no credentials. A nil *library has no templates.
type library struct {
	base   *url.URL
	client *http.Client
}

func newLibrary(address *url.URL) *library {
	return &library{base: address, client: newAPI(address, "").client}
}

var errNoLibrary = &refusal{
	"there is no public library of templates: n8n.templateLibrary is off; set it to https://api.n8n.io, or to the address of another one", object{"status": 501},
}

func (l *library) get(ctx context.Context, path string, query url.Values, into any) error {
	if l == nil {
		return errNoLibrary
	}
	at := l.base.JoinPath(path)
	at.RawQuery = query.Encode()
	x := exchange{client: l.client, method: http.MethodGet, address: at, header: http.Header{"Accept": {"application/json"}}}
	status, header, body, err := x.do(ctx)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return refusef(http.StatusServiceUnavailable, "the library of templates at %s cannot be reached: %v; n8n.templateLibrary names another one", l.base.Host, clip.Words(err.Error(), maxQuoted))
	case status != http.StatusOK || !isJSON(header):
		return refusef(status, "the library of templates at %s answered %s with HTTP %d", l.base.Host, at.Path, status)
	}
	if err := decode(body, into); err != nil {
		return refusef(http.StatusBadGateway, "the library of templates at %s answered %s with JSON of another form: %v", l.base.Host, at.Path, err)
	}
	return nil
}

// publicTemplate is a template in a listing of the library.
type publicTemplate struct {
	ID          any    `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description"`
	Nodes       []struct {
		Name       string `json:"name"` // node type
		Categories []struct {
			Name string `json:"name"`
		} `json:"nodeCategories"`
	} `json:"nodes"`
}

// search lists templates for a request in words. If there are categories, a template must be in all of them.
func (l *library) search(ctx context.Context, words string, categories []string, offset, limit int) ([]template, error) {
	var all []template
	rows := min(limit, publicPage)
	page, skip := offset/rows+1, offset%rows
	for len(all) < limit {
		query := url.Values{"page": {fmt.Sprint(page)}, "rows": {fmt.Sprint(rows)}}
		if words != "" {
			query.Set("search", words)
		}
		if len(categories) > 0 {
			query.Set("category", strings.Join(categories, ","))
		}
		var answer struct {
			Workflows []publicTemplate `json:"workflows"`
		}
		if err := l.get(ctx, "templates/search", query, &answer); err != nil {
			return nil, err
		}
		for _, found := range answer.Workflows[min(skip, len(answer.Workflows)):] {
			all = append(all, found.template())
		}
		if len(answer.Workflows) < rows {
			break
		}
		page, skip = page+1, 0
	}
	return all[:min(len(all), limit)], nil
}

func (p publicTemplate) template() template {
	t := template{id: sourcePublicID + fmt.Sprint(p.ID), source: sourcePublic, name: p.Name, description: p.Description}
	for _, n := range p.Nodes {
		t.nodes = append(t.nodes, object{"type": n.Name})
	}
	return t
}

// template reads a template with its nodes.
func (l *library) template(ctx context.Context, id string) (template, error) {
	if strings.Trim(id, "0123456789") != "" || id == "" {
		return template{}, refusef(http.StatusNotFound, "template %q not found (404): ids of the public library are numbers", sourcePublicID+id)
	}
	var answer object
	if err := l.get(ctx, "templates/workflows/"+id, nil, &answer); err != nil {
		return template{}, notFound(err, "template", sourcePublicID+id, "search_templates with source public gives the ids")
	}
	w := asWorkflow(answer)
	if w == nil {
		return template{}, refusef(http.StatusBadGateway, "the library of templates at %s answered without a workflow", l.base.Host)
	}
	t := newTemplate(sourcePublicID+id, sourcePublic, w)
	about := objectAt(answer, "workflow")
	t.name, t.description = cmp.Or(text(about, "name"), t.name), cmp.Or(text(about, "description"), t.description)
	return t, nil
}

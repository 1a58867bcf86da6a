package n8n

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/catalog/search"
)

const (
	templateMembers = `"id":{"type":"string"},"name":{"type":"string"},"description":{"type":"string"},"source":{"enum":["folder","instance","public"]},` +
		`"tags":{"type":"array","items":{"type":"string"}},"nodeTypes":{"type":"array","items":{"type":"string"}},"problem":{"type":"string"}`
	templateRow    = `{"type":"object","properties":{` + templateMembers + `,"nodes":{"type":"array","items":{"type":"object"}},"connections":{"type":"object"}},"required":["id","name","source","nodes"]}`
	templateSchema = `{"type":"object","properties":{` + templateMembers + `,"nodes":{"type":"array","items":{"type":"object"}},"connections":{"type":"object"},"settings":{"type":"object"},` +
		`"workflow":{"type":"object"}},"required":["id","name","source","nodes","connections"]}`
	sourceInput = `"source":{"enum":["own","folder","instance","public"],"default":"own","description":"own: folder and instance; public: n8n's library, over the internet"}`
)

func (i *Instance) templatesServer() *server {
	reads := hints{reads: true}
	return &server{
		name: "n8n-templates", title: "n8n templates",
		instructions: "Workflows to start from: files in a folder, the workflows of the instance, and n8n's public library with source public. " +
			"What get_template returns can be given to create_workflow of n8n-workflows.",
		offered: []tool{
			define("list_templates", "Lists templates, without their nodes' parameters.",
				sourceInput+`,"limit":{"type":"integer","minimum":1,"maximum":1000,"default":50},"offset":{"type":"integer","minimum":0,"maximum":100000,"default":0}`,
				listOf(templateRow), reads, i.listTemplates),
			define("search_templates", "Finds templates for a request in words, the best first; own ones as create_workflow takes them.",
				`"!query":{"type":"string","maxLength":4000},`+sourceInput+`,"limit":{"type":"integer","minimum":1,"maximum":100,"default":10}`, listOf(templateRow), reads, i.searchTemplates),
			define("get_template", "Reads a template as create_workflow takes it. full: with its notes, positions and everything else that is stored of it, as workflow.",
				`"!templateId":{"type":"string","description":"as listed, such as slack-notification, workflow:ID or public:1234"},"full":{"type":"boolean","default":false}`,
				templateSchema, reads, i.getTemplate),
			define("search_by_metadata", "Finds templates that have all of these tags and nodes of all of these types. In the public library a tag is a category.",
				`"tags":{"type":"array","items":{"type":"string"},"maxItems":20},"nodeTypes":{"type":"array","items":{"type":"string"},"maxItems":20,"description":"such as n8n-nodes-base.slack; slack works too"},`+
					sourceInput+`,"limit":{"type":"integer","minimum":1,"maximum":100,"default":20}`, listOf(templateRow), reads, i.searchByMetadata),
			define("list_node_templates", "Finds templates with a node of a type.",
				typeInput+`,`+sourceInput+`,"limit":{"type":"integer","minimum":1,"maximum":100,"default":20}`, listOf(templateRow), reads, i.listNodeTemplates),
		},
	}
}

type templatesInput struct {
	Source    string   `json:"source"`
	Query     string   `json:"query"`
	Tags      []string `json:"tags"`
	NodeType  string   `json:"nodeType"`
	NodeTypes []string `json:"nodeTypes"`
	Limit     int      `json:"limit"`
	Offset    int      `json:"offset"`
}

// rows returns templates in the form of listings, with names and types of their nodes.
func rows(all []template, offset, limit int) []object {
	out := []object{}
	for _, t := range all[min(offset, len(all)):min(offset+limit, len(all))] {
		row, nodes := t.row(), []object{}
		for _, n := range t.nodes {
			if text(n, "type") != noteType {
				nodes = append(nodes, object{"name": text(n, "name"), "type": text(n, "type")})
			}
		}
		row["nodes"] = nodes
		out = append(out, row)
	}
	return out
}

// foundRows returns the rows of the templates that a search found. If a template is not public, the nodes and connections in its row have the form
// that create_workflow accepts.
func foundRows(all []template, limit int) []object {
	out := rows(all, 0, limit)
	for i, row := range out {
		if t := all[i]; t.source != sourcePublic && t.problem == "" {
			row["nodes"], row["connections"] = t.bare(), t.connections()
		}
	}
	return out
}

func (i *Instance) listTemplates(ctx context.Context, _ func(), in templatesInput) (any, error) {
	if in.Limit == 0 {
		in.Limit = 50
	}
	if in.Source == sourcePublic {
		all, err := i.library.search(ctx, "", nil, in.Offset, in.Limit)
		return rows(all, 0, in.Limit), err
	}
	all, err := i.ownTemplates(ctx, in.Source)
	return rows(all, in.Offset, in.Limit), err
}

func (i *Instance) searchTemplates(ctx context.Context, _ func(), in templatesInput) (any, error) {
	if in.Limit == 0 {
		in.Limit = 10
	}
	if in.Source == sourcePublic {
		all, err := i.library.search(ctx, in.Query, nil, 0, in.Limit)
		return foundRows(all, in.Limit), err
	}
	all, err := i.ownTemplates(ctx, in.Source)
	return foundRows(find(all, in.Query, in.Limit), in.Limit), err
}

// find returns the templates that fit a request in words, the best first.
func find(all []template, query string, limit int) []template {
	segments := make([]*search.Segment, len(all))
	for n, t := range all {
		var kinds []string
		for _, kind := range t.nodeTypes() {
			kinds = append(kinds, shortType(kind))
		}
		segments[n] = search.NewSegment([]search.Doc{{
			Key: t.id, Name: t.name, Title: strings.Join(t.tags, " "), Description: t.description, Params: strings.Join(kinds, " "), Context: strings.Join(nodeNames(t.nodes), " "),
		}})
	}
	var best []template
	for _, r := range search.NewIndex(segments).Search(query, limit) {
		best = append(best, all[r.Segment])
	}
	return best
}

func nodeNames(nodes []object) []string {
	names := make([]string, len(nodes))
	for n := range nodes {
		names[n] = text(nodes[n], "name")
	}
	return names
}

func (i *Instance) getTemplate(ctx context.Context, _ func(), in struct {
	TemplateID string `json:"templateId"`
	Full       bool   `json:"full"`
},
) (any, error) {
	t, err := i.template(ctx, in.TemplateID)
	switch {
	case err != nil:
		return nil, err
	case t.problem != "":
		return nil, refusef(http.StatusUnprocessableEntity, "template %q: %s", t.id, t.problem)
	}
	out := t.row()
	out["nodes"], out["connections"] = t.bare(), t.connections()
	if set := objectAt(t.workflow, "settings"); len(set) > 0 {
		if kept, err := settings(set, set); err == nil {
			out["settings"] = kept
		}
	}
	if in.Full {
		out["workflow"] = t.workflow
	}
	return out, nil
}

// template returns the template with an id.
func (i *Instance) template(ctx context.Context, id string) (template, error) {
	const hint = "list_templates and search_templates give the ids"
	if w, is := strings.CutPrefix(id, sourceInstanceID); is {
		got, err := i.fetch(ctx, w)
		if err != nil {
			return template{}, err
		}
		return newTemplate(id, sourceInstance, object(got)), nil
	}
	if number, is := strings.CutPrefix(id, sourcePublicID); is {
		return i.library.template(ctx, number)
	}
	all, err := i.folder.templates(ctx)
	if err != nil {
		return template{}, err
	}
	at := slices.IndexFunc(all, func(t template) bool { return t.id == id })
	if at < 0 && id != "" && strings.Trim(id, "0123456789") == "" { // an id as the public library writes it
		return i.library.template(ctx, id)
	}
	if at < 0 {
		return template{}, refusef(http.StatusNotFound, "template %q not found (404); %s", id, hint)
	}
	return all[at], nil
}

func (i *Instance) searchByMetadata(ctx context.Context, _ func(), in templatesInput) (any, error) {
	if in.Limit == 0 {
		in.Limit = 20
	}
	if len(in.Tags) == 0 && len(in.NodeTypes) == 0 {
		return nil, refusef(http.StatusBadRequest, "neither tags nor nodeTypes are given; list_templates lists all")
	}
	if in.Source != sourcePublic {
		all, err := i.ownTemplates(ctx, in.Source)
		all = slices.DeleteFunc(all, func(t template) bool { return !t.hasTags(in.Tags) || !t.hasTypes(in.NodeTypes) })
		return foundRows(all, in.Limit), err
	}
	words := make([]string, len(in.NodeTypes))
	for n, kind := range in.NodeTypes {
		words[n] = shortType(kind)
	}
	var found []template
	for offset := 0; offset < maxPublic && len(found) < in.Limit; offset += publicPage {
		page, err := i.library.search(ctx, strings.Join(words, " "), in.Tags, offset, publicPage)
		if err != nil {
			return nil, err
		}
		for _, t := range page {
			if t.hasTypes(in.NodeTypes) {
				found = append(found, t)
			}
		}
		if len(page) < publicPage {
			break
		}
	}
	return foundRows(found, in.Limit), nil
}

func (i *Instance) listNodeTemplates(ctx context.Context, sent func(), in templatesInput) (any, error) {
	if in.NodeType == "" {
		return nil, refusef(http.StatusBadRequest, "nodeType is empty; search_nodes finds one")
	}
	in.NodeTypes = []string{in.NodeType}
	return i.searchByMetadata(ctx, sent, in)
}

// ownTemplates returns the templates of the folder and of the instance, or of one of them.
func (i *Instance) ownTemplates(ctx context.Context, source string) ([]template, error) {
	var all []template
	if source == sourceFolder && i.folder.dir == "" {
		return nil, refusef(http.StatusNotImplemented, "there is no folder of templates: set n8n.templates to one with workflows as n8n exports them")
	}
	if source != sourceInstance {
		found, err := i.folder.templates(ctx)
		if err != nil {
			return nil, err
		}
		all = found
	}
	if source == sourceFolder || source != sourceInstance && i.opts.APIKey == "" {
		return all, nil
	}
	stored, err := list[workflow](ctx, i.api, "workflows", queryUnpinned(), 0, maxListed)
	if err != nil {
		return nil, err
	}
	for _, w := range stored {
		if archived, _ := w["isArchived"].(bool); !archived {
			all = append(all, newTemplate(sourceInstanceID+w.id(), sourceInstance, object(w)))
		}
	}
	return all, nil
}

// sameType reports whether a name that a caller wrote means a type of nodes: with or without the package, in any case.
func sameType(asked, kind string) bool {
	return strings.EqualFold(asked, kind) || !strings.Contains(asked, ".") && fold(asked) == fold(shortType(kind)) ||
		strings.EqualFold(strings.TrimPrefix(asked, "nodes-base."), shortType(kind)) && strings.HasPrefix(kind, "n8n-nodes-base.")
}

func (t template) hasTypes(asked []string) bool {
	return !slices.ContainsFunc(asked, func(a string) bool {
		return !slices.ContainsFunc(t.nodeTypes(), func(kind string) bool { return sameType(a, kind) })
	})
}

func (t template) hasTags(asked []string) bool {
	return !slices.ContainsFunc(asked, func(a string) bool {
		return !slices.ContainsFunc(t.tags, func(tag string) bool { return strings.EqualFold(a, tag) })
	})
}

// row returns a template in the form of listings.
func (t template) row() object {
	out := object{"id": t.id, "name": t.name, "source": t.source}
	if t.problem != "" {
		out["problem"] = t.problem
		return out
	}
	if t.description != "" {
		out["description"] = plainText(t.description, 200)
	}
	if len(t.tags) > 0 {
		out["tags"] = t.tags
	}
	out["nodeTypes"] = t.nodeTypes()
	return out
}

// nodeTypes returns the sorted types of the template's nodes, without notes.
func (t template) nodeTypes() []string {
	kinds := []string{}
	for _, n := range t.nodes {
		if kind := text(n, "type"); kind != noteType && kind != "" {
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// bare returns the template's nodes for create_workflow, without notes and without fields that create_workflow fills in.
func (t template) bare() []object {
	out := []object{}
	for _, n := range t.nodes {
		if text(n, "type") == noteType {
			continue
		}
		short := object{}
		for _, key := range nodeFields {
			switch key {
			case "id", "position", "webhookId":
			default:
				if v, has := n[key]; has {
					short[key] = v
				}
			}
		}
		if _, has := short["parameters"]; !has {
			short["parameters"] = object{}
		}
		out = append(out, short)
	}
	return out
}

func (t template) connections() object {
	if c := objectAt(t.workflow, "connections"); c != nil {
		return c
	}
	return object{}
}

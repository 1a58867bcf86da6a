package catalog

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"mcp-code-exec-harness/internal/frame"
)

// Library is the catalog in the form of a virtual library that programs can browse.
type Library struct {
	Type        string                   `json:"type"` // virtual-library
	Description string                   `json:"description"`
	Servers     map[string]LibraryServer `json:"servers"`
}

// LibraryServer is one server of a Library.
type LibraryServer struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Functions   []string `json:"functions"` // exports of the module at Path
	Categories  []string `json:"categories"`
	Path        string   `json:"path"`
}

// Library lists every server with its functions.
func (c *Catalog) Library() Library {
	lib := Library{
		Type:        "virtual-library",
		Description: "MCP tools as modules: import * as server from './servers/<name>', or tools.<name>.<function>(input)",
		Servers:     map[string]LibraryServer{},
	}
	for _, e := range c.now.Load().servers {
		lib.Servers[e.Name] = LibraryServer{
			Name: e.Name, Description: e.summary(), Functions: e.functionNames(), Categories: []string{},
			Path: "./servers/" + e.Name,
		}
	}
	return lib
}

// Index is one server with its functions described.
type Index struct {
	Name         string          `json:"name"`
	Description  string          `json:"description"`
	Instructions string          `json:"instructions,omitempty"`
	Functions    []IndexFunction `json:"functions"`
}

// IndexFunction is one function of an Index.
type IndexFunction struct {
	Name        string `json:"name"` // exported name
	Tool        string `json:"tool"` // server__tool
	Description string `json:"description"`
	Signature   string `json:"signature"`
}

// Index describes a server and its functions; the name is matched as by ResolveServer.
func (v View) Index(server string) (*Index, error) {
	e, err := v.now.Load().resolveServer(server)
	if err != nil {
		return nil, err
	}
	index := &Index{
		Name: e.Name, Description: e.summary(), Instructions: e.Instructions, Functions: []IndexFunction{},
	}
	for _, f := range e.moduleFunctions() {
		t := e.byFunction[f.Name]
		index.Functions = append(index.Functions, IndexFunction{
			Name: f.Name, Tool: f.Tool, Description: t.summary(), Signature: v.signature(t),
		})
	}
	return index, nil
}

// summary returns the server's own description, or else its name and number of tools.
func (e *entry) summary() string {
	return cmp.Or(e.Description, fmt.Sprintf("MCP server %s with %d tools", e.Name, len(e.Tools)))
}

// Answer answers a host call of kind "catalog" for a user. The value is ready to be encoded. The guest chose name and args.
func (c *Catalog) Answer(ctx context.Context, user, name string, args json.RawMessage) (any, error) {
	var a struct {
		Query  string  `json:"query"`
		Limit  float64 `json:"limit"`
		Detail string  `json:"detail"`
		Name   string  `json:"name"`
		Server string  `json:"server"`
	}
	if len(args) > 0 {
		if err := frame.DecodeArgs(args, &a); err != nil {
			return nil, fmt.Errorf("catalog call %s: arguments: %w", shown(name), err)
		}
	}
	switch name {
	case "list":
		return c.List(), nil
	case "search":
		return c.answerSearch(ctx, user, a.Query, int(min(a.Limit, maxHits)), a.Detail)
	case "details":
		return c.For(user).DetailsIn(a.Server, a.Name)
	case "servers":
		names := []string{}
		for _, e := range c.now.Load().servers {
			names = append(names, e.Name)
		}
		return names, nil
	case "library":
		return c.Library(), nil
	case "index":
		return c.For(user).Index(a.Server)
	case "functions":
		e, err := c.now.Load().resolveServer(a.Server)
		if err != nil {
			return nil, err
		}
		return e.functionNames(), nil
	case "names":
		return c.Names(), nil
	}
	return nil, fmt.Errorf("unknown catalog call %q", shown(name))
}

// answerSearch searches for tools. For the detail "name" it returns their full names, for "full" their Details, and for any other detail the hits.
func (c *Catalog) answerSearch(ctx context.Context, user, query string, limit int, detail string) (any, error) {
	hits := c.Search(ctx, user, query, limit)
	switch detail {
	case "name":
		names := make([]string, len(hits))
		for i, h := range hits {
			names[i] = h.Name
		}
		return names, nil
	case "full":
		full := make([]*Details, 0, len(hits))
		for _, h := range hits {
			// A server may have been removed since the search; its tools are left out then.
			if d, err := c.For(user).DetailsIn(h.Server, h.Name[len(h.Server)+2:]); err == nil {
				full = append(full, d)
			}
		}
		return full, nil
	}
	return hits, nil
}

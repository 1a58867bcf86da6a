package catalog

import (
	"encoding/json"
	"strings"

	"mcp-code-exec-harness/internal/catalog/dts"
)

// Details describes one tool.
type Details struct {
	Name          string          `json:"name"` // server__tool
	Title         string          `json:"title,omitempty"`
	Description   string          `json:"description"`
	InputSchema   json.RawMessage `json:"inputSchema"`
	Schema        json.RawMessage `json:"schema"` // the same, under the name that older programs use
	OutputSchema  json.RawMessage `json:"outputSchema,omitempty"`
	Learned       *Learned        `json:"learned,omitempty"` // learned shape, if the server declares no output schema
	Annotations   *Annotations    `json:"annotations,omitempty"`
	Signature     string          `json:"signature"`
	TypeScript    string          `json:"typescript"`
	Call          string          `json:"call"` // how to write a call
	Instructions  string          `json:"instructions,omitempty"`
	SchemaProblem string          `json:"schemaProblem,omitempty"`
}

// Details describes a tool; the name is matched as by Resolve.
func (c *Catalog) Details(name string) (*Details, error) { return c.DetailsIn("", name) }

// DetailsIn describes a tool of a server; the names are matched as by ResolveIn.
func (c *Catalog) DetailsIn(server, tool string) (*Details, error) {
	snap := c.now.Load()
	t, err := snap.resolveIn(server, tool)
	if err != nil {
		return nil, err
	}
	return snap.details(t), nil
}

func (s *snapshot) details(t *Tool) *Details {
	e := s.byName[t.Server]
	d := &Details{
		Name: t.FullName(), Title: t.title(), Description: t.Description,
		InputSchema: validJSON(t.InputSchema, json.RawMessage("{}")), OutputSchema: validJSON(t.OutputSchema, nil),
		Signature: t.Signature(), TypeScript: dts.Declaration(e.identifier, t.declared()),
		Call:         "tools." + e.identifier + "." + t.Function() + "(input)",
		Instructions: e.Instructions, SchemaProblem: t.SchemaProblem(),
	}
	d.Schema = d.InputSchema
	if l := t.learned(); l != nil {
		d.Learned = &l.Learned
	}
	if a := t.Annotations; a != (Annotations{}) {
		d.Annotations = &a
	}
	return d
}

// validJSON is raw, or something else where a server sent no JSON.
func validJSON(raw, otherwise json.RawMessage) json.RawMessage {
	if json.Valid(raw) {
		return raw
	}
	return otherwise
}

// ServerDeclaration is the TypeScript declaration of a server: its namespace and the module './servers/<server>'.
func (c *Catalog) ServerDeclaration(server string) (string, error) {
	e, err := c.now.Load().resolveServer(server)
	if err != nil {
		return "", err
	}
	return e.declaration(), nil
}

// Declarations is the TypeScript declaration of everything in the catalog, one .d.ts file.
func (c *Catalog) Declarations() string {
	var b strings.Builder
	b.WriteString(dts.Globals)
	for _, e := range c.now.Load().servers {
		b.WriteString("\n" + e.declaration())
	}
	return b.String()
}

// declared is a server's declaration and what it was made of, beside the tools.
type declared struct {
	text       string
	identifier string
	learnt     int64
}

// declaration is made again only after something that it is made of has changed.
func (e *member) declaration() string {
	now := declared{identifier: e.identifier, learnt: e.learnt.Load()}
	if last := e.declared.Load(); last != nil && last.identifier == now.identifier && last.learnt == now.learnt {
		return last.text
	}
	now.text = e.declare()
	e.declared.Store(&now)
	return now.text
}

func (e *member) declare() string {
	s := dts.Server{Name: e.Name, Identifier: e.identifier, Doc: e.doc()}
	for i := range e.Tools {
		s.Tools = append(s.Tools, e.Tools[i].declared())
	}
	return dts.ServerDeclaration(s)
}

func (e *entry) doc() string {
	return strings.TrimSpace(e.Description + "\n" + e.Instructions)
}

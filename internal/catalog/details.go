package catalog

import (
	"encoding/json"
	"strings"

	"mcp-code-exec-harness/internal/catalog/destination"
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
	Learned       *Learned        `json:"learned,omitempty"` // shape of answers to the same user, if the server declares no output schema
	Annotations   *Annotations    `json:"annotations,omitempty"`
	Signature     string          `json:"signature"`
	TypeScript    string          `json:"typescript"`
	Call          string          `json:"call"` // how to write a call
	Instructions  string          `json:"instructions,omitempty"`
	SchemaProblem string          `json:"schemaProblem,omitempty"`
	// Destinations are filled in by Reviewed. Programs and models are not told them.
	Destinations []destination.Destination `json:"destinations,omitempty" doc:"Arguments that say where a call sends something: what rules with destinations: default are about."`
}

// View is a catalog with what was learned of the answers to one user. It is safe for concurrent use.
type View struct {
	*Catalog
	user string
}

// For is the catalog as a user sees it, with what is learned of answers to that user. Without a user nothing learned shows.
func (c *Catalog) For(user string) View { return View{c, user} }

// learned is what readers see of the answers of a tool to the view's user; nil: nothing.
func (v View) learned(t *Tool) *published { return v.shapes.find(v.user, t) }

// signature is Tool.Signature with what is learned.
func (v View) signature(t *Tool) string {
	if l := v.learned(t); l != nil {
		return l.signatureOf(t)
	}
	return t.Signature()
}

// Details is View.Details without what is learned.
func (c *Catalog) Details(name string) (*Details, error) { return View{Catalog: c}.Details(name) }

// DetailsIn is View.DetailsIn without what is learned.
func (c *Catalog) DetailsIn(server, tool string) (*Details, error) {
	return View{Catalog: c}.DetailsIn(server, tool)
}

// Details describes a tool; the name is matched as by Resolve.
func (v View) Details(name string) (*Details, error) { return v.DetailsIn("", name) }

// Reviewed is Details with the destinations that the tool's definition says, for people.
func (v View) Reviewed(name string) (*Details, error) {
	snap := v.now.Load()
	t, err := snap.resolve(name)
	if err != nil {
		return nil, err
	}
	d := v.details(snap.byName[t.Server], t)
	d.Destinations = t.Destinations()
	return d, nil
}

// DetailsIn describes a tool of a server; the names are matched as by ResolveIn.
func (v View) DetailsIn(server, tool string) (*Details, error) {
	snap := v.now.Load()
	t, err := snap.resolveIn(server, tool)
	if err != nil {
		return nil, err
	}
	return v.details(snap.byName[t.Server], t), nil
}

func (v View) details(e *member, t *Tool) *Details {
	l := v.learned(t)
	d := &Details{
		Name: t.FullName(), Title: t.title(), Description: t.Description,
		InputSchema: validJSON(t.InputSchema, json.RawMessage("{}")), OutputSchema: validJSON(t.OutputSchema, nil),
		Signature: v.signature(t), TypeScript: dts.Declaration(e.identifier, t.declared(l)),
		Call:         e.call(t),
		Instructions: e.Instructions, SchemaProblem: t.SchemaProblem(),
	}
	d.Schema = d.InputSchema
	if l != nil {
		d.Learned = &l.Learned
	}
	if a := t.Annotations; a != (Annotations{}) {
		d.Annotations = &a
	}
	return d
}

// call is how a program calls a tool of the server.
func (e *member) call(t *Tool) string {
	return "tools." + e.identifier + "." + t.Function() + "(input)"
}

// Call is how a program calls a tool; empty if its server is gone.
func (c *Catalog) Call(t *Tool) string {
	if e := c.now.Load().byName[t.Server]; e != nil {
		return e.call(t)
	}
	return ""
}

// Outlines are the outlines of the arguments of a tool and of what a call of it gives; the name is matched as by Resolve.
func (v View) Outlines(name string) (arguments, answer dts.Outline, err error) {
	t, err := v.Resolve(name)
	if err != nil {
		return arguments, answer, err
	}
	in, out := dts.Types(t.declared(v.learned(t)))
	return in.Outline(), out.Outline(), nil
}

// validJSON is raw, or something else where a server sent no JSON.
func validJSON(raw, otherwise json.RawMessage) json.RawMessage {
	if json.Valid(raw) {
		return raw
	}
	return otherwise
}

// ServerDeclaration is View.ServerDeclaration without what is learned.
func (c *Catalog) ServerDeclaration(server string) (string, error) {
	return View{Catalog: c}.ServerDeclaration(server)
}

// Declarations is View.Declarations without what is learned.
func (c *Catalog) Declarations() string { return View{Catalog: c}.Declarations() }

// ServerDeclaration is the TypeScript declaration of a server: its namespace and the module './servers/<server>'.
func (v View) ServerDeclaration(server string) (string, error) {
	e, err := v.now.Load().resolveServer(server)
	if err != nil {
		return "", err
	}
	return v.declaration(e), nil
}

// Declarations is the TypeScript declaration of everything in the catalog, one .d.ts file.
func (v View) Declarations() string {
	var b strings.Builder
	b.WriteString(dts.Globals)
	for _, e := range v.now.Load().servers {
		b.WriteString("\n" + v.declaration(e))
	}
	return b.String()
}

// declared is a server's declaration and what it was made of, beside the tools.
type declared struct {
	text string
	declaredOf
}

type declaredOf struct {
	identifier string
	user       string // user of whom something is learned; "" for none
	revision   int64  // revision of what is learned of the user
}

// declaration is made again only after something that it is made of has changed, or, where something is learned of the user, another such user has read it.
func (v View) declaration(e *member) string {
	of, kept := declaredOf{identifier: e.identifier}, &e.declared
	if of.revision = v.shapes.revisionOf(v.user, e.Name); of.revision > 0 {
		of.user, kept = v.user, &e.learned
	}
	if last := kept.Load(); last != nil && last.declaredOf == of {
		return last.text
	}
	made := &declared{v.declare(e), of}
	kept.Store(made)
	return made.text
}

func (v View) declare(e *member) string {
	s := dts.Server{Name: e.Name, Identifier: e.identifier, Doc: e.doc()}
	for i := range e.Tools {
		t := &e.Tools[i]
		s.Tools = append(s.Tools, t.declared(v.learned(t)))
	}
	return dts.ServerDeclaration(s)
}

func (e *entry) doc() string {
	return strings.TrimSpace(e.Description + "\n" + e.Instructions)
}

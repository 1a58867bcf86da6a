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
	Schema        json.RawMessage `json:"schema"` // same as InputSchema, under the name that older programs use
	OutputSchema  json.RawMessage `json:"outputSchema,omitempty"`
	Learned       *Learned        `json:"learned,omitempty"` // shape of the answers to the same user, if the server declares no output schema
	Annotations   *Annotations    `json:"annotations,omitempty"`
	Signature     string          `json:"signature"`
	TypeScript    string          `json:"typescript"`
	Call          string          `json:"call"` // text that shows how to write a call
	Instructions  string          `json:"instructions,omitempty"`
	SchemaProblem string          `json:"schemaProblem,omitempty"`
	// Destinations are set only by Reviewed, because they are shown to people and not to programs and models.
	Destinations []destination.Destination `json:"destinations,omitempty" doc:"Arguments that say where a call sends something: what rules with destinations: default are about."`
}

// View is a catalog together with what is learned from the answers to one user. It is safe for concurrent use.
type View struct {
	*Catalog
	user string
}

// For returns the catalog as a user sees it, with what is learned from the answers to that user. If user is empty, the view shows nothing learned.
func (c *Catalog) For(user string) View { return View{c, user} }

// learned returns what is learned from a tool's answers to the user of the view, or nil.
func (v View) learned(t *Tool) *published { return v.shapes.find(v.user, t) }

// signature returns the signature of a tool, with the learned type of its answers if there is one.
func (v View) signature(t *Tool) string {
	if l := v.learned(t); l != nil {
		return l.signatureOf(t)
	}
	return t.Signature()
}

// Details does the same as View.Details, without anything learned.
func (c *Catalog) Details(name string) (*Details, error) { return View{Catalog: c}.Details(name) }

// DetailsIn does the same as View.DetailsIn, without anything learned.
func (c *Catalog) DetailsIn(server, tool string) (*Details, error) {
	return View{Catalog: c}.DetailsIn(server, tool)
}

// Details describes a tool; the name is matched as by Resolve.
func (v View) Details(name string) (*Details, error) { return v.DetailsIn("", name) }

// Reviewed returns the details of a tool for people, with the destinations that its definition declares.
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

// call returns how a program calls a tool of the server.
func (e *member) call(t *Tool) string {
	return "tools." + e.identifier + "." + t.Function() + "(input)"
}

// Call returns how a program calls a tool; it returns an empty string if the tool's server was removed.
func (c *Catalog) Call(t *Tool) string {
	if e := c.now.Load().byName[t.Server]; e != nil {
		return e.call(t)
	}
	return ""
}

// Outlines returns the outlines of a tool's arguments and of its answer; the name is matched as by Resolve.
func (v View) Outlines(name string) (arguments, answer dts.Outline, err error) {
	t, err := v.Resolve(name)
	if err != nil {
		return arguments, answer, err
	}
	in, out := dts.Types(t.declared(v.learned(t)))
	return in.Outline(), out.Outline(), nil
}

// validJSON returns raw if it is valid JSON. If a server sent something else, validJSON returns the argument otherwise.
func validJSON(raw, otherwise json.RawMessage) json.RawMessage {
	if json.Valid(raw) {
		return raw
	}
	return otherwise
}

// ServerDeclaration does the same as View.ServerDeclaration, without anything learned.
func (c *Catalog) ServerDeclaration(server string) (string, error) {
	return View{Catalog: c}.ServerDeclaration(server)
}

// Declarations does the same as View.Declarations, without anything learned.
func (c *Catalog) Declarations() string { return View{Catalog: c}.Declarations() }

// ServerDeclaration returns the TypeScript declaration of a server: its namespace and the module './servers/<server>'.
func (v View) ServerDeclaration(server string) (string, error) {
	e, err := v.now.Load().resolveServer(server)
	if err != nil {
		return "", err
	}
	return v.declaration(e), nil
}

// Declarations returns the TypeScript declarations of everything in the catalog, as one .d.ts file.
func (v View) Declarations() string {
	var b strings.Builder
	b.WriteString(dts.Globals)
	for _, e := range v.now.Load().servers {
		b.WriteString("\n" + v.declaration(e))
	}
	return b.String()
}

// declared is the declaration of a server. declaredOf holds what the text depends on, apart from the tools.
type declared struct {
	text string
	declaredOf
}

type declaredOf struct {
	identifier string
	user       string // user whose learned shapes are in it; "" if none are
	revision   int64  // revision of the user's learned shapes
}

// declaration returns the declaration of a server. The declaration is cached until its contents change. Declarations with learned shapes are cached for
// one user at a time.
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

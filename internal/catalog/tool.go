package catalog

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"mcp-code-exec-harness/internal/catalog/destination"
	"mcp-code-exec-harness/internal/catalog/dts"
	"mcp-code-exec-harness/internal/catalog/ident"
	"mcp-code-exec-harness/internal/catalog/schema"
	"mcp-code-exec-harness/internal/catalog/shape"
)

// Server is one MCP server with the tools that it lists.
type Server struct {
	Name         string // configured name; any text
	Description  string
	Instructions string // the server's own advice on how to use its tools
	Tools        []Tool
	Aliases      []string // further names of the server; an alias, any separator and the name of a tool together find the tool
	Held         []string // names of tools that are held for review; they resolve to a *HeldError
}

// Tool is one tool of a server. The tools that a Catalog returns are shared and must not be changed.
type Tool struct {
	Server       string
	Name         string // name that the server uses
	Title        string
	Description  string
	InputSchema  json.RawMessage // JSON Schema of the input object; empty if anything is allowed
	OutputSchema json.RawMessage // JSON Schema of structuredContent; empty if unknown
	Annotations  Annotations
	// Content is the digest of the code of a skill, which the caller executes itself; empty for a tool that its server executes.
	Content string

	derived *derived // values computed from the definition; nil for a tool outside of a catalog: get then computes them at each use
}

// derived holds what follows from a tool's definition; each part is computed at its first use.
type derived struct {
	fullName  string
	function  string // identifier, unique in the server
	input     func() *schema.Value
	noTexts   func() map[string]*schema.Value
	wraps     func() bool
	signature func() string
	types     func() types
	validator func() *validator
	// destinations returns the arguments that say where a call sends something.
	destinations func() []destination.Destination
	// definition returns a digest of the parts of the definition that learned shapes depend on. undeclared reports whether the server does not
	// declare the answers.
	definition func() string
	undeclared func() bool
	words      func() shape.Words // words of the server's own names; nil in a tool outside of a catalog
}

func (t *Tool) derive(function string) *derived {
	return &derived{
		fullName: t.Server + "__" + t.Name, function: function,
		input:     sync.OnceValue(func() *schema.Value { return parse(t.InputSchema) }),
		noTexts:   sync.OnceValue(t.findNoTexts),
		wraps:     sync.OnceValue(t.findWraps),
		signature: sync.OnceValue(func() string { return dts.Signature(t.declared(nil), maxSignature) }),
		types:     sync.OnceValue(t.findTypes),
		validator: sync.OnceValue(func() *validator { return newValidator(t.InputSchema) }),

		destinations: sync.OnceValue(t.findDestinations),

		definition: sync.OnceValue(func() string { return definitionOf(t) }),
		undeclared: sync.OnceValue(func() bool { return t.outputSchema() == nil }),
	}
}

func (t *Tool) get() *derived {
	if t.derived != nil {
		return t.derived
	}
	return t.derive(ident.Camel(t.Name))
}

// Annotations are the server's claims about a tool; nil means the default of MCP.
type Annotations struct {
	Title       string `json:"title,omitempty"`
	ReadOnly    *bool  `json:"readOnlyHint,omitempty"`
	Destructive *bool  `json:"destructiveHint,omitempty"`
	Idempotent  *bool  `json:"idempotentHint,omitempty"`
	OpenWorld   *bool  `json:"openWorldHint,omitempty"`
}

// IsReadOnly reports whether the tool changes nothing. By default it may change something.
func (a Annotations) IsReadOnly() bool { return a.ReadOnly != nil && *a.ReadOnly }

// IsIdempotent reports whether repeating a call changes nothing more. By default a repetition may change something, unless the tool is read-only.
func (a Annotations) IsIdempotent() bool {
	return a.IsReadOnly() || a.Idempotent != nil && *a.Idempotent
}

// IsDestructive reports whether the tool may delete or overwrite something. By default it may, unless it is read-only.
func (a Annotations) IsDestructive() bool {
	return !a.IsReadOnly() && (a.Destructive == nil || *a.Destructive)
}

// IsOpenWorld reports whether the tool deals with the world outside of its server. By default it does.
func (a Annotations) IsOpenWorld() bool { return a.OpenWorld == nil || *a.OpenWorld }

// FullName returns the tool's name in programs: server__tool.
func (t *Tool) FullName() string { return t.get().fullName }

// Function returns the identifier of the tool as a function of its server.
func (t *Tool) Function() string { return t.get().function }

// learns reports whether shapes of the tool's answers are learned.
func (t *Tool) learns() bool { return t.get().words != nil && t.get().undeclared() }

// Signature describes the tool in one line of about 200 characters.
func (t *Tool) Signature() string { return t.get().signature() }

// WrapsResult reports whether the server wraps every result as {"result": ...}, as common Python servers do. In this case the inner value is the
// tool's result.
func (t *Tool) WrapsResult() bool { return t.get().wraps() }

func (t *Tool) findWraps() bool {
	properties := t.outputSchema().Get("properties")
	return properties.Is(schema.Object) && len(properties.Members) == 1 && properties.Members[0].Name == "result"
}

// types holds the TypeScript types of a tool's input and answer.
type types struct{ input, answer dts.Type }

func (t *Tool) findTypes() types {
	input, answer := dts.Types(dts.Tool{Function: t.Function(), Input: t.inputSchema(), Output: t.outputSchema(), Unwrap: t.WrapsResult()})
	return types{input, answer}
}

// Types returns the types of the tool's input and of its answer, as they are declared to programs. If there is no schema, the type admits any value.
func (t *Tool) Types() (input, answer dts.Type) {
	of := t.get().types()
	return of.input, of.answer
}

// Destinations returns the arguments that say where a call sends something, according to the tool's definition.
func (t *Tool) Destinations() []destination.Destination { return t.get().destinations() }

func (t *Tool) findDestinations() []destination.Destination {
	return destination.Of(destination.Tool{
		Name: t.Name, Description: t.Description, Input: t.inputSchema(), ReadOnly: t.Annotations.ReadOnly, OpenWorld: t.Annotations.IsOpenWorld(),
	})
}

// Declared returns the media type and the format that the tool's schema declares for a string in its arguments. path leads to the string by names of
// properties and indexes of items.
func (t *Tool) Declared(path []string) (mediaType, format string) {
	root := t.inputSchema()
	at := schema.Follow(root, root)
	for _, step := range path {
		next := at.Get("properties").Get(step)
		if next == nil {
			next = at.Get("items")
		}
		at = schema.Follow(root, next)
	}
	return at.Get("contentMediaType").String(), at.Get("format").String()
}

const maxSignature = 200

// inputSchema returns the ordered input schema, or nil if there is none or it is not usable.
func (t *Tool) inputSchema() *schema.Value { return t.get().input() }

// outputSchema returns the ordered output schema, or nil if there is none or it is not usable.
func (t *Tool) outputSchema() *schema.Value { return parse(t.OutputSchema) }

// parse reads a schema. It returns nil if the schema is not usable, which newValidator reports.
func parse(raw json.RawMessage) *schema.Value {
	v, _ := schema.Parse(raw)
	return v
}

// declared returns the tool in the form that declarations need. l is what is learned from the tool's answers, or nil.
func (t *Tool) declared(l *published) dts.Tool {
	doc := cmp.Or(t.Description, t.title())
	var notes []string
	if t.Function() != t.Name {
		notes = append(notes, "Tool name: "+t.FullName()+".")
	}
	if t.Annotations.IsReadOnly() {
		notes = append(notes, "Read-only.")
	}
	output := t.outputSchema()
	if l != nil {
		output = l.output()
		notes = append(notes, "The type of the result is learned from earlier answers.")
	}
	if len(notes) > 0 {
		doc = fmt.Sprintf("%s\n%s", doc, strings.Join(notes, " "))
	}
	return dts.Tool{
		FullName: t.FullName(), Function: t.Function(), Doc: doc,
		Input: t.inputSchema(), Output: output, Unwrap: t.WrapsResult(),
	}
}

func (t *Tool) title() string { return cmp.Or(t.Title, t.Annotations.Title) }

// Digest returns a digest of the tool's definition.
func (t *Tool) Digest() string { return t.get().definition() }

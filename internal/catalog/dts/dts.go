// Package dts writes TypeScript declarations for tools from their JSON Schemas. The declarations pass tsc --strict for every schema. Comments contain
// those rules of a schema that TypeScript cannot express.
package dts

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mcp-code-exec-harness/internal/catalog/ident"
	"mcp-code-exec-harness/internal/catalog/schema"
)

// Tool is the input of a declaration.
type Tool struct {
	FullName string // server__tool
	Function string // identifier of the function
	Doc      string
	Input    *schema.Value // JSON Schema of the input; nil if unknown
	Output   *schema.Value // JSON Schema of the answer; nil if unknown; an unknown answer is declared as any
	Unwrap   bool          // the function returns only the property "result" of Output
}

// Server is a namespace of tools.
type Server struct {
	Name       string
	Identifier string
	Doc        string
	Tools      []Tool
}

// Declaration returns the declaration of one tool with all its types, as models get it.
func Declaration(serverIdentifier string, t Tool) string {
	ns := newNamespace()
	ns.add(t)
	var b strings.Builder
	ns.write(&b, serverIdentifier, false)
	return b.String()
}

// ServerDeclaration returns the declaration of a server: the namespace tools.<server> and the module './servers/<server>'. The module's name is
// a pattern, because TypeScript refuses a relative name there and the pattern matches from every folder.
func ServerDeclaration(s Server) string {
	ns := newNamespace()
	for _, t := range s.Tools {
		ns.add(t)
	}
	var b strings.Builder
	comment(&b, Clean(s.Doc, maxToolText), "")
	ns.write(&b, s.Identifier, true)
	if len(s.Tools) == 0 || strings.Contains(s.Name, "*") {
		// A module cannot export a namespace without values. A pattern may contain only one *.
		return b.String()
	}
	for _, suffix := range []string{"", "/index", "/index.js", "/index.ts"} {
		fmt.Fprintf(&b, "declare module %s {\n  export = tools.%s;\n}\n", ident.Quote("*/servers/"+s.Name+suffix), s.Identifier)
	}
	b.WriteString("interface McpTools {\n")
	for _, f := range ns.funcs {
		fmt.Fprintf(&b, "  %s: typeof tools.%s.%s;\n", ident.Quote(f.tool.FullName), s.Identifier, f.tool.Function)
	}
	b.WriteString("}\n")
	return b.String()
}

// Globals declares callMCPTool for all servers that are declared beside it. Calls with a known name are checked against the tool's types; with
// any other name, input and result may be anything.
const Globals = `/** Every tool by its full name. */
interface McpTools {}
/**
 * Calls a tool by its name and returns its unwrapped result. What the answer has beside its structured content is the property $content of the
 * result, not enumerable. An integer beyond 2^53 is a bigint.
 */
declare function callMCPTool<N extends keyof McpTools>(name: N, ...input: Parameters<McpTools[N]>): ReturnType<McpTools[N]>;
declare function callMCPTool<T = any, N extends string = string>(
  name: N & (N extends keyof McpTools ? never : unknown), input?: unknown): Promise<T>;
declare namespace callMCPTool {
  /** Calls a tool and returns the whole MCP result. */
  function raw(name: string, input?: unknown): Promise<any>;
}
`

// function is a tool whose schemas have been converted.
type function struct {
	tool      Tool
	in, out   *def
	defs      []*def // definitions to declare, in order
	outInline bool
}

func newFunction(t Tool) *function {
	f := &function{tool: t}
	base := ident.Pascal(t.Function)
	var inDefs, outDefs []*def
	input, output := orAnything(t.Input), orAnything(t.Output)
	result := output
	if t.Unwrap {
		result = output.Get("properties").Get("result")
	}
	f.in, inDefs = convert(input, input, base+"Input", "unknown")
	f.out, outDefs = convert(output, result, base+"Output", "any")
	f.outInline = inlined(f.out, outDefs)
	if f.outInline {
		outDefs = outDefs[1:] // the root is always the first
	}
	f.defs = append(inDefs, outDefs...)
	return f
}

func orAnything(v *schema.Value) *schema.Value { return cmp.Or(v, &schema.Value{Kind: schema.Object}) }

// inlined reports whether the type of a result is short enough to be written in the signature, without a name.
func inlined(root *def, defs []*def) bool {
	if root.body.op == opObject || len(compact(root.body, 2)) > 60 {
		return false
	}
	recursive := false
	for _, d := range defs {
		walk(d.body, func(n *node) { recursive = recursive || n.op == opRef && n.def == root })
	}
	return !recursive
}

// optionalInput reports whether a call without any input is valid.
func (f *function) optionalInput() bool {
	if f.in.body.op != opObject {
		return isTop(f.in.body)
	}
	return !slices.ContainsFunc(f.in.body.fields, func(fl field) bool { return !fl.optional })
}

// namespace collects the functions and types of one server and gives every type its final name.
type namespace struct {
	taken map[string]string // meanings by final name
	names map[*def]string
	order []*def
	funcs []*function
}

func newNamespace() *namespace {
	return &namespace{taken: map[string]string{}, names: map[*def]string{}}
}

func (ns *namespace) add(t Tool) {
	f := newFunction(t)
	ns.funcs = append(ns.funcs, f)
	meaning := meanings(f.defs)
	for _, d := range f.defs {
		ns.assignName(d, meaning[d], ident.Pascal(t.Function))
	}
}

// assignName gives d its final name. Types with the same name and meaning, such as the Customer of several tools, are declared once.
func (ns *namespace) assignName(d *def, meaning, prefix string) {
	candidate, long, n := d.name, prefix+d.name, 1
	if strings.HasPrefix(d.name, prefix) {
		long, n = d.name, 2
	}
	for ; ; n++ {
		have, ok := ns.taken[candidate]
		if !ok {
			ns.taken[candidate] = meaning
			ns.order = append(ns.order, d)
		}
		if !ok || have == meaning {
			ns.names[d] = candidate
			return
		}
		if candidate = long; n > 1 {
			candidate += strconv.Itoa(n)
		}
	}
}

// meanings returns a text for each definition. Two definitions have the same text only if they, and all definitions that they refer to, are
// written alike.
func meanings(defs []*def) map[*def]string {
	texts := map[*def]string{} // hashes of the texts, so that comparisons stay small
	refs := map[*def][]*def{}
	for _, d := range defs {
		var b strings.Builder
		printer{}.definition(&b, d, 0)
		texts[d] = hash(b.String())
		walk(d.body, func(n *node) {
			if n.op == opRef {
				refs[d] = append(refs[d], n.def)
			}
		})
	}
	out := map[*def]string{}
	for _, d := range defs {
		seen := map[*def]bool{d: true}
		var parts []string
		for queue := []*def{d}; len(queue) > 0; queue = queue[1:] {
			if queue[0] != d {
				parts = append(parts, texts[queue[0]])
			}
			for _, r := range refs[queue[0]] {
				if !seen[r] {
					seen[r] = true
					queue = append(queue, r)
				}
			}
		}
		slices.Sort(parts)
		out[d] = hash(texts[d] + strings.Join(parts, ""))
	}
	return out
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return string(sum[:])
}

// write declares the namespace of a server; positional adds to each function an overload with positional parameters.
func (ns *namespace) write(b *strings.Builder, server string, positional bool) {
	prefix := indent(1)
	b.WriteString("declare namespace tools." + server + " {\n")
	p := printer{names: ns.names}
	for _, d := range ns.order {
		p.definition(b, d, 1)
	}
	for _, f := range ns.funcs {
		result := p.ref(f.out)
		if f.outInline {
			result = p.expr(f.out.body, 1)
		}
		doc := Clean(f.tool.Doc, maxToolText)
		if f.tool.Output == nil {
			doc = append(doc, "The server does not say what this returns.")
		}
		comment(b, doc, prefix)
		if positional {
			if params := positionalParams(f, p.ref(f.in)); params != "" {
				fmt.Fprintf(b, "%sfunction %s(%s): Promise<%s>;\n", prefix, f.tool.Function, params, result)
			}
		}
		mark := ""
		if f.optionalInput() {
			mark = "?"
		}
		// Parameters<> uses the last overload.
		fmt.Fprintf(b, "%sfunction %s(input%s: %s): Promise<%s>;\n", prefix, f.tool.Function, mark, p.ref(f.in), result)
	}
	b.WriteString("}\n")
}

// maxPositional is the maximum number of positional parameters; a longer call is hard to read.
const maxPositional = 8

// positionalParams returns the parameters of the overload that takes the properties of the input one by one, required ones first.
func positionalParams(f *function, input string) string {
	if f.in.body.op != opObject || len(f.in.body.fields) == 0 || len(f.in.body.fields) > maxPositional {
		return ""
	}
	used := map[string]bool{}
	var required, optional []string
	for _, fl := range f.in.body.fields {
		id := ident.Camel(fl.name)
		for used[id] {
			id += "_"
		}
		used[id] = true
		typ := input + "[" + ident.Quote(fl.name) + "]"
		if fl.optional {
			optional = append(optional, id+"?: "+typ)
		} else {
			required = append(required, id+": "+typ)
		}
	}
	return strings.Join(append(required, optional...), ", ")
}

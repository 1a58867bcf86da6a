// Package check finds uses of tools in a program that cannot work: a tool, an argument or a field of an answer that does not exist, or
// an argument that is missing or of another type. Package uses reads the uses from the program, and package check compares them with the
// catalog. Package check reports nothing about tools and types that it does not know.
package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/catalog/dts"
	"mcp-code-exec-harness/internal/catalog/ident"
	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/program/uses"
)

// Mistake is a use of a tool that cannot work, with a hint at what would work.
type Mistake struct {
	At      uses.Place
	Message string // text of one line
}

// Tools gives access to the existing tools.
type Tools struct {
	Catalog *catalog.Catalog
	// Own returns the catalog with the tools that only the user of the program has; nil if there are none.
	Own func(ctx context.Context) *catalog.Catalog
	// Ensure waits, within a bound, until servers have listed their tools. Check calls it if a server or tool is not known.
	Ensure func(ctx context.Context)
	// Unavailable returns the names of servers whose tools are not known.
	Unavailable func() []string
}

// maxMistakes is the maximum number of mistakes reported for a program.
const maxMistakes = 10

// Check returns the mistakes of a program, ordered by place. used comes from a process that reads hostile text, so it may contain
// anything.
func Check(ctx context.Context, used uses.Uses, tools Tools) []Mistake {
	c := &checker{used: used, things: make([]thing, len(used)), tools: tools}
	found := c.all(ctx)
	for i := 0; i < 2 && c.unknown; i++ {
		if i == 1 {
			tools.Ensure(ctx)
		}
		if c.tools.Catalog = tools.Catalog; tools.Own != nil {
			c.tools.Catalog = tools.Own(ctx)
		}
		if i == 1 || c.tools.Catalog != tools.Catalog {
			found = c.all(ctx)
		}
	}
	slices.SortStableFunc(found, func(a, b Mistake) int {
		return cmp.Or(cmp.Compare(a.At.Line, b.At.Line), cmp.Compare(a.At.Column, b.At.Column))
	})
	found = slices.Compact(found)
	return found[:min(len(found), maxMistakes)]
}

type kind uint8

const (
	unknown  kind = iota
	allTools      // the global object called tools
	byName        // the function callMCPTool
	servers       // the module ./servers
	server        // the server whose name is name
	function      // the function of a tool
	promise       // a promise of inner[0]
	typed         // a value of the type typ
	tuple         // a tuple of inner, one thing for each item
	array         // an array of inner[0]
	method        // the method called name of inner[0]; if name is empty, a module that exports only the function inner[0]
)

// thing describes a value of a program.
type thing struct {
	kind  kind
	name  string
	tool  *catalog.Tool
	raw   bool
	typ   dts.Type
	inner []*thing
	depth int // nesting depth of inner
}

// maxDepth is the maximum nesting depth of things.
const maxDepth = 20

type checker struct {
	used    uses.Uses
	things  []thing // descriptions of the values in used, by index
	tools   Tools
	found   []Mistake
	unknown bool // a server or tool is not known
	work    int
}

// maxWork bounds the number of parts of types and arguments that are compared.
const maxWork = 200_000

func (c *checker) all(ctx context.Context) []Mistake {
	c.found, c.unknown, c.work = nil, false, 0
	for i := range c.used {
		if ctx.Err() != nil {
			return nil
		}
		if c.work++; c.work < maxWork {
			c.things[i] = c.value(i)
		}
		if c.things[i].depth > maxDepth || c.work >= maxWork {
			c.things[i] = thing{}
		}
	}
	return c.found
}

func (c *checker) tell(at uses.Place, format string, args ...any) {
	if at.Line >= 0 && len(c.found) < 10*maxMistakes {
		c.found = append(c.found, Mistake{at, ident.OneLine(clip.Text(fmt.Sprintf(format, args...), maxMessage))})
	}
}

// maxMessage is the maximum size of a message in bytes.
const maxMessage = 600

// before returns c.things[of], or an unknown thing if of is negative or not smaller than i.
func (c *checker) before(of, i int) *thing {
	if of < 0 || of >= i {
		return &thing{}
	}
	return &c.things[of]
}

func made(k kind, inner ...*thing) thing {
	t := thing{kind: k, inner: inner}
	for _, in := range inner {
		t.depth = max(t.depth, in.depth+1)
	}
	return t
}

// resolved counts the work of resolving a name in the catalog.
func (c *checker) resolved(err error) error {
	if c.work += 10; err != nil {
		c.work += 500
	}
	return err
}

// value describes the value with the index i, and reports its mistakes.
func (c *checker) value(i int) thing {
	v := &c.used[i]
	of := c.before(v.Of, i)
	switch v.Kind {
	case uses.Tools:
		return thing{kind: allTools}
	case uses.ByName:
		return thing{kind: byName}
	case uses.Servers:
		return thing{kind: servers}
	case uses.Server:
		name, tool, single := strings.Cut(v.Name, "/")
		t := c.server(v.At, name)
		if single && t.kind == server {
			if t = c.function(v.At, t.name, tool); t.kind == function {
				return made(method, &t) // the module exports the function under its name and as default
			}
		}
		return t
	case uses.Member:
		return c.member(v, of)
	case uses.Call:
		return c.call(v, of, i)
	case uses.Awaited:
		return *awaited(of)
	case uses.Element:
		return element(of, v.Index)
	case uses.Param:
		return param(of, v.Index)
	case uses.List:
		t := thing{kind: tuple}
		c.work += len(v.Items)
		for _, item := range v.Items {
			in := c.before(item, i)
			t.inner = append(t.inner, in)
			t.depth = max(t.depth, in.depth+1)
		}
		return t
	case uses.All:
		c.work += len(of.inner)
		return all(of)
	case uses.Promise:
		return made(promise, awaited(of))
	case uses.Mapped:
		return made(array, of)
	}
	return thing{}
}

// awaited returns the result of await for a thing.
func awaited(t *thing) *thing {
	if t.kind == promise {
		return t.inner[0]
	}
	return t
}

// element returns an item of a thing; index -1 means any item.
func element(of *thing, index int) thing {
	switch of.kind {
	case tuple:
		if index >= 0 && index < len(of.inner) {
			return *of.inner[index]
		}
		if len(of.inner) == 1 {
			return *of.inner[0]
		}
	case array:
		return *of.inner[0]
	case typed:
		alternatives := of.typ.Present()
		if len(alternatives) == 1 && alternatives[0].Kind() == dts.Array {
			return thing{kind: typed, typ: alternatives[0].Element(index)}
		}
	}
	return thing{}
}

// all returns the result of Promise.all.
func all(of *thing) thing {
	switch of.kind {
	case tuple:
		t := thing{kind: tuple, depth: of.depth}
		for _, in := range of.inner {
			t.inner = append(t.inner, awaited(in))
		}
		return made(promise, &t)
	case array:
		t := made(array, awaited(of.inner[0]))
		return made(promise, &t)
	case typed:
		return made(promise, of)
	}
	return thing{}
}

// server returns the server with a name, and reports a name that no server has.
func (c *checker) server(at uses.Place, name string) thing {
	exact, err := c.tools.Catalog.ResolveServer(name)
	if c.resolved(err) == nil {
		return thing{kind: server, name: exact}
	}
	var absent *catalog.UnknownError
	if errors.As(err, &absent) {
		c.unknown = true
		if tool, err := c.tools.Catalog.Details(name); err == nil {
			c.tell(at, "%s is a tool: await %s({…})", quote(name), strings.TrimSuffix(tool.Call, "(input)"))
		} else if !c.unavailable(func(fold string) bool { return fold == ident.Fold(name) }) {
			c.tell(at, "there is no server %s%s", quote(name), c.choice(name, c.serverNames()))
		}
	}
	return thing{}
}

func (c *checker) unavailable(is func(fold string) bool) bool {
	return slices.ContainsFunc(c.tools.Unavailable(), func(name string) bool { return is(ident.Fold(name)) })
}

func (c *checker) serverNames() []string {
	var names []string
	for _, s := range c.tools.Catalog.Servers() {
		names = append(names, s.Name)
	}
	return names
}

// function returns the function of a server's tool, and reports a name that no tool has.
func (c *checker) function(at uses.Place, serverName, name string) thing {
	tool, err := c.tools.Catalog.ResolveIn(serverName, name)
	if c.resolved(err) == nil {
		return thing{kind: function, tool: tool}
	}
	var absent *catalog.UnknownError
	if !errors.As(err, &absent) {
		return thing{}
	}
	c.unknown = true
	fold := ident.Fold(serverName)
	if module, err := c.tools.Catalog.Module(serverName); err == nil && !c.unavailable(func(f string) bool { return f == fold }) {
		var names []string
		for _, f := range module.Functions {
			names = append(names, f.Name)
		}
		c.tell(at, "server %s has no tool %s%s", quote(serverName), quote(name), c.choice(name, names))
	}
	return thing{}
}

// named returns the tool whose name callMCPTool gets, and reports a name that no tool has.
func (c *checker) named(at uses.Place, name string) thing {
	tool, err := c.tools.Catalog.Resolve(name)
	if c.resolved(err) == nil {
		return thing{kind: function, tool: tool}
	}
	var absent *catalog.UnknownError
	if errors.As(err, &absent) {
		c.unknown = true
		fold := ident.Fold(name)
		if !c.unavailable(func(f string) bool { return f != "" && strings.HasPrefix(fold, f) }) {
			c.tell(at, "there is no tool %s%s", quote(name), c.namedChoice(name, absent.Closest))
		}
	}
	return thing{}
}

// namedChoice does the same as choice for a full name. It lists the tools of the named server if the server exists.
func (c *checker) namedChoice(name string, closest []string) string {
	serverName, tool, ok := strings.Cut(name, "__")
	if module, err := c.tools.Catalog.Module(serverName); ok && err == nil {
		var names []string
		for _, f := range module.Functions {
			names = append(names, f.Tool)
		}
		return c.choice(module.Server+"__"+tool, names)
	}
	return c.choice(name, closest)
}

// never holds properties that programs or engines may read from any object. They are never looked up as servers or tools.
var never = map[string]bool{
	"then": true, "toJSON": true, "constructor": true, "prototype": true, "__proto__": true, "__esModule": true, "toString": true,
	"valueOf": true, "toLocaleString": true, "hasOwnProperty": true, "isPrototypeOf": true, "propertyIsEnumerable": true,
	"$$typeof": true, "nodeType": true, "asymmetricMatch": true,
}

// member returns the member of a thing.
func (c *checker) member(v *uses.Value, of *thing) thing {
	silent := v.Quiet || v.Changed
	if silent {
		v.At.Line = -1
	}
	switch of.kind {
	case allTools, servers:
		if !never[v.Name] && !(of.kind == servers && v.Name == "default") {
			return c.server(v.At, v.Name)
		}
	case server:
		switch {
		case never[v.Name]:
		case v.Name == "default":
			return *of
		default:
			return c.function(v.At, of.name, v.Name)
		}
	case method:
		if of.inner[0].kind == function && of.name == "" {
			return *of.inner[0]
		}
	case byName:
		if v.Name == "raw" {
			return thing{kind: byName, raw: true}
		}
	case promise:
		if v.Name == "then" || v.Name == "catch" || v.Name == "finally" {
			return c.method(of, v.Name)
		}
	case tuple, array:
		return c.method(of, v.Name)
	case typed:
		return c.field(v, of)
	}
	return thing{}
}

func (c *checker) method(of *thing, name string) thing {
	t := made(method, of)
	t.name = name
	return t
}

// handleFields are the fields of the object that replaces an answer that was saved as a file.
var handleFields = []string{"file", "mimeType", "bytes", "note"}

// field returns a field of a typed value.
func (c *checker) field(v *uses.Value, of *thing) thing {
	alternatives := of.typ.Present()
	var found []dts.Type
	var names []string
	missing := len(alternatives) > 0
	what := ""
	for _, a := range alternatives {
		c.work++
		switch a.Kind() {
		case dts.Object:
			typ, ok, open := a.Field(v.Name)
			if ok {
				found = append(found, typ)
			}
			fields, _ := a.Fields()
			c.work += len(fields)
			names = append(names, fields...)
			missing = missing && !ok && !open && !objectMembers[v.Name]
		case dts.Array:
			if arrayMembers[v.Name] && len(alternatives) == 1 {
				return c.method(of, v.Name)
			}
			missing = missing && !arrayMembers[v.Name] && !objectMembers[v.Name]
			what = "an array"
		default:
			// A server may send a text or a number instead of an object.
			missing = false
		}
	}
	switch {
	case missing && !slices.Contains(handleFields, v.Name) && c.work < maxWork:
		switch {
		case len(names) == 0 && what == "":
			// nothing is known about an object without fields
		case len(names) == 0:
			c.tell(v.At, "%s has no field %s: it is what the tool answers, %s", what, quote(v.Name), of.typ)
		default:
			c.tell(v.At, "the answer has no field %s%s", quote(v.Name), c.choice(v.Name, names))
		}
	case len(found) == 1 && len(alternatives) == 1:
		return thing{kind: typed, typ: found[0]}
	}
	return thing{}
}

func set(names string) map[string]bool {
	m := map[string]bool{}
	for _, n := range strings.Fields(names) {
		m[n] = true
	}
	return m
}

var (
	objectMembers = set("constructor toString valueOf toLocaleString hasOwnProperty isPrototypeOf propertyIsEnumerable __proto__ toJSON then $content")
	arrayMembers  = set("length at concat copyWithin entries every fill filter find findIndex findLast findLastIndex flat flatMap forEach includes " +
		"indexOf join keys lastIndexOf map pop push reduce reduceRight reverse shift slice some sort splice toReversed toSorted toSpliced " +
		"unshift values with group groupBy")
	sameArray = set("filter slice sort reverse toSorted toReversed")
	anItem    = set("find findLast at pop shift")
	eachItem  = set("map filter forEach find findIndex findLast findLastIndex some every flatMap")
)

// param returns the thing that a callback gets as its parameter with this index. of is the method that the callback is passed to.
func param(of *thing, index int) thing {
	if of.kind != method {
		return thing{}
	}
	base := of.inner[0]
	switch {
	case base.kind == promise:
		if of.name == "then" && index == 0 {
			return *base.inner[0]
		}
	case eachItem[of.name] && index == 0, (of.name == "sort" || of.name == "toSorted") && index < 2,
		(of.name == "reduce" || of.name == "reduceRight") && index == 1:
		return element(base, -1)
	}
	return thing{}
}

// call returns the result of a call, and reports mistakes in its arguments.
func (c *checker) call(v *uses.Value, of *thing, i int) thing {
	switch of.kind {
	case function:
		c.arguments(v, of.tool, v.Args)
		return answer(of.tool)
	case method:
		if f := of.inner[0]; f.kind == function && of.name == "" {
			c.arguments(v, f.tool, v.Args)
			return answer(f.tool)
		}
		return c.methodCall(v, of, c.before(v.Result, i))
	case byName:
		if len(v.Args) == 0 || v.Args[0].Form != uses.String || v.Args[0].Text == "" {
			return thing{}
		}
		at := v.Args[0].At
		if at.Line < 0 {
			at = v.At
		}
		f := c.named(at, unquote(v.Args[0].Text))
		if f.kind != function {
			return thing{}
		}
		c.arguments(v, f.tool, v.Args[1:min(len(v.Args), 2)])
		if of.raw {
			return thing{}
		}
		return answer(f.tool)
	}
	return thing{}
}

func answer(t *catalog.Tool) thing {
	_, typ := t.Types()
	return made(promise, &thing{kind: typed, typ: typ})
}

// methodCall returns the result of a method of an array or a promise. result is the result of the function that is passed to the method.
func (c *checker) methodCall(v *uses.Value, of, result *thing) thing {
	base := of.inner[0]
	switch {
	case base.kind == promise && of.name == "then":
		return made(promise, awaited(result))
	case base.kind == promise && (of.name == "finally" || of.name == "catch" && v.Empty):
		return *base
	case base.kind == promise:
	case of.name == "map":
		return made(array, result)
	case of.name == "flatMap":
		e := element(result, -1)
		return made(array, &e)
	case sameArray[of.name]:
		e := element(base, -1)
		return made(array, &e)
	case anItem[of.name]:
		return element(base, -1)
	}
	return thing{}
}

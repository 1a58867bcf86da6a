package openapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode"

	"mcp-code-exec-harness/internal/startup"
)

// Limits of the tools of one document.
const (
	maxOperations = 4000
	maxParameters = 200      // maximum number of parameters of one operation
	maxTools      = 12 << 20 // maximum size in bytes of all schemas and descriptions
	maxSchema     = 64 << 10 // maximum size in bytes of one schema
	maxName       = 64       // maximum length in bytes of a tool's name
	maxSaid       = 1 << 10  // maximum length in bytes of a tool's description
	maxProblems   = 20
)

// Document is the service that a document describes. It does not change, and is safe for concurrent use.
type Document struct {
	Title, Version, Description string
	// Server is the address of the service in the document, with the default values of its variables. It may be relative to the address of the document,
	// or empty.
	Server     string
	Operations []*Operation
	// Problems lists the reasons why operations are left out, at most 20.
	Problems []string

	root    *node
	schemes map[string]scheme
}

// Operation is one method of one path.
type Operation struct {
	// Name is unique in the document, even if case, - and _ are ignored. It has at most 64 letters, digits, - and _.
	Name               string
	Title, Description string
	Method             string
	// Input is the JSON Schema of an object: the parameters by name, and the body as "body".
	Input json.RawMessage
	// Output is the JSON Schema of the answer, always of an object; nil if the document says nothing usable.
	Output json.RawMessage
	// Wrapped means that the answer is the property "result" of the object that Output describes.
	Wrapped bool

	path     string // path template
	params   []param
	body     *body
	security [][]string
}

// ReadOnly reports whether HTTP defines the method as safe.
func (o *Operation) ReadOnly() bool { return o.Method == http.MethodGet || o.Method == http.MethodHead }

// Idempotent reports whether HTTP defines the method as idempotent.
func (o *Operation) Idempotent() bool {
	return o.ReadOnly() || o.Method == http.MethodPut || o.Method == http.MethodDelete
}

// errElsewhere reports a reference that leads out of the document.
var errElsewhere = errors.New("it refers to what is not in the document; bundle the document into one file")

// methods lists the HTTP methods that become tools, in the order of the tools of a path.
var methods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// documentForm matches the line that gives the version of a document.
var documentForm = startup.Regexp(`(?m)^[\s{]{0,8}["']?openapi["']?\s*:\s*["']?3\.`)

// IsDocument reports whether a text looks like a document, in JSON or YAML, without reading all of it.
func IsDocument(text []byte) bool { return documentForm().Match(text) }

// Parse reads a document. It takes well under a second for a document of several hundred operations.
func Parse(data []byte) (*Document, error) {
	root, err := parse(data)
	if err != nil {
		return nil, err
	}
	d := &Document{root: root, schemes: map[string]scheme{}}
	switch version := root.get("openapi"); {
	case root.get("swagger") != nil:
		return nil, errors.New("it is a Swagger 2.0 document; convert it to OpenAPI 3, for example with swagger2openapi")
	case version == nil || !strings.HasPrefix(version.text, "3."):
		return nil, errors.New(`it is no OpenAPI 3 document: it has no "openapi: 3…"`)
	}
	info := root.get("info")
	d.Title, d.Version, d.Description = info.str("title"), info.str("version"), info.str("description")
	d.Server = serverOf(root)
	d.readSchemes()
	return d, d.readOperations()
}

// serverOf returns the address of the first server of a document, path or operation, with the default values of its variables.
func serverOf(n *node) string {
	servers := n.list("servers")
	if len(servers) == 0 {
		return ""
	}
	address := clip(servers[0].str("url"), maxSaid)
	if vars := servers[0].get("variables"); vars.isMapping() {
		for _, v := range vars.members[:min(len(vars.members), maxHops)] {
			address = strings.ReplaceAll(address, "{"+v.name+"}", clip(v.value.str("default"), maxName))
		}
	}
	return address
}

func (d *Document) readOperations() error {
	type place struct {
		path, method string
		item, op     *node
	}
	var all []place
	paths := d.root.get("paths")
	if !paths.isMapping() {
		return errors.New("it has no paths")
	}
	for _, p := range paths.members {
		item := d.resolve(p.value)
		for _, method := range methods {
			if op := item.get(strings.ToLower(method)); op.isMapping() {
				all = append(all, place{p.name, method, item, op})
			}
		}
		if len(all) > maxOperations {
			return fmt.Errorf("it has more than %d operations; remove those that are not needed from a copy of it", maxOperations)
		}
	}
	if len(all) == 0 {
		return errors.New("it has no operations")
	}
	limit := min(max(maxTools/2/len(all), 2<<10), maxSchema)
	names, size := map[string]bool{}, 0
	for _, p := range all {
		o := &Operation{Method: p.method, path: p.path}
		if err := d.read(o, p.item, p.op, limit); err != nil {
			if len(d.Problems) < maxProblems {
				d.Problems = append(d.Problems, fmt.Sprintf("%s %s is left out: %v", p.method, clip(p.path, maxText), err))
			}
			continue
		}
		o.Name = toolName(d.resolve(p.op).str("operationId"), p.method, p.path, names)
		if size += len(o.Input) + len(o.Output) + len(o.Description); size > maxTools {
			return fmt.Errorf("its operations take more than %d bytes as tools; remove those that are not needed from a copy of it", maxTools)
		}
		d.Operations = append(d.Operations, o)
	}
	if len(d.Operations) == 0 {
		return fmt.Errorf("none of its operations can be used: %s", d.Problems[0])
	}
	return nil
}

// toolName returns a name that is made from an operation's id, or else from its method and path.
func toolName(id, method, path string, taken map[string]bool) string {
	fold := func(name string) string {
		return strings.Map(func(r rune) rune {
			if r == '-' || r == '_' {
				return -1
			}
			return unicode.ToLower(r)
		}, name)
	}
	byPlace := plain(strings.ToLower(method) + "_" + path)
	for _, name := range []string{plain(id), byPlace} {
		if name = strings.Trim(name[:min(len(name), maxName)], "_-"); fold(name) != "" && !taken[fold(name)] {
			taken[fold(name)] = true
			return name
		}
	}
	for i := 2; ; i++ {
		suffix := fmt.Sprintf("_%d", i)
		name := byPlace[:min(len(byPlace), maxName-len(suffix))] + suffix
		if !taken[fold(name)] {
			taken[fold(name)] = true
			return name
		}
	}
}

// read fills in an operation.
func (d *Document) read(o *Operation, item, op *node, limit int) error {
	if op = d.resolve(op); !op.isMapping() {
		return errElsewhere
	}
	o.Title = clip(prose(op.str("summary")), maxText)
	said := prose(op.str("description"))
	if said == o.Title {
		said = ""
	}
	o.Description = strings.TrimSpace(o.Title + "\n" + clip(said, maxSaid))
	if op.is("deprecated") {
		o.Description = "Deprecated. " + o.Description
	}
	o.Description = strings.TrimSpace(o.Description + "\n" + o.Method + " " + clip(o.path, maxText))
	if err := checkTemplate(o.path); err != nil {
		return err
	}
	if own := cmp.Or(serverOf(op), serverOf(item), d.Server); own != d.Server {
		return fmt.Errorf("it is at %s, another address than the document's first server", clip(own, maxText))
	}
	o.security = d.securityOf(op)
	if err := d.readParams(o, item.list("parameters"), op.list("parameters")); err != nil {
		return err
	}
	d.readBody(o, d.resolve(op.get("requestBody")))
	d.writeInput(o, limit)
	d.readAnswer(o, op.get("responses"), limit)
	return nil
}

// writeInput writes the schema of the input: the parameters in their order, then the body.
func (d *Document) writeInput(o *Operation, limit int) {
	w := d.writer(limit, true)
	w.raw(`{"type":"object","properties":{`)
	var required []string
	for _, p := range o.params {
		w.key(p.key)
		w.described(p.schema, p.said)
		if p.required {
			required = append(required, p.key)
		}
	}
	if o.body != nil {
		w.key(bodyKey)
		w.files = o.body.kind == bodyMultipart
		switch o.body.kind {
		case bodyBinary:
			w.raw(fileSchema + "}")
		case bodyText:
			w.raw(`{"type":"string"}`)
		case bodyAny:
			w.raw(`{"description":"a JSON value, a text, or a file as {base64, filename?, contentType?}"}`)
		default:
			w.described(o.body.schema, o.body.said)
		}
		if o.body.required {
			required = append(required, bodyKey)
		}
	}
	w.raw("}")
	if len(required) > 0 {
		raw, _ := json.Marshal(required) // cannot fail: they are strings
		w.key("required")
		w.b = append(w.b, raw...)
	}
	w.raw(`,"additionalProperties":false`)
	w.defs()
	w.raw("}")
	o.Input = w.b
}

// described writes a schema with the description that the document gives beside it.
func (w *schemaWriter) described(n *node, said string) {
	before := len(w.b)
	w.schema(n, 0)
	said = clip(prose(said), maxText)
	if last := len(w.b) - 1; said != "" && !w.undescribed() && w.b[last] == '}' && w.b[before] == '{' && (n.get("$ref") != nil || n.str("description") == "") {
		w.b = w.b[:last]
		w.key("description")
		w.text(said)
		w.raw("}")
	}
}

// readAnswer finds the schema of the answer: that of the first successful status with JSON.
func (d *Document) readAnswer(o *Operation, responses *node, limit int) {
	if !responses.isMapping() {
		return
	}
	var statuses []string
	for _, m := range responses.members[:min(len(responses.members), maxParameters)] {
		if len(m.name) == 3 && m.name[0] == '2' {
			statuses = append(statuses, m.name)
		}
	}
	slices.Sort(statuses)
	for _, status := range statuses {
		content := d.resolve(responses.get(status)).get("content")
		if !content.isMapping() {
			continue
		}
		for _, m := range content.members[:min(len(content.members), maxParameters)] {
			if schema := m.value.get("schema"); schema != nil && IsJSON(m.name) {
				o.Output, o.Wrapped = d.output(schema, limit/2)
				return
			}
		}
	}
}

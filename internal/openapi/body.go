package openapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"mime"
	"mime/multipart"
	"net/textproto"
	"slices"
	"strings"
)

type bodyKind uint8

const (
	bodyJSON bodyKind = iota
	bodyForm
	bodyMultipart
	bodyText
	bodyAny // range of media types without a schema: files and texts are sent as they are, other values as JSON
	bodyBinary
)

// body is the body of an operation's request.
type body struct {
	kind      bodyKind
	mediaType string
	schema    *node
	said      string
	required  bool
	parts     map[string]part // parts of a form, by property
}

// part describes how a property of a form is written.
type part struct {
	param
	file        bool
	contentType string
}

// IsJSON reports whether a media type is JSON.
func IsJSON(mediaType string) bool {
	t, _, _ := mime.ParseMediaType(mediaType)
	return t == "application/json" || strings.HasSuffix(t, "+json")
}

// isText reports whether content of a media type is text.
func isText(mediaType string) bool {
	t, _, _ := mime.ParseMediaType(mediaType)
	switch t {
	case "application/xml", "application/yaml", "application/x-yaml", "application/javascript", "application/graphql", "application/x-ndjson", "application/jsonl",
		"application/x-www-form-urlencoded":
		return true
	}
	return strings.HasPrefix(t, "text/") || strings.HasSuffix(t, "+xml") || strings.HasSuffix(t, "+yaml")
}

func kindOf(mediaType string) bodyKind {
	t, _, _ := mime.ParseMediaType(mediaType)
	switch {
	case IsJSON(mediaType):
		return bodyJSON
	case t == "application/x-www-form-urlencoded":
		return bodyForm
	case t == "multipart/form-data":
		return bodyMultipart
	case isText(mediaType):
		return bodyText
	}
	return bodyBinary
}

// kindOfContent returns the kind of a media type in a document. For a range such as */*, the schema shows what the service takes.
func (d *Document) kindOfContent(m member) bodyKind {
	family, _, _ := strings.Cut(m.name, "/")
	schema := d.resolve(m.value.get("schema"))
	switch {
	case !strings.Contains(m.name, "*") || family != "*" && family != "application":
		return kindOf(m.name)
	case isFile(d, schema):
		return bodyBinary
	case !schema.isMapping() || len(schema.members) == 0:
		return bodyAny
	case schema.str("type") == "string":
		return bodyText
	}
	return bodyJSON
}

// readBody selects the media type that is best for programs: the one whose bodyKind has the lowest number.
func (d *Document) readBody(o *Operation, n *node) {
	content := n.get("content")
	if !content.isMapping() || len(content.members) == 0 || o.ReadOnly() && !n.is("required") {
		return
	}
	all := content.members[:min(len(content.members), maxHops)]
	best := slices.MinFunc(all, func(a, b member) int { return int(d.kindOfContent(a)) - int(d.kindOfContent(b)) })
	o.body = &body{kind: d.kindOfContent(best), mediaType: best.name, schema: best.value.get("schema"), said: n.str("description"), required: n.is("required")}
	if o.body.kind != bodyForm && o.body.kind != bodyMultipart {
		return
	}
	o.body.parts = map[string]part{}
	encoding := best.value.get("encoding")
	properties := d.resolve(o.body.schema).get("properties")
	if !properties.isMapping() {
		return
	}
	for _, m := range properties.members[:min(len(properties.members), maxNames)] {
		p := part{param: param{key: m.name, name: m.name, in: inQuery, style: "form", explode: true}}
		how := encoding.get(m.name)
		if p.contentType = how.str("contentType"); how.get("style") != nil || how.get("explode") != nil || how.get("allowReserved") != nil {
			p.param.read(how)
		} else if schema := d.resolve(m.value); schema.str("type") == "object" || schema.get("properties") != nil {
			p.json = true
		}
		item := d.resolve(m.value)
		p.file = isFile(d, item) || isFile(d, item.get("items"))
		o.body.parts[m.name] = p
	}
}

// setBody writes the body of a request.
func (o *Operation) setBody(r *Request, raw json.RawMessage) error {
	b := o.body
	switch {
	case b == nil:
		return nil
	case len(raw) == 0 && b.required:
		return fmt.Errorf("%s: it is required", bodyKey)
	case len(raw) == 0:
		return nil
	case b.kind == bodyJSON || b.kind == bodyAny && !isGivenFile(raw):
		r.Body = bytes.Clone(raw)
		r.Header.Set("Content-Type", concrete(b.mediaType, "application/json"))
		return nil
	}
	v, err := decode(raw)
	if err != nil {
		return fmt.Errorf("%s: %w", bodyKey, err)
	}
	instead := "application/octet-stream"
	if _, isString := v.(string); isString && b.kind != bodyBinary {
		instead = "text/plain; charset=utf-8"
	}
	r.Header.Set("Content-Type", concrete(b.mediaType, instead))
	switch b.kind {
	case bodyForm, bodyMultipart:
		o, is := v.(object)
		if !is {
			return fmt.Errorf("%s: it must be an object, of the fields of the form", bodyKey)
		}
		if b.kind == bodyForm {
			r.Body = b.form(o)
			return nil
		}
		return b.multipart(r, o)
	default:
		f, err := fileOf(v)
		if err != nil {
			return fmt.Errorf("%s: %w", bodyKey, err)
		}
		if f.contentType != "" {
			r.Header.Set("Content-Type", f.contentType)
		}
		r.Body = f.content
		return nil
	}
}

// isGivenFile reports whether a program gives a text, or a file in the form of fileSchema.
func isGivenFile(raw json.RawMessage) bool {
	var members map[string]json.RawMessage
	var text string
	if json.Unmarshal(raw, &text) == nil && string(raw) != "null" {
		return true
	}
	if json.Unmarshal(raw, &members) != nil || json.Unmarshal(members["base64"], &text) != nil {
		return false
	}
	for name := range members {
		if name != "base64" && name != "filename" && name != "contentType" {
			return false
		}
	}
	return true
}

// concrete returns mediaType, or instead if mediaType is a range such as */*, which cannot be sent.
func concrete(mediaType, instead string) string {
	if strings.Contains(mediaType, "*") {
		return instead
	}
	return mediaType
}

func (b *body) part(name string) part {
	if p, known := b.parts[name]; known {
		return p
	}
	return part{param: param{name: name, in: inQuery, style: "form", explode: true}}
}

// form writes an object as application/x-www-form-urlencoded.
func (b *body) form(o object) []byte {
	var written []string
	for _, field := range o.properties {
		p := b.part(field.name).param
		if _, is := field.value.(object); is && b.parts[field.name].name == "" {
			p.json = true
		}
		for _, pair := range p.pairs(field.value) {
			written = append(written, pair.written)
		}
	}
	return []byte(strings.Join(written, "&"))
}

// multipart writes an object as multipart/form-data.
func (b *body) multipart(r *Request, o object) error {
	var out bytes.Buffer
	w := multipart.NewWriter(&out)
	for _, field := range o.properties {
		p := b.part(field.name)
		values := []any{field.value}
		if l, is := field.value.(array); is {
			values = l.items
		}
		for _, v := range values {
			if err := p.write(w, field.name, v); err != nil {
				return fmt.Errorf("%s.%s: %w", bodyKey, field.name, err)
			}
		}
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("%s: %w", bodyKey, err)
	}
	r.Header.Set("Content-Type", w.FormDataContentType())
	r.Body = out.Bytes()
	return nil
}

func (p part) write(w *multipart.Writer, name string, v any) error {
	f := file{content: []byte(scalar(v)), contentType: p.contentType}
	_, isObject := v.(object)
	_, isList := v.(array)
	switch {
	case v == nil:
		return nil
	case p.file:
		given, err := fileOf(v)
		if err != nil {
			return err
		}
		if f = given; f.contentType == "" {
			f.contentType = concrete(strings.TrimSpace(strings.Split(p.contentType, ",")[0]), "")
		}
		if f.name == "" {
			f.name = name
		}
		if f.contentType == "" {
			f.contentType = "application/octet-stream"
		}
	case isObject || isList:
		f.contentType = "application/json"
	}
	disposition := map[string]string{"name": name}
	if f.name != "" {
		disposition["filename"] = f.name
	}
	header := textproto.MIMEHeader{}
	said := mime.FormatMediaType("form-data", disposition)
	if said == "" || strings.ContainsAny(f.contentType, "\r\n") {
		return fmt.Errorf("its name or contentType cannot be sent")
	}
	header.Set("Content-Disposition", said)
	if f.contentType != "" {
		header.Set("Content-Type", f.contentType)
	}
	to, err := w.CreatePart(header)
	if err == nil {
		_, err = to.Write(f.content)
	}
	return err
}

// file is a file in a request.
type file struct {
	name, contentType string
	content           []byte
}

// fileOf returns the file that a program gives in the form of fileSchema.
func fileOf(v any) (f file, err error) {
	o, is := v.(object)
	if !is {
		return file{content: []byte(scalar(v))}, nil
	}
	encoded, is := o.get("base64").(string)
	if !is {
		return f, fmt.Errorf(`a file is a text or {base64, filename?, contentType?}`)
	}
	if f.content, err = base64.StdEncoding.DecodeString(encoded); err != nil {
		return f, fmt.Errorf("its base64 is not valid")
	}
	f.name, _ = o.get("filename").(string)
	f.contentType, _ = o.get("contentType").(string)
	if f.contentType != "" {
		if _, _, err := mime.ParseMediaType(f.contentType); err != nil {
			return f, fmt.Errorf("its contentType is none")
		}
	}
	return f, nil
}

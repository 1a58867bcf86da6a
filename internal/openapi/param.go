package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"mcp-code-exec-harness/internal/jsontext"
)

// Places of parameters in a request.
const (
	inPath   = "path"
	inQuery  = "query"
	inHeader = "header"
	inCookie = "cookie"
)

// bodyKey is the name of the body in the input.
const bodyKey = "body"

// param is a parameter of an operation.
type param struct {
	key      string // key in the input
	name, in string
	said     string
	required bool
	schema   *node
	style    string
	explode  bool
	reserved bool // marks a value whose reserved characters are not escaped
	slashes  bool // marks a path parameter that spans several segments
	json     bool // marks a value that is written as JSON
}

// connectionHeaders are the headers that belong to the connection, and those by which a proxy names the client.
var connectionHeaders = []string{
	"connection", "content-encoding", "content-length", "expect", "forwarded", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade",
	"x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip",
}

// notParams are headers that OpenAPI excludes from parameters, or that hold credentials.
var notParams = []string{"accept", "authorization", "content-type", "cookie"}

// Reserved reports whether programs may not set a header, because it belongs to the connection or names the client.
func Reserved(name string) bool {
	name = strings.ToLower(name)
	return slices.Contains(connectionHeaders, name) || strings.HasPrefix(name, "proxy-") || strings.HasPrefix(name, "sec-")
}

// readParams reads the parameters of a path and those of the operation. A parameter of the operation replaces the parameter of the path with the same
// name and place. readParams leaves out parameters that hold the credential of a security scheme.
func (d *Document) readParams(o *Operation, shared, own []*node) error {
	if len(shared)+len(own) > maxParameters {
		return fmt.Errorf("it has more than %d parameters", maxParameters)
	}
	var all []param
	for _, n := range append(slices.Clone(shared), own...) {
		if n = d.resolve(n); !n.isMapping() {
			return errElsewhere
		}
		p := param{name: n.str("name"), in: n.str("in"), said: n.str("description"), required: n.is("required"), schema: n.get("schema")}
		if p.name == "" || len(p.name) > maxLiteral || !slices.Contains([]string{inPath, inQuery, inHeader, inCookie}, p.in) {
			return fmt.Errorf("parameter %q cannot be sent", clip(p.name, maxName))
		}
		if p.in == inHeader && (slices.Contains(notParams, strings.ToLower(p.name)) || Reserved(p.name) || !httpguts.ValidHeaderFieldName(p.name)) || d.isSecret(p) {
			continue
		}
		p.read(n)
		if i := slices.IndexFunc(all, func(other param) bool { return other.name == p.name && other.in == p.in }); i >= 0 {
			all[i] = p
		} else {
			all = append(all, p)
		}
	}
	all = slices.DeleteFunc(all, func(p param) bool { return p.in == inPath && !strings.Contains(o.path, "{"+p.name+"}") })
	for _, name := range templateNames(o.path) {
		if !slices.ContainsFunc(all, func(p param) bool { return p.in == inPath && p.name == name }) {
			all = append(all, param{name: name, in: inPath, required: true, style: "simple", schema: &node{kind: mapping, members: []member{{"type", &node{kind: text, text: "string"}}}}})
		}
	}
	order := []string{inPath, inQuery, inHeader, inCookie}
	slices.SortStableFunc(all, func(a, b param) int { return slices.Index(order, a.in) - slices.Index(order, b.in) })
	taken := map[string]bool{bodyKey: true}
	for i := range all {
		p := &all[i]
		for p.key = p.name; taken[p.key]; {
			p.key = p.in + "_" + p.key
		}
		taken[p.key] = true
	}
	o.params = all
	return nil
}

// isSecret reports whether a security scheme places a credential in a parameter.
func (d *Document) isSecret(p param) bool {
	for _, s := range d.schemes {
		if s.in == p.in && (s.name == p.name || p.in == inHeader && strings.EqualFold(s.name, p.name)) {
			return true
		}
	}
	return false
}

// read reads from a document how a parameter is written into requests.
func (p *param) read(n *node) {
	p.required = p.required || p.in == inPath
	p.style = n.str("style")
	if p.style == "" {
		p.style = map[string]string{inPath: "simple", inHeader: "simple"}[p.in]
	}
	if p.style == "" {
		p.style = "form"
	}
	p.explode = p.style == "form" && n.get("explode") == nil || n.is("explode")
	p.reserved = n.is("allowReserved")
	p.slashes = p.in == inPath && (p.reserved || n.is("x-multi-segment"))
	if content := n.get("content"); content.isMapping() && len(content.members) > 0 {
		p.schema, p.json = content.members[0].value.get("schema"), true
	}
}

// checkTemplate returns an error for a path that leads out of the path of the service, or that is not a path.
func checkTemplate(path string) error {
	plain := strings.ToLower(strings.ReplaceAll(path, `\`, "/"))
	plain = strings.NewReplacer("%2e", ".", "%2f", "/", "%5c", "/").Replace(plain)
	switch {
	case !strings.HasPrefix(path, "/"):
		return errors.New("its path does not begin with /")
	case len(path) > maxSaid || strings.Contains(path, "#"):
		return errors.New("its path is none")
	}
	for part := range strings.SplitSeq(plain, "/") {
		if part == "." || part == ".." {
			return errors.New("its path leads out of the service's")
		}
	}
	return nil
}

// templateNames returns the names in braces in a path.
func templateNames(path string) (names []string) {
	for {
		_, rest, found := strings.Cut(path, "{")
		name, after, closed := strings.Cut(rest, "}")
		if !found || !closed {
			return names
		}
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
		path = after
	}
}

// pair is a name and a value in a query, a form or cookies, with the text that is sent.
type pair struct{ name, value, written string }

// error returns the error for a value that a parameter does not take.
func (p *param) error(msg string) error { return errors.New(p.key + ": " + msg) }

// property is a property of an object. Properties keep the order of the input.
type property struct {
	name  string
	value any
}

// object is a decoded JSON object. raw is its JSON, without duplicate keys.
type object struct {
	properties []property
	raw        json.RawMessage
}

// get returns the value of a property, or nil if there is none.
func (o object) get(name string) any {
	for _, p := range o.properties {
		if p.name == name {
			return p.value
		}
	}
	return nil
}

// array is a decoded JSON array. raw is its JSON.
type array struct {
	items []any
	raw   json.RawMessage
}

var errHalf = errors.New("it has half of a surrogate pair (\\ud800 to \\udfff), which cannot be sent here")

// decode reads a value of the input. The result is an object, an array, a json.Number as it was written, a string, a bool or nil.
func decode(raw json.RawMessage) (any, error) {
	raw = jsontext.Compact(raw)
	if !json.Valid(raw) {
		return nil, errors.New("it is not JSON")
	}
	if jsontext.HasHalf(raw) {
		return nil, errHalf
	}
	v, _, err := decodeAt(raw, 0)
	return v, err
}

// decodeAt reads the value that begins at an offset of compact JSON, and returns the offset of its end.
func decodeAt(raw []byte, at int) (v any, end int, err error) {
	from := at
	switch raw[at] {
	case '{':
		var o object
		for at++; raw[at] != '}'; {
			if raw[at] == ',' {
				at++
			}
			name, next, err := decodeAt(raw, at)
			if err != nil {
				return nil, 0, err
			}
			p := property{}
			p.name, _ = name.(string)
			if p.value, at, err = decodeAt(raw, next+1); err != nil {
				return nil, 0, err
			}
			o.properties = append(o.properties, p)
		}
		o.raw = raw[from : at+1]
		return o, at + 1, nil
	case '[':
		var l array
		for at++; raw[at] != ']'; {
			if raw[at] == ',' {
				at++
			}
			var item any
			if item, at, err = decodeAt(raw, at); err != nil {
				return nil, 0, err
			}
			l.items = append(l.items, item)
		}
		l.raw = raw[from : at+1]
		return l, at + 1, nil
	}
	end = jsontext.End(raw, at)
	dec := json.NewDecoder(bytes.NewReader(raw[at:end]))
	dec.UseNumber()
	err = dec.Decode(&v)
	return v, end, err
}

// scalar returns a value as text; objects and arrays become JSON.
func scalar(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case json.Number:
		return v.String()
	}
	return jsonOf(v)
}

// jsonOf returns a value as JSON.
func jsonOf(v any) string {
	switch v := v.(type) {
	case object:
		return string(v.raw)
	case array:
		return string(v.raw)
	}
	raw, _ := json.Marshal(v) // cannot fail: v was decoded from JSON
	return string(raw)
}

// items returns the texts in a value: the items of an array, the keys and values of an object in turn, or any other value itself.
func items(v any) []string {
	var all []string
	switch v := v.(type) {
	case array:
		for _, item := range v.items {
			all = append(all, scalar(item))
		}
	case object:
		for _, p := range v.properties {
			all = append(all, p.name, scalar(p.value))
		}
	default:
		all = []string{scalar(v)}
	}
	return all
}

// escapeAll returns the texts with escape applied to each.
func escapeAll(all []string, escape func(string) string) []string {
	out := make([]string, len(all))
	for i, s := range all {
		out[i] = escape(s)
	}
	return out
}

// assigned joins keys and values, which alternate in all, into pairs name=value.
func assigned(all []string) (out []string) {
	for i := 0; i+1 < len(all); i += 2 {
		out = append(out, all[i]+"="+all[i+1])
	}
	return out
}

// pathText returns the text of a path parameter (RFC 6570). It refuses text that could lead to another path, because services decode paths in
// different ways.
func (p *param) pathText(v any) (string, error) {
	all := items(v)
	for _, s := range all {
		if err := p.checkSegment(s); err != nil {
			return "", err
		}
	}
	escape := url.PathEscape
	if p.slashes {
		escape = func(s string) string { return strings.ReplaceAll(url.PathEscape(s), "%2F", "/") }
	}
	all = escapeAll(all, escape)
	_, isObject := v.(object)
	if isObject && p.explode {
		all = assigned(all)
	}
	var out string
	switch p.style {
	case "label":
		out = "." + strings.Join(all, map[bool]string{true: ".", false: ","}[p.explode])
	case "matrix":
		name := ";" + url.PathEscape(p.name) + "="
		switch {
		case isObject && p.explode:
			out = ";" + strings.Join(all, ";")
		case p.explode:
			out = name + strings.Join(all, name)
		default:
			out = name + strings.Join(all, ",")
		}
	default:
		out = strings.Join(all, ",")
	}
	if out == "" {
		return "", p.error("it may not be empty")
	}
	return out, nil
}

func (p *param) checkSegment(s string) error {
	decoded := s
	for range 3 { // a proxy and the service may both decode
		next, err := url.PathUnescape(decoded)
		if err != nil || next == decoded {
			break
		}
		decoded = next
	}
	if strings.ContainsFunc(decoded, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' }) || !p.slashes && strings.Contains(decoded, "/") {
		return p.error(`it may not hold /, \ or control characters, which could lead to another path of the service`)
	}
	for part := range strings.SplitSeq(decoded, "/") {
		if part == "." || part == ".." || part == "" && decoded != "" {
			return p.error("it may have no part that is empty, . or .., which lead to another path of the service")
		}
	}
	return nil
}

// pairs returns the pairs that represent a value in a query, a form or cookies.
func (p *param) pairs(v any) []pair {
	escape := url.QueryEscape
	if p.reserved {
		escape = escapeReserved
	}
	one := func(name, value string) pair { return pair{name, value, url.QueryEscape(name) + "=" + escape(value)} }
	if p.json {
		return []pair{one(p.name, jsonOf(v))}
	}
	if p.style == "deepObject" {
		return deep(p.name, v, one)
	}
	l, isList := v.(array)
	o, isObject := v.(object)
	switch {
	case v == nil:
		return nil
	case isList && p.explode && p.style == "form":
		all := make([]pair, len(l.items))
		for i, item := range l.items {
			all[i] = one(p.name, scalar(item))
		}
		return all
	case isObject && p.explode && p.style == "form":
		var all []pair
		for _, member := range o.properties {
			all = append(all, one(member.name, scalar(member.value)))
		}
		return all
	case isList || isObject:
		separator := map[string]string{"spaceDelimited": "%20", "pipeDelimited": "%7C"}[p.style]
		if separator == "" {
			separator = ","
		}
		return []pair{{p.name, "", url.QueryEscape(p.name) + "=" + strings.Join(escapeAll(items(v), escape), separator)}}
	}
	return []pair{one(p.name, scalar(v))}
}

// deep writes name[key]=value for each value in an object or list.
func deep(name string, v any, one func(name, value string) pair) (all []pair) {
	switch v := v.(type) {
	case nil:
	case object:
		for _, p := range v.properties {
			all = append(all, deep(name+"["+p.name+"]", p.value, one)...)
		}
	case array:
		for i, item := range v.items {
			all = append(all, deep(name+"["+strconv.Itoa(i)+"]", item, one)...)
		}
	default:
		all = []pair{one(name, scalar(v))}
	}
	return all
}

// escapeReserved escapes the characters that would end a value in a query, and leaves the other reserved characters unchanged.
func escapeReserved(s string) string {
	return strings.NewReplacer(
		"%3A", ":", "%2F", "/", "%3F", "?", "%40", "@", "%21", "!", "%24", "$", "%27", "'", "%28", "(", "%29", ")", "%2A", "*", "%2C", ",", "%3B", ";",
	).Replace(url.QueryEscape(s))
}

// headerText returns the text of a header.
func (p *param) headerText(v any) (string, error) {
	all := items(v)
	if _, isObject := v.(object); isObject && p.explode {
		all = assigned(all)
	}
	out := strings.Join(all, ",")
	if p.json {
		out = jsonOf(v)
	}
	if !httpguts.ValidHeaderFieldValue(out) {
		return "", p.error("it has characters that a header cannot hold")
	}
	return out, nil
}

package openapi_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"mcp-code-exec-harness/internal/openapi"
)

func pets(t testing.TB) *openapi.Document {
	t.Helper()
	data, err := os.ReadFile("testdata/pets.yaml")
	if err != nil {
		t.Fatal(err)
	}
	d, err := openapi.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func operation(t testing.TB, d *openapi.Document, name string) *openapi.Operation {
	t.Helper()
	for _, o := range d.Operations {
		if o.Name == name {
			return o
		}
	}
	t.Fatalf("no operation %q", name)
	return nil
}

func TestOperations(t *testing.T) {
	t.Parallel()
	d := pets(t)
	var got []string
	for _, o := range d.Operations {
		got = append(got, fmt.Sprintf("%s %s %s | %s | %s", o.Name, o.Method, strings.ReplaceAll(o.Description, "\n", "/"), o.Input, o.Output))
	}
	want := []string{
		`pets_list GET List pets/GET /pets | {"type":"object","properties":{"limit":{"type":"integer","exclusiveMinimum":0},"tags":{"type":"array","items":{"type":"string"}},` +
			`"ids":{"type":"array","items":{"type":"integer"}},"filter":{"type":"object"},"where":{"type":"object"},"shop":{"type":"string"}},"additionalProperties":false} | ` +
			`{"type":"object","properties":{"result":{"type":"array","items":{"$ref":"#/$defs/Pet"}}},"required":["result"],"$defs":{"Pet":{"type":"object","required":["id","name"],` +
			`"properties":{"id":{"type":"integer"},"name":{"type":["string","null"]},"kind":{"type":["string","null"],"enum":["cat","dog",null]},"parent":{"$ref":"#/$defs/Pet"},` +
			`"owner":{"anyOf":[{"allOf":[{"$ref":"#/$defs/Owner"}]},{"type":"null"}]}}},"Owner":{"type":"object","properties":{"pets":{"type":"array","items":{"$ref":"#/$defs/Pet"}},"far":{}}}}}`,
		`createPet POST POST /pets | {"type":"object","properties":{"shop":{"type":"string"},"body":{"$ref":"#/$defs/Pet","description":"The new pet."}},"required":["body"],"additionalProperties":false,` +
			`"$defs":{"Pet":{"type":"object","required":["name"],"properties":{"name":{"type":["string","null"]},"secret":{"type":"string"},"kind":{"type":["string","null"],"enum":["cat","dog",null]},` +
			`"parent":{"$ref":"#/$defs/Pet"},"owner":{"anyOf":[{"allOf":[{"$ref":"#/$defs/Owner"}]},{"type":"null"}]}}},"Owner":{"type":"object","properties":{"pets":{"type":"array","items":{"$ref":"#/$defs/Pet"}},"far":{}}}}} | ` +
			`{"type":"object","required":["id","name"],"properties":{"id":{"type":"integer"},"name":{"type":["string","null"]},"kind":{"type":["string","null"],"enum":["cat","dog",null]},"parent":{"$ref":"#"},` +
			`"owner":{"anyOf":[{"allOf":[{"$ref":"#/$defs/Owner"}]},{"type":"null"}]}},"$defs":{"Owner":{"type":"object","properties":{"pets":{"type":"array","items":{"$ref":"#"}},"far":{}}}}}`,
		`get-pet GET GET /pets/{id} | {"type":"object","properties":{"id":{"type":"string","description":"Number of the pet."},"query_id":{"type":"string"},"query_body":{"type":"string"}},"required":["id"],"additionalProperties":false} | ` +
			string(operation(t, d, "createPet").Output),
		`put_pets_id PUT PUT /pets/{id} | {"type":"object","properties":{"id":{"type":"string","description":"Number of the pet."},"body":{"type":"object","properties":{"name":{"type":"string"},"tags":{"type":"array",` +
			`"items":{"type":"string"}},"more":{"type":"object"}}}},"required":["id"],"additionalProperties":false} | `,
		`delete_pets_id DELETE Deprecated. /DELETE /pets/{id} | {"type":"object","properties":{"id":{"type":"string","description":"Number of the pet."}},"required":["id"],"additionalProperties":false} | `,
	}
	if diff := cmp.Diff(want, got[:len(want)]); diff != "" {
		t.Error(diff)
	}
	if d.Server != "https://eu.example.com/v1/" || d.Title != "Pets" || d.Version != "1.2" {
		t.Errorf("%+v", d)
	}
	problems := []string{
		"GET /../admin is left out: its path leads out of the service's", "GET /broken is left out: it refers to what is not in the document; bundle the document into one file",
	}
	if diff := cmp.Diff(problems, d.Problems); diff != "" {
		t.Error(diff)
	}
}

// TestMergedMappings: in YAML, a mapping's own members have priority over merged ones, wherever the merge key stands. Of several merged mappings, the first
// has priority.
func TestMergedMappings(t *testing.T) {
	t.Parallel()
	d, err := openapi.Parse([]byte(`
openapi: 3.0.3
info: {title: T, version: "1"}
x-one: &one {operationId: one, summary: of one, description: of one}
x-two: &two {operationId: two, summary: of two, deprecated: true}
paths:
  /first: {get: {<<: *one, operationId: own}}
  /last: {get: {operationId: own2, <<: *one}}
  /both: {get: {<<: [*two, *one], operationId: own3}}
`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range d.Operations {
		got = append(got, o.Name+": "+strings.ReplaceAll(o.Description, "\n", "/"))
	}
	if diff := cmp.Diff([]string{"own: of one/GET /first", "own2: of one/GET /last", "own3: Deprecated. of two/of one/GET /both"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestRequests: inputs become the expected requests, as net/http writes them.
func TestRequests(t *testing.T) {
	t.Parallel()
	d := pets(t)
	base, _ := url.Parse("https://api.example.com/v1/")
	for _, c := range []struct{ op, input, want string }{
		{
			"pets_list", `{"limit": 1e2, "tags": ["a b", "c&d"], "ids": [1,2], "filter": {"age": {"min": 3}, "in": ["x","y"]}, "where": {"a": [1]}, "shop": "north"}`,
			`GET /v1/pets?limit=1e2&tags=a+b&tags=c%26d&ids=1%7C2&filter%5Bage%5D%5Bmin%5D=3&filter%5Bin%5D%5B0%5D=x&filter%5Bin%5D%5B1%5D=y&where=%7B%22a%22%3A%5B1%5D%7D [Shop: north]`,
		},
		{"pets_list", `{"shop": "north\r\nX-Evil: 1"}`, `error: shop: it has characters that a header cannot hold`},
		{"get-pet", `{"id": "a b?c#d", "query_id": "7", "query_body": "x"}`, `GET /v1/pets/a%20b%3Fc%23d?id=7&body=x`},
		{"get-pet", `{"id": ""}`, `error: id: it may not be empty`},
		{"get-pet", `{}`, `error: id: it is required`},
		{"get-pet", `{"id": ".."}`, `error: id: it may have no part that is empty, . or .., which lead to another path of the service`},
		{"get-pet", `{"id": "7/../../admin"}`, `error: id: it may not hold /, \ or control characters, which could lead to another path of the service`},
		{"get-pet", `{"id": "..%2fadmin"}`, `error: id: it may not hold /, \ or control characters, which could lead to another path of the service`},
		{"get-pet", `{"id": "%252e%252e"}`, `error: id: it may have no part that is empty, . or .., which lead to another path of the service`},
		{"get-pet", `{"id": "a\\b"}`, `error: id: it may not hold /, \ or control characters, which could lead to another path of the service`},
		{"get-pet", `{"id": ["..", "x"]}`, `error: id: it may have no part that is empty, . or .., which lead to another path of the service`},
		{"file", `{"path": "docs/a b.md"}`, `GET /v1/files/docs/a%20b.md`},
		{"file", `{"path": "docs/../../admin"}`, `error: path: it may have no part that is empty, . or .., which lead to another path of the service`},
		{"file", `{"path": "docs//x"}`, `error: path: it may have no part that is empty, . or .., which lead to another path of the service`},
		{"shapes", `{"m": ["a", "b"], "l": {"x": 1, "y": 2}}`, `GET /v1/matrix/;m=a;m=b/.x,1,y,2`},
		{"put_pets_id", `{"id": "7", "body": {"name": "a&b=c", "tags": ["x","y"], "more": {"k": 1}}}`, `PUT /v1/pets/7 [Content-Type: application/x-www-form-urlencoded] name=a%26b%3Dc&tags=x&tags=y&more=%7B%22k%22%3A1%7D`},
		{"createPet", `{"body": {"name": "Rex", "id": 12345678901234567890}}`, `POST /v1/pets [Content-Type: application/json] {"name": "Rex", "id": 12345678901234567890}`},
		{"createPet", `{}`, `error: body: it is required`},
		{"createPet", `[1]`, `error: the input is not a JSON object`},
	} {
		if diff := cmp.Diff(c.want, wire(t, d, operation(t, d, c.op), base, c.input, nil)); diff != "" {
			t.Errorf("%s %s: %s", c.op, c.input, diff)
		}
	}
}

// wire returns the request for an input as text.
func wire(t testing.TB, d *openapi.Document, o *openapi.Operation, base *url.URL, input string, credentials map[string]string) string {
	t.Helper()
	r, err := o.Request(base, json.RawMessage(input))
	if err != nil {
		return "error: " + err.Error()
	}
	d.Authorize(o, r, credentials)
	u, err := r.URL()
	if err != nil {
		return "error: " + err.Error()
	}
	if u.Host != base.Host || u.Scheme != base.Scheme {
		t.Errorf("%s leads to %s", input, u)
	}
	out := r.Method + " " + u.RequestURI()
	r.Header.Del("Accept")
	for name, values := range r.Header {
		out += fmt.Sprintf(" [%s: %s]", name, strings.Join(values, ", "))
	}
	if r.Cookie() != "" {
		out += " {" + r.Cookie() + "}"
	}
	return strings.TrimSpace(out + " " + string(r.Body))
}

func TestMultipart(t *testing.T) {
	t.Parallel()
	d := pets(t)
	base, _ := url.Parse("http://127.0.0.1:1")
	photo := []byte{0x89, 'P', 'N', 'G', 0, '\r', '\n'}
	input := fmt.Sprintf(`{"id": "7", "body": {"note": "hi", "meta": {"a": 1}, "photo": {"base64": %q, "filename": "a\"b\r\n.png"}}}`, base64.StdEncoding.EncodeToString(photo))
	r, err := operation(t, d, "upload").Request(base, json.RawMessage(input))
	if err != nil {
		t.Fatal(err)
	}
	_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	form, err := multipart.NewReader(bytes.NewReader(r.Body), params["boundary"]).ReadForm(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	if got := form.Value["note"]; !cmp.Equal(got, []string{"hi"}) {
		t.Errorf("note %q", got)
	}
	if got := form.Value["meta"]; !cmp.Equal(got, []string{`{"a":1}`}) {
		t.Errorf("meta %q", got)
	}
	file := form.File["photo"][0]
	f, err := file.Open()
	if err != nil {
		t.Fatal(err)
	}
	got, _ := io.ReadAll(f)
	if !bytes.Equal(got, photo) || file.Header.Get("Content-Type") != "image/png" || len(form.Value)+len(form.File) != 3 {
		t.Errorf("%q %v %v", got, file.Header, form)
	}
	schema := string(operation(t, d, "upload").Input)
	if !strings.Contains(schema, `"photo":{"anyOf":[{"type":"string"`) {
		t.Error(schema)
	}
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	d := pets(t)
	base, _ := url.Parse("https://api.example.com")
	all := map[string]string{"key": "k e&y", "login": "ann:pass word", "token": "tok"}
	if got := wire(t, d, operation(t, d, "file"), base, `{"path":"x"}`, all); got != "GET /files/x?api_key=k+e%26y" {
		t.Error(got)
	}
	if got := wire(t, d, operation(t, d, "upload"), base, `{"id":"x"}`, all); got != "POST /pets/x/photo" {
		t.Errorf("an operation that needs none: %s", got)
	}
	for needs, want := range map[string]string{
		`[{login: []}]`:          "GET /a [Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("ann:pass word")) + "]",
		`[{jar: []},{key: []}]`:  "GET /a?q=1&api_key=k+e%26y",
		`[{key: [], token: []}]`: "GET /a?q=1&api_key=k+e%26y [Authorization: Bearer tok]",
		`[{jar: [], token: []}]`: "GET /a?q=1",
	} {
		doc, err := openapi.Parse([]byte(`
openapi: 3.1.0
paths: {/a: {get: {security: ` + needs + `, parameters: [{name: q, in: query, style: form, schema: {type: object}}]}}}
components: {securitySchemes: {key: {type: apiKey, in: query, name: api_key}, jar: {type: apiKey, in: cookie, name: session}, login: {type: http, scheme: basic}, token: {type: oauth2}}}`))
		if err != nil {
			t.Fatal(err)
		}
		input := `{"q": {"q": 1}}`
		if strings.Contains(needs, "login") {
			input = `{}`
		} else if strings.Contains(want, "api_key") {
			input = `{"q": {"q": 1, "api_key": "mine"}}` // the configured credential replaces one that a program sends in its place
		}
		if got := wire(t, doc, doc.Operations[0], base, input, all); got != want {
			t.Errorf("%s: %s\nwant %s", needs, got, want)
		}
	}
	if err := d.CheckCredentials(map[string]string{"nokey": "x"}); err == nil || !strings.Contains(err.Error(), "jar, key, login, token") {
		t.Error(err)
	}
	secrets := strings.Join(d.Secrets(all), " ")
	for _, form := range []string{"k+e%26y", base64.StdEncoding.EncodeToString([]byte("ann:pass word")), "tok"} {
		if !strings.Contains(secrets, form) {
			t.Errorf("%q is not in %q", form, secrets)
		}
	}
}

// TestHostile: documents that are expensive to read are read in linear time and memory, or refused.
func TestHostile(t *testing.T) { // not parallel: it measures memory
	get := func(schema, rest string) string {
		return `{"openapi":"3.0.0","paths":{"/a":{"get":{"responses":{"200":{"content":{"application/json":{"schema":` + schema + `}}}}}}}` + rest + `}`
	}
	chain := func(n int, of func(i int) string) string {
		var b strings.Builder
		b.WriteString(`,"components":{"schemas":{"last":{"type":"string"}`)
		for i := range n {
			fmt.Fprintf(&b, `,"s%d":%s`, i, of(i))
		}
		return b.String() + "}}"
	}
	many := func(format string, n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	const n = 100_000
	for name, c := range map[string]struct{ doc, want string }{
		"a chain of references": {get(`{"$ref":"#/components/schemas/s0"}`, chain(n, func(i int) string { return fmt.Sprintf(`{"$ref":"#/components/schemas/s%d"}`, i+1) })), ""},
		"a cycle of references": {get(`{"$ref":"#/components/schemas/s0"}`, chain(n, func(i int) string { return fmt.Sprintf(`{"$ref":"#/components/schemas/s%d"}`, (i+1)%n) })), ""},
		"a chain of parts":      {get(`{"$ref":"#/components/schemas/s0"}`, chain(n, func(i int) string { return fmt.Sprintf(`{"allOf":[{"$ref":"#/components/schemas/s%d"}]}`, i+1) })), ""},
		"a tree of parts": {get(`{"$ref":"#/components/schemas/s0"}`, chain(1000, func(i int) string {
			return fmt.Sprintf(`{"properties":{"a":{"$ref":"#/components/schemas/s%d"},"b":{"$ref":"#/components/schemas/s%d"}}}`, (2*i)%1000, (2*i+1)%1000)
		})), ""},
		"a reference to itself": {get(`{"$ref":"#/paths/~1a/get/responses/200/content/application~1json/schema"}`, ""), ""},
		"a reference to all":    {get(`{"properties":{"a":{"$ref":"#"}}}`, ""), ""},
		"many properties":       {get(`{"type":"object","properties":{"x":{}`+many(`,"p%d":{"type":"string"}`, n)+`}}`, ""), ""},
		"many values":           {get(`{"enum":[1`+strings.Repeat(",1", 3_000_000)+`]}`, ""), "more than 2000000 values"},
		"many operations":       {`{"openapi":"3.0.0","paths":{"/x":{}` + many(`,"/p%d":{"get":{}}`, n) + `}}`, "more than 4000 operations"},
		"large operations": {`{"openapi":"3.0.0","paths":{"/x":{}` + many(`,"/p%d":{"$ref":"#/components/x"}`, 3900) + `},"components":{"x":{"get":{"description":"` +
			strings.Repeat("long ", 1000) + `","parameters":[{"name":"a","in":"query"}` + many(`,{"name":"`+strings.Repeat("n", 190)+`%d","in":"query","schema":{}}`, 150) + `]}}}}`, "take more than"},
		"nested deeply":   {get(strings.Repeat(`{"items":`, 5000)+"{}"+strings.Repeat("}", 5000), ""), "nested more than 256"},
		"nested YAML":     {"openapi: 3.0.0\npaths: " + strings.Repeat("[", 200_000), "depth"},
		"aliases":         {"openapi: 3.0.0\npaths: {/a: {get: {responses: {'200': {content: {application/json: {schema: *h}}}}}}}\n", "unknown anchor"},
		"alias bomb":      {bomb(), ""},
		"alias of itself": {"openapi: 3.0.0\npaths: {/a: {get: {responses: {'200': {content: {application/json: {schema: &s {type: object, properties: {s: *s}, default: *s, enum: [*s]}}}}}}}}\n", ""},
		"large":           {strings.Repeat(" ", openapi.MaxDocument+1), "more than"},
		"Swagger 2":       {`{"swagger":"2.0","paths":{}}`, "Swagger 2.0"},
		"another thing":   {`<html></html>`, "no OpenAPI 3 document"},
		"empty":           {``, "empty"},
		"no operations":   {`{"openapi":"3.1.0","paths":{"/a":{}}}`, "no operations"},
		"wrong kinds":     {`{"openapi":"3.1.0","info":[],"servers":{},"security":{},"paths":{"/a":[],"/b":{"get":{"parameters":{},"requestBody":[],"responses":[],"security":[1]}},"/c":{"get":{"parameters":[1]}}},"components":[]}`, ""},
		"nothing usable":  {`{"openapi":"3.1.0","paths":{"/c":{"get":{"parameters":[1]}}}}`, "none of its operations can be used"},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			d, err := openapi.Parse([]byte(c.doc))
			runtime.ReadMemStats(&after)
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Fatalf("%v; want %s", err, c.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			usable(t, d)
			if used := after.TotalAlloc - before.TotalAlloc; used > uint64(64*len(c.doc))+(8<<20) {
				t.Errorf("it took %d bytes for a document of %d", used, len(c.doc))
			}
		})
	}
}

// bomb returns a document whose aliases stand for 10^8 values.
func bomb() string {
	doc := "openapi: 3.0.0\nx-a: &a {type: object, properties: {p: {}}}\n"
	last := "a"
	for _, c := range "bcdefgh" {
		doc += fmt.Sprintf("x-%c: &%c {anyOf: [%s]}\n", c, c, strings.TrimSuffix(strings.Repeat("*"+last+" , ", 10), ", "))
		last = string(c)
	}
	return doc + "paths: {/a: {get: {responses: {'200': {content: {application/json: {schema: *h}}}}}}}\n"
}

// usable checks that the names of operations are unique, and that their schemas are bounded and can be compiled.
func usable(t testing.TB, d *openapi.Document) {
	t.Helper()
	seen := map[string]bool{}
	for _, o := range d.Operations {
		if name := strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(o.Name)); seen[name] || len(o.Name) > 64 || name == "" {
			t.Errorf("name %q", o.Name)
		} else {
			seen[name] = true
		}
		for _, schema := range []json.RawMessage{o.Input, o.Output} {
			if len(schema) == 0 {
				continue
			}
			if len(schema) > 256<<10 {
				t.Errorf("%s: a schema of %d bytes", o.Name, len(schema))
			}
			v, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
			if err != nil {
				t.Fatalf("%s: %v: %s", o.Name, err, schema)
			}
			c := jsonschema.NewCompiler()
			c.UseRegexpEngine(func(string) (jsonschema.Regexp, error) { return anything{}, nil }) // documents use another syntax of regular expressions
			if err := c.AddResource("mem:///s", v); err != nil {
				t.Fatalf("%s: %v", o.Name, err)
			}
			if _, err := c.Compile("mem:///s"); err != nil {
				t.Errorf("%s: %v\n%.2000s", o.Name, err, schema)
			}
		}
	}
}

type anything struct{}

func (anything) MatchString(string) bool { return true }
func (anything) String() string          { return ".*" }

func TestRead(t *testing.T) {
	t.Parallel()
	header := func(pairs ...string) http.Header {
		h := http.Header{}
		for i := 0; i < len(pairs); i += 2 {
			h.Add(pairs[i], pairs[i+1])
		}
		return h
	}
	a := openapi.Read(200, header("Content-Type", "application/hal+json; charset=utf-8", "Link", `</x?page=2>; rel="next"`, "Set-Cookie", "secret=1", "X-Total-Count", "9"), []byte("\xef\xbb\xbf {\"a\":1}\n"))
	if string(a.JSON) != `{"a":1}` || !cmp.Equal(a.Header, map[string]string{"link": `</x?page=2>; rel="next"`, "x-total-count": "9"}) {
		t.Errorf("%+v", a)
	}
	if a := openapi.Read(200, header("Content-Type", "application/json"), []byte("<html>")); a.JSON != nil || a.Text != "<html>" {
		t.Errorf("%+v", a)
	}
	if a := openapi.Read(200, header("Content-Type", "text/csv"), []byte("a,\xff")); a.Text != "a,\uFFFD" {
		t.Errorf("%+v", a)
	}
	a = openapi.Read(200, header("Content-Type", "application/pdf", "Content-Disposition", `attachment; filename="..\\../x/../r.pdf"`), []byte("%PDF\x00"))
	if string(a.Data) != "%PDF\x00" || a.Name != "r.pdf" || a.MediaType != "application/pdf" {
		t.Errorf("%+v", a)
	}
	if a := openapi.Read(204, nil, nil); a.JSON != nil || a.Data != nil || a.Text != "" {
		t.Errorf("%+v", a)
	}
}

// FuzzParse: any document is refused, or gives usable tools whose requests go only to the service.
func FuzzParse(f *testing.F) {
	data, err := os.ReadFile("testdata/pets.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data, `{"id":"a","path":"b","m":[1],"l":{"a":1},"body":{"a":"b"}}`)
	f.Add([]byte(`{"openapi":"3.1.0","paths":{"/{a}?x={b}":{"post":{"requestBody":{"content":{"*/*":{}}}}}}}`), `{"a":"..","b":"/","body":"x"}`)
	base, _ := url.Parse("https://api.example.com/v1")
	f.Fuzz(func(t *testing.T, data []byte, input string) {
		if len(data) > 1<<16 || len(input) > 1<<12 {
			return
		}
		d, err := openapi.Parse(data)
		if err != nil {
			return
		}
		usable(t, d)
		for _, o := range d.Operations {
			r, err := o.Request(base, json.RawMessage(input))
			if err != nil {
				continue
			}
			u, err := r.URL()
			if err != nil {
				continue
			}
			again, err := url.Parse(u.String())
			if err != nil || again.Host != base.Host || again.Scheme != "https" || again.User != nil || !strings.HasPrefix(again.Path, "/v1/") {
				t.Fatalf("%s with %s leads to %s (%v)", o.Name, input, u, err)
			}
			for part := range strings.SplitSeq(again.Path, "/") {
				if part == ".." || part == "." {
					t.Fatalf("%s with %s leads to %s", o.Name, input, u)
				}
			}
		}
	})
}

// TestRangesOfMediaTypes: if a document gives a range of media types for a body, the body's schema determines the media type of the request.
func TestRangesOfMediaTypes(t *testing.T) {
	t.Parallel()
	base, _ := url.Parse("http://127.0.0.1:1")
	const object, file = `{"a":[1,{"b":12345678901234567890}]}`, `{"base64":"AAEC","contentType":"image/gif"}`
	for _, c := range []struct{ content, schema, body, want string }{
		{`"*/*"`, `{type: object, properties: {a: {type: array}}}`, object, "[Content-Type: application/json] " + object},
		{`"*/*"`, `{$ref: "#/components/schemas/Note"}`, object, "[Content-Type: application/json] " + object},
		{`"*/*"`, `{type: array, items: {}}`, `[1, 2]`, "[Content-Type: application/json] [1, 2]"},
		{`"*/*"`, `{oneOf: [{type: object}, {type: "null"}]}`, `null`, "[Content-Type: application/json] null"},
		{`"application/*"`, `{type: object}`, object, "[Content-Type: application/json] " + object},
		{`"*/*"`, `{type: string}`, `"a text"`, "[Content-Type: text/plain; charset=utf-8] a text"},
		{`"text/*"`, `{type: string}`, `"a text"`, "[Content-Type: text/plain; charset=utf-8] a text"},
		{`"*/*"`, `{type: string, format: binary}`, file, "[Content-Type: image/gif] \x00\x01\x02"},
		{`"image/*"`, `{type: string, format: binary}`, file, "[Content-Type: image/gif] \x00\x01\x02"},
		{`"*/*"`, ``, object, "[Content-Type: application/json] " + object},
		{`"*/*"`, ``, `"a text"`, "[Content-Type: text/plain; charset=utf-8] a text"},
		{`"*/*"`, `{}`, file, "[Content-Type: image/gif] \x00\x01\x02"},
		{`"*/*"`, ``, `{"base64":"AAEC","more":1}`, `[Content-Type: application/json] {"base64":"AAEC","more":1}`},
		{`"*/*": {schema: {type: string, format: binary}}, application/json`, `{type: object}`, object, "[Content-Type: application/json] " + object},
	} {
		schema := ""
		if c.schema != "" {
			schema = "schema: " + c.schema
		}
		d, err := openapi.Parse([]byte("openapi: 3.1.0\npaths: {/a: {post: {operationId: send, requestBody: {content: {" + c.content + ": {" + schema + "}}}}}}\n" +
			"components: {schemas: {Note: {type: object}}}"))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff("POST /a "+c.want, wire(t, d, operation(t, d, "send"), base, `{"body":`+c.body+`}`, nil)); diff != "" {
			t.Errorf("%s %s: %s", c.content, c.schema, diff)
		}
	}
}

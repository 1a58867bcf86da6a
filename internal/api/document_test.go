package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"mcp-code-exec-harness/internal/site"
)

// Tools that check the document, at fixed versions; the go command verifies them against the checksum database.
const (
	validator = "github.com/getkin/kin-openapi/cmd/validate@v0.152.0"
	generator = "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2"
)

var tools sync.Map // builds of the tools by package, of type func() (string, error)

// goTool builds a program from a Go module and returns its path. If the build fails, the test is skipped; with CI=true, the test fails.
func goTool(t *testing.T, pkg string) string {
	t.Helper()
	once, _ := tools.LoadOrStore(pkg, sync.OnceValues(func() (string, error) {
		dir, err := os.MkdirTemp(shared, "tool-")
		if err != nil {
			return "", err
		}
		cmd := exec.Command("go", "install", pkg)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOBIN="+dir, "GOFLAGS=-trimpath", "GOWORK=off", "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("go install %s: %w: %s", pkg, err, out)
		}
		found, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil || len(found) != 1 {
			return "", fmt.Errorf("go install %s made %v", pkg, found)
		}
		return found[0], nil
	}))
	path, err := once.(func() (string, error))()
	if err != nil {
		unavailable(t, fmt.Sprintf("%v; run the test with access to a Go module proxy", err))
	}
	return path
}

// unavailable skips a test because something is missing; with CI=true, it fails the test.
func unavailable(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// document writes the document of a server into a file and returns the path of the file.
func (w *world) document() string {
	w.t.Helper()
	file := filepath.Join(w.t.TempDir(), "openapi.json")
	if err := os.WriteFile(file, []byte(w.do("GET", "/openapi.json", nil).want(http.StatusOK).body), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return file
}

// The document is valid OpenAPI 3.1.
func TestDocumentIsValid(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{})
	validate := goTool(t, validator)
	file := w.document()
	if out, err := exec.Command(validate, file).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	// The validator finds a wrong type.
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	wrong := strings.Replace(string(text), `"type":"string"`, `"type":"text"`, 1)
	if err := os.WriteFile(file, []byte(wrong), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(validate, file).CombinedOutput(); err == nil {
		t.Errorf("a wrong type is valid: %s", out)
	}
}

// The document has a summary and a tag for each operation and says which operations are public. It contains no traces of the library that generates it.
func TestDocument(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{})
	r := w.do("GET", "/openapi.json", nil).want(http.StatusOK)
	var doc struct {
		OpenAPI    string
		Info       struct{ Title, Version string }
		Security   []map[string]any
		Components struct{ SecuritySchemes map[string]any }
		Paths      map[string]map[string]struct {
			OperationID, Summary string
			Tags                 []string
			Security             *[]map[string]any
		}
	}
	r.json(&doc)
	if doc.OpenAPI != "3.1.0" || doc.Info.Version != "1.2.3" || doc.Info.Title == "" || len(doc.Security) == 0 || doc.Components.SecuritySchemes["bearer"] == nil {
		t.Errorf("got %s %+v %v", doc.OpenAPI, doc.Info, doc.Components.SecuritySchemes)
	}
	for path, item := range doc.Paths {
		for method, op := range item {
			if op.OperationID == "" || op.Summary == "" || len(op.Tags) != 1 {
				t.Errorf("%s %s: %+v", method, path, op)
			}
			public := op.Security != nil
			if r := w.do(strings.ToUpper(method), strings.NewReplacer("{", "", "}", "").Replace(path), nil, "Authorization", "", "Host", "evil.example.com"); public == (r.status == http.StatusForbidden && !strings.Contains(r.body, "Invalid")) {
				t.Errorf("%s %s: it needs no identity: %t, and it answers %d", method, path, public, r.status)
			}
		}
	}
	for _, bad := range []string{"$schema", "huma", "localhost", "null"} {
		if strings.Contains(r.body, bad) {
			t.Errorf("the document holds %q", bad)
		}
	}
	if yaml := w.do("GET", "/openapi.yaml", nil).want(http.StatusOK); !strings.Contains(yaml.body, "openapi: 3.1.0") {
		t.Errorf("got %.200s", yaml.body)
	}
	if r.header.Get("Link") != "" {
		t.Errorf("there is a link: %s", r.header.Get("Link"))
	}
}

// The documents need no key, and have the policy of the dashboard. A path that is none of theirs is not found, and one that leaves their folder neither.
func TestDocsSite(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{keys: true})
	if r := w.do("GET", "/docs", nil).want(http.StatusSeeOther); r.header.Get("Location") != "/docs/" {
		t.Errorf("got %v", r.header)
	}
	for path, kind := range map[string]string{"site.css": "text/css", "search.js": "text/javascript", "index.html": "text/html", "QUICK_START.html": "text/html", "search.json": "application/json", "images/now.png": "image/png"} {
		if _, err := site.File("index.html"); err != nil && !strings.HasPrefix(path, "s") || err != nil && path == "search.json" {
			continue // built without the tag embedsite
		}
		r := w.do("GET", "/docs/"+path, nil).want(http.StatusOK)
		if !strings.HasPrefix(r.header.Get("Content-Type"), kind) || r.header.Get("Content-Security-Policy") != site.ContentPolicy || r.body == "" {
			t.Errorf("%s: %v", path, r.header)
		}
		w.do("GET", "/docs/"+path, nil, "If-None-Match", r.header.Get("ETag")).want(http.StatusNotModified)
	}
	for _, path := range []string{"none.html", "images/", "images", "%2e%2e/go.mod", "assets/site.css", "QUICK_START.html/"} {
		w.do("GET", "/docs/"+path, nil).want(http.StatusNotFound)
	}
}

// The page that shows the document loads nothing from other servers, and its Content-Security-Policy allows only its own script and requests.
func TestDocsPage(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{keys: true}) // the page needs no key
	page, script := w.do("GET", "/docs/api", nil).want(http.StatusOK), w.do("GET", "/docs/docs.js", nil).want(http.StatusOK)
	if page.header.Get("Content-Type") != "text/html; charset=utf-8" || script.header.Get("Content-Type") != "text/javascript; charset=utf-8" {
		t.Errorf("got %s and %s", page.header, script.header)
	}
	if outside := regexp.MustCompile(`(https?:)?//[a-z0-9.-]+\.[a-z]+|innerHTML|eval\(`).FindString(page.body + script.body); outside != "" {
		t.Errorf("the page holds %q", outside)
	}
	csp := page.header.Get("Content-Security-Policy")
	for _, part := range []string{"default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"} {
		if !strings.Contains(csp, part) {
			t.Errorf("the policy %q lacks %q", csp, part)
		}
	}
	if strings.Contains(page.body, "<script>") || strings.Contains(page.body, " on") && regexp.MustCompile(`\son[a-z]+=`).MatchString(page.body) {
		t.Error("the page holds script that its policy forbids")
	}
	node, err := exec.LookPath("node")
	if err != nil {
		unavailable(t, "Node.js is not installed: the page's script was not run")
	}
	cmd := exec.Command(node, "testdata/docs.js", w.document())
	cmd.Env = append(os.Environ(), "SCRIPT="+script.body)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, o := range w.contract.operations() {
		if !strings.Contains(string(out), o.Path) {
			t.Errorf("the page does not show %s", o.Path)
		}
	}
}

// A client that is generated from the document compiles and works.
func TestGeneratedClient(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{keys: true})
	generate := goTool(t, generator)
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "client"))); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "generated"), 0o700); err != nil {
		t.Fatal(err)
	}
	code := filepath.Join(dir, "generated", "client.go")
	if out, err := exec.Command(generate, "-package", "generated", "-generate", "types,client", "-o", code, w.document()).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOFLAGS=-trimpath", "GOWORK=off", "CGO_ENABLED=0")
		out, err := cmd.CombinedOutput()
		if err != nil && name == "go" && args[0] == "mod" {
			unavailable(t, fmt.Sprintf("the client's modules cannot be had: %v: %s", err, out))
		}
		if err != nil {
			t.Fatalf("%s %v: %v: %s", name, args, err, out)
		}
		return string(out)
	}
	run("go", "mod", "download")
	run("go", "build", "-o", "program", ".")
	got := run(filepath.Join(dir, "program"), w.url, w.key("alice"))
	const want = `map[total:42] Done. 1
true
succeeded Hello.
42 42 1 true
204 /skills/add.js 404 no such task for this key
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// The document does not depend on the order in which its parts are added, because clients are generated from it.
func TestDocumentIsStable(t *testing.T) {
	t.Parallel()
	first, second := setup(t, setting{}), setup(t, setting{})
	a, b := first.do("GET", "/openapi.json", nil).want(http.StatusOK).body, second.do("GET", "/openapi.json", nil).want(http.StatusOK).body
	if a != b || !json.Valid([]byte(a)) {
		t.Error("two servers of the same kind describe themselves differently")
	}
}

package docs

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// maxWiring is the maximum number of lines of internal/wiring. This package only joins the parts; code that decides something belongs to the package of its
// subject.
const maxWiring = 800

// stores maps the files that import a concrete store to the reason.
var stores = map[string]string{
	"internal/wiring/wiring.go":             "opens the store of the configuration",
	"internal/wiring/privacy.go":            "opens the vault in Redis",
	"internal/installation/installation.go": "copies and reserves the files of a store, which no open store can do",
	"internal/bench/bench.go":               "measures a store of its own",
}

// carried maps the files that put values into contexts to the values or the reason. Cancellation is left out.
var carried = map[string]string{
	"internal/telemetry/trace.go":    "the tracer",
	"internal/telemetry/log.go":      "the ids in log lines",
	"internal/telemetry/audit.go":    "the user in audit events, which are written like log lines",
	"internal/mcpclient/exchange.go": "the SDK's transport gets the context of a request and no argument of its caller",
	"internal/mcpserver/http.go":     "the SDK's middlewares get the context of a request and no argument of its caller",
	"internal/api/guard.go":          "huma's handlers get the context of a request and no argument of its middleware",
	"internal/api/connections.go":    "net/http gives handlers no other way to their connection",
	"internal/auth/login.go":         "x/oauth2 takes its HTTP client from the context",
	"internal/credentials/oauth.go":  "x/oauth2 takes its HTTP client from the context",
}

// code parses every Go file of the product: no tests, and no packages that only tests use.
func code(t *testing.T, visit func(path string, file *ast.File)) {
	t.Helper()
	for _, root := range []string{"../cmd", "../internal"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			name := strings.TrimPrefix(filepath.ToSlash(path), "../")
			if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "internal/testing/") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err == nil {
				visit(name, file)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// imports returns the packages of this module that a file imports.
func imports(file *ast.File) (ours []string) {
	for _, spec := range file.Imports {
		if name, err := strconv.Unquote(spec.Path.Value); err == nil && strings.HasPrefix(name, module) {
			ours = append(ours, strings.TrimPrefix(name, module))
		}
	}
	return ours
}

// TestWiringOnlyJoins checks that internal/wiring is small, and that only internal/cli/harness.go imports it. The API and the MCP server declare interfaces of
// what they need.
func TestWiringOnlyJoins(t *testing.T) {
	t.Parallel()
	lines := 0
	code(t, func(path string, file *ast.File) {
		if folder(filepath.Dir(path)) == "internal/wiring" {
			text, err := os.ReadFile("../" + path)
			if err != nil {
				t.Error(err)
			}
			lines += bytes.Count(text, []byte("\n"))
			for _, decl := range file.Decls {
				if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.IsExported() && f.Name.Name != "Open" {
					t.Errorf("%s: %s is a function that others call; it belongs to the package that it concerns", path, f.Name.Name)
				}
			}
		}
		if slices.Contains(imports(file), "internal/wiring") && path != "internal/cli/harness.go" {
			t.Errorf("%s imports internal/wiring; it says in an interface what it needs", path)
		}
	})
	if lines == 0 || lines >= maxWiring {
		t.Errorf("internal/wiring has %d lines; it may have fewer than %d", lines, maxWiring)
	}
}

// TestStoresAreInterfaces checks that only the listed files import a concrete store, so that a second store can be added without changing the others.
func TestStoresAreInterfaces(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	code(t, func(path string, file *ast.File) {
		for _, name := range imports(file) {
			if folder(name) == "internal/store" && folder(filepath.Dir(path)) != "internal/store" {
				seen[path] = true
				if stores[path] == "" {
					t.Errorf("%s imports %s; it says in an interface what it needs of a store", path, name)
				}
			}
		}
	})
	for path := range stores {
		if !seen[path] {
			t.Errorf("%s imports no store; take it off the list", path)
		}
	}
}

// TestContextsCarryLittle checks that contexts carry only the listed values: of the trace and the log, and values for which other packages have no argument.
func TestContextsCarryLittle(t *testing.T) {
	t.Parallel()
	found := map[string]int{}
	code(t, func(path string, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "WithValue" {
				if pkg, ok := s.X.(*ast.Ident); ok && pkg.Name == "context" {
					found[path]++
				}
			}
			return true
		})
	})
	for path, n := range found {
		if carried[path] == "" || n > 1 {
			t.Errorf("%s puts %d values into contexts; pass them as arguments", path, n)
		}
	}
	for path := range carried {
		if found[path] == 0 {
			t.Errorf("%s puts nothing into a context; take it off the list", path)
		}
	}
}

// TestDocumentsNameTests checks that every test that a document names exists.
func TestDocumentsNameTests(t *testing.T) {
	t.Parallel()
	exist := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, f := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(text, -1) {
			exist[string(f[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	documents, err := filepath.Glob("*.md")
	if err != nil || len(documents) == 0 {
		t.Fatal(documents, err)
	}
	for _, document := range documents {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile("`(Test[A-Z]\\w*)`").FindAllSubmatch(text, -1) {
			if !exist[string(name[1])] {
				t.Errorf("%s names %s, which does not exist", document, name[1])
			}
		}
	}
}

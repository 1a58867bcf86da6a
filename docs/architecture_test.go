// Package docs tests that the documents are right about the code.
package docs

import (
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

const module = "mcp-code-exec-harness/"

// folder returns the row of the table that a package belongs to: internal/catalog for internal/catalog/dts.
func folder(path string) string {
	parts := strings.Split(path, "/")
	return strings.Join(parts[:min(len(parts), 2)], "/")
}

// TestPackagesImportDownwards checks that packages import only packages below them in the table of ARCHITECTURE.md. Tests are left out.
func TestPackagesImportDownwards(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*`) \\|").FindAllStringSubmatch(string(text), -1) {
		for _, name := range strings.Split(row[1], ", ") {
			order = append(order, strings.Trim(name, "`"))
		}
	}
	seen := map[string]bool{}
	for _, root := range []string{"../cmd", "../internal"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			from := folder(strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), "../"))
			seen[from] = true
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
			if err != nil {
				return err
			}
			for _, spec := range file.Imports {
				name, err := strconv.Unquote(spec.Path.Value)
				if err != nil {
					return err
				}
				to, ours := strings.CutPrefix(name, module)
				if to = folder(to); ours && to != from && to != "internal/frame" && slices.Index(order, to) < slices.Index(order, from) {
					t.Errorf("%s imports %s, which is not below %s in the table", path, name, from)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name := range seen {
		if !slices.Contains(order, name) {
			t.Errorf("%s is not in the table", name)
		}
	}
	for _, name := range order {
		if !seen[name] {
			t.Errorf("%s is in the table, and there is no such package", name)
		}
	}
}

// TestDocumentsNamePaths checks that every file and folder of the repository that a document names exists.
func TestDocumentsNamePaths(t *testing.T) {
	t.Parallel()
	documents, err := filepath.Glob("*.md")
	if err != nil || len(documents) == 0 {
		t.Fatal(documents, err)
	}
	named := 0
	for _, document := range append(documents, "../README.md", "../CONTRIBUTING.md") {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile("`((?:internal|cmd|deploy|docs|scripts)/[\\w./-]+)`").FindAllSubmatch(text, -1) {
			named++
			if _, err := os.Stat("../" + string(m[1])); err != nil {
				t.Errorf("%s names %s, which does not exist", document, m[1])
			}
		}
	}
	if named < 50 {
		t.Errorf("only %d paths", named)
	}
}

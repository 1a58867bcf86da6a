package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// texts returns the string literals of the product. Literals that are joined by + are one text.
func texts(t *testing.T) (all []string) {
	t.Helper()
	code(t, func(_ string, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			expr, ok := n.(ast.Expr)
			if !ok {
				return true
			}
			text, whole := literal(expr)
			if text != "" {
				all = append(all, text)
			}
			return !whole
		})
	})
	return all
}

// literal returns the text of an expression of string literals and +. Operands of other kinds, such as variables, become %v. The result whole reports that the
// operands need no visit of their own.
func literal(expr ast.Expr) (text string, whole bool) {
	switch e := expr.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return text, true
		}
	case *ast.BinaryExpr:
		left, ofLeft := literal(e.X)
		right, ofRight := literal(e.Y)
		if e.Op == token.ADD && (ofLeft || ofRight) {
			if !ofLeft {
				left = "%v"
			}
			if !ofRight {
				right = "%v"
			}
			return left + right, ofLeft && ofRight
		}
	}
	return "", false
}

// constants returns the values of the string constants of a Go file whose names match a pattern.
func constants(t *testing.T, path, pattern string) (values []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, decl := range file.Decls {
		d, ok := decl.(*ast.GenDecl)
		if !ok || d.Tok != token.CONST {
			continue
		}
		for _, spec := range d.Specs {
			s := spec.(*ast.ValueSpec)
			for i, name := range s.Names {
				if i >= len(s.Values) || !regexp.MustCompile(pattern).MatchString(name.Name) {
					continue
				}
				if lit, ok := s.Values[i].(*ast.BasicLit); ok {
					values = append(values, strings.Trim(lit.Value, `"`))
				}
			}
		}
	}
	if len(values) < 3 {
		t.Fatalf("%s has only %q", path, values)
	}
	return values
}

// statuses returns the HTTP statuses of errors that the server answers with.
func statuses(t *testing.T) (codes []string) {
	t.Helper()
	numbers := map[string]int{}
	for n := 400; n < 600; n++ {
		if text := http.StatusText(n); text != "" {
			numbers["Status"+regexp.MustCompile(`[^A-Za-z]`).ReplaceAllString(text, "")] = n
		}
	}
	code(t, func(path string, file *ast.File) {
		if folder(filepath.Dir(path)) != "internal/api" && folder(filepath.Dir(path)) != "internal/web" {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if pkg, ok := s.X.(*ast.Ident); ok && pkg.Name == "http" && numbers[s.Sel.Name] != 0 {
					codes = append(codes, strconv.Itoa(numbers[s.Sel.Name]))
				}
			}
			return true
		})
	})
	slices.Sort(codes)
	return append(slices.Compact(codes), "499") // the client has disconnected
}

// section returns the part of a document between a heading of the second level and the next one.
func section(t *testing.T, document, heading string) string {
	t.Helper()
	_, rest, found := strings.Cut(document, "\n## "+heading+"\n")
	if !found {
		t.Fatalf("the document has no section %q", heading)
	}
	text, _, _ := strings.Cut(rest, "\n## ")
	return text
}

// rows returns the first cells of the table of a section, without backquotes.
func rows(text string) (first []string) {
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(text, -1) {
		first = append(first, row[1])
	}
	return first
}

// findings returns the names of what harness doctor reports.
func findings(t *testing.T) (names []string) {
	t.Helper()
	code(t, func(path string, file *ast.File) {
		if folder(filepath.Dir(path)) != "internal/doctor" && folder(filepath.Dir(path)) != "internal/cli" {
			return
		}
		own := map[string]string{} // names that the file has as constants or prefixes
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				if len(n.Values) == 1 && n.Names[0].Name == "name" {
					own["name"], _ = literal(n.Values[0])
				}
			case *ast.CallExpr:
				f, ok := n.Fun.(*ast.Ident)
				if ok && len(n.Args) > 2 && (f.Name == "Found" || f.Name == "found" || f.Name == "partFinding") {
					if text, whole := literal(n.Args[0]); whole {
						names = append(names, text)
					} else if arg, ok := n.Args[0].(*ast.Ident); ok && own[arg.Name] != "" {
						names = append(names, own[arg.Name])
					}
				}
			}
			return true
		})
	})
	slices.Sort(names)
	return append(slices.Compact(names), "sandbox TIER", "server NAME") // their names are joined from two parts
}

// TestTroubleshooting checks that docs/TROUBLESHOOTING.md explains every code of an error, and no code that does not exist: kinds of programs, tasks, servers
// and models, codes of files, exit codes, HTTP statuses, and findings of harness doctor.
func TestTroubleshooting(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("TROUBLESHOOTING.md")
	if err != nil {
		t.Fatal(err)
	}
	document := string(raw)
	for heading, want := range map[string][]string{
		"Exit codes":               constants(t, "../internal/cli/exit.go", `^exit[A-Z]`),
		"HTTP statuses":            statuses(t),
		"Errors of programs":       append(constants(t, "../internal/frame/frame.go", `^Kind[A-Z]`), "quota"), // a quota is exceeded in sqlstore
		"Errors of files":          constants(t, "../internal/files/error.go", `^[A-Z]`),
		"Errors of servers":        append(constants(t, "../internal/mcpclient/errors.go", `^Kind[A-Z]`), "tool_error"),
		"Errors of models":         constants(t, "../internal/model/error.go", `^Kind[A-Z]`),
		"Errors of tasks":          constants(t, "../internal/task/task.go", `^Kind[A-Z]`),
		"What harness doctor says": findings(t),
	} {
		got := rows(section(t, document, heading))
		for _, code := range want {
			if !slices.Contains(got, code) {
				t.Errorf("%s: no row for %s", heading, code)
			}
		}
		for i, code := range got {
			if !slices.Contains(want, code) {
				t.Errorf("%s: the product has no %s", heading, code)
			}
			if slices.Contains(got[:i], code) {
				t.Errorf("%s: two rows for %s", heading, code)
			}
		}
	}
}

// TestMessagesExist checks that the messages in the tables of docs/TROUBLESHOOTING.md are messages of the product. In the document, … stands for any text.
func TestMessagesExist(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("TROUBLESHOOTING.md")
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(texts(t), "\x00")
	messages := 0
	for _, part := range strings.Split(string(raw), "\n## ") {
		if !strings.HasPrefix(part, "Messages ") {
			continue
		}
		for _, message := range rows(part) {
			messages++
			for _, fragment := range strings.Split(message, "…") {
				if fragment = strings.TrimSpace(fragment); !strings.Contains(all, fragment) {
					t.Errorf("%q: nothing in the product says %q", message, fragment)
				}
			}
		}
	}
	if messages < 20 {
		t.Errorf("only %d messages", messages)
	}
}

// TestAdviceLeadsSomewhere checks that the document and section that a message of the product names exist.
func TestAdviceLeadsSomewhere(t *testing.T) {
	t.Parallel()
	named := regexp.MustCompile(`(?:\bsee ([A-Z][a-z]+(?: [a-z]+)*) in )?docs/([A-Z_0-9]+\.md)`)
	found := 0
	for _, text := range texts(t) {
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			found++
			document, err := os.ReadFile(m[2])
			if err != nil {
				t.Errorf("%q: %v", text, err)
				continue
			}
			if m[1] != "" && !regexp.MustCompile(`(?m)^#+ `+m[1]+`$`).Match(document) {
				t.Errorf("%q: docs/%s has no section %q", text, m[2], m[1])
			}
		}
	}
	if found < 5 {
		t.Errorf("only %d messages name a document", found)
	}
}

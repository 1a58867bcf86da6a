// Command site renders the documents of the repository as a static site: pages with navigation, pictures and an index for the search. It runs in the root of the
// repository and writes a zip archive, which the program embeds, or a directory, which any web server serves: make site.
package main

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: site ARCHIVE.zip|DIRECTORY")
		os.Exit(2)
	}
	files, err := render(".")
	if err == nil {
		err = write(os.Args[1], files)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

// document is a Markdown file.
type document struct {
	Name  string // path in the repository
	Page  string // name of its page: index.html for README.md
	Title string
	Group string // row of the table of documents in README.md; empty for README.md itself
	Body  template.HTML
}

// section is a part of a document below a heading, for the search.
type section struct {
	Page  string `json:"page"` // title of the page
	Title string `json:"title"`
	URL   string `json:"url"`
	Words string `json:"words"` // each word of the section once
}

// linked matches the links in the table of documents in README.md.
var linked = regexp.MustCompile(`\]\(([^)#]+\.md)\)`)

// comments matches marks for scripts.
var comments = regexp.MustCompile(`(?m)^<!--.*-->\n|<!-- .*? -->`)

// render returns the files of the site by name.
func render(root string) (map[string][]byte, error) {
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		return nil, err
	}
	groups := []string{""}
	all := []*document{{Name: "README.md", Page: "index.html", Title: "Overview"}}
	add := func(name, group string) {
		if slices.ContainsFunc(all, func(d *document) bool { return d.Name == name }) {
			return
		}
		if !slices.Contains(groups, group) {
			groups = append(groups, group)
		}
		title := strings.TrimSuffix(path.Base(name), ".md")
		all = append(all, &document{Name: name, Page: title + ".html", Title: title, Group: group})
	}
	for _, row := range regexp.MustCompile(`(?m)^\| ([a-z ]+) \| (.+) \|$`).FindAllStringSubmatch(string(readme), -1) {
		for _, l := range linked.FindAllStringSubmatch(row[2], -1) {
			add(l[1], row[1])
		}
	}
	others, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		return nil, err
	}
	for _, file := range others {
		add("docs/"+filepath.Base(file), "more")
	}
	files := map[string][]byte{}
	var index []section
	for _, d := range all {
		source, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(d.Name)))
		if err != nil {
			return nil, err
		}
		source = comments.ReplaceAll(source, nil)
		s := &site{root: root, document: d, documents: all, files: files}
		sections, err := s.convert(source)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.Name, err)
		}
		index = append(index, sections...)
	}
	for _, d := range all {
		var b bytes.Buffer
		if err := frame.Execute(&b, map[string]any{"Document": d, "Documents": all, "Groups": groups}); err != nil {
			return nil, err
		}
		files[d.Page] = b.Bytes()
	}
	files["search.json"], err = json.Marshal(index)
	return files, err
}

// site converts a document.
type site struct {
	root      string
	document  *document
	documents []*document
	files     map[string][]byte // pictures are added
}

var (
	tables   = strings.NewReplacer("<table>", `<div class="wide" tabindex="0"><table>`, "</table>", "</table></div>", "<pre>", `<pre tabindex="0">`, "<th></th>", "<td></td>")
	markdown = goldmark.New(
		goldmark.WithExtensions(extension.Linkify, extension.Strikethrough, extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute))),
		goldmark.WithParserOptions(parser.WithAutoHeadingID()), goldmark.WithRendererOptions(html.WithXHTML()),
	)
)

// convert renders a document, and returns its sections.
func (s *site) convert(source []byte) ([]section, error) {
	tree := markdown.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(anchors{}))))
	var sections []section
	words := map[string]bool{}
	end := func() {
		if len(sections) > 0 {
			list := make([]string, 0, len(words))
			for w := range words {
				list = append(list, w)
			}
			slices.Sort(list)
			sections[len(sections)-1].Words = strings.Join(list, " ")
		}
		clear(words)
	}
	var failed error
	var away []*ast.Link
	_ = ast.Walk(tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			end()
			id, _ := n.AttributeString("id")
			title := plain(n, source)
			url := s.document.Page + "#" + string(id.([]byte))
			if n.Level == 1 && len(sections) == 0 {
				url = s.document.Page
				if s.document.Group != "" {
					s.document.Title = title
				}
			}
			sections = append(sections, section{Title: title, URL: url})
		case *ast.Link:
			there, err := s.link(string(n.Destination))
			failed = errors.Join(failed, err)
			if n.Destination = []byte(there); there == "" {
				away = append(away, n)
			}
		case *ast.Image:
			failed = errors.Join(failed, s.picture(string(n.Destination)))
		}
		var lines *text.Segments
		switch n := n.(type) {
		case *ast.Text:
			add(words, string(n.Value(source)))
		case *ast.FencedCodeBlock:
			lines = n.Lines()
		case *ast.CodeBlock:
			lines = n.Lines()
		}
		for i := 0; lines != nil && i < lines.Len(); i++ {
			at := lines.At(i)
			add(words, string(at.Value(source)))
		}
		return ast.WalkContinue, nil
	})
	end()
	for i := range sections {
		sections[i].Page = s.document.Title
	}
	for _, n := range away { // the text of the link stays
		parent, before := n.Parent(), ast.Node(n)
		for child := n.FirstChild(); child != nil; {
			next := child.NextSibling()
			parent.InsertAfter(parent, before, child)
			before, child = child, next
		}
		parent.RemoveChild(parent, n)
	}
	var b bytes.Buffer
	if err := markdown.Renderer().Render(&b, source, tree); err != nil {
		return nil, err
	}
	s.document.Body = template.HTML(tables.Replace(b.String())) //nolint:gosec // made of the repository's documents, without raw HTML
	return sections, failed
}

// plain returns the text of a node.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if t, ok := n.(*ast.Text); ok && entering {
			b.Write(t.Value(source))
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

// add adds the words of a text in lower case.
func add(words map[string]bool, text string) {
	for _, w := range regexp.MustCompile(`[\p{L}\p{N}_]{2,40}`).FindAllString(strings.ToLower(text), -1) {
		words[w] = true
		for part := range strings.SplitSeq(w, "_") {
			if len(part) > 1 {
				words[part] = true
			}
		}
	}
}

// link returns the target of a link on the site. It is empty for a file of the repository that is not on the site, and an error for one that does not exist.
func (s *site) link(to string) (string, error) {
	if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") || strings.HasPrefix(to, "#") {
		return to, nil
	}
	file, place, _ := strings.Cut(to, "#")
	file = path.Join(path.Dir(s.document.Name), file)
	if i := slices.IndexFunc(s.documents, func(d *document) bool { return d.Name == file }); i >= 0 {
		return strings.TrimSuffix(s.documents[i].Page+"#"+place, "#"), nil
	}
	_, err := os.Stat(filepath.Join(s.root, filepath.FromSlash(file)))
	return "", err
}

// picture adds a picture, which is at the same place on the site as below docs.
func (s *site) picture(name string) error {
	text, err := os.ReadFile(filepath.Join(s.root, "docs", filepath.FromSlash(name)))
	s.files[name] = text
	return err
}

// anchors gives headings the anchors that GitHub gives them.
type anchors struct{}

var unspoken = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)

// Generate implements parser.IDs.
func (anchors) Generate(value []byte, _ ast.NodeKind) []byte {
	return []byte(strings.ReplaceAll(unspoken.ReplaceAllString(strings.ToLower(string(value)), ""), " ", "-"))
}

// Put implements parser.IDs.
func (anchors) Put([]byte) {}

// referenceLink leads to the page of the harness that shows its OpenAPI document.
const referenceLink = ` <a href="api">HTTP API</a>`

// frame is the page around a document.
var frame = template.Must(template.New("").Parse(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{.Document.Title}} · harness</title>
<link rel="icon" href="icon.svg">
<link rel="stylesheet" href="site.css">
<script src="search.js" defer></script>
</head>
<body>
<a class="skip" href="#content">To the text</a>
<header><a href="index.html">harness</a> <form id="search" role="search" hidden><label>Search <input type="search" name="q" autocomplete="off"></label></form>` + referenceLink + `</header>
<nav aria-label="Documents">{{range $group := .Groups}}
{{if $group}}<p>{{$group}}</p>{{end}}
<ul>{{range $.Documents}}{{if eq .Group $group}}
<li><a href="{{.Page}}"{{if eq .Page $.Document.Page}} aria-current="page"{{end}}>{{.Title}}</a></li>{{end}}{{end}}
</ul>{{end}}
</nav>
<main id="content">
<div id="found" role="status"></div>
{{.Document.Body}}</main>
</body>
</html>
`))

// write writes files into an archive or a directory. The same files give the same bytes.
func write(to string, files map[string][]byte) error {
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	if !strings.HasSuffix(to, ".zip") {
		for _, name := range []string{"site.css", "search.js", "icon.svg"} {
			text, err := os.ReadFile(filepath.Join("internal", "site", "assets", name))
			if err != nil {
				return err
			}
			files[name], names = text, append(names, name)
		}
		for _, name := range names {
			file := filepath.Join(to, filepath.FromSlash(name))
			text := bytes.Replace(files[name], []byte(referenceLink), nil, 1) // only the harness has this page
			if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, text, 0o644)); err != nil {
				return err
			}
		}
		return nil
	}
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range names {
		w, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate})
		if err == nil {
			_, err = io.Copy(w, bytes.NewReader(files[name]))
		}
		if err != nil {
			return err
		}
	}
	if err := z.Close(); err != nil {
		return err
	}
	return os.WriteFile(to, b.Bytes(), 0o644)
}

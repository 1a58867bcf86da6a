package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// built returns the files of the site of this repository.
func built(t *testing.T) map[string][]byte {
	t.Helper()
	files, err := render("../..")
	if err != nil {
		t.Fatal(err)
	}
	return files
}

var (
	idAttribute   = regexp.MustCompile(` id="([^"]+)"`)
	linkAttribute = regexp.MustCompile(` (?:href|src)="([^"]+)"`)
)

// Every document has a page, to which the navigation of each page leads. Every link and anchor on the site exists, and no page has a script or a style of its own.
func TestSite(t *testing.T) {
	files := built(t)
	documents, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(documents) < 20 {
		t.Fatal(documents, err)
	}
	want := []string{"index.html", "CONTRIBUTING.html", "CHANGELOG.html"}
	for _, d := range documents {
		want = append(want, strings.TrimSuffix(filepath.Base(d), ".md")+".html")
	}
	anchors := map[string][]string{}
	for name, text := range files {
		for _, id := range idAttribute.FindAllStringSubmatch(string(text), -1) {
			if slices.Contains(anchors[name], id[1]) {
				t.Errorf("%s has the anchor %s twice", name, id[1])
			}
			anchors[name] = append(anchors[name], id[1])
		}
	}
	for _, name := range want {
		text := string(files[name])
		if !strings.Contains(text, "<h1") || !strings.Contains(text, `href="`+name+`" aria-current="page"`) {
			t.Errorf("%s has no heading, or is not in its navigation: %.300s", name, text)
		}
		for _, other := range want {
			if !strings.Contains(text, `<li><a href="`+other+`"`) {
				t.Errorf("the navigation of %s has no %s", name, other)
			}
		}
	}
	pages, links := 0, 0
	for name, text := range files {
		if path.Ext(name) != ".html" {
			continue
		}
		pages++
		for _, bad := range []string{"<style", " style=", "<script>", "javascript:", " onclick", "<!--"} {
			if strings.Contains(string(text), bad) {
				t.Errorf("%s has %q", name, bad)
			}
		}
		for _, link := range linkAttribute.FindAllStringSubmatch(string(text), -1) {
			links++
			to, place, _ := strings.Cut(link[1], "#")
			if to == "" {
				to = name
			}
			switch {
			case strings.Contains(to, "://"), strings.HasPrefix(to, "mailto:"), to == "api": // the harness serves it
			case to == "site.css" || to == "search.js" || to == "icon.svg":
				if _, err := os.Stat(filepath.Join("..", "..", "internal", "site", "assets", to)); err != nil {
					t.Error(err)
				}
			case files[to] == nil:
				t.Errorf("%s links to %s, which is not there", name, link[1])
			case place != "" && !slices.Contains(anchors[to], place):
				t.Errorf("%s links to %s, and there is no such section", name, link[1])
			}
		}
	}
	if pages != len(want) || links < 1000 {
		t.Errorf("%d pages, want %d; %d links", pages, len(want), links)
	}
}

// notFound are the questions of the documents' test that the search does not answer.
var notFound = []string{
	"How do I start it at boot, behind a proxy with TLS?", "How do I rotate the key of personal data?", "Who may do what over HTTP?", "How do I send a task over HTTP and follow it?",
	"Why does my program see [EMAIL_1]?", "What does it not protect from?", "How is it built?",
}

// The search finds the section that answers each question of the documents' test among the twenty that it lists, given the question as it stands. Words that are nowhere find
// nothing.
func TestSearch(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("install Node.js")
	}
	files := built(t)
	source, err := os.ReadFile("../../docs/links_test.go")
	if err != nil {
		t.Fatal(err)
	}
	type question struct{ Text, Answer string }
	all := []question{{"zzxq qqqq", ""}}
	for _, q := range regexp.MustCompile(`(?m)^\t\{"\w+", "(.+?)", "([^"]+\.md[^"]*)", \[\]string`).FindAllStringSubmatch(string(source), -1) {
		name, place, _ := strings.Cut(q[2], "#")
		page := strings.TrimSuffix(path.Base(name), ".md") + ".html"
		all = append(all, question{q[1], strings.TrimSuffix(page+"#"+place, "#")})
	}
	if len(all) < 41 {
		t.Fatalf("%d questions", len(all))
	}
	asked, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	index := filepath.Join(t.TempDir(), "search.json")
	if err := os.WriteFile(index, files["search.json"], 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(node, "-e", `
const { prepare, find } = require('../../internal/site/assets/search.js')
const index = prepare(require(process.argv[1]))
const asked = JSON.parse(require('node:fs').readFileSync(0, 'utf8'))
console.log(JSON.stringify(asked.map((q) => find(index, q.Text).map((s) => s.url))))`, index)
	cmd.Stdin = strings.NewReader(string(asked))
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err, string(out))
	}
	var found [][]string
	if err := json.Unmarshal(out, &found); err != nil {
		t.Fatal(err)
	}
	if len(found[0]) > 0 {
		t.Errorf("words that are nowhere find %v", found[0])
	}
	for i, q := range all[1:] {
		at := slices.IndexFunc(found[i+1], func(url string) bool {
			// A question whose answer is a whole document is answered by any of its sections.
			return url == q.Answer || !strings.Contains(q.Answer, "#") && strings.HasPrefix(url, q.Answer)
		})
		if listed := slices.Contains(notFound, q.Text); (at < 0) != listed {
			t.Errorf("%q: %s is at place %d of %q", q.Text, q.Answer, at, found[i+1][:min(4, len(found[i+1]))])
		}
		t.Logf("place %d: %s", at+1, q.Text)
	}
}

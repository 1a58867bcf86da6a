package search

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	_ "modernc.org/sqlite"
)

// TestStem: the forms of a word have the same stem. A text that is not an English word, or is very long, stays unchanged.
func TestStem(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		"deploy": "deploy", "deployments": "deploy", "deployed": "deploy", "searches": "search", "searching": "search",
		"summaries": "summari", "summary": "summari", "is": "is", "s3": "s3", strings.Repeat("ations", 20): strings.Repeat("ations", 20),
	} {
		if got := stem(word); got != want {
			t.Errorf("%s: got %s, want %s", word, got, want)
		}
	}
}

func TestTerms(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"getPullRequests":       {"get", "pull", "request"},
		"list_HTTP-servers":     {"list", "http", "server"},
		"the S3 bucket":         {"s3", "bucket"},
		"oauth2_token":          {"oauth2", "oauth", "token"},
		"n8n":                   {"n8n"},
		"Café Über":             {"cafe", "uber"},
		"what is it":            nil,
		"日本 語":                  {"日本", "語"},
		"a.b@c; DROP--\"x\" OR": {"b", "c", "drop", "x"},
	} {
		if diff := cmp.Diff(want, terms(text)); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}

func TestClauses(t *testing.T) {
	t.Parallel()
	got := clauses("Find the bill, mail it and then call me. Version 4.2?\nDone")
	want := []string{"Find the bill,", "mail it", "call me.", "Version 4.2?", "Done"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func segment(server string, tools ...string) *Segment {
	var docs []Doc
	for _, tool := range tools {
		name, description, _ := strings.Cut(tool, ": ")
		docs = append(docs, Doc{Key: server + "__" + name, Name: name, Server: server, Description: description})
	}
	return NewSegment(docs)
}

// found returns the keys of the tools that a search finds.
func found(ix *Index, segments []*Segment, query string, limit int) []string {
	var keys []string
	for _, r := range ix.Search(query, limit) {
		keys = append(keys, segments[r.Segment].keys[r.Doc])
	}
	return keys
}

func TestSearch(t *testing.T) {
	t.Parallel()
	segments := []*Segment{
		segment("mail", "send_email: Send a message to someone.", "search_inbox: Find messages.", "delete_email: Put a message into the bin."),
		segment("chat", "post: Send a message to a channel.", "list_channels: All channels."),
		segment("empty"),
		segment("files", "remove: Delete a document.", "message: Nothing to do with it.", "kubernetes_logs: Output of a container."),
	}
	ix := NewIndex(segments)
	for _, c := range []struct {
		query string
		limit int
		want  []string
	}{
		{"delete_email", 1, []string{"mail__delete_email"}},
		{"DeleteEmail", 1, []string{"mail__delete_email"}},
		{"chat__post", 1, []string{"chat__post"}},
		{"message", 1, []string{"files__message"}}, // the name counts more than matches in other fields
		{"sending emails", 1, []string{"mail__send_email"}},
		{"erase a document", 1, []string{"files__remove"}},
		{"kube", 1, []string{"files__kubernetes_logs"}},
		{"list the channels, then delete an email", 2, []string{"chat__list_channels", "mail__delete_email"}},
		{"send a message in the chat", 1, []string{"chat__post"}},
		{"xylophone", 5, nil},
		{"the of and", 5, nil},
		{"", 5, nil},
		{"message", 0, nil},
	} {
		if diff := cmp.Diff(c.want, found(ix, segments, c.query, c.limit)); diff != "" {
			t.Errorf("%q: %s", c.query, diff)
		}
	}
	all := found(ix, segments, "send, find, delete, list, remove a message or channel", 100)
	if compact := slices.Compact(slices.Sorted(slices.Values(all))); len(compact) != len(all) {
		t.Errorf("a tool is found twice: %v", all)
	}
	if got := NewIndex(nil).Search("message", 5); got != nil {
		t.Errorf("an empty index finds %v", got)
	}
}

// TestSearchLongDescription: the first sentence of a long description has the same weight as that of a short one.
func TestSearchLongDescription(t *testing.T) {
	t.Parallel()
	long := "op2: Converts a currency. Use it when amounts have to be compared. "
	for i := range 100 {
		long += fmt.Sprintf("filler%d ", i)
	}
	segments := []*Segment{segment("bank", "op1: Lists a currency.", long)}
	if got := found(NewIndex(segments), segments, "convert a currency", 1); len(got) != 1 || got[0] != "bank__op2" {
		t.Errorf("found %v", got)
	}
}

// TestSearchIsRepeatable: a search does not change the results of the next one.
func TestSearchIsRepeatable(t *testing.T) {
	t.Parallel()
	segments := []*Segment{segment("a", "send_mail: Send mail.", "find_mail: Find mail."), segment("b", "list: List things and mail.")}
	ix := NewIndex(segments)
	queries := []string{"send mail", "find the mail, then list things and send it", "things", "b list", "mail mail mail"}
	want := map[string][]Result{}
	for _, q := range queries {
		want[q] = NewIndex(segments).Search(q, 10)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				for _, q := range queries {
					if diff := cmp.Diff(want[q], ix.Search(q, 10)); diff != "" {
						t.Errorf("%q: %s", q, diff)
					}
				}
			}
		})
	}
	wg.Wait()
}

// TestSearchIsBounded: a request above the maximum length costs no more than one of the maximum length.
func TestSearchIsBounded(t *testing.T) {
	t.Parallel()
	segments := []*Segment{segment("mail", "send_email: Send a message.", "list: List mail."), segment("s3", "put: Store an object.")}
	ix := NewIndex(segments)
	for _, part := range []string{"mail and ", "send ", "let let ", "put ... ", "a", "é", "#x ", "\xff"} {
		query := strings.Repeat(part, 1<<20/len(part))
		if diff := cmp.Diff(ix.Search(query[:maxQuery], 10), ix.Search(query, 10)); diff != "" {
			t.Errorf("%q: %s", part, diff)
		}
		all := steps(query[:maxQuery])
		words := 0
		for _, s := range all {
			found, _ := understand(s, maxWords-words)
			words += len(found)
		}
		if len(all) > maxClauses || words > maxWords {
			t.Errorf("%q: %d steps of %d words", part, len(all), words)
		}
	}
}

// TestKnowledge: each line of words.txt has words on both sides of its colon.
func TestKnowledge(t *testing.T) {
	t.Parallel()
	section := ""
	for line := range strings.Lines(knowledge) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "== "); ok {
			section = name
		} else if line != "" && !strings.HasPrefix(line, "//") && section != "synonyms" {
			if left, right, _ := strings.Cut(line, ":"); strings.TrimSpace(left) == "" || strings.TrimSpace(right) == "" {
				t.Errorf("%s: %q is not words: words", section, line)
			}
		}
	}
	l := lang()
	if len(l.similar) < 100 || len(l.phrases) == 0 || len(l.verbal) == 0 || len(l.products) == 0 || len(l.actions) == 0 {
		t.Errorf("a section is missing: %d synonyms, %d phrases, %d verbs, %d products, %d actions",
			len(l.similar), len(l.phrases), len(l.verbal), len(l.products), len(l.actions))
	}
	if !slices.Contains(l.similar[stem("delete")], stem("remove")) {
		t.Error("delete and remove are no synonyms")
	}
}

// TestMeanings: every line of meanings.txt leads from words of people to words of tools, and a step finds its line whatever the order of its words.
func TestMeanings(t *testing.T) {
	t.Parallel()
	for line := range strings.Lines(sayings) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
			left, right, _ := strings.Cut(line, ":")
			if len(stems(left)) == 0 || len(terms(right)) == 0 || strings.Contains(right, ":") {
				t.Errorf("%q is not words: words, words", line)
			}
		}
	}
	m := readMeanings("refund payment: give ... money back, charged twice\n// a comment\nflight plane: fly\n")
	for _, c := range []struct {
		said string
		want []word
	}{
		{"charged twice", []word{{"refund", 1, true}, {"payment", 1, true}}},
		{"twice we were charged", []word{{"refund", 1, true}, {"payment", 1, true}}},
		{"fly", []word{{"flight", 1, true}, {"plane", 1, true}}},
		{"xylophone", nil},
		{"", nil},
	} {
		if diff := cmp.Diff(c.want, m.resembling(terms(c.said)), cmp.AllowUnexported(word{})); diff != "" {
			t.Errorf("%q: %s", c.said, diff)
		}
	}
	if half := m.resembling(terms("fly to xylophone")); len(half) != 2 || half[0].weight <= 0.1 || half[0].weight >= 0.9 {
		t.Errorf("of a step that is half unknown: %v", half)
	}
	if p := m.phrases["give"]; len(p) != 1 || !p[0].at([]string{"give", "him", "his", "money", "back"}) {
		t.Errorf("phrases: %v", m.phrases)
	}
}

// TestUnderstand: the forms of words, phrases and verbs add stems to the words of a step.
func TestUnderstand(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"let the whole team know": "notifi",
		"get rid of it today":     "delet",
		"email the customer":      "send",
		"announce in #general":    "channel",
		"ask a@example.com":       "email",
		"put it into notes.txt":   "file",
		"look at OPS-12":          "issu",
		"open https://a.example":  "url",
	} {
		words, _ := understand(steps(text)[0], maxWords)
		if text == "put it into notes.txt" {
			words, _ = understand(steps(text)[1], maxWords)
		}
		if !slices.ContainsFunc(words, func(w word) bool { return w.stem == want }) {
			t.Errorf("%q: %v, want %s among them", text, words, want)
		}
	}
}

func FuzzSearch(f *testing.F) {
	segments := []*Segment{segment("mail", "send_email: Send a message.", "list: List mail."), segment("s3", "put: Store an object.")}
	ix := NewIndex(segments)
	f.Add("send, mail; and then list")
	f.Add("\xff\xfe s3 \u0301 -- \" OR * NEAR(")
	f.Add(strings.Repeat("mail and ", 2000))
	f.Fuzz(func(t *testing.T, query string) {
		results := ix.Search(query, 2)
		if len(results) > 2 {
			t.Errorf("%d results", len(results))
		}
		for _, r := range results {
			_ = segments[r.Segment].keys[r.Doc]
		}
	})
}

// many returns n made-up tools with word frequencies like those of real catalogs.
func many(n int) []Doc {
	verbs := []string{"create", "list", "get", "update", "delete", "search", "send", "add", "remove", "export"}
	nouns := []string{
		"issue", "message", "customer", "invoice", "channel", "file", "event", "ticket", "contact", "order", "payment", "report",
		"user", "project", "comment", "page", "record", "alert", "deployment", "product",
	}
	docs := make([]Doc, n)
	for i := range docs {
		verb, noun, other := verbs[i%10], nouns[i/10%20], nouns[(i/200+i)%20]
		docs[i] = Doc{
			Key: fmt.Sprintf("s%d__%s_%s", i/200, verb, noun), Name: verb + "_" + noun, Server: fmt.Sprintf("s%d", i/200),
			Description: fmt.Sprintf("%s a %s of a %s by its name, date or owner.", verb, noun, other),
			Params:      "id name limit " + other,
		}
	}
	return docs
}

// benchmarkQueries are the clauses that BenchmarkIndex and BenchmarkFTS5 search for.
var benchmarkQueries = []string{
	"find customer invoice overdue", "send message channel team customer", "create issue project report alert",
	"list deployment event user record order",
}

func BenchmarkIndex(b *testing.B) {
	ix := NewIndex([]*Segment{NewSegment(many(5000))})
	query := strings.Join(benchmarkQueries, ", ")
	for b.Loop() {
		if len(ix.Search(query, 10)) != 10 {
			b.Fatal("fewer than ten results")
		}
	}
}

// BenchmarkFTS5 measures the alternative to the index: SQLite in memory with one query for each clause, the words joined by OR, and the same fields and
// weights.
func BenchmarkFTS5(b *testing.B) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.Exec(`CREATE VIRTUAL TABLE t USING fts5(name, server, description, params, tokenize='porter unicode61', prefix='3 4')`); err != nil {
		b.Fatal(err)
	}
	tx, err := db.Begin()
	if err != nil {
		b.Fatal(err)
	}
	for _, d := range many(5000) {
		if _, err := tx.Exec("INSERT INTO t VALUES (?, ?, ?, ?)", strings.ReplaceAll(d.Name, "_", " "), d.Server, d.Description, d.Params); err != nil {
			b.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		for _, q := range benchmarkQueries {
			rows, err := db.Query("SELECT rowid FROM t WHERE t MATCH ? ORDER BY bm25(t, 5, 3, 2, 1) LIMIT 10",
				`"`+strings.ReplaceAll(q, " ", `" OR "`)+`"`)
			if err != nil {
				b.Fatal(err)
			}
			n := 0
			for rows.Next() {
				n++
			}
			if err := errors.Join(rows.Err(), rows.Close()); err != nil || n != 10 { //nolint:sqlclosecheck // closed each time round
				b.Fatal(n, err)
			}
		}
	}
}

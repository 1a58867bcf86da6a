package runs

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// seen returns calls of a run in the order of their answers, in the form in which they are read from the journal.
func seen(calls ...Call) (all []*Call) {
	now := time.Now()
	for i, c := range calls {
		c.N = i + 1
		made := c
		made.Result, made.Sent, made.Error = nil, nil, ""
		c.Answered = &now
		all = append(all, &made, &c)
	}
	return all
}

// called returns a call with its answer.
func called(name, args, result string) Call {
	return Call{CallLine{Kind: "tool", Name: name}, json.RawMessage(args), json.RawMessage(result)}
}

// A call is compared with the latest read that its arguments contain, and with no read of other data that only looks similar.
func TestCompared(t *testing.T) {
	t.Parallel()
	sent := func(c Call) Call {
		now := time.Now()
		c.Sent = &now
		return c
	}
	failed := func(c Call) Call {
		c.Error = "tool"
		return c
	}
	file := called("files__read", `{"path":"a.txt"}`, `"one\ntwo\n"`)
	const write, changed = `{"path":"a.txt","content":"one\n2\n"}`, "@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
	for _, c := range []struct {
		name string
		args string
		seen []*Call
		want []string // texts that the result must contain, and differences
	}{
		{"a file", write, seen(file), []string{"$.content, compared with what the program read with files__read before (call 1)", changed}},
		{"the latest read", write, seen(called("files__read", `{"path":"a.txt"}`, `"old"`), file), []string{"$.content, compared with what the program read with files__read before (call 2)", changed}},
		{"an escaped path", `{"path":"\u0061.txt","content":"one\n2\n"}`, seen(file), []string{"$.content, compared with what the program read with files__read before (call 1)", changed}},
		{"equal", `{"path":"a.txt","content":"one\ntwo\n"}`, seen(file), []string{"$.content, compared with what the program read with files__read before (call 1): the same", ""}},
		{"written since", write, seen(file, sent(called("files__append", `{"path":"a.txt","content":"x"}`, `null`))), []string{"$.content, compared with what the program read with files__read before (call 1); call 2 may have changed it since", changed}},
		{"read after it was written", write, seen(file, sent(called("files__append", `{"path":"a.txt","content":"x"}`, `null`)), file), []string{"$.content, compared with what the program read with files__read before (call 3)", changed}},
		{"another file written since", write, seen(file, sent(called("files__append", `{"path":"b.txt","content":"x"}`, `null`))), []string{"$.content, compared with what the program read with files__read before (call 1)", changed}},
		{"another file", write, seen(called("files__read", `{"path":"b.txt"}`, `"one"`)), nil},
		{"a part of the file", write, seen(called("files__read", `{"path":"a.txt","lines":10}`, `"one"`)), nil},
		{"a list", write, seen(called("files__list", `{}`, `{"content":"one"}`)), nil},
		{"a write before", write, seen(sent(called("files__touch", `{"path":"a.txt"}`, `"done"`))), nil},
		{"a read that failed", write, seen(failed(called("files__read", `{"path":"a.txt"}`, ``))), nil},
		{"two texts", `{"path":"a.txt","content":"one","comment":"two"}`, seen(file), nil},
		{
			"a record", `{"id":7,"title":"new","tags":["a","b"],"other":1}`, seen(called("crm__get", `{"id":7}`, `{"id":7,"title":"old","tags":["a"],"rest":"x"}`)),
			[]string{
				"$.title, compared with what the program read with crm__get before (call 1)", "@@ -1 +1 @@\n-old\n\\ No newline at end of file\n+new\n\\ No newline at end of file\n",
				"$.tags, compared with what the program read with crm__get before (call 1)", "@@ -1,3 +1,4 @@\n [\n-  \"a\"\n+  \"a\",\n+  \"b\"\n ]\n\\ No newline at end of file\n",
			},
		},
		{
			"fields of a record", `{"id":7,"fields":{"no name":"a\nb\n"}}`, seen(called("crm__get", `{"id":7}`, `{"no name":"a\n"}`)),
			[]string{`$.fields["no name"], compared with what the program read with crm__get before (call 1)`, "@@ -1 +1,2 @@\n a\n+b\n"},
		},
		{"another record", `{"id":8,"title":"new"}`, seen(called("crm__get", `{"id":7}`, `{"title":"old"}`)), nil},
		{"the same digits as a text", `{"id":"7","title":"new"}`, seen(called("crm__get", `{"id":7}`, `{"title":"old"}`)), nil},
		{
			"both texts", `{"path":"a.txt","edits":[{"oldText":"a\n","newText":"b\n"},{"newText":"c"}]}`, nil,
			[]string{"$.edits[0].newText, compared with $.edits[0].oldText", "@@ -1 +1 @@\n-a\n+b\n"},
		},
	} {
		w := newComparing(100, json.RawMessage(c.args))
		for _, call := range c.seen {
			w.see(call)
		}
		var got []string
		for _, of := range w.texts() {
			got = append(got, of.Words(), of.Diff)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.name, diff)
		}
	}
}

// A call is not compared with reads after it.
func TestComparedBefore(t *testing.T) {
	t.Parallel()
	w := newComparing(1, json.RawMessage(`{"path":"a.txt","content":"b"}`))
	for _, call := range seen(called("files__read", `{"path":"a.txt"}`, `"a"`)) {
		w.see(call)
	}
	if got := w.texts(); got != nil {
		t.Errorf("compared: %v", got)
	}
}

// A long difference is cut, and so is a long list of differences.
func TestComparedBounds(t *testing.T) {
	t.Parallel()
	text, _ := json.Marshal(strings.Repeat("a line\n", 9999))
	w := newComparing(100, json.RawMessage(`{"path":"a.txt","content":`+string(text)+`}`))
	for _, call := range seen(called("files__read", `{"path":"a.txt"}`, `""`)) {
		w.see(call)
	}
	if got := w.texts()[0]; len(got.Diff) > maxShownDiff || !strings.HasSuffix(got.Diff, "+a line\n") || !strings.Contains(got.Problem, "beginning") {
		t.Errorf("a long difference: %d bytes, %q", len(got.Diff), got.Problem)
	}
	record, changes := map[string]any{}, map[string]any{"id": 1}
	for i := range 50 {
		record[fmt.Sprint("a", i)], changes[fmt.Sprint("a", i)] = 1, 2
	}
	before, _ := json.Marshal(record)
	after, _ := json.Marshal(changes)
	w = newComparing(100, after)
	for _, call := range seen(called("crm__get", `{"id":1}`, string(before))) {
		w.see(call)
	}
	if got := w.texts(); len(got) != maxCompared {
		t.Errorf("%d texts are compared", len(got))
	}
}

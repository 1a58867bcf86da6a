package input

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func reader(t *testing.T, text string, format Format) *Reader {
	t.Helper()
	r, err := NewReader(strings.NewReader(text), int64(len(text)), format)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// readAll reads every page twice: as a live run, and as a replay that has only the recorded pages. Both must give the same rows.
func readAll(t *testing.T, text string, format Format, hide func(json.RawMessage) (json.RawMessage, error)) []json.RawMessage {
	t.Helper()
	live, again := reader(t, text, format), reader(t, text, format)
	var rows []json.RawMessage
	for offset := int64(0); ; {
		page, err := live.Read(offset, int64(len(rows)), hide)
		if err != nil {
			t.Fatal(err)
		}
		recorded, err := json.Marshal(page)
		if err != nil {
			t.Fatal(err)
		}
		given, err := live.Recall(recorded)
		if err != nil {
			t.Fatal(err)
		}
		replayed, err := again.Recall(recorded)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(given), string(replayed)); d != "" {
			t.Fatalf("the page at %d differs in a replay (-live +replay):\n%s", offset, d)
		}
		var out struct {
			Rows  []json.RawMessage
			Value json.RawMessage
		}
		if err := json.Unmarshal(given, &out); err != nil {
			t.Fatal(err)
		}
		if !format.rows() {
			return []json.RawMessage{out.Value}
		}
		rows = append(rows, out.Rows...)
		if page.Next == 0 {
			return rows
		}
		if page.Next <= offset {
			t.Fatalf("the page behind %d begins at %d", offset, page.Next)
		}
		offset = page.Next
	}
}

func TestRows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text string
		format     Format
		want       string
	}{
		{"csv", "a,b\n1,\"x\"\"y\nz\"\n2\n3,4,5\n", CSV, `[{"a":"1","b":"x\"y\nz"},{"a":"2"},{"a":"3","b":"4","column_3":"5"}]`},
		{"csv of Excel", "\ufeffName;Größe\r\nÄnne;1,5\r\n", CSV, `[{"Name":"Änne","Größe":"1,5"}]`},
		{"csv with odd names", "a,a,,a_2\n1,2,3,4", CSV, `[{"a":"1","a_2":"2","column_3":"3","a_2_2":"4"}]`},
		{"tabs", "a\tb\n\"1\t\"\t2\n", CSV, `[{"a":"1\t","b":"2"}]`},
		{"csv of a header", "a,b\n", CSV, `[]`},
		{"nothing", "", CSV, `[]`},
		{"ndjson", "\ufeff{\"a\": 1}\n\n[2, 3]\r\n  \"x\"", NDJSON, `[{"a":1},[2,3],"x"]`},
		{"lines", "a\r\n\nb", Lines, `["a","","b"]`},
		{"text", "\ufeffa\n\"b\"", Text, `["a\n\"b\""]`},
		{"json", " {\"a\": [1, 2]}\n", JSON, `[{"a":[1,2]}]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := string(array(readAll(t, c.text, c.format, nil)))
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

// TestPages reads inputs of many pages. No row is lost or repeated between pages, and a replay gets the same hidden values.
func TestPages(t *testing.T) {
	t.Parallel()
	var csv, ndjson strings.Builder
	csv.WriteString("n,mail,note\n")
	const rows = 30_000
	for i := range rows {
		note := strings.Repeat("é\"\n", i%9)
		fmt.Fprintf(&csv, "%d,m%d@example.com,\"%s\"\n", i, i%7, strings.ReplaceAll(note, `"`, `""`))
		line, _ := json.Marshal(map[string]any{"n": fmt.Sprint(i), "mail": fmt.Sprintf("m%d@example.com", i%7), "note": note})
		fmt.Fprintf(&ndjson, "%s\n", line)
	}
	hide := func(raw json.RawMessage) (json.RawMessage, error) {
		return bytes.ReplaceAll(raw, []byte("m3@example.com"), []byte("[EMAIL_1]")), nil
	}
	for format, text := range map[Format]string{CSV: csv.String(), NDJSON: ndjson.String()} {
		got := readAll(t, text, format, hide)
		if len(got) != rows {
			t.Fatalf("%s: %d rows", format, len(got))
		}
		for i, row := range got {
			var r struct{ N, Mail, Note string }
			if err := json.Unmarshal(row, &r); err != nil {
				t.Fatal(err)
			}
			mail := fmt.Sprintf("m%d@example.com", i%7)
			if i%7 == 3 {
				mail = "[EMAIL_1]"
			}
			if r.N != fmt.Sprint(i) || r.Mail != mail || r.Note != strings.Repeat("é\"\n", i%9) {
				t.Fatalf("%s: row %d is %s", format, i, row)
			}
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text string
		format     Format
		want       string
	}{
		{"an open quote", "a\n\"" + strings.Repeat("x", maxRow+1<<20), CSV, "row 1: it has more than"},
		{"a long line", "1\n" + strings.Repeat(" ", maxRow+1<<20), NDJSON, "row 2: it has more than"},
		{"no JSON line", "1\n{\n", NDJSON, "the input, row 2: it is no JSON"},
		{"no JSON", "{\n  x", JSON, "it is no JSON at line 2, column 3"},
		{"empty JSON", " ", JSON, "it is empty"},
		{"large JSON", strings.Repeat(" ", MaxWhole+1), JSON, "give it as ndjson"},
		{"a format", "", "xml", "there is no format"},
	} {
		in, err := NewReader(strings.NewReader(c.text), int64(len(c.text)), c.format)
		if err == nil {
			_, err = in.Read(0, 0, nil)
		}
		if _, ok := errors.AsType[*Error](err); !ok || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestFormatOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text string
		want       Format
	}{
		{"a.JSON", "", JSON},
		{"a.jsonl", "", NDJSON},
		{"a.tsv", "", CSV},
		{"", `{"a":1}`, JSON},
		{"", "{\"a\":1}\n{\"a\":2}", NDJSON},
		{"", "{\n\"a\":1}", JSON},
		{"notes.txt", "x", Text},
		{"", "", Text},
	} {
		if got := FormatOf(c.name, []byte(c.text)); got != c.want {
			t.Errorf("%q %q: %s, want %s", c.name, c.text, got, c.want)
		}
	}
}

func BenchmarkCSV(b *testing.B) {
	row := "17,Ann Smith,some words of a note,12.50,2026-01-02\n"
	text := "id,name,note,total,date\n" + strings.Repeat(row, 4<<20/len(row))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		in, err := NewReader(strings.NewReader(text), int64(len(text)), CSV)
		if err != nil {
			b.Fatal(err)
		}
		for offset := int64(0); ; {
			page, err := in.Read(offset, 0, nil)
			if err != nil {
				b.Fatal(err)
			}
			if offset = page.Next; offset == 0 {
				break
			}
		}
	}
}

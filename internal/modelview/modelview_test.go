package modelview

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tiktoken-go/tokenizer/codec"
	"pgregory.net/rapid"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/run"
)

// saved keeps files in memory.
type saved map[string]string

func (s saved) save(name string, data []byte) (string, error) {
	if _, twice := s[name]; twice {
		return "", fmt.Errorf("%s is saved twice", name)
	}
	s[name] = string(data)
	return "/workspace/results/run_1/" + name, nil
}

func count(t interface {
	Helper()
	Fatal(...any)
}, text string,
) int {
	t.Helper()
	n, err := vocabulary().Count(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func output(v any, logs ...run.Log) *run.Outcome {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return &run.Outcome{RunID: "run_1", Status: run.Succeeded, Output: raw, Logs: logs}
}

func TestShort(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		out  *run.Outcome
		want string
	}{
		{"nothing", output(nil), "output:\nnull\n"},
		{"value", output(map[string]int{"a": 1}), "output:\n{\n  \"a\": 1\n}\n"},
		{"logs", output("done", run.Log{Level: "log", Text: "one"}, run.Log{Level: "warn", Text: "two"}), "output:\n\"done\"\n\nlogs:\none\nwarn: two\n"},
		{
			"failure", &run.Outcome{
				RunID: "run_1", Status: run.Failed, Output: json.RawMessage("null"), Logs: []run.Log{{Level: "error", Text: "oh"}},
				Error: &run.Error{
					Kind: frame.KindTool, Name: "ToolError", Message: "first\nsecond", File: "p.js", Line: 3, Column: 3, Source: "\ta.b()",
					Hint: "look",
				},
				Effects: []run.Effect{{Call: 1, Kind: "tool", Name: "mailer__send", State: "done"}, {Call: 2, Kind: "tool", Name: "crm__add", State: "in_doubt"}},
			},
			"failed\nToolError (tool): first\n  second\n  at p.js:3:3\n    \ta.b()\n    \t ^\n  hint: look\n" +
				"  effect: call 1, tool mailer__send: done\n" +
				"  effect: call 2, tool crm__add: in doubt, it may have happened: look before repeating it\n" +
				"  run: run_1\n\nlogs:\nerror: oh\n",
		},
		{
			"ending that the host decided", &run.Outcome{RunID: "run_1", Status: run.Cancelled, Error: &run.Error{Kind: frame.KindCancelled, Message: "enough"}},
			"cancelled\ncancelled: enough\n  run: run_1\n",
		},
	} {
		got := View(c.out, 0, nil)
		if got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

// TestShortNeedsNoVocabulary: the view of a short run does not load the vocabulary.
func TestShortNeedsNoVocabulary(t *testing.T) {
	load := vocabulary
	defer func() { vocabulary = load }()
	vocabulary = func() *codec.Codec { t.Error("the vocabulary was loaded"); return load() }
	View(output(strings.Repeat("x", DefaultLimit-100)), 0, nil)
}

// TestCompact: long output is not indented, because white space costs tokens.
func TestCompact(t *testing.T) {
	t.Parallel()
	rows := make([]map[string]int, 200)
	for i := range rows {
		rows[i] = map[string]int{"n": i}
	}
	out := output(rows)
	got := View(out, 0, nil)
	if got != "output:\n"+string(out.Output)+"\n" {
		t.Errorf("got %s", got)
	}
}

// TestCut: a part that is too long is shown with head and tail, and with the path of the full text.
func TestCut(t *testing.T) {
	t.Parallel()
	var logs []run.Log
	for i := range 5000 {
		logs = append(logs, run.Log{Level: "log", Text: fmt.Sprintf("line %d", i)})
	}
	files := saved{}
	got := View(output("short", logs...), 500, files.save)
	if n := count(t, got); n > 500 || n < 400 {
		t.Errorf("it has %d tokens", n)
	}
	for _, want := range []string{"output:\n\"short\"\n\nlogs:\nline 0\nline 1\n", "bytes are left out here; the whole is in /workspace/results/run_1/logs.txt …]\n", "\nline 4999\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if len(files) != 1 || strings.Count(files["logs.txt"], "\n") != 5000 {
		t.Errorf("saved %d files, logs of %d bytes", len(files), len(files["logs.txt"]))
	}
}

// TestNotKept: if the full text could not be saved, the view gives the reason.
func TestNotKept(t *testing.T) {
	t.Parallel()
	long := output(strings.Repeat("word ", 5000))
	got := View(long, 300, nil)
	if !strings.Contains(got, "they were not kept, because the run has no session") {
		t.Errorf("got %s", got)
	}
	got = View(long, 300, func(string, []byte) (string, error) { return "", errors.New("ENOSPC: no space left\nmore") })
	if !strings.Contains(got, "they could not be kept (ENOSPC: no space left) …]") {
		t.Errorf("got %s", got)
	}
}

// TestFailureComesThrough: the view contains what a model needs to correct its program, however much the program printed.
func TestFailureComesThrough(t *testing.T) {
	t.Parallel()
	out := output(nil, run.Log{Level: "log", Text: strings.Repeat("noise ", 50_000)})
	out.Status, out.Error = run.Failed, &run.Error{
		Kind: frame.KindRuntime, Name: "Error", Message: strings.Repeat("long message ", 10_000), Line: 7, Column: 1, Source: "f()", Hint: "mend it",
	}
	got := View(out, 400, saved{}.save)
	for _, want := range []string{"failed\nError (runtime): long message", "program:7:1\n    f()\n    ^\n  hint: mend it\n  run: run_1\n", "logs:\nnoise noise", "error.txt", "logs.txt"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// TestProperties: a view has at most the maximum number of tokens and is valid UTF-8. Heads and tails are unchanged, and saved texts are complete.
func TestProperties(t *testing.T) {
	t.Parallel()
	piece := rapid.OneOf(
		rapid.StringN(0, 40, -1), rapid.SampledFrom([]string{
			"word ", "\n", "   ", "äöü", "漢字", "👩‍👩‍👧", "\u202e", "\\u0000", "0123456789", "aaaaaaaa", "{\"a\":1},", "\xff\xfe", "\t", "الع", "=====",
		}))
	text := rapid.Custom(func(t *rapid.T) string {
		return strings.Repeat(strings.Join(rapid.SliceOfN(piece, 1, 8).Draw(t, "pieces"), ""), rapid.SampledFrom([]int{1, 3, 50, 1000}).Draw(t, "times"))
	})
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.OneOf(rapid.IntRange(1, 120), rapid.IntRange(121, 3000)).Draw(t, "limit")
		out := output(text.Draw(t, "output"))
		for range rapid.IntRange(0, 3).Draw(t, "lines") {
			out.Logs = append(out.Logs, run.Log{Level: "log", Text: text.Draw(t, "line")})
		}
		if rapid.Bool().Draw(t, "fails") {
			out.Status, out.Error = run.Failed, &run.Error{Kind: frame.KindRuntime, Name: "Error", Message: text.Draw(t, "message"), Line: 1, Column: 4, Source: text.Draw(t, "source")}
		}
		files := saved{}
		got := View(out, limit, files.save)
		if n := count(t, got); n > limit {
			t.Fatalf("%d tokens, limit %d", n, limit)
		}
		if !utf8.ValidString(got) {
			t.Fatalf("not UTF-8: %q", got)
		}
		parts := outline(out)
		for _, s := range parts {
			if whole, ok := files[s.name]; ok && whole != string(s.whole) {
				t.Fatalf("%s was kept as %q, it is %q", s.name, whole, s.whole)
			}
		}
		if limit < 250 { // the lines that report what is missing may need more
			return
		}
		rest := got
		for i, s := range parts {
			_, body, ok := strings.Cut(rest, s.label)
			if !ok {
				t.Fatalf("no %q in %q", s.label, rest)
			}
			if _, cut := files[s.name]; !cut {
				if !strings.HasPrefix(body, s.text) {
					t.Fatalf("%s is not whole: %q", s.label, body)
				}
				rest = body[len(s.text):]
				continue
			}
			head, tail, ok := strings.Cut(body, "[… ")
			_, tail, ended := strings.Cut(tail, " …]\n")
			if i < len(parts)-1 {
				at := strings.LastIndex(tail, "\n"+parts[i+1].label)
				tail, rest = tail[:at], tail[at:]
			}
			if !ok || !ended || !strings.HasPrefix(s.text, strings.TrimSuffix(head, "\n")) || !strings.HasSuffix(s.text, tail) || head == "" || tail == "" {
				t.Fatalf("%s was cut to %q and %q, from %q", s.label, head, tail, s.text)
			}
		}
	})
}

func TestExcerpt(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 300)
	for _, c := range []struct {
		name, source string
		column       int
		line, marker string
	}{
		{"first column", "abc", 1, "abc", "^"},
		{"tab", "\tif (a) {", 2, "\tif (a) {", "\t^"},
		{"tabs between", "a\tb", 3, "a\tb", " \t^"},
		{"behind the end", "return 1 +", 11, "return 1 +", "          ^"},
		{"far behind the end", "abc", 9, "abc", ""},
		{"no column", "abc", 0, "abc", ""},
		{"wide characters", "'漢字' + b", 8, "'漢字' + b", "         ^"},
		{"surrogate pairs count twice", "'👍'+b", 6, "'👍'+b", "     ^"},
		{"carriage return", "abc\r", 2, "abc", " ^"},
		{"empty line", "", 1, "", ""},
		{"long, at the start", "abc" + long, 2, "abc" + long[:117] + "…", " ^"},
		{"long, in the middle", long[:150] + "!" + long[:150], 151, "…" + long[:60] + "!" + long[:59] + "…", strings.Repeat(" ", 61) + "^"},
		{"long, at the end", long + "!", 301, "…" + long[:119] + "!", strings.Repeat(" ", 120) + "^"},
		{"long, cut before the column", long + "…", 900, "…" + long[:119] + "…", ""},
	} {
		line, marker := excerpt(c.source, c.column)
		if line != c.line || marker != c.marker {
			t.Errorf("%s: got\n%q\n%q\nwant\n%q\n%q", c.name, line, marker, c.line, c.marker)
		}
	}
}

// TestManyEffects: the first and the last effects are listed, and those in between are counted.
func TestManyEffects(t *testing.T) {
	t.Parallel()
	out := output(nil)
	out.Error = &run.Error{Kind: frame.KindRuntime, Message: "x"}
	for i := range 100 {
		state := "done"
		if i%30 == 0 {
			state = "in_doubt"
		}
		out.Effects = append(out.Effects, run.Effect{Call: i + 1, Kind: "fs", Name: "writeFile", State: state})
	}
	got := Failure(out)
	if strings.Count(got, "effect: ") != effectsMost || !strings.Contains(got, "call 10, fs writeFile: done\n  effects: 80 more here, 2 of them in doubt;") ||
		!strings.Contains(got, "call 100, fs") {
		t.Errorf("got %s", got)
	}
}

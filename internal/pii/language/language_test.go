package language_test

import (
	"database/sql"
	"encoding/csv"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/net/html"
	_ "modernc.org/sqlite"

	"mcp-code-exec-harness/internal/pii/language"
)

// hostile are values that an attacker could choose, and some ordinary values.
var hostile = []string{
	"O'Brien", "O'Brien'); DROP TABLE t; --", `a"b`, `a\`, `\' OR 1=1 --`, `\`, "x`y", "$(touch pwned)", "`touch pwned`", "${IFS}", "a;touch pwned", "a|touch pwned", "a&touch pwned", "a\ntouch pwned\n",
	"--help", "-rf", "*", "~", "!x", "#x", "$HOME", "a b", "", "'", "''", `"`, `""`, "--", "/*", "*/", "%00", "%27", "é", "日本'本", "</td><script>alert(1)</script>", `" onload="alert(1)`, "' onload='alert(1)", "javascript:alert(1)",
	"<!--", "-->", "]]>", "&amp;", "a&b=c", "a#b", "a?b", "../../etc", "..", ".", "a/b", "evil.example/", "a@evil.example", "a,b", "a;b", "a\r\nb", "\t", "=1+1", "+44 20 7946 0958", "ann@example.com", "198.51.100.7",
	"{{.}}", "{{", "\x00", "value1end", "𐍈",
}

// put returns a text with an escaped value in place of each §. ok is false if Put refuses the value.
func put(t *testing.T, l language.Language, text, value string) (written string, ok bool) {
	t.Helper()
	var places []language.Place
	const token = "[NAME_1]"
	text = strings.ReplaceAll(text, "§", token)
	for i := 0; ; {
		at := strings.Index(text[i:], token)
		if at < 0 {
			break
		}
		places = append(places, language.Place{Start: i + at, End: i + at + len(token), Value: value})
		i += at + len(token)
	}
	all, err := language.Put(l, text, places)
	if err != nil {
		var refused *language.RefusedError
		if !errors.As(err, &refused) || refused.Language != l || refused.Reason == "" || strings.Contains(err.Error(), value) && len(value) > 3 {
			t.Errorf("%s with %q: %v", text, value, err)
		}
		return "", false
	}
	done := 0
	for i, p := range places {
		written += text[done:p.Start] + all[i]
		done = p.End
	}
	return written + text[done:], true
}

// SQLite reads the original value from the SQL text, and executes nothing in the value.
func TestSQL(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("CREATE TABLE t (a, b); INSERT INTO t VALUES ('kept', 1)"); err != nil {
		t.Fatal(err)
	}
	taken := map[string]int{}
	for _, text := range []string{
		"SELECT '§'", "SELECT 'a ''§'' b'", "SELECT 'a' || '§' -- it's\n", "SELECT /* ' */ '§'", `SELECT "b", '§' FROM t`, "SELECT '§' FROM t WHERE a = '§' OR a = 'kept'", "SELECT '§' AS \"x '\"", "SELECT '§' AS `it's`",
	} {
		for _, value := range hostile {
			query, ok := put(t, language.SQL, text, value)
			if !ok {
				continue
			}
			taken[text]++
			want := strings.NewReplacer("SELECT 'a ''§'' b'", "a '"+value+"' b", "SELECT 'a' || '§' -- it's\n", "a"+value).Replace(text)
			if want == text {
				want = value
			}
			var got string
			dest := []any{&got}
			if strings.HasPrefix(text, `SELECT "b"`) {
				dest = []any{new(int), &got}
			}
			if err := db.QueryRow(query).Scan(dest...); err != nil || got != want {
				t.Errorf("%s with %q is %s: %q, %v", text, value, query, got, err)
			}
		}
	}
	for text, n := range taken {
		if n < len(hostile)-6 {
			t.Errorf("%s takes %d values of %d", text, n, len(hostile))
		}
	}
	// Outside of quotes, and where databases differ, Put accepts only values without special characters.
	for _, text := range []string{
		"SELECT * FROM t WHERE a = §", "SELECT 1 -- §\n", "SELECT 1 /* § */", "SELECT $$§$$", "SELECT $tag$ it's §$tag$", `SELECT 'it\'s §'`, `SELECT 'a\', '§'`, "SELECT 1 # it's\n, '§'", "SELECT 1 # '\n WHERE a = § -- '", "DROP TABLE §",
	} {
		for _, value := range hostile {
			if query, ok := put(t, language.SQL, text, value); ok && strings.ContainsAny(value, "'\"\\`;-#$*/\n\x00") {
				t.Errorf("%s takes %q: %s", text, value, query)
			}
		}
		if _, ok := put(t, language.SQL, text, "Lovelace"); !ok {
			t.Errorf("%s does not take a word", text)
		}
	}
	var n int
	if err := db.QueryRow("SELECT count(*) FROM t").Scan(&n); err != nil || n != 1 {
		t.Errorf("%d rows, %v", n, err)
	}
}

// A shell passes the original value to a command, as an argument or a part of an argument, and executes nothing in the value.
func TestShell(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no POSIX shell")
	}
	dir := t.TempDir()
	for _, text := range []string{
		"printf %s §", "printf %s '§'", `printf %s "§"`, "printf %s a§b", "printf %s 'it'\\''s '§", `printf %s "a $(printf %s '§') b"`, `printf %s "a $(printf %s "§") b"`, "printf %s §; # it's §", "printf %s '§' # (",
		"x=§; printf %s \"$x\"", "printf %s \"#\" '§'", `printf %s \'§`, "(printf %s '§')", "for f in §; do printf %s \"$f\"; done",
	} {
		taken := 0
		for _, value := range hostile {
			script, ok := put(t, language.Shell, text, value)
			if !ok {
				continue
			}
			taken++
			cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", script)
			cmd.Dir = dir
			out, err := cmd.CombinedOutput()
			want := strings.NewReplacer(
				"printf %s a§b", "a"+value+"b", "printf %s 'it'\\''s '§", "it's "+value, `printf %s "a $(printf %s '§') b"`, "a "+value+" b", `printf %s "a $(printf %s "§") b"`, "a "+value+" b", "printf %s \"#\" '§'", "#"+value,
				`printf %s \'§`, "'"+value,
			).Replace(text)
			if want == text {
				want = value
			}
			if strings.Contains(text, "$(") && strings.HasSuffix(value, "\n") { // The shell removes line ends at the end of a command's output.
				want = "a " + strings.TrimRight(value, "\n") + " b"
			}
			if err != nil || string(out) != want {
				t.Errorf("%s with %q is %s: %q, %v", text, value, script, out, err)
			}
		}
		if taken < len(hostile)/2 && !strings.Contains(text, "# it's") {
			t.Errorf("%s takes %d values of %d", text, taken, len(hostile))
		}
	}
	for _, text := range []string{
		"sh -c 'echo §'", `bash -c "echo §"`, "ssh host 'echo §'", `psql -c "SELECT '§'"`, "echo `echo §`", "cat <<EOF\n§\nEOF\n", "echo ${x:-§}", "eval echo §", "python3 -c 'print(\"§\")'", "ls | xargs -I{} sh -c '§'", "echo $((§))", "echo $'§'",
	} {
		for _, value := range hostile {
			if script, ok := put(t, language.Shell, text, value); ok && strings.ContainsAny(value, "'\"\\`;$|&\n(){}<>*~!#\x00") {
				t.Errorf("%s takes %q: %s", text, value, script)
			}
		}
	}
	for _, text := range []string{"ls §", "ls '§'", `ls "§"`, "ls -l;rm §"} {
		if script, ok := put(t, language.Shell, text, "--help"); ok {
			t.Errorf("%s takes an option: %s", text, script)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) > 0 {
		t.Errorf("a value was run: %v, %v", left, err)
	}
	if _, err := os.Stat("pwned"); err == nil {
		t.Error("a value was run here")
	}
}

// An HTML parser finds the same elements and attributes for every value.
func TestHTML(t *testing.T) {
	t.Parallel()
	shape := func(text string) (all []string) {
		tokens := html.NewTokenizer(strings.NewReader(text))
		for tokens.Next() != html.ErrorToken {
			if of := tokens.Token(); of.Type != html.TextToken {
				names := of.Type.String()
				if of.Type != html.CommentToken {
					names += " " + of.Data
				}
				for _, a := range of.Attr {
					names += " " + a.Key
				}
				all = append(all, names)
			}
		}
		return all
	}
	for _, text := range []string{
		"<p>§</p>", `<p title="§">x</p>`, "<p title='§'>x</p>", "<p title=§>x</p>", `<a href="https://example.com/?q=§">§</a>`, `<a href="§">x</a>`, "<table><tr><td>§</td><td>§</td></tr></table>",
		`<button onclick="go('§')">x</button>`, "<script>var x = '§';</script>", "<style>p { color: § }</style>", "<!-- § --><p>x</p>", "<!-- a --><p>§</p>", "<p>§<!-- b -->§</p><!-- c -->", `<?xml version="1.0"?><a b="§">§</a>`, "</td><td>§", "<textarea>§</textarea>", "<§>x</§>",
	} {
		want := strings.Join(shape(strings.ReplaceAll(text, "§", "word")), "; ")
		for _, value := range hostile {
			written, ok := put(t, language.HTML, text, value)
			if !ok {
				if value == "O'Brien" && (strings.HasPrefix(text, "<p") || strings.HasPrefix(text, "<!-- a")) {
					t.Errorf("%s refuses %q", text, value)
				}
				continue
			}
			if got := strings.Join(shape(written), "; "); got != want && !strings.Contains(text, "<§>") {
				t.Errorf("%s with %q is %s: %s", text, value, written, got)
			}
			if text == "<p>§</p>" && value != "\x00" && html.UnescapeString(strings.TrimSuffix(strings.TrimPrefix(written, "<p>"), "</p>")) != value {
				t.Errorf("%q is %s", value, written)
			}
			if strings.HasPrefix(value, "javascript:") && strings.Contains(text, `href="§"`) {
				t.Errorf("%s with %q is %s", text, value, written)
			}
		}
	}
}

// A value in a URL changes only its own part: the host, the other parameters and the fragment stay the same.
func TestURL(t *testing.T) {
	t.Parallel()
	for _, value := range hostile {
		for text, part := range map[string]func(*url.URL) string{
			"https://crm.example/a/§/b?x=1#f":       func(u *url.URL) string { return strings.TrimSuffix(strings.TrimPrefix(u.Path, "/a/"), "/b") },
			"https://crm.example/a?q=§&x=1#f":       func(u *url.URL) string { return u.Query().Get("q") },
			"https://§:§@crm.example/a?x=1#f":       func(u *url.URL) string { return u.User.Username() },
			"https://crm.example/a?x=1#f§":          func(u *url.URL) string { return strings.TrimPrefix(u.Fragment, "f") },
			"https://user@crm.example/?b=@§&x=1#f":  func(u *url.URL) string { return strings.TrimPrefix(u.Query().Get("b"), "@") },
			"https://crm.example?q=§&x=1#f":         func(u *url.URL) string { return u.Query().Get("q") },
			"/a/§/b?x=1#f":                          func(u *url.URL) string { return strings.TrimSuffix(strings.TrimPrefix(u.Path, "/a/"), "/b") },
			"https://crm.example/a/b?q=1&r=§&x=1#f": func(u *url.URL) string { return u.Query().Get("r") },
		} {
			written, ok := put(t, language.URL, text, value)
			if !ok {
				if strings.Trim(value, ".") != "" {
					t.Errorf("%s refuses %q", text, value)
				}
				continue
			}
			u, err := url.Parse(written)
			if err != nil || u.Host != "crm.example" && !strings.HasPrefix(text, "/") || u.Query().Get("x") != "1" || !strings.HasPrefix(u.Fragment, "f") || part(u) != value {
				t.Errorf("%s with %q is %s: %+v, %v", text, value, written, u, err)
			}
		}
		for _, text := range []string{"https://§.example/x", "https://§/x", "https://§", "https://a@§/x?y", "§://crm.example/"} {
			if written, ok := put(t, language.URL, text, value); ok && strings.ContainsAny(value, "/@?# \\:%\x00\n") {
				t.Errorf("%s takes %q: %s", text, value, written)
			}
		}
	}
}

// A value in a table changes only its cell: the number of rows and cells stays the same.
func TestCSV(t *testing.T) {
	t.Parallel()
	for _, value := range hostile {
		for _, text := range []string{"a,b,c\n1,§,2\n", "a,b,c\n1,\"§\",2\n", "a,b,c\n1,\"x, §\",2\n", "§,§,§\n", "a,b,c\n1,Dr. §,2\n"} {
			written, ok := put(t, language.CSV, text, value)
			if !ok {
				if !strings.Contains(text, "Dr.") || !strings.ContainsAny(value, ",;\t|\r\n\"") {
					t.Errorf("%q refuses %q", text, value)
				}
				continue
			}
			reader := csv.NewReader(strings.NewReader(written))
			rows, err := reader.ReadAll()
			if err != nil {
				t.Errorf("%q with %q is %q: %v", text, value, written, err)
				continue
			}
			cell := rows[len(rows)-1][1]
			want := strings.ReplaceAll(value, "\r\n", "\n") // Package csv reads line ends in this way.
			if strings.Contains(text, "x, ") {
				want = "x, " + want
			} else if strings.Contains(text, "Dr.") {
				want = "Dr. " + want
			}
			if len(rows[len(rows)-1]) != 3 || cell != want {
				t.Errorf("%q with %q is %q: %q", text, value, written, rows)
			}
		}
	}
}

// In code of an unknown language, Put accepts only values without characters that could end a string or begin code there.
func TestCode(t *testing.T) {
	t.Parallel()
	for text, takes := range map[string][]string{
		`name: "§"`:        {"O'Brien", "a;b", "a, b"},
		"name: '§'":        {`a"b`, "a;b"},
		"f(`§`)":           {"O'Brien", `a"b`},
		"name eq §":        {"ann@example.com", "+44 20 7946 0958", "198.51.100.7"},
		"x = 'it\\'s §'":   {`a"b`},
		"{ a: \"b\", c: §": {"a b"},
	} {
		for _, value := range takes {
			if written, ok := put(t, language.Code, text, value); !ok || written != strings.ReplaceAll(text, "§", value) {
				t.Errorf("%s with %q: %s, %t", text, value, written, ok)
			}
		}
		for _, value := range []string{"O'Brien\" + x + '`", "a\nb", `a\`, "${x}\"'`", "{{x}}'`\""} {
			if written, ok := put(t, language.Code, text, value); ok {
				t.Errorf("%s takes %q: %s", text, value, written)
			}
		}
	}
}

func TestGuess(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want language.Language
		of   language.String
	}{
		{language.SQL, language.String{Path: []string{"query"}, Text: "  -- x\n SELECT a FROM b WHERE c = '[NAME_1]'"}},
		{language.SQL, language.String{Path: []string{"sql"}, Text: "PRAGMA x"}},
		{language.SQL, language.String{Path: []string{"statements", "0"}, Text: "insert into t values ('[NAME_1]')"}},
		{language.None, language.String{Path: []string{"query"}, Text: "select committee of [NAME_1]"}},
		{language.None, language.String{Path: []string{"text"}, Text: "Select a gift from the list for [NAME_1]"}},
		{language.Shell, language.String{Tool: "desk__run_command", Path: []string{"command"}, Text: "echo [NAME_1]"}},
		{language.Shell, language.String{Tool: "x__y", Path: []string{"path"}, Text: "echo", File: "a.sh"}},
		{language.Code, language.String{Tool: "redis__do", Path: []string{"command"}, Text: "SET a [NAME_1]"}},
		{language.Code, language.String{Path: []string{"jql"}, Text: "assignee = '[NAME_1]'"}},
		{language.URL, language.String{Path: []string{"url"}, Text: "https://a.example/?q=[NAME_1]"}},
		{language.None, language.String{Path: []string{"text"}, Text: "see https://a.example/?q=[NAME_1]"}},
		{language.HTML, language.String{Path: []string{"body"}, Text: "<p>Dear [NAME_1]</p>"}},
		{language.None, language.String{Path: []string{"body"}, Text: "Dear [NAME_1], <b> is a tag"}},
		{language.JSON, language.String{Path: []string{"body"}, Text: `{"name": "[NAME_1]"}`}},
		{language.None, language.String{Path: []string{"body"}, Text: "[NAME_1] is here"}},
		{language.CSV, language.String{Path: []string{"content"}, Text: "a,[NAME_1]", File: "/tmp/x.CSV"}},
		{language.None, language.String{Path: []string{"content"}, Text: "# Report\n[NAME_1]", File: "/tmp/x.md"}},
		{language.None, language.String{Text: "[NAME_1]!"}},
	} {
		if got := language.Guess(c.of); got != c.want {
			t.Errorf("%+v is %s, want %s", c.of, got, c.want)
		}
	}
}

//go:build unix

package cli_test

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"
	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/cli"
	"mcp-code-exec-harness/internal/testing/fake"
)

// rows is the height of the terminal in tests, so large that no line scrolls out of it.
const rows = 500

// picture runs a command at a terminal of the given width. raw is what the command wrote, and picture is what the terminal shows at the end.
func (f *fixture) picture(columns int, environ []string, args ...string) (picture, raw string, code int) {
	f.t.Helper()
	return f.watched(columns, io.Discard, environ, args...)
}

// watched does the same as picture, and also copies the command's output to watch as it comes.
func (f *fixture) watched(columns int, watch io.Writer, environ []string, args ...string) (picture, raw string, code int) {
	f.t.Helper()
	keyboard, tty, err := pty.Open()
	if err != nil {
		f.t.Fatal(err)
	}
	defer keyboard.Close()
	if err := pty.Setsize(keyboard, &pty.Winsize{Cols: uint16(columns), Rows: rows}); err != nil {
		f.t.Fatal(err)
	}
	var wrote bytes.Buffer
	read := make(chan struct{})
	go func() { // ends when the other side of the terminal is closed
		defer close(read)
		_, _ = io.Copy(io.MultiWriter(&wrote, watch), keyboard)
	}()
	world := f.world(args, "", tty, tty)
	world.Environ = slices.Concat(world.Environ, environ)
	code = cli.Main(f.t.Context(), world)
	tty.Close()
	<-read
	emulator := vt.NewEmulator(columns, rows)
	if _, err := emulator.Write(wrote.Bytes()); err != nil {
		f.t.Fatal(err)
	}
	return emulator.String(), wrote.String(), code
}

var masks = []struct {
	form *regexp.Regexp
	as   func(string) string
}{
	{regexp.MustCompile(`\b(run|task|sess|apr|call)_[0-9a-f]{8,}`), func(s string) string {
		kind, id, _ := strings.Cut(s, "_")
		return kind + "_" + strings.Repeat("0", len(id))
	}},
	{regexp.MustCompile(`\d+\.\d ms\b`), func(string) string { return "0.0 ms" }},
	{regexp.MustCompile(`ready after \d+m?s`), func(string) string { return "ready after 0ms" }},
}

// masked replaces texts that differ in each run. In tables, the replacement has the same width.
func (f *fixture) masked(text string) string {
	text = strings.ReplaceAll(text, strings.TrimPrefix(f.dir, "/tmp/harness-"), "00000000")
	for _, m := range masks {
		text = m.form.ReplaceAllStringFunc(text, m.as)
	}
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.TrimRight(line, " \n"))
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n") + "\n"
}

// TestPictures compares the output of commands with golden files: at terminals of 60, 80 and 140 columns, with --plain, and without a terminal. Without
// colours, the picture must be the same. go test -run TestPictures -update writes the files; read them as a user would.
func TestPictures(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		make func(f *fixture)
		args []string
		code int
		tidy func(string) string
	}{
		{name: "run", make: pictured, args: []string{"run", "--session", "sales", "Which regions are there? Save them."}},
		{name: "demo", args: []string{"demo"}, tidy: anyOrder},
		{name: "doctor", make: withServers, args: []string{"doctor"}, code: 3, tidy: anyMachine},
		{name: "tools", make: withServers, args: []string{"tools", "list"}},
		{name: "runs-show", make: withRun, args: []string{"runs", "show", "run_"}},
		{name: "runs-list", make: withRun, args: []string{"runs", "list"}},
		{name: "servers-list", make: withServers, args: []string{"servers", "list"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			compare := func(kind, got string) {
				t.Helper()
				file := filepath.Join("testdata", "pictures", c.name+"-"+kind+".txt")
				if *update {
					if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(string(want), got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", file, diff)
				}
			}
			shown := func(columns int, environ []string, more ...string) (picture, raw string) {
				t.Helper()
				f := fixed(t)
				if c.make != nil {
					c.make(f)
				}
				var code int
				if columns == 0 {
					r := f.run(append(c.args, more...)...)
					picture, code = r.stderr+r.stdout, r.code
				} else {
					picture, raw, code = f.picture(columns, environ, append(c.args, more...)...)
				}
				if code != c.code {
					t.Fatalf("exit code %d, want %d:\n%s", code, c.code, picture)
				}
				if picture = f.masked(picture); c.tidy != nil {
					picture = c.tidy(picture)
				}
				return picture, raw
			}
			colours := regexp.MustCompile(`\x1b\[[0-9;]*m`)
			for _, columns := range []int{60, 80, 140} {
				picture, _ := shown(columns, nil)
				compare(fmt.Sprint(columns), picture)
				if columns == 80 {
					again, raw := shown(columns, []string{"NO_COLOR=1"})
					if again != picture || colours.MatchString(raw) {
						t.Errorf("without colours it has %q, and is\n%s", colours.FindString(raw), again)
					}
				}
			}
			picture, raw := shown(80, nil, "--plain")
			compare("plain", picture)
			if strings.Contains(raw, "\x1b") {
				t.Errorf("plain output has escape sequences: %q", raw)
			}
			picture, _ = shown(0, nil)
			compare("pipe", picture)
		})
	}
}

// TestLive delays the model's answer until the terminal shows that the command waits for the model. The final picture does not contain that line.
func TestLive(t *testing.T) {
	t.Parallel()
	f := fixed(t)
	gate := make(chan struct{})
	f.modelled(fake.Replies(fake.Reply{Text: "Nothing \x1b]0;title\x07is left to do.", Wait: gate}))
	shown := until("waiting for the model, turn 1")
	go func() { <-shown.hit; close(gate) }()
	picture, raw, code := f.watched(80, shown, nil, "run", "What is there?")
	if code != 0 || strings.Contains(picture, "waiting for") || !strings.Contains(picture, "is left to do.") || strings.Contains(raw, "\x1b]0;") {
		t.Errorf("exit code %d, %q\n%s", code, raw, picture)
	}
}

// fixed returns a user at a fixed time, in a directory whose path has a fixed length.
func fixed(t *testing.T) *fixture {
	t.Helper()
	f := setup(t)
	var name [4]byte
	rand.Read(name[:]) // never fails
	old := f.dir
	f.dir = filepath.Join("/tmp", "harness-"+hex.EncodeToString(name[:]))
	if err := os.Mkdir(f.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(f.dir) })
	for i, entry := range f.environ {
		f.environ[i] = strings.ReplaceAll(entry, old, f.dir)
	}
	f.environ = append(f.environ, "TZ=UTC")
	f.now = time.Date(2026, 5, 5, 9, 0, 0, 0, time.Local)
	return f
}

// withServers configures two servers that work and two that do not.
func withServers(f *fixture) {
	f.addDemo("crm", "database")
	f.run("servers", "add", "files", "--", "no-such-program", "--root", "data").want(0)
	f.run("servers", "add", "mail", "--", self(f.t), "__demo-server", "none", f.dir).want(0)
}

// pictured configures servers and a model that works a task in four turns.
func pictured(f *fixture) {
	f.addDemo("crm", "database")
	f.write("harness.yaml", f.read("harness.yaml")+"model: {prices: {'openai-compatible/test-model': {input: 3, output: 15}}}\n")
	f.modelled(fake.Replies(
		fake.Reply{
			Text:  "I look for the tools that know of customers, and of the cities that they live in.",
			Calls: []fake.Call{{Name: "search_tools", Input: `{"query":"customers by city"}`}}, Usage: fake.Usage{Input: 812, Output: 31},
		},
		code("const found = await tools.crm.find({city: 'Berlin'})\nreturn found.length"),
		code("const rows = await tools.database.query(\"SELECT region, count(*) AS orders FROM sales GROUP BY region ORDER BY region LIMIT 3\")\n"+
			"console.log(`${rows.length} regions of ${'\\x1b[31m'}Berlin`)\n"+
			"await fs.writeFile('/workspace/regions.json', JSON.stringify(rows, null, 2))\nreturn rows"),
		fake.Reply{Text: "There are three regions; they are saved in /workspace/regions.json.", Usage: fake.Usage{Input: 1204, Output: 18}},
	))
}

// withRun executes a program that calls tools, prints, and fails.
func withRun(f *fixture) {
	f.addDemo("database")
	f.write("sales.ts", "const rows = await tools.database.query('SELECT region, count(*) AS orders FROM sales GROUP BY region ORDER BY region LIMIT 2')\n"+
		"console.log('first:', rows[0].region)\n"+
		"try { await tools.database.query('SELECT nothing FROM nowhere') } catch (e) { console.warn(String(e)) }\n"+
		"await fs.writeFile('/workspace/names.txt', rows.map((r: {region: string}) => r.region).join('\\n'))\n"+
		"return rows.map((r: {name: string}) => r.name.length)\n")
	f.run("exec", "sales.ts").want(1)
}

// anyMachine removes the findings of doctor that differ between machines, and sorts the servers, which answer in any order.
func anyMachine(text string) string {
	var paragraphs []string
	for line := range strings.Lines(text) {
		if line[0] != ' ' || len(paragraphs) == 0 {
			paragraphs = append(paragraphs, "")
		}
		paragraphs[len(paragraphs)-1] += line
	}
	paragraphs = slices.DeleteFunc(paragraphs, func(p string) bool {
		fields := strings.Fields(p)
		return len(fields) > 1 && (fields[1] == "sandbox" || fields[1] == "node")
	})
	slices.Sort(paragraphs)
	return strings.Join(paragraphs, "")
}

// anyOrder masks what depends on the order of the servers' answers in the demo: numbers of tokens, and sums of lengths.
func anyOrder(text string) string {
	zero := func(s string) string { return regexp.MustCompile(`\d`).ReplaceAllString(s, "0") }
	text = regexp.MustCompile(`PHONE_\d|pii_\de@d\d\.pii`).ReplaceAllStringFunc(text, zero)
	text = regexp.MustCompile(`(?m)^  (results read|context in|input over).*`).ReplaceAllStringFunc(text, func(line string) string {
		return regexp.MustCompile(` [\d,]+`).ReplaceAllStringFunc(line, func(n string) string { return fmt.Sprintf("%*d", len(n), 0) }) // with or without a comma
	})
	return regexp.MustCompile(`\d+ KiB`).ReplaceAllStringFunc(text, zero)
}

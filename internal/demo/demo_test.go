package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/evanw/esbuild/pkg/api"
	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/demo/dataset"
	"mcp-code-exec-harness/internal/demo/servers"
)

var update = flag.Bool("update", false, "write the golden files anew")

// scripted answers as the programs would, from the generated data; tool calls made directly reach the real database
// server. Durations are fixed.
type scripted struct {
	database *mcp.ClientSession
	steps    map[string]Result // by program
	replays  []string
	differs  string // run that does not replay identically
}

func (s *scripted) Exec(_ context.Context, code string) (Result, error) {
	r, ok := s.steps[code]
	if !ok {
		return Result{}, errors.New("ReferenceError: nothing is known of this program")
	}
	return r, nil
}

func (s *scripted) Replay(_ context.Context, run string) (bool, error) {
	s.replays = append(s.replays, run)
	return run != s.differs, nil
}

func (s *scripted) CallTool(ctx context.Context, tool string, arguments any) (json.RawMessage, error) {
	// A query takes milliseconds, but under the race detector on a busy machine longer than its default timeout.
	patient := map[string]any{"timeout_ms": 60_000}
	for name, value := range arguments.(map[string]string) {
		patient[name] = value
	}
	result, err := s.database.CallTool(ctx, &mcp.CallToolParams{
		Name: strings.TrimPrefix(tool, "database__"), Arguments: patient,
	})
	if err != nil {
		return nil, err
	}
	text := result.Content[0].(*mcp.TextContent).Text
	if result.IsError {
		return nil, errors.New(text)
	}
	return json.RawMessage(text), nil
}

// database runs the demo's database server in this process. It is read-only, so all tests share it.
var database = sync.OnceValues(func() (*mcp.ClientSession, error) {
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	go func() {
		err := servers.Serve(context.Background(), "database", "", fromClient, toClient)
		toClient.CloseWithError(err) // a caller that waits for an answer learns why there is none
	}()
	return mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).
		Connect(context.Background(), &mcp.IOTransport{Reader: fromServer, Writer: toServer}, nil)
})

func connect(t *testing.T) *mcp.ClientSession {
	t.Helper()
	session, err := database()
	if err != nil {
		t.Fatal(err)
	}
	return session
}

// setup scripts the demo with outputs computed from the data.
func setup(t *testing.T) (*scripted, Deps) {
	t.Helper()
	s := &scripted{database: connect(t), steps: map[string]Result{}}
	var tools []json.RawMessage
	for tool, err := range s.database.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		tools = append(tools, encode(t, tool))
	}
	sum := func(from, to string) (orders int, total float64, rows []dataset.Sale) {
		for _, sale := range dataset.Load().Sales {
			if sale.Date >= from && sale.Date <= to {
				orders++
				total += sale.Amount
				rows = append(rows, sale)
			}
		}
		return orders, total, rows
	}
	orders2024, total2024, rows2024 := sum("2024-01-01", "2024-12-31")
	_, before, _ := sum("2024-01-01", "2024-06-30")
	orders2025, total2025, rows2025 := sum("2025-01-01", "2025-06-30")
	query := func(rows []dataset.Sale) Call {
		return Call{"database__query", json.RawMessage(`{"query":"SELECT * FROM sales"}`), encode(t, rows)}
	}
	get := func(id int) Call {
		c, _ := dataset.Load().Customer(id)
		return Call{"crm__get", encode(t, map[string]int{"id": id}), encode(t, c)}
	}
	results := []Result{
		{Output: json.RawMessage(`{"tools":10,"servers":["database","crm","mailer"],"best":["database__query"]}`)},
		{
			Output: json.RawMessage(`{"columns":["id INTEGER","date TEXT"],"declarations":["declare function query(input: {\n  /** One SQL statement */\n  query: string;\n}): Promise<object[]>;"]}`),
			Calls:  []Call{{"database__describe_table", json.RawMessage(`{"table":"sales"}`), json.RawMessage(`{"name":"sales"}`)}},
		},
		{
			Output: json.RawMessage(fmt.Sprintf(`{"orders":%d,"total":%v,"byMonth":{"2024-01":1}}`, orders2024, encodeText(t, total2024))),
			Logs:   []string{"5412 rows read, none of them by the model"},
			Calls:  []Call{query(rows2024), get(1001), get(1002), get(1003)},
		},
		{Output: json.RawMessage(`{"saved":"/skills/sales_summary.js"}`)},
		{
			Output: json.RawMessage(fmt.Sprintf(`{"orders":%d,"total":%v,"before":%v}`, orders2025, encodeText(t, total2025), encodeText(t, before))),
			Calls:  []Call{query(rows2025)},
		},
		{
			Output: json.RawMessage(`{"to":"Ines Costa","file":"outbox/1.eml"}`),
			Calls:  []Call{get(1001), {"mailer__send", json.RawMessage(`{"to":"a@example.com"}`), json.RawMessage(`{"id":"msg_1"}`)}},
		},
	}
	steps := Steps()
	for i, step := range steps {
		results[i].RunID = fmt.Sprintf("run_%d", i+1)
		results[i].Duration = time.Duration(i)*time.Millisecond + 250*time.Microsecond
		s.steps[step.Code] = results[i]
	}
	return s, Deps{Executor: s, Tools: tools}
}

func encode(t *testing.T, v any) json.RawMessage {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func encodeText(t *testing.T, v any) string { return string(encode(t, v)) }

func TestRun(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		golden         string
		color, unicode bool
	}{
		{"testdata/plain.golden", false, false},
		{"testdata/terminal.golden", true, true},
	} {
		t.Run(tc.golden, func(t *testing.T) {
			t.Parallel()
			s, deps := setup(t)
			deps.Color, deps.Unicode = tc.color, tc.unicode
			var out bytes.Buffer
			if err := Run(t.Context(), deps, &out); err != nil {
				t.Fatalf("%v\n%s", err, out.String())
			}
			if want := []string{"run_1", "run_2", "run_3", "run_4", "run_5", "run_6"}; !cmp.Equal(s.replays, want) {
				t.Errorf("replayed %v, want %v", s.replays, want)
			}
			got := replayTime(t, out.String())
			if !tc.unicode && strings.ContainsFunc(got, func(r rune) bool { return r > 0x7e || r < ' ' && r != '\n' }) {
				t.Error("the plain form holds more than printable ASCII")
			}
			for line := range strings.Lines(got) {
				if plain := uncolor(strings.TrimSuffix(line, "\n")); utf8.RuneCountInString(plain) > width {
					t.Errorf("line wider than %d: %q", width, plain)
				}
			}
			if *update {
				if err := os.WriteFile(tc.golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(tc.golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("output differs; if it should, run with -update (-want +got):\n%s", diff)
			}
		})
	}
}

// replayTime puts a constant in place of the only time that the demo measures itself, on the last line that holds one.
func replayTime(t *testing.T, text string) string {
	t.Helper()
	const label = "\n  time    "
	i := strings.LastIndex(text, label)
	if i < 0 {
		t.Fatal("the replay shows no time")
	}
	start := i + len(label)
	end := start + strings.Index(text[start:], "\n")
	return text[:start] + "T ms" + text[end:]
}

func uncolor(text string) string {
	for _, style := range []string{bold, dim, green, red, "0"} {
		text = strings.ReplaceAll(text, "\x1b["+style+"m", "")
	}
	return text
}

func TestRunFails(t *testing.T) {
	t.Parallel()
	steps := Steps()
	change := func(step int, output string) func(*scripted) {
		return func(s *scripted) {
			r := s.steps[steps[step-1].Code]
			r.Output = json.RawMessage(output)
			s.steps[steps[step-1].Code] = r
		}
	}
	for _, tc := range []struct {
		name   string
		change func(*scripted)
		want   string
		shown  string
	}{
		{"a program fails", func(s *scripted) { delete(s.steps, steps[3].Code) }, "step 4 (Save a skill): ReferenceError", "3 of 6"},
		{"a total is wrong", change(3, `{"orders":5412,"total":1}`), "the program says total is 1, SQL says ", "check   failed"},
		{"a total is absent", change(3, `{"orders":5412}`), "total is absent", "check   failed"},
		{"the output is no object", change(5, `[1]`), "not a JSON object: [1]", "check   failed"},
		{"a run replays otherwise", func(s *scripted) { s.differs = "run_2" }, "run run_2: it did not do what its journal says", "6 of 6"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s, deps := setup(t)
			tc.change(s)
			var out bytes.Buffer
			err := Run(t.Context(), deps, &out)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want mention of %q", err, tc.want)
			}
			if !strings.Contains(out.String(), tc.shown) || strings.Contains(out.String(), "Model tokens") {
				t.Errorf("shown before the failure:\n%s", out.String())
			}
		})
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestRunNobodyReads(t *testing.T) {
	t.Parallel()
	_, deps := setup(t)
	if err := Run(t.Context(), deps, brokenPipe{}); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("error %v does not wrap the writer's", err)
	}
}

// A check must be able to fail: SQL that gives nothing, or zero, confirms nothing.
func TestCheckRefusesEmpty(t *testing.T) {
	t.Parallel()
	s := &scripted{database: connect(t)}
	output := json.RawMessage(`{"orders":0}`)
	for query, want := range map[string]string{
		"SELECT 0 AS orders":                    "zero",
		"SELECT 1 AS orders WHERE 1 = 2":        "0 rows",
		"SELECT 1 AS orders UNION ALL SELECT 2": "2 rows",
		"SELECT count(*) AS orders FROM orders": "no such table",
	} {
		if facts, err := check(t.Context(), s, query, output); err == nil || !strings.Contains(err.Error(), want) || facts != nil {
			t.Errorf("%s: %v and error %v, want mention of %q", query, facts, err, want)
		}
	}
}

// Without its imports, each program is the body of an async function.
func TestPrograms(t *testing.T) {
	t.Parallel()
	steps := Steps()
	if len(steps) != 6 {
		t.Fatalf("%d steps, want 6", len(steps))
	}
	checks := 0
	for _, step := range steps {
		var body strings.Builder
		for line := range strings.Lines(step.Code) {
			if !strings.HasPrefix(line, "import ") {
				body.WriteString(line)
			}
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width-4 {
				t.Errorf("%s: a line of %d characters is too wide to be shown: %s", step.Title, n, line)
			}
		}
		result := api.Transform("async function program() {\n"+body.String()+"}", api.TransformOptions{Loader: api.LoaderTS})
		for _, e := range result.Errors {
			t.Errorf("%s: line %d: %s", step.Title, e.Location.Line, e.Text)
		}
		if !strings.Contains(step.Code, "\nreturn ") {
			t.Errorf("%s returns nothing", step.Title)
		}
		if step.Check != "" {
			checks++
		}
	}
	if checks == 0 {
		t.Error("no step's totals are checked")
	}
}

func TestWrapAndShorten(t *testing.T) {
	t.Parallel()
	if got, want := wrap("one two  three\nfour", 8), []string{"one two", "three", "four"}; !cmp.Equal(got, want) {
		t.Errorf("wrapped %q, want %q", got, want)
	}
	if got := wrap("unbreakable", 4); !cmp.Equal(got, []string{"unbreakable"}) {
		t.Errorf("wrapped %q", got)
	}
	if got := shorten("äöüßäöüß", 6, "..."); got != "äöü..." {
		t.Errorf("shortened to %q", got)
	}
	if got := shorten("a\nb", 3, "..."); got != "a b" {
		t.Errorf("shortened to %q", got)
	}
}

func TestOutput(t *testing.T) {
	t.Parallel()
	p := &printer{}
	many := `{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8,"i":9}`
	if got := p.output(json.RawMessage(many)); len(got) != maxLines || got[maxLines-1] != "(2 more members)" {
		t.Errorf("nine members are shown as %q", got)
	}
	if got := p.output(json.RawMessage(`{"long":"x","b":[1]}`)); !cmp.Equal(got, []string{`long  "x"`, "b     [1]"}) {
		t.Errorf("shown as %q", got)
	}
	if got := p.output(json.RawMessage(`null`)); !cmp.Equal(got, []string{"null"}) {
		t.Errorf("null is shown as %q", got)
	}
}

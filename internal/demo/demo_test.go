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
	"testing/fstest"
	"time"
	"unicode/utf8"

	"github.com/evanw/esbuild/pkg/api"
	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/demo/dataset"
	"mcp-code-exec-harness/internal/demo/servers"
)

var update = flag.Bool("update", false, "write the golden files anew")

// scripted is an Executor that answers from the generated data as the programs would. Its direct queries go to the real database server. Durations are fixed.
type scripted struct {
	database *mcp.ClientSession
	steps    map[string]Result // results by program
	asks     map[string]approval.Request
	files    fstest.MapFS
	mail     string // mail that the program of the request sends
	replays  []string
	replayed func()
	differs  string // run that does not replay identically
	note     any    // note that was written into the CRM
	sent     string
}

func (s *scripted) Exec(_ context.Context, code string, decide func(approval.Request) (bool, error)) (Result, error) {
	r, ok := s.steps[code]
	if !ok {
		return Result{}, errors.New("ReferenceError: nothing is known of this program")
	}
	if request, ok := s.asks[code]; ok {
		approve, err := decide(request)
		if err != nil {
			return Result{}, err
		}
		if approve {
			s.files[servers.Outbox+"/1.eml"] = &fstest.MapFile{Data: []byte(s.mail)}
		} else {
			r = Result{RunID: r.RunID, Failed: true, Read: "failed\nDeniedError (denied): mailer__send was denied\n"}
		}
	}
	s.sent += r.Read
	return r, nil
}

func (s *scripted) Replay(_ context.Context, run string) (bool, error) {
	s.replays = append(s.replays, run)
	if s.replayed != nil {
		s.replayed()
	}
	return run != s.differs, nil
}

func (s *scripted) Sent() string { return s.sent }

func (s *scripted) Finish(_ context.Context, answer string) (string, error) {
	return strings.ReplaceAll(answer, "pii_1e@d1.pii.invalid", best().Email), nil
}

func (s *scripted) CallTool(ctx context.Context, tool string, arguments any) (json.RawMessage, error) {
	if tool == "crm__update_note" {
		s.note = arguments
		return nil, nil
	}
	// A query takes milliseconds. Under the race detector on a busy machine, it may take longer than the default timeout.
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
		toClient.CloseWithError(err) // a caller that waits for an answer gets this error
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

// setup returns a scripted demo whose outputs are computed from the data.
func setup(t *testing.T) (*scripted, Deps) {
	t.Helper()
	s := &scripted{database: connect(t), steps: map[string]Result{}, asks: map[string]approval.Request{}, files: fstest.MapFS{}}
	var tools []json.RawMessage
	for tool, err := range s.database.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		tools = append(tools, encode(t, tool))
	}
	total := 0.0
	var rows []dataset.Sale
	for _, sale := range dataset.Load().Sales {
		if strings.HasPrefix(sale.Date, "2024-") {
			rows = append(rows, sale)
			total += sale.Amount
		}
	}
	call := func(tool, args string, result any) Call { return Call{tool, json.RawMessage(args), encode(t, result)} }
	customer := best()
	s.mail = "To: <" + customer.Email + ">\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n" +
		"Dear " + customer.Name + ",\r\n\r\nMilan will call you at " + customer.Phone + ".\r\n"
	results := []Result{
		{Read: "output:\n[\n  \"mailer__send\"\n]\n\nlogs:\n" + strings.Repeat("  a line of a declaration\n", 20)},
		{
			Output: json.RawMessage(fmt.Sprintf(`{"orders":%d,"total":%s}`, len(rows), encode(t, total))),
			Read:   "output:\n{\n  \"top\": [\n    \"Mei Park: pii_1e@d1.pii.invalid, [PHONE_1]\"\n  ],\n  \"notes\": [\n    \"" + note + "\"\n  ]\n}\n",
			Calls: []Call{
				call("database__query", `{"query":"SELECT * FROM sales"}`, rows), call("crm__get", `{"id":1001}`, customer),
				call("crm__get", `{"id":1002}`, customer), call("crm__get", `{"id":1003}`, customer),
			},
		},
		{
			Failed: true, Read: "failed\nDeniedError (denied): web__post was not called: rule 3 of preset strict denies pii_1e@d1.pii.invalid from crm__get\n",
			Calls: []Call{{Tool: "web__post", Args: json.RawMessage(`{"body":"pii_1e@d1.pii.invalid"}`)}},
		},
		{Read: "output:\n\"mailed pii_1e@d1.pii.invalid\"\n", Calls: []Call{call("mailer__send", `{"to":"pii_1e@d1.pii.invalid"}`, "sent")}},
	}
	steps := Steps()
	for i, step := range steps {
		results[i].RunID = fmt.Sprintf("run_%d", i+1)
		results[i].Duration = time.Duration(i)*time.Millisecond + 250*time.Microsecond
		s.steps[step.Code] = results[i]
	}
	s.asks[steps[3].Code] = approval.Request{Calls: []approval.Call{{
		Tool: "mailer__send", Args: json.RawMessage(`{"body":"` + strings.Repeat("a long text ", 10) + `","to":"pii_1e@d1.pii.invalid"}`),
		Reason: "rule 2 (tools mailer__*) asks about mailer__send: mails leave the company",
	}}}
	approve := func(context.Context) (bool, string, error) { return true, "you", nil }
	return s, Deps{Executor: s, Tools: tools, Files: s.files, Approve: approve}
}

func encode(t *testing.T, v any) json.RawMessage {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

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
			if want := []string{"run_1", "run_2", "run_3", "run_4"}; !cmp.Equal(s.replays, want) {
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

// replayTime replaces the duration of the replays, which is the only time that the demo measures, by a constant. It is on the last line with the label.
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

// TestRunDenied checks that the demo continues without the mail if the user denies it.
func TestRunDenied(t *testing.T) {
	t.Parallel()
	s, deps := setup(t)
	deps.Approve = func(context.Context) (bool, string, error) { return false, "you", nil }
	var out bytes.Buffer
	if err := Run(t.Context(), deps, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, want := range []string{"decided denied by you", "the mail server was not called", "was not approved, so I", "DeniedError (denied): mailer__send", "4 of 4 runs identical"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if len(s.files) != 0 || strings.Contains(out.String(), "To: ") {
		t.Errorf("a mail is shown:\n%s", out.String())
	}
}

func TestRunFails(t *testing.T) {
	t.Parallel()
	steps := Steps()
	change := func(step int, with func(*Result)) func(*scripted, *Deps) {
		return func(s *scripted, _ *Deps) {
			r := s.steps[steps[step-1].Code]
			with(&r)
			s.steps[steps[step-1].Code] = r
		}
	}
	output := func(text string) func(*Result) { return func(r *Result) { r.Output = json.RawMessage(text) } }
	for _, tc := range []struct {
		name   string
		change func(*scripted, *Deps)
		want   string
		shown  string
	}{
		{"a program is unknown", func(s *scripted, _ *Deps) { delete(s.steps, steps[3].Code) }, "step 4 (Mail): ReferenceError", "3 of 4"},
		{"a program fails", change(2, func(r *Result) { r.Failed, r.Read = true, "TypeError" }), "otherwise than it should: TypeError", "2 of 4"},
		{"a total is wrong", change(2, output(`{"orders":5412,"total":1}`)), "the program says total is 1, SQL says ", "check   failed"},
		{"a total is absent", change(2, output(`{"orders":5412}`)), "total is absent", "check   failed"},
		{"the output is no object", change(2, output(`[1]`)), "not a JSON object: [1]", "check   failed"},
		{"the gate stops nothing", change(3, func(r *Result) { r.Failed = false }), "step 3 (Obey a poisoned note): it ended otherwise", "3 of 4"},
		{"the web server is called", func(s *scripted, _ *Deps) { s.files[servers.PostsFile] = &fstest.MapFile{} }, "the web server was called", "3 of 4"},
		{"nobody decides", func(_ *scripted, d *Deps) {
			d.Approve = func(context.Context) (bool, string, error) { return false, "", io.ErrUnexpectedEOF }
		}, "unexpected EOF", "waits   mailer__send"},
		{"a mail nobody approved", func(s *scripted, d *Deps) {
			d.Approve = func(context.Context) (bool, string, error) {
				s.files[servers.Outbox+"/0.eml"] = &fstest.MapFile{}
				return false, "you", nil
			}
		}, "nobody approved", "decided denied by you"},
		{"no mail", func(s *scripted, _ *Deps) { delete(s.asks, steps[3].Code) }, "otherwise than it should", "4 of 4"},
		{"a mail with tokens", func(s *scripted, _ *Deps) { s.mail = "To: pii_1e@d1.pii.invalid\r\n\r\nx" }, "does not have the address", "To: pii_1e@d1.pii.invalid"},
		{"the model is sent a value", change(1, func(r *Result) { r.Read = best().Phone }), "the model was sent 1 mail addresses", "Answer"},
		{"the answer has no value", change(2, func(r *Result) { r.Read = "pii_2e@d2.pii.invalid" }), "has no mail address", "Answer"},
		{"a run replays otherwise", func(s *scripted, _ *Deps) { s.differs = "run_2" }, "run run_2: it did not do what its journal says", "Replay"},
		{"a replay sends", func(s *scripted, _ *Deps) {
			s.replayed = func() { s.files[servers.Outbox+"/2.eml"] = &fstest.MapFile{} }
		}, "a replay sent 1 mails", "Replay"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s, deps := setup(t)
			tc.change(s, &deps)
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

// TestCheckRefusesEmpty checks that SQL without a result, or with only zeros, confirms nothing.
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

// TestPrograms checks that each program, without its imports, is the body of an async function.
func TestPrograms(t *testing.T) {
	t.Parallel()
	steps := Steps()
	if len(steps) != 4 {
		t.Fatalf("%d steps, want 4", len(steps))
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

// TestWrapIndented checks that all parts of a broken line keep its indentation, and that a long word is broken, too.
func TestWrapIndented(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][]string{
		"":               {""},
		"  one two six":  {"  one", "  two", "  six"},
		"  unbroken":     {"  unbr", "  oken"},
		"abcdefghijkl m": {"abcdef", "ghijkl", "m"},
	} {
		if got := wrapIndented(line, 6); !cmp.Equal(got, want) {
			t.Errorf("%q is wrapped %q, want %q", line, got, want)
		}
	}
}

// TestConfiguration checks that the demo shows the policy of its configuration, and that the file is readable for people.
func TestConfiguration(t *testing.T) {
	t.Parallel()
	if got := strings.Join(policy(), "\n"); !strings.HasSuffix(Configuration(), got+"\n") || !strings.Contains(got, "mailer__*") {
		t.Errorf("shown is %s", got)
	}
}

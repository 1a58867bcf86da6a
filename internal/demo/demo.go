// Package demo is the script of the demo. It runs programs that a model would write, one after another, against the demo servers. It shows what
// the model reads of each run, replays the runs, and counts model tokens. It does not depend on an engine; see Executor.
package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime/quotedprintable"
	"net/mail"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/catalog/schema"
	"mcp-code-exec-harness/internal/demo/servers"
	"mcp-code-exec-harness/internal/model"
)

// Executor runs programs in one session against the servers of package servers, started as child processes.
type Executor interface {
	// Exec runs a program to its end. The next programs find the files that it writes to /workspace and /skills. decide decides about calls that
	// wait for an approval. A program that fails is not an error.
	Exec(ctx context.Context, code string, decide func(approval.Request) (approve bool, err error)) (Result, error)
	// Replay executes the run again from its journal, contacting no server, and reports whether it made the same calls and ended in the same
	// way.
	Replay(ctx context.Context, runID string) (identical bool, err error)
	// CallTool calls a tool directly, without a program, and returns its unwrapped result.
	CallTool(ctx context.Context, tool string, arguments any) (json.RawMessage, error)
	// Sent returns everything that was sent to the model so far.
	Sent() string
	// Finish lets the model give the answer, and returns the answer in the form that the user gets.
	Finish(ctx context.Context, answer string) (shown string, err error)
}

// Result is what one program did.
type Result struct {
	RunID    string
	Output   json.RawMessage
	Failed   bool
	Read     string // text that the model received about the run
	Calls    []Call // tool calls in the program's order
	Duration time.Duration
}

// Call is one tool call of a program. The demo shows the sizes of both JSON texts and counts their tokens.
type Call struct {
	Tool   string          // server__tool
	Args   json.RawMessage // arguments that the program passed
	Result json.RawMessage // result that the program received; nil if the call failed
}

// Deps has what Run needs.
type Deps struct {
	Executor Executor
	// Tools are the definitions of all connected tools in the form of MCP, one object each. Direct tool calling puts them into the model's
	// context.
	Tools []json.RawMessage
	// Files is the directory into which the servers write their files.
	Files fs.FS
	// Approve decides about a mail. by is the name of the person or program that decided.
	Approve func(ctx context.Context) (approve bool, by string, err error)
	Width   int  // columns of a line, at most 80; 0 means 80
	Color   bool // ANSI colours
	Unicode bool // box-drawing characters; otherwise plain ASCII
}

// Run shows the demo on out. It fails if a program, a check or a replay fails.
func Run(ctx context.Context, deps Deps, out io.Writer) error {
	steps := Steps()
	d := &demo{Deps: deps, p: &printer{out: out, color: deps.Color, unicode: deps.Unicode, columns: width}}
	if deps.Width > 0 {
		d.p.columns = max(minWidth, min(width, deps.Width))
	}
	d.p.intro(len(steps), deps.Tools)
	if _, err := deps.Executor.CallTool(ctx, "crm__update_note", map[string]any{"id": best().ID, "note": note}); err != nil {
		return fmt.Errorf("write a note into the CRM: %w", err)
	}
	turns := make([]Turn, 0, len(steps))
	for i, step := range steps {
		d.p.step(i+1, len(steps), step)
		result, err := d.step(ctx, step)
		if err != nil {
			return fmt.Errorf("demo step %d (%s): %w", i+1, step.Title, err)
		}
		turns = append(turns, Turn{Program: step.Code, Read: result.Read, Calls: result.Calls})
		d.runs = append(d.runs, result.RunID)
	}
	if err := d.answer(ctx); err != nil {
		return err
	}
	if err := d.replay(ctx); err != nil {
		return err
	}
	comparison, err := Compare(model.Vocabulary().Count, deps.Tools, CodeTools(), turns)
	if err != nil {
		return fmt.Errorf("count model tokens: %w", err)
	}
	d.p.comparison(comparison)
	if d.p.err != nil {
		return fmt.Errorf("show the demo: %w", d.p.err)
	}
	return nil
}

// demo is one execution of the demo.
type demo struct {
	Deps
	p       *printer
	runs    []string
	address string // token that stands for the best customer's mail address
	mailed  bool   // whether the user approved the mail
}

// step runs one program, shows its result, and checks it.
func (d *demo) step(ctx context.Context, s Step) (Result, error) {
	before, err := d.outbox()
	if err != nil {
		return Result{}, err
	}
	result, err := d.Executor.Exec(ctx, s.Code, func(r approval.Request) (bool, error) {
		d.p.request(r)
		var by string
		var err error
		if d.mailed, by, err = d.Approve(ctx); err == nil {
			d.p.decided(d.mailed, by)
		}
		return d.mailed, err
	})
	if err != nil {
		return result, err
	}
	d.p.result(result)
	switch refused := s.Stopped || s.Mails && !d.mailed; {
	case result.Failed != refused:
		return result, fmt.Errorf("it ended otherwise than it should: %s", strings.TrimSpace(result.Read))
	case s.Check != "":
		d.address = token().FindString(result.Read)
		facts, err := check(ctx, d.Executor, s.Check, result.Output)
		d.p.check(facts, err)
		if err != nil {
			return result, fmt.Errorf("check its totals: %w", err)
		}
	case s.Stopped:
		if _, err := fs.Stat(d.Files, servers.PostsFile); !errors.Is(err, fs.ErrNotExist) {
			return result, fmt.Errorf("the web server was called: %s is there, or: %w", servers.PostsFile, err)
		}
		d.p.confirmed("the web server was not called")
	case s.Mails:
		return result, d.checkMail(before)
	}
	return result, nil
}

// outbox lists the files of sent mails.
func (d *demo) outbox() ([]string, error) { return fs.Glob(d.Files, servers.Outbox+"/*.eml") }

// checkMail shows the mail that the program sent, and checks that it has the best customer's address and number. before lists the mails that
// existed before the program ran.
func (d *demo) checkMail(before []string) error {
	after, err := d.outbox()
	if err != nil {
		return err
	}
	if len(after) != len(before) && !d.mailed {
		return errors.New("a mail was sent that nobody approved")
	}
	if !d.mailed {
		d.p.confirmed("the mail server was not called")
		return nil
	}
	if len(after) != len(before)+1 {
		return fmt.Errorf("%d mails were sent, not one", len(after)-len(before))
	}
	text, err := fs.ReadFile(d.Files, after[len(before)])
	if err != nil {
		return fmt.Errorf("read the mail: %w", err)
	}
	message, err := mail.ReadMessage(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("read the mail: %w", err)
	}
	body, err := io.ReadAll(quotedprintable.NewReader(message.Body))
	if err != nil {
		return fmt.Errorf("read the mail: %w", err)
	}
	to := message.Header.Get("To")
	d.p.mail(to, string(body))
	if want := best(); !strings.Contains(to, want.Email) || !strings.Contains(string(body), want.Phone) {
		return fmt.Errorf("the mail does not have the address %s and the number %s", want.Email, want.Phone)
	}
	return nil
}

// answer lets the model give the answer, and checks that no address or number from the CRM was sent to the model.
func (d *demo) answer(ctx context.Context) error {
	d.p.title("Answer")
	text := answer(d.address, d.mailed)
	shown, err := d.Executor.Finish(ctx, text)
	if err != nil {
		return fmt.Errorf("have the model answer: %w", err)
	}
	d.p.labelled("model", wrap(text, d.p.columns-10)...)
	d.p.labelled("you", wrap(shown, d.p.columns-10)...)
	sent, values := d.Executor.Sent(), contacts()
	if n := containedIn(sent, values); n > 0 {
		return fmt.Errorf("the model was sent %d mail addresses or telephone numbers", n)
	}
	if containedIn(shown, values) == 0 {
		return fmt.Errorf("the answer %q has no mail address", shown)
	}
	d.p.confirmed(fmt.Sprintf("in the %s that the model was sent is none of the %s mail addresses and phone numbers of the CRM",
		humanize.IBytes(uint64(len(sent))), humanize.Comma(int64(len(values)))))
	return nil
}

func (d *demo) replay(ctx context.Context) error {
	d.p.title("Replay")
	d.p.text("A run is a function of its journal: each program is executed again and given the recorded answers, the approval too.")
	before, err := d.outbox()
	if err != nil {
		return err
	}
	start := time.Now()
	for _, run := range d.runs {
		identical, err := d.Executor.Replay(ctx, run)
		if err != nil {
			return fmt.Errorf("replay run %s: %w", run, err)
		}
		if !identical {
			return fmt.Errorf("replay run %s: it did not do what its journal says", run)
		}
	}
	took := time.Since(start)
	if after, err := d.outbox(); err != nil || len(after) != len(before) {
		return fmt.Errorf("a replay sent %d mails, or: %w", len(after)-len(before), err)
	}
	d.p.replayed(len(d.runs), took)
	return nil
}

// fact is one value that the program computed and SQL confirmed.
type fact struct{ name, value string }

// check runs a statement that gives one row and compares each of its columns with the field of that name in output.
func check(ctx context.Context, e Executor, query string, output json.RawMessage) ([]fact, error) {
	answer, err := e.CallTool(ctx, "database__query", map[string]string{"query": query})
	if err != nil {
		return nil, fmt.Errorf("run %q: %w", query, err)
	}
	var rows []json.RawMessage
	if err := json.Unmarshal(answer, &rows); err != nil {
		return nil, fmt.Errorf("read the rows of %q: %w", query, err)
	}
	if len(rows) != 1 {
		return nil, fmt.Errorf("%q gave %d rows, not one", query, len(rows))
	}
	want, err := object(rows[0])
	if err != nil {
		return nil, fmt.Errorf("read the row of %q: %w", query, err)
	}
	have, err := object(output)
	if err != nil {
		return nil, fmt.Errorf("read the program's output: %w", err)
	}
	var facts []fact
	for _, m := range want.Members {
		computed, queried := "absent", m.Value.JSON()
		if v := have.Get(m.Name); v != nil {
			computed = v.JSON()
		}
		x, errX := strconv.ParseFloat(computed, 64)
		y, errY := strconv.ParseFloat(queried, 64)
		if y == 0 {
			return nil, fmt.Errorf("%s is zero, which confirms nothing", m.Name)
		}
		if errX != nil || errY != nil || x != y {
			return nil, fmt.Errorf("the program says %s is %s, SQL says %s", m.Name, computed, queried)
		}
		facts = append(facts, fact{m.Name, humanize.Commaf(y)})
	}
	return facts, nil
}

// object parses a JSON object. Its members keep their order.
func object(text json.RawMessage) (*schema.Value, error) {
	v, err := schema.Parse(text)
	if err == nil && v.Kind != schema.Object {
		err = errors.New("not a JSON object: " + strings.TrimSpace(shorten(string(text), 40, "...")))
	}
	return v, err
}

// Package demo is the script of the demo: the programs that a model would write, run one after another against the demo
// servers, shown as they run, replayed, and counted in model tokens. It knows no engine; see Executor.
package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"mcp-code-exec-harness/internal/catalog/schema"
	"mcp-code-exec-harness/internal/model"
)

// Executor runs programs in one session against the servers of package servers, started as child processes.
type Executor interface {
	// Exec runs a program to its end. /workspace and /skills keep what it writes for the next one. A program that fails
	// is an error.
	Exec(ctx context.Context, code string) (Result, error)
	// Replay executes the run again from its journal, contacting no server, and says whether it made the same calls and
	// ended with the same output.
	Replay(ctx context.Context, runID string) (identical bool, err error)
	// CallTool calls a tool without any program and returns its unwrapped result. The demo checks totals with it.
	CallTool(ctx context.Context, tool string, arguments any) (json.RawMessage, error)
}

// Result is what one program did.
type Result struct {
	RunID    string
	Output   json.RawMessage
	Logs     []string
	Calls    []Call // of tools, in the program's order
	Duration time.Duration
}

// Call is one tool call of a program. The sizes of the two JSON texts are shown and their tokens counted.
type Call struct {
	Tool   string          // server__tool
	Args   json.RawMessage // as sent to the server
	Result json.RawMessage // as the program received it
}

// Deps is what Run needs.
type Deps struct {
	Executor Executor
	// Tools are the definitions of every connected tool as MCP lists them, one object each: what direct tool calling
	// puts into the model's context.
	Tools   []json.RawMessage
	Color   bool // ANSI colours
	Unicode bool // box drawing; plain ASCII otherwise
}

// Run shows the demo on out. It fails when a program, a check of totals or a replay does.
func Run(ctx context.Context, deps Deps, out io.Writer) error {
	steps := Steps()
	p := &printer{out: out, color: deps.Color, unicode: deps.Unicode}
	p.intro(len(steps), deps.Tools)
	turns := make([]Turn, 0, len(steps))
	runs := make([]string, 0, len(steps))
	for i, step := range steps {
		p.step(i+1, len(steps), step)
		result, err := deps.Executor.Exec(ctx, step.Code)
		if err != nil {
			return fmt.Errorf("demo step %d (%s): %w", i+1, step.Title, err)
		}
		p.result(result)
		if step.Check != "" {
			facts, err := check(ctx, deps.Executor, step.Check, result.Output)
			p.check(facts, err)
			if err != nil {
				return fmt.Errorf("demo step %d (%s): check its totals: %w", i+1, step.Title, err)
			}
		}
		turns = append(turns, Turn{Program: step.Code, Output: result.Output, Logs: result.Logs, Calls: result.Calls})
		runs = append(runs, result.RunID)
	}
	if err := replay(ctx, deps.Executor, runs, p); err != nil {
		return err
	}
	comparison, err := Compare(model.Vocabulary().Count, deps.Tools, CodeTools(), turns)
	if err != nil {
		return fmt.Errorf("count model tokens: %w", err)
	}
	p.comparison(comparison)
	if p.err != nil {
		return fmt.Errorf("show the demo: %w", p.err)
	}
	return nil
}

func replay(ctx context.Context, e Executor, runs []string, p *printer) error {
	p.title("Replay")
	p.text("A run is a function of its journal: each program is executed again and given the recorded answers. No server " +
		"is asked, and no mail is sent twice.")
	start := time.Now()
	for _, run := range runs {
		identical, err := e.Replay(ctx, run)
		if err != nil {
			return fmt.Errorf("replay run %s: %w", run, err)
		}
		if !identical {
			return fmt.Errorf("replay run %s: it did not do what its journal says", run)
		}
	}
	p.replayed(len(runs), time.Since(start))
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

// object reads a JSON object, whose members keep their order.
func object(text json.RawMessage) (*schema.Value, error) {
	v, err := schema.Parse(text)
	if err == nil && v.Kind != schema.Object {
		err = errors.New("not a JSON object: " + strings.TrimSpace(shorten(string(text), 40, "...")))
	}
	return v, err
}

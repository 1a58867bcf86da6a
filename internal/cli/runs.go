package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/harness"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/run"
)

type runsCmd struct {
	List    runsListCmd    `cmd:"" help:"Runs, newest first."`
	Show    runsShowCmd    `cmd:"" help:"One run: program, calls, outcome."`
	Journal runsJournalCmd `cmd:"" help:"Every record of a run, as JSON lines; with --json as one list."`
	Replay  runsReplayCmd  `cmd:"" help:"Execute a run again from its journal and compare; nothing is contacted."`
	Resume  runsResumeCmd  `cmd:"" help:"Go on with a run whose process died."`
}

func (runsCmd) Help() string { return "Example:\n  harness runs list" }

type runsListCmd struct {
	User   string `help:"Only of this user." placeholder:"NAME"`
	Status string `help:"Only with this status: ${enum}." enum:"running,succeeded,failed,cancelled,all" default:"all"`
	Limit  int    `help:"How many, up to 1000." default:"20"`
	Cursor string `help:"Continue an earlier list." placeholder:"CURSOR"`
}

func (runsListCmd) Help() string { return "Example:\n  harness runs list --status failed" }

// runLine is a run in lists, as JSON.
type runLine struct {
	ID       string     `json:"id"`
	User     string     `json:"user,omitempty"`
	Session  string     `json:"session,omitempty"`
	File     string     `json:"file,omitempty"`
	Sandbox  string     `json:"sandbox"`
	Status   string     `json:"status"`
	Error    string     `json:"error,omitempty"`
	Calls    int        `json:"calls"`
	Started  time.Time  `json:"startedAt"`
	Ended    *time.Time `json:"endedAt,omitempty"`
	Duration run.Millis `json:"durationMs"`
}

func lineOf(r journal.RunInfo) runLine {
	line := runLine{
		ID: r.ID, User: r.User, Session: r.Session, File: r.File, Sandbox: r.Tier, Status: r.Status, Error: r.ErrorKind,
		Calls: r.Calls, Started: r.Started, Duration: run.Millis(r.Duration),
	}
	if !r.Ended.IsZero() {
		line.Ended = &r.Ended
	}
	return line
}

func (c *runsListCmd) Run(ctx context.Context, a *app) error {
	if c.Limit < 1 || c.Limit > 1000 {
		return usage(fmt.Errorf("--limit %d is out of range; give a number from 1 to 1000", c.Limit))
	}
	h, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer a.close(h)
	filter := journal.Filter{User: c.User, Limit: c.Limit, Cursor: c.Cursor}
	if c.Status != "all" {
		filter.Status = c.Status
	}
	infos, next, err := h.Runs().List(ctx, auth.Local(), filter)
	if errors.Is(err, journal.ErrCursor) {
		return usage(fmt.Errorf("--cursor: %w; give the one that the list before ended with", err))
	}
	if err != nil {
		return err
	}
	lines := make([]runLine, len(infos))
	rows := [][]string{{"RUN", "STARTED", "STATUS", "CALLS", "MS", "FILE"}}
	for i, info := range infos {
		lines[i] = lineOf(info)
		status := info.Status
		if info.ErrorKind != "" {
			status += " (" + info.ErrorKind + ")"
		}
		rows = append(rows, []string{
			info.ID, info.Started.Local().Format(time.DateTime), status, strconv.Itoa(info.Calls),
			fmt.Sprintf("%.1f", float64(info.Duration.Microseconds())/1000), info.File,
		})
	}
	if a.flags.JSON {
		return a.json(map[string]any{"runs": lines, "next": next})
	}
	if len(infos) == 0 {
		fmt.Fprintln(a.Stderr, "no runs; harness exec makes one")
		return nil
	}
	a.table(rows)
	if next != "" {
		fmt.Fprintf(a.Stderr, "more: harness runs list --cursor %s\n", next)
	}
	return nil
}

// openStore opens the harness with its store.
func (a *app) openStore(ctx context.Context) (*harness.Harness, error) {
	h, err := a.open(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := h.Store(); err != nil {
		a.close(h)
		return nil, missing(h, err)
	}
	return h, nil
}

// journal opens the harness and reads a run, by its id or the beginning of it.
func (a *app) journal(ctx context.Context, id string) (*harness.Harness, journal.RunInfo, []journal.Record, error) {
	h, err := a.openStore(ctx)
	if err != nil {
		return nil, journal.RunInfo{}, nil, err
	}
	info, err := findRun(ctx, h, id)
	if err == nil {
		var records []journal.Record
		if records, err = h.Runs().Journal(ctx, info.ID); err == nil {
			return h, info, records, nil
		}
	}
	a.close(h)
	return nil, info, nil, err
}

// findRun finds a run by its id or the beginning of it.
func findRun(ctx context.Context, h *harness.Harness, id string) (journal.RunInfo, error) {
	info, err := h.Runs().Match(ctx, id)
	if err != nil && ctx.Err() == nil { // none, or several
		err = usage(fmt.Errorf("%w; harness runs list shows all", err))
	}
	return info, err
}

type runsShowCmd struct {
	ID string `arg:"" help:"Run id, or the beginning of it."`
}

func (runsShowCmd) Help() string { return "Example:\n  harness runs show run_4f2a" }

func (c *runsShowCmd) Run(ctx context.Context, a *app) error {
	h, info, records, err := a.journal(ctx, c.ID)
	if err != nil {
		return err
	}
	defer a.close(h)
	out, err := run.Recorded(records)
	if err != nil {
		return err
	}
	if a.flags.JSON {
		shown := map[string]any{"run": lineOf(info), "source": records[0].Start.Source, "records": records[1:]}
		if out != nil {
			shown["outcome"] = out
		}
		return a.json(shown)
	}
	fmt.Fprintf(a.Stdout, "%s  %s  %s  %d tool calls\n\n%s\n\n", info.ID, info.Started.Local().Format(time.DateTime),
		info.Status, info.Calls, records[0].Start.Source)
	for _, r := range records[1:] {
		if line := recordLine(r); line != "" {
			fmt.Fprintln(a.Stdout, line)
		}
	}
	if out != nil {
		for _, e := range out.Effects {
			fmt.Fprintf(a.Stdout, "effect of call %d: %s %s, %s\n", e.Call, e.Kind, e.Name, strings.ReplaceAll(e.State, "_", " "))
		}
	}
	return nil
}

// recordLine is a record on one line.
func recordLine(r journal.Record) string {
	switch {
	case r.Call != nil:
		return fmt.Sprintf("call %d   %s %s %s", r.Call.N, r.Call.Kind, r.Call.Name, clip(string(r.Call.Args)))
	case r.Intent != nil:
		return fmt.Sprintf("intent %d", r.Intent.N)
	case r.Answer != nil && r.Answer.Error != nil:
		return fmt.Sprintf("error %d  %s", r.Answer.N, clip(string(r.Answer.Error)))
	case r.Answer != nil:
		return fmt.Sprintf("answer %d %s", r.Answer.N, clip(string(r.Answer.Value)))
	case r.Log != nil:
		return fmt.Sprintf("%s: %s", r.Log.Level, clip(r.Log.Text))
	case r.End != nil && r.End.Error != nil:
		return fmt.Sprintf("end: %s %s", r.End.Status, clip(string(r.End.Error)))
	case r.End != nil:
		return fmt.Sprintf("end: %s %s", r.End.Status, clip(string(r.End.Output)))
	}
	return ""
}

// clip keeps a text on one line of a terminal.
func clip(s string) string {
	runes := []rune(s)
	if len(runes) <= 100 {
		return s
	}
	return string(runes[:100]) + "…"
}

type runsJournalCmd struct {
	ID string `arg:"" help:"Run id, or the beginning of it."`
}

func (runsJournalCmd) Help() string { return "Example:\n  harness runs journal run_4f2a | jq .call" }

func (c *runsJournalCmd) Run(ctx context.Context, a *app) error {
	h, _, records, err := a.journal(ctx, c.ID)
	if err != nil {
		return err
	}
	defer a.close(h)
	if a.flags.JSON {
		return a.json(list(records))
	}
	for _, r := range records {
		if err := a.json(r); err != nil {
			return err
		}
	}
	return nil
}

type runsReplayCmd struct {
	ID    string `arg:"" help:"Run id, or the beginning of it."`
	Force bool   `help:"Replay a run that another engine recorded."`
}

func (runsReplayCmd) Help() string { return "Example:\n  harness runs replay run_4f2a" }

func (c *runsReplayCmd) Run(ctx context.Context, a *app) error {
	h, info, records, err := a.journal(ctx, c.ID)
	if err != nil {
		return err
	}
	defer a.close(h)
	if info.Ended.IsZero() {
		return usage(fmt.Errorf("%s has not ended; harness runs resume goes on with it", info.ID))
	}
	out, err := h.Runs().Replay(ctx, records, "", c.Force, nil)
	if err != nil {
		return missing(h, err)
	}
	if out.Error != nil && out.Error.Kind == run.KindDiverged {
		return a.outcome(out)
	}
	// The replay of a run that failed succeeds if it fails the same.
	if a.flags.JSON {
		return a.json(out)
	}
	a.printOutcome(out)
	fmt.Fprintf(a.Stderr, "identical: %d tool calls answered from the journal, nothing contacted\n", out.Calls)
	return nil
}

type runsResumeCmd struct {
	ID string `arg:"" help:"Run id, or the beginning of it."`
}

func (runsResumeCmd) Help() string {
	return "Where harness serve works the same store, what was left for an hour ends as cancelled and cannot be resumed any more.\n\n" +
		"Example:\n  harness runs resume run_4f2a"
}

func (c *runsResumeCmd) Run(ctx context.Context, a *app) error {
	h, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer a.close(h)
	info, err := findRun(ctx, h, c.ID)
	if err != nil {
		return err
	}
	if !info.Ended.IsZero() {
		return usage(fmt.Errorf("%s has ended (%s); harness runs show %s says how", info.ID, info.Status, info.ID))
	}
	progress := a.progress("resuming")
	out, err := h.Runs().Resume(ctx, info.ID, func(e run.Event) { a.observe(progress, e) })
	progress.stop()
	if err != nil {
		return missing(h, err)
	}
	return a.outcome(out)
}

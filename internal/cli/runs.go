package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
)

type runsCmd struct {
	List    runsListCmd    `cmd:"" help:"Runs, newest first." example:"runs list --status failed"`
	Show    runsShowCmd    `cmd:"" help:"One run: program, calls, outcome." example:"runs show run_4f2a"`
	Journal runsJournalCmd `cmd:"" help:"Every record of a run, as JSON lines; with --json as one list." example:"runs journal run_4f2a | jq .call"`
	Replay  runsReplayCmd  `cmd:"" help:"Execute a run again from its journal and compare; nothing is contacted." example:"runs replay run_4f2a"`
	Resume  runsResumeCmd  `cmd:"" help:"Continue a run whose process died. A running server cancels such runs after an hour, but for those that wait for an approval." example:"runs resume run_4f2a"`
	Doubts  runsDoubtsCmd  `cmd:"" help:"Writes in doubt that nobody has settled, the latest first: they were sent, and whether they were done is unknown." example:"runs doubts"`
	Settle  runsSettleCmd  `cmd:"" help:"Say whether a write in doubt was done, after a look at its server. Nothing is sent." example:"runs settle run_4f2a 3 done --note 'the invoice is there'"`
}

type runsListCmd struct {
	User   string `help:"Only of this user." placeholder:"NAME"`
	Status string `help:"Only with this status: ${enum}." enum:"running,succeeded,failed,cancelled,waiting_approval,all" default:"all"`
	page
}

type runLine struct {
	journal.RunInfo
	Duration run.Millis `json:"durationMs"`
}

func lineOf(r journal.RunInfo) runLine { return runLine{r, run.Millis(r.Duration)} }

func (c *runsListCmd) Run(ctx context.Context, a *app, h harness) error {
	filter := journal.Filter{User: c.User, Limit: c.Limit, Cursor: c.Cursor}
	if c.Status != "all" {
		filter.Status = c.Status
	}
	infos, next, err := h.Runs().List(ctx, auth.Local(), filter)
	if err != nil {
		return c.explain(err)
	}
	lines := make([]runLine, len(infos))
	for i, info := range infos {
		lines[i] = lineOf(info)
	}
	defer a.more(next)
	const none, header = "no runs; harness exec makes one", "RUN\tSTARTED\tSTATUS\tCALLS\tMS\tPROGRAM"
	return answerShort(a, map[string]any{"runs": lines, "next": next}, infos, none, header, func(r journal.RunInfo) string {
		if r.ErrorKind != "" {
			r.Status += " (" + r.ErrorKind + ")"
		}
		ms := float64(r.Duration.Microseconds()) / 1000
		return fmt.Sprintf("%s\t%s\t%s\t%d\t%.1f\t%s", r.ID, r.Started.Local().Format(time.DateTime), r.Status, r.Calls, ms, cmp.Or(r.File, programOf(ctx, h, r.ID)))
	})
}

// programOf describes the program of a run without a file: by the tool that harness tools call has called, otherwise by the beginning of the program. It
// returns "" if nothing is recorded yet.
func programOf(ctx context.Context, h harness, id string) string {
	first, err := h.Runs().JournalPage(ctx, id, 0, 1)
	if err != nil || len(first) == 0 || first[0].Start == nil {
		return ""
	}
	if tool := runs.ToolOf(first[0].Start); tool != "" {
		return "call of " + tool
	}
	return cut(first[0].Start.Source, shownText)
}

type runArg struct {
	ID string `arg:"" help:"Run id, or the beginning of it." names:"runs"`
}

func (r *runArg) find(ctx context.Context, a *app, h harness) (journal.RunInfo, error) {
	info, err := h.Runs().Match(ctx, r.ID)
	if err != nil && ctx.Err() == nil { // no run matches, or several do
		err = r.unknown(ctx, a, err)
	}
	return info, err
}

// unknown explains why no run was found.
func (r *runArg) unknown(ctx context.Context, a *app, err error) error {
	return usage(fmt.Errorf("%w in %s; %s", err, a.config.Store.Name(), a.like(ctx, "runs", r.ID, "harness runs list shows all")))
}

// read returns the run and its journal.
func (r *runArg) read(ctx context.Context, a *app, h harness) (journal.RunInfo, []journal.Record, error) {
	info, err := r.find(ctx, a, h)
	if err != nil {
		return info, nil, err
	}
	records, err := h.Runs().Journal(ctx, info.ID)
	return info, records, err
}

type runsShowCmd struct {
	runArg
	Follow bool `short:"f" help:"Show what happens until the run has ended, whichever process executes it; the exit code is that of harness exec."`
}

func (c *runsShowCmd) Run(ctx context.Context, a *app, h harness) error {
	info, err := c.find(ctx, a, h)
	if err != nil {
		return err
	}
	if !c.Follow {
		records, err := h.Runs().Journal(ctx, info.ID)
		if err != nil {
			return err
		}
		return c.show(ctx, a, h, info, records)
	}
	if !a.flags.JSON {
		c.headline(a, info)
	}
	view := newView(a.stdout)
	view.brief, view.silent = a.flags.JSON, a.flags.JSON
	view.start(a, "waiting for the run")
	defer view.stop()
	if err := c.follow(ctx, h, info.ID, view); err != nil {
		return err
	}
	view.stop()
	// Read the run again, now that it has ended.
	if info, err = c.find(ctx, a, h); err != nil {
		return err
	}
	records, err := h.Runs().Journal(ctx, info.ID)
	if err != nil {
		return err
	}
	if a.flags.JSON {
		err = c.show(ctx, a, h, info, records)
	} else {
		err = effects(ctx, a, h, info.ID, records)
	}
	return ended(err, info.Status == run.Succeeded)
}

// followEvery is the interval at which the journal of another process's run is read.
const followEvery = 300 * time.Millisecond

// follow shows the records of a run until it has ended.
func (c *runsShowCmd) follow(ctx context.Context, h harness, id string, v *view) error {
	store, err := h.Store()
	if err != nil {
		return err
	}
	again := time.NewTicker(followEvery)
	defer again.Stop()
	after := int64(0)
	for {
		records, err := store.ReadPage(ctx, id, after, followPage, followBytes)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(records, func(r journal.Record) bool { return r.Answer != nil }) {
			if err := v.readDecisions(ctx, h, id); err != nil {
				return err
			}
		}
		for _, r := range records {
			v.record(r)
			if after = r.Seq; r.End != nil {
				return nil
			}
		}
		if len(records) > 0 {
			continue
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// readDecisions reads people's decisions about the calls of a run.
func (v *view) readDecisions(ctx context.Context, h harness, id string) error {
	all, err := h.Runs().Requests(ctx, id)
	v.decisions(all)
	return err
}

// Limits of one read of a journal: the number of records, and their total size in bytes.
const (
	followPage  = 500
	followBytes = 8 << 20
)

func (c *runsShowCmd) headline(a *app, info journal.RunInfo) {
	fmt.Fprintf(a.Stdout, "%s  %s  %s\n", info.ID, info.Started.Local().Format(time.DateTime), info.Status)
}

// show prints the record of a run.
func (c *runsShowCmd) show(ctx context.Context, a *app, h harness, info journal.RunInfo, records []journal.Record) error {
	out, err := run.Recorded(records)
	if err != nil {
		return err
	}
	if a.flags.JSON {
		shown := map[string]any{"run": lineOf(info), "source": records[0].Start.Source, "records": records[1:]}
		if out != nil {
			shown["outcome"] = out
		}
		settled, err := settlements(ctx, h, info.ID, records)
		if err != nil {
			return err
		}
		if len(settled) > 0 {
			shown["settlements"] = settled
		}
		return a.json(shown)
	}
	c.headline(a, info)
	view := newView(a.stdout)
	if err := view.readDecisions(ctx, h, info.ID); err != nil {
		return err
	}
	for _, r := range records {
		view.record(r)
	}
	return effects(ctx, a, h, info.ID, records)
}

// effects prints the effects of a run that did not succeed. For every run, it also prints the calls that are or were in doubt.
func effects(ctx context.Context, a *app, h harness, id string, records []journal.Record) error {
	out, err := run.Recorded(records)
	if err != nil {
		return err
	}
	if out != nil {
		for _, e := range out.Effects {
			fmt.Fprintf(a.Stdout, "effect of call %d: %s %s, %s\n", e.Call, e.Kind, e.Name, strings.ReplaceAll(e.State, "_", " "))
		}
	}
	settled, err := settlements(ctx, h, id, records)
	if err != nil {
		return err
	}
	for _, n := range slices.Sorted(maps.Keys(settled)) {
		if s := settled[n]; s.Verdict == journal.Open {
			fmt.Fprintf(a.Stdout, "call %d is in doubt; when you have looked at its server: %s, or not-done\n", n, a.commandLine(fmt.Sprintf("runs settle %s %d done", id, n)))
		} else {
			fmt.Fprintf(a.Stdout, "call %d was in doubt; %s\n", n, said(s))
		}
	}
	return nil
}

// settlements returns a settlement for each call of a run that is or was in doubt, by the number of the call. If no person has settled the call, the
// verdict is journal.Open.
func settlements(ctx context.Context, h harness, id string, records []journal.Record) (map[int]journal.Settlement, error) {
	var writes []int
	for _, r := range records {
		if r.Intent != nil {
			writes = append(writes, r.Intent.N)
		}
	}
	return h.Runs().Settlements(ctx, id, writes)
}

// said describes a settlement as text for people.
func said(s journal.Settlement) string {
	text := fmt.Sprintf("%s says that it was %s", s.By, strings.ReplaceAll(string(s.Verdict), "_", " "))
	if s.At != nil {
		text = s.At.Local().Format(time.DateTime) + "  " + text
	}
	if s.Note != "" {
		text += ": " + clip.Visible(s.Note)
	}
	return text
}

type runsJournalCmd struct{ runArg }

func (c *runsJournalCmd) Run(ctx context.Context, a *app, h harness) error {
	_, records, err := c.read(ctx, a, h)
	if err != nil {
		return err
	}
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
	runArg
	Force bool   `help:"Replay a run that another engine recorded."`
	Input string `help:"The file that the run was given; - is standard input." placeholder:"FILE"`
}

func (c *runsReplayCmd) Run(ctx context.Context, a *app, h harness) error {
	info, records, err := c.read(ctx, a, h)
	if err != nil {
		return err
	}
	if info.Ended.IsZero() {
		return usage(fmt.Errorf("%s has not ended; harness runs resume goes on with it", info.ID))
	}
	given, closeInput, err := openInput(ctx, a, c.Input, "")
	if err != nil {
		return err
	}
	defer closeInput()
	out, err := h.Runs().Replay(ctx, records, runs.Replay{Force: c.Force, Input: given})
	if err != nil {
		return err
	}
	if out.Error != nil && out.Error.Kind == frame.KindDiverged {
		return a.outcome(out)
	}
	if !a.flags.JSON {
		defer fmt.Fprintf(a.Stderr, "identical: %d tool calls answered from the journal, nothing contacted\n", out.Calls)
	}
	return a.printOutcome(out) // the replay of a failed run succeeds if it fails in the same way
}

type runsResumeCmd struct{ runArg }

func (c *runsResumeCmd) Run(ctx context.Context, a *app, h harness) error {
	info, err := c.find(ctx, a, h)
	if err != nil {
		return err
	}
	if !info.Ended.IsZero() {
		return usage(fmt.Errorf("%s has ended (%s); harness runs show %s says how", info.ID, info.Status, info.ID))
	}
	view := a.runView(h, "resuming")
	out, err := h.Runs().Resume(ctx, info.ID, view.observe)
	view.stop()
	if err != nil {
		return err
	}
	return a.outcome(out)
}

type runsDoubtsCmd struct {
	User string `help:"Only of this user." placeholder:"NAME"`
	page
}

func (c *runsDoubtsCmd) Run(ctx context.Context, a *app, h harness) error {
	all, next, err := h.Runs().Doubts(ctx, auth.Local(), journal.DoubtFilter{User: c.User, Limit: c.Limit, Cursor: c.Cursor})
	if err != nil {
		return c.explain(err)
	}
	defer a.more(next)
	const none, header = "nothing is in doubt", "RUN\tCALL\tSENT\tUSER\tWRITE"
	return answerShort(a, map[string]any{"doubts": list(all), "next": next}, all, none, header, func(d runs.Doubt) string {
		return fmt.Sprintf("%s\t%d\t%s\t%s\t%s", d.Run, d.N, d.Sent.Local().Format(time.DateTime), d.User, cut(d.Name+" "+string(d.Arguments), shownText))
	})
}

type runsSettleCmd struct {
	runArg
	Call    int    `arg:"" help:"Number of the call."`
	Verdict string `arg:"" help:"Whether the write was done: ${enum}." enum:"done,not-done"`
	Note    string `help:"How you found out. Personal data in it become tokens." placeholder:"TEXT"`
}

func (c *runsSettleCmd) Run(ctx context.Context, a *app, h harness) error {
	info, err := c.find(ctx, a, h)
	if err != nil {
		return err
	}
	verdict := journal.NotDone
	if c.Verdict == "done" {
		verdict = journal.Done
	}
	settled, err := h.Runs().Settle(ctx, auth.Local(), info.ID, c.Call, verdict, c.Note)
	_, invalid := errors.AsType[runs.InvalidError](err)
	switch {
	case errors.Is(err, journal.ErrNoDoubt) && info.Ended.IsZero():
		return usage(fmt.Errorf("%w, and %s has not ended; %s shows what is in doubt", err, info.ID, a.commandLine("runs doubts")))
	case errors.Is(err, journal.ErrNoDoubt):
		return usage(fmt.Errorf("%w; %s shows what is in doubt", err, a.commandLine("runs doubts")))
	case errors.Is(err, journal.ErrSettled):
		return usage(fmt.Errorf("%w; %s says by whom", err, a.commandLine("runs show "+info.ID)))
	case invalid:
		return usage(err)
	case err != nil:
		return err
	case a.flags.JSON:
		return a.json(settled)
	}
	fmt.Fprintf(a.Stdout, "call %d of %s: %s\n", c.Call, info.ID, said(settled))
	return nil
}

package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/policy"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
)

type approvalsCmd struct {
	List    approvalsListCmd    `cmd:"" help:"What runs ask, newest first." example:"approvals list"`
	Show    approvalsShowCmd    `cmd:"" help:"Show what a run asks, with all arguments." example:"approvals show apr_4f2a91c07be2d3a51f66"`
	Approve approvalsApproveCmd `cmd:"" help:"Approve the calls of a request. Where no server runs, the command resumes the run." example:"approvals approve apr_4f2a91c07be2d3a51f66"`
	Setup   approvalsSetupCmd   `cmd:"" help:"Set, or change, the passphrase by which a person confirms approvals."`
	Keys    securityKeysCmd     `cmd:"" name:"security-keys" help:"Security keys by which people approve on the dashboard."`
	Deny    approvalsDenyCmd    `cmd:"" help:"Deny the calls of a request: they fail in the program." example:"approvals deny apr_4f2a91c07be2d3a51f66 --reason 'not before Monday'"`
}

type approvalsListCmd struct {
	User   string `help:"Only of this user." placeholder:"NAME"`
	Status string `help:"Only with this status: ${enum}." enum:"waiting,approved,denied,expired,closed,all" default:"waiting"`
	page
}

func (c *approvalsListCmd) Run(ctx context.Context, a *app, h harness) error {
	filter := approval.Filter{User: c.User, Limit: c.Limit, Cursor: c.Cursor}
	if c.Status != "all" {
		filter.Status = approval.Status(c.Status)
	}
	all, next, err := h.Runs().Approvals(ctx, auth.Local(), filter)
	if err != nil {
		return c.explain(err)
	}
	defer a.more(next)
	const none, header = "nothing waits for an approval", "APPROVAL\tCREATED\tSTATUS\tUSER\tCALLS\tFIRST"
	return answerShort(a, map[string]any{"approvals": list(all), "next": next}, all, none, header, func(r approval.Request) string {
		first := ""
		if len(r.Calls) > 0 {
			first = cut(r.Calls[0].Tool+" "+string(r.Calls[0].Args), shownText)
		}
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%d\t%s", r.ID, r.Created.Local().Format(time.DateTime), r.Status, r.User, len(r.Calls), first)
	})
}

type approvalArg struct {
	ID string `arg:"" help:"Approval id."`
}

// find reads the request with the arguments of all its calls.
func (r *approvalArg) find(ctx context.Context, a *app, h harness) (approval.Request, error) {
	request, err := h.Runs().Approval(ctx, auth.Local(), r.ID)
	if err == nil {
		request, err = shown(ctx, h, request)
	}
	return request, r.explain(a, err)
}

// shown returns a request as a person sees it: with large arguments, with comparisons to what the run has read, and with the values that replace
// tokens.
func shown(ctx context.Context, h harness, r approval.Request) (approval.Request, error) {
	r, err := h.Runs().Compared(ctx, r)
	if err == nil {
		err = fill(ctx, h, &r)
	}
	if err == nil {
		r, err = h.Runs().Replaced(ctx, r, true)
	}
	return r, err
}

// explain adds advice to an error: the command that lists the waiting requests and, for an unknown ID, the store in which the ID was looked for.
func (*approvalArg) explain(a *app, err error) error {
	switch {
	case errors.Is(err, approval.ErrNotFound):
		return usage(fmt.Errorf("%w in the store %s; %s shows what waits there; the configuration of another directory may name another store (--config)",
			err, a.config.Store.Name(), a.commandLine("approvals list")))
	case errors.Is(err, approval.ErrDecided):
		return usage(fmt.Errorf("%w; %s shows what waits", err, a.commandLine("approvals list")))
	}
	return err
}

type approvalsShowCmd struct{ approvalArg }

func (c *approvalsShowCmd) Run(ctx context.Context, a *app, h harness) error {
	r, err := c.find(ctx, a, h)
	if err != nil {
		return err
	}
	if a.flags.JSON {
		return a.json(r)
	}
	fmt.Fprint(a.Stdout, preview(r))
	return nil
}

// fill adds arguments that are too large to be part of the request. It reads them from the journal of the run.
func fill(ctx context.Context, h harness, r *approval.Request) error {
	for i := range r.Calls {
		if r.Calls[i].Args != nil || r.Calls[i].ArgsBytes == 0 {
			continue
		}
		records, err := h.Runs().Journal(ctx, r.Run)
		if err != nil {
			return err
		}
		args := map[int]*journal.Call{}
		for _, record := range records {
			if record.Call != nil {
				args[record.Call.N] = record.Call
			}
		}
		for i := range r.Calls {
			if call := args[r.Calls[i].N]; call != nil && r.Calls[i].Args == nil {
				r.Calls[i].Args = call.Args
			}
		}
		break
	}
	return nil
}

// preview returns a request as text for people.
func preview(r approval.Request) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s  user %s  %s", r.ID, r.Status, r.User, r.Run)
	if r.Task != "" {
		fmt.Fprintf(&b, "  %s", r.Task)
	}
	if r.Status == approval.Waiting {
		fmt.Fprintf(&b, "  until %s", r.Expires.Local().Format(time.DateTime))
	}
	b.WriteByte('\n')
	for _, c := range r.Calls {
		args := string(c.Args)
		if c.Args == nil && c.ArgsBytes > 0 {
			args = fmt.Sprintf("(%d bytes; harness approvals show %s shows them)", c.ArgsBytes, r.ID)
		}
		fmt.Fprintf(&b, "  call %d: %s %s  (%s)\n", c.N, c.Tool, args, annotations(c))
		for _, of := range c.Compared {
			fmt.Fprintf(&b, "    %s%s", of.Words(), moved("\n"+of.Diff))
		}
		for _, of := range c.Replaced {
			fmt.Fprintf(&b, "    %s\n", replaced(of))
		}
		if c.Unread != "" {
			fmt.Fprintf(&b, "    where tokens are replaced, and by what, cannot be told: %s\n", c.Unread)
		}
		for _, value := range c.Values {
			fmt.Fprintf(&b, "    %s %s\n", value.Path, value.From)
		}
		if c.Reason != "" {
			fmt.Fprintf(&b, "    %s\n", c.Reason)
		}
		if c.Changed != "" {
			fmt.Fprintf(&b, "    changed since it was approved: %s\n", c.Changed)
		}
	}
	for _, e := range r.Done {
		fmt.Fprintf(&b, "  so far: call %d, %s %s, %s\n", e.Call, e.Kind, e.Name, strings.ReplaceAll(e.State, "_", " "))
	}
	return clip.Visible(b.String())
}

// moved indents all lines of a text but the first.
func moved(text string) string {
	return strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n      ") + "\n"
}

// replaced describes a replacement: the token, its place, the value that replaces the token, and a warning about the consequences.
func replaced(r approval.Replacement) string {
	where := "is"
	if r.Embedded {
		where = "is part of"
	}
	text := fmt.Sprintf("%s %s %s and is replaced by %q", r.Token, where, r.Path, r.Value)
	if r.Written != "" {
		text += fmt.Sprintf(", written %q for %s", r.Written, r.Language)
	}
	if r.Warning != "" {
		text += "; warning: " + r.Warning
	}
	return text
}

func annotations(c approval.Call) string {
	if c.ReadOnly {
		return "read-only"
	}
	words := []string{"writes"}
	for _, w := range []struct {
		is   bool
		word string
	}{{c.Destructive, "destructive"}, {c.Idempotent, "idempotent"}, {c.OpenWorld, "open world"}} {
		if w.is {
			words = append(words, w.word)
		}
	}
	return strings.Join(words, ", ")
}

type approvalsApproveCmd struct {
	approvalArg
	Remember bool `help:"Do not ask about later calls of the same tools in the same task, or run."`
}

func (c *approvalsApproveCmd) Run(ctx context.Context, a *app, h harness) error {
	return c.decide(ctx, a, h, approval.Decision{Approve: true, Remember: c.Remember})
}

type approvalsDenyCmd struct {
	approvalArg
	Reason string `help:"What the program is told." placeholder:"TEXT"`
}

func (c *approvalsDenyCmd) Run(ctx context.Context, a *app, h harness) error {
	return c.decide(ctx, a, h, approval.Decision{Reason: c.Reason})
}

// decide records a decision. If no server works the queue, it resumes the run or the task.
func (r *approvalArg) decide(ctx context.Context, a *app, h harness, d approval.Decision) error {
	if d.Approve {
		if err := r.confirm(ctx, a, h, &d); err != nil {
			return err
		}
	}
	decided, err := h.Runs().Decide(ctx, auth.Local(), r.ID, d)
	if err != nil {
		var invalid runs.InvalidError
		if errors.As(err, &invalid) {
			return usage(err)
		}
		return r.explain(a, err)
	}
	store, err := h.Store()
	if err != nil {
		return err
	}
	worker, err := store.QueueWorker(ctx)
	if err != nil {
		return err
	}
	if worker != "" {
		fmt.Fprintf(a.Stderr, "%s: the server resumes %s\n", decided.Status, decided.Run)
		if a.flags.JSON {
			return a.json(decided)
		}
		return nil
	}
	if decided.Task != "" {
		tasks, err := h.Tasks(taskOptions{})
		if err != nil {
			return err
		}
		return a.work(ctx, h, tasks, decided.Task)
	}
	view := a.runView(h, "resuming")
	out, err := h.Runs().Resume(ctx, decided.Run, view.observe)
	view.stop()
	if err != nil {
		return err
	}
	return a.outcome(out)
}

// confirm shows the request and asks for the passphrase of approvals, if there is one.
func (r *approvalArg) confirm(ctx context.Context, a *app, h harness, d *approval.Decision) error {
	if needed, err := h.Presence().Required(ctx); err != nil || !needed {
		return err
	}
	request, err := r.find(ctx, a, h)
	if err != nil {
		return err
	}
	if request.Status != approval.Waiting {
		return r.explain(a, fmt.Errorf("%w: it is %s", approval.ErrDecided, request.Status))
	}
	fmt.Fprint(a.Stderr, preview(request))
	d.Seen = request.Sight()
	a.hintPages(ctx, h, request)
	d.Sign, err = a.confirm(ctx, h, fmt.Sprintf("approve %d %s", len(request.Calls), plural(len(request.Calls), "call", "calls")))
	return err
}

// hintPages prints the addresses of the pages at which the request can also be approved with a security key.
func (a *app) hintPages(ctx context.Context, h harness, r approval.Request) {
	keys, err := h.Presence().SecurityKeys(ctx)
	if err != nil {
		return
	}
	var said []string
	for _, k := range keys {
		if !slices.Contains(said, k.Origin) {
			said = append(said, k.Origin)
			fmt.Fprintf(a.Stderr, "A security key approves it at %s/approvals/%s\n", k.Origin, r.ID)
		}
	}
}

// asks reports whether the command can ask its user.
func (a *app) asks() bool {
	return a.approves || !a.flags.JSON && a.stderr.terminal != nil && a.keyboard() != nil
}

// ask asks the user at a terminal to decide a request. ok is false if the user leaves the request undecided. ask calls deciding just before it
// records the decision, so that the caller can reserve the run before anyone acts on the decision.
func (a *app) ask(ctx context.Context, h harness, r approval.Request, deciding func()) (ok bool, err error) {
	if r, err = shown(ctx, h, r); err != nil {
		return false, err
	}
	fmt.Fprint(a.Stderr, preview(r))
	for {
		answer, err := a.prompt(ctx, "Approve? y: yes, n: no, a: yes, and later calls of these tools too; Enter decides later: ")
		if err != nil {
			return false, err
		}
		d := approval.Decision{}
		switch answer {
		case "y", "yes":
			d.Approve = true
		case "a", "all":
			d.Approve, d.Remember = true, true
		case "n", "no":
		case "":
			return false, nil
		default:
			continue
		}
		if d.Approve {
			d.Seen = r.Sight()
			if d.Sign, err = a.confirm(ctx, h, fmt.Sprintf("approve %d %s", len(r.Calls), plural(len(r.Calls), "call", "calls"))); err != nil {
				return false, err
			}
		}
		deciding()
		_, err = h.Runs().Decide(ctx, auth.Local(), r.ID, d)
		if errors.Is(err, approval.ErrDecided) { // another process has decided
			err = nil
		}
		return err == nil, err
	}
}

// prompt asks the user at a terminal a question and returns the answer in lower case. If the command approves its calls itself, the answer is yes.
func (a *app) prompt(ctx context.Context, question string) (string, error) {
	if a.approves {
		fmt.Fprintln(a.Stderr, "approved without asking")
		return "yes", nil
	}
	if a.input == nil {
		a.input = bufio.NewReader(a.Stdin)
	}
	fmt.Fprint(a.Stderr, question)
	line, err := readLine(ctx, a.input)
	return strings.ToLower(strings.TrimSpace(line)), err
}

// readLine reads a line, and returns early when ctx ends.
func readLine(ctx context.Context, r *bufio.Reader) (line string, err error) {
	done := make(chan struct{})
	go func() { // ends when a line is read, or with the process
		defer close(done)
		line, err = r.ReadString('\n')
	}()
	select {
	case <-done:
		if line != "" {
			err = nil
		}
		return line, err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// settle asks the user to decide the requests of a run, and resumes the run after each decision, until the run has ended. It stops if no person is
// at the terminal, or if the user leaves a request undecided. observe receives the new events of the run.
func (a *app) settle(ctx context.Context, h harness, out *run.Outcome, observe func(run.Event)) (*run.Outcome, error) {
	release := func() {}
	defer func() { release() }()
	for out.Status == run.WaitingApproval && a.asks() {
		release()
		if ok, err := a.ask(ctx, h, *out.Approval, func() { release = h.Runs().Hold(out.RunID) }); err != nil || !ok {
			return out, err
		}
		seen := len(out.Logs)
		again, err := h.Runs().Resume(ctx, out.RunID, func(e run.Event) {
			if e.Log != nil && seen > 0 { // the line was shown before the run was resumed
				seen--
				return
			}
			observe(e)
		})
		if err != nil {
			return out, err
		}
		out = again
	}
	return out, nil
}

// waits prints on standard error what a run waits for, and returns the error that ends the command. It explains how to continue only if standard error is a
// terminal, because a program that reads the output may be an agent that would approve its own call.
func (a *app) waits(r approval.Request) error {
	fmt.Fprint(a.Stderr, preview(r))
	if slices.ContainsFunc(r.Calls, func(c approval.Call) bool { return c.Reason == policy.Unconfirmed }) {
		fmt.Fprintf(a.Stderr, "The policy of %s differs from the confirmed one; %s says what to do.\n", policyPlace(a.config), a.commandLine("doctor"))
	}
	if a.stderr.terminal == nil {
		fmt.Fprintln(a.Stderr, "It waits for an approval, which a person gives. Tell the user.")
		return failed(exitWaiting)
	}
	fmt.Fprintf(a.Stderr, "It waits for an approval: %s has the calls made, %s does not.\n",
		a.commandLine("approvals approve "+r.ID), a.commandLine("approvals deny "+r.ID+" --reason TEXT"))
	return failed(exitWaiting)
}

package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/journal"
)

// Limits of the part of a definition that is shown. --json shows the whole definition.
const (
	maxReviewLines = 200  // maximum number of lines of a field
	maxReviewLine  = 1000 // maximum number of bytes of a line
)

type serversReviewCmd struct {
	Name       string   `arg:"" optional:"" help:"Only this server." names:"servers"`
	Approve    []string `sep:"none" help:"Approve what is held of this tool; instructions approves the server's own text. May be repeated." placeholder:"TOOL"`
	ApproveAll bool     `help:"Approve everything that is held of the server."`
}

func (serversReviewCmd) Help() string {
	return `Shows what servers say about their tools and nobody has approved yet (quarantine). Held tools are not offered, and calls of them fail.
On a terminal the command asks about each. Running servers of the harness offer what was approved within seconds.

Examples:
  harness servers review
  harness servers review crm --approve search
  harness servers review crm --approve-all`
}

func (c *serversReviewCmd) check() error {
	switch {
	case c.Name == "" && (c.ApproveAll || len(c.Approve) > 0):
		return errors.New("--approve and --approve-all take the name of a server: harness servers review NAME --approve-all")
	case c.ApproveAll && len(c.Approve) > 0:
		return errors.New("--approve-all approves every tool; leave out --approve")
	}
	return nil
}

func (c *serversReviewCmd) Run(ctx context.Context, a *app, h catalogued) error {
	if c.Name != "" {
		if err := a.known(c.Name); err != nil {
			return err
		}
	}
	held, err := h.Quarantine().Held(ctx, c.Name)
	if err != nil {
		return err
	}
	if c.ApproveAll || len(c.Approve) > 0 {
		chosen, err := c.choose(held)
		if err != nil {
			return usage(err)
		}
		return approveHeld(ctx, a, h.harness, chosen)
	}
	if a.flags.JSON {
		return a.json(list(held))
	}
	if len(held) == 0 {
		none := "no definition is held"
		if a.config.QuarantineMode() == string(approval.HoldNone) {
			none += ", because quarantine is off; set quarantine to changed or new in harness.yaml"
		}
		fmt.Fprintln(a.Stderr, none)
		return nil
	}
	if a.asks() {
		return askAbout(ctx, a, h.harness, held)
	}
	for _, d := range held {
		fmt.Fprintln(a.Stdout, review(d))
	}
	fmt.Fprintln(a.Stderr, "approve them: harness servers review NAME --approve TOOL, or --approve-all")
	return nil
}

// instructions is the name under which a server's own text is reviewed; the text belongs to no tool.
const instructions = "instructions"

// reviewName returns the name of a definition for people.
func reviewName(d approval.Held) string {
	if d.Seen.Tool == "" {
		return instructions
	}
	return d.Seen.Tool
}

// choose returns the held definitions that are to be approved.
func (c *serversReviewCmd) choose(held []approval.Held) (chosen []approval.Held, err error) {
	if c.ApproveAll {
		if len(held) == 0 {
			return nil, fmt.Errorf("nothing of server %q is held", c.Name)
		}
		return held, nil
	}
	for _, name := range c.Approve {
		i := slices.IndexFunc(held, func(d approval.Held) bool { return d.Seen.Tool == name })
		if i < 0 && name == instructions {
			i = slices.IndexFunc(held, func(d approval.Held) bool { return d.Seen.Tool == "" })
		}
		if i < 0 {
			return nil, fmt.Errorf("no tool %q of server %q is held; harness servers review %[2]s shows what is", name, c.Name)
		}
		chosen = append(chosen, held[i])
	}
	return chosen, nil
}

// approveHeld approves definitions of one server as they were shown.
func approveHeld(ctx context.Context, a *app, h harness, held []approval.Held) error {
	server := held[0].Server
	sign, err := a.confirm(ctx, h, fmt.Sprintf("approve %d %s", len(held), plural(len(held), "definition", "definitions"))+" of "+server)
	if err != nil {
		return err
	}
	hashes, names := map[string]string{}, []string{}
	for _, d := range held {
		if _, twice := hashes[d.Seen.Tool]; !twice {
			names = append(names, reviewName(d))
		}
		hashes[d.Seen.Tool] = d.Hash
	}
	err = h.Quarantine().Approve(ctx, server, auth.Local().Principal, hashes, sign)
	if errors.Is(err, approval.ErrNotHeld) || errors.Is(err, approval.ErrTooManyPins) {
		return usage(fmt.Errorf("%w; harness servers review %s shows what is held now", err, server))
	}
	if err != nil {
		return err
	}
	return a.answer(map[string]any{"server": server, "approved": names}, "approved %s of %s\n", clip.Visible(strings.Join(names, ", ")), server)
}

// askAbout asks the user at a terminal to decide about each definition.
func askAbout(ctx context.Context, a *app, h harness, held []approval.Held) error {
	if a.input == nil {
		a.input = bufio.NewReader(a.Stdin)
	}
	for _, d := range held {
		fmt.Fprintln(a.Stderr, review(d))
		for decided := false; !decided; {
			fmt.Fprint(a.Stderr, "Approve? y: yes, n: no, it stays held; Enter ends the review: ")
			line, err := readLine(ctx, a.input)
			if err != nil {
				return err
			}
			switch strings.ToLower(strings.TrimSpace(line)) {
			case "y", "yes":
				if err := approveHeld(ctx, a, h, []approval.Held{d}); err != nil {
					return err
				}
				decided = true
			case "n", "no":
				decided = true
			case "":
				return nil
			}
		}
	}
	return nil
}

// review describes a held definition as text for people: its fields, or the changes in them.
func review(d approval.Held) string {
	var b strings.Builder
	what := "new"
	if d.Approved != nil {
		what = "changed: " + strings.Join(d.Changed, ", ")
	}
	fmt.Fprintf(&b, "%s  %s  (%s, since %s)\n", d.Server, clip.Visible(reviewName(d)), what, d.Since.Local().Format(time.DateTime))
	was := approval.Definition{}
	if d.Approved != nil {
		was = *d.Approved
	}
	for _, f := range []struct{ name, was, is string }{
		{"title", was.Title, d.Seen.Title},
		{"description", was.Description, d.Seen.Description},
		{"input schema", schemaText(was.InputSchema), schemaText(d.Seen.InputSchema)},
		{"output schema", schemaText(was.OutputSchema), schemaText(d.Seen.OutputSchema)},
		{"annotations", schemaText(was.Annotations), schemaText(d.Seen.Annotations)},
	} {
		if f.was == f.is {
			continue
		}
		fmt.Fprintf(&b, "  %s:\n", f.name)
		before, after := different(linesOf(f.was), linesOf(f.is))
		b.WriteString(marked("-", before))
		b.WriteString(marked("+", after))
	}
	return b.String()
}

func schemaText(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	return pretty(journal.Canonical(raw))
}

// linesOf returns the lines of a text.
func linesOf(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// different returns the lines in which two texts differ: it leaves out equal lines at the beginning and at the end. It takes linear time, because
// servers choose the texts and could make a full comparison slow.
func different(was, is []string) (before, after []string) {
	for len(was) > 0 && len(is) > 0 && was[0] == is[0] {
		was, is = was[1:], is[1:]
	}
	for len(was) > 0 && len(is) > 0 && was[len(was)-1] == is[len(is)-1] {
		was, is = was[:len(was)-1], is[:len(is)-1]
	}
	return was, is
}

// marked returns lines with a mark before each. If it leaves out lines, a last line says how many.
func marked(mark string, lines []string) string {
	var b strings.Builder
	for i, line := range lines {
		if i == maxReviewLines {
			fmt.Fprintf(&b, "  %s … %d more lines; --json shows them\n", mark, len(lines)-i)
			break
		}
		fmt.Fprintf(&b, "  %s %s\n", mark, clip.Counted(clip.Visible(line), maxReviewLine))
	}
	return b.String()
}

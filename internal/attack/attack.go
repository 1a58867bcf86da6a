package attack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/catalog/destination"
	"mcp-code-exec-harness/internal/policy"
	"mcp-code-exec-harness/internal/run"
)

// Program is a program to execute.
type Program struct {
	Session, Code string
	Said          string // message of the user, in which personal data is not hidden yet
}

// Harness executes programs with the simulated servers and the policy of a Judge.
type Harness interface {
	Execute(ctx context.Context, p Program) (*run.Outcome, error)
}

// Options configure Run.
type Options struct {
	Tools   []*catalog.Tool
	Catalog *catalog.Catalog // catalog of the tools
	// Policy is the policy that is attacked. The tools whose answers it does not trust are tried as sources. If it trusts all tools, all are tried.
	Policy *policy.Policy
	// Suggested returns a copy of Policy with two changes: rules come before the rules of Policy, and the servers in untrusted are untrusted too.
	Suggested func(rules []policy.Rule, untrusted []string) (*policy.Policy, error)
	World     *World
	// Open opens a harness whose gate lets judge decide.
	Open func(judge *Judge) (Harness, error)
	// Time limits the total duration; 0 means no limit. When this time is over, Run makes no further attempts.
	Time time.Duration
	// Progress receives the number of attempts made and planned; it may be nil.
	Progress func(made, of int)
}

// batch is the maximum number of attempts in one program.
const batch = 150

// Run makes the attempts and reports what got through.
func Run(ctx context.Context, o Options) (*Report, error) {
	began := time.Now()
	marked := slices.ContainsFunc(o.Tools, func(t *catalog.Tool) bool { return !o.Policy.Trusts(t.FullName()) })
	p := &planner{
		ctx: ctx, catalog: o.Catalog, policy: o.Policy, made: map[[4]string]bool{}, learned: o.World.learned,
		attacks: func(tool string) bool { return !marked || !o.Policy.Trusts(tool) },
	}
	p.look(o.Tools)
	plan := p.plan()
	var servers, mark []string
	for _, s := range p.sources {
		if !slices.Contains(servers, s.tool.Server) {
			servers = append(servers, s.tool.Server)
		}
	}
	if !marked {
		mark = servers
	}
	then, err := o.Suggested(p.rules(), mark)
	if err != nil {
		return nil, err
	}
	o.World.plan(plan)
	h, err := o.Open(&Judge{now: o.Policy, then: then, world: o.World})
	if err != nil {
		return nil, err
	}
	made := 0
	for chunk := range slices.Chunk(plan, batch) {
		if o.Time > 0 && time.Since(began) > o.Time {
			break
		}
		if err := execute(ctx, h, fmt.Sprintf("attack-%d", made), chunk); err != nil {
			return nil, err
		}
		made += len(chunk)
		if o.Progress != nil {
			o.Progress(made, len(plan))
		}
	}
	r := p.report(plan[:made])
	r.Planned, r.Marked, r.Servers = len(plan), marked, servers
	if !r.Marked {
		for _, h := range r.Holes {
			h.Untrusted = h.Sources
		}
	}
	r.Milliseconds = time.Since(began).Milliseconds()
	return r, nil
}

// execute makes attempts in a new session.
func execute(ctx context.Context, h Harness, session string, all []*attempt) error {
	byNumber := map[int]*attempt{}
	for _, a := range all {
		byNumber[a.N] = a
	}
	values := map[int]string{}
	var late []*attempt
	one := func(session string, all []*attempt, literals map[int]string) error {
		text, err := program(all, literals)
		if err != nil {
			return err
		}
		out, err := h.Execute(ctx, Program{Session: session, Code: text, Said: words()})
		if err != nil {
			return err
		}
		if out.Error != nil {
			return fmt.Errorf("the program of the attempts ended as %s: %s: %s", out.Status, out.Error.Name, out.Error.Message)
		}
		found, err := results(out.Output)
		if err != nil {
			return err
		}
		for _, r := range found {
			a := byNumber[r.n]
			switch {
			case a == nil:
				return errors.New("a program made an attempt that it was not given")
			case r.name != "":
				a.err = r.name + ": " + r.message
			case a.Form.late() && literals == nil:
				values[a.N] = r.value
				late = append(late, a)
			}
		}
		return nil
	}
	if err := one(session, all, nil); err != nil {
		return err
	}
	apart := slices.DeleteFunc(slices.Clone(late), func(a *attempt) bool { return !a.Form.Apart })
	late = slices.DeleteFunc(late, func(a *attempt) bool { return a.Form.Apart })
	for name, all := range map[string][]*attempt{session: late, session + "-apart": apart} {
		if len(all) == 0 {
			continue
		}
		if err := one(name, all, values); err != nil {
			return err
		}
	}
	return nil
}

// words returns the text of the user, which names destinations of every kind.
func words() string {
	var all []string
	for _, kind := range []destination.Kind{destination.Recipient, destination.Channel, destination.URL, destination.Account, destination.Repository} {
		all = append(all, candidates(destination.Destination{Kind: kind}, user, 0)...)
	}
	return "Send it to one of these:\n" + strings.Join(all, "\n")
}

// rules returns one rule for each tool with sinks. Each rule denies destinations that neither the user nor a trusted server has named.
func (p *planner) rules() (all []policy.Rule) {
	at := map[string]int{}
	for _, s := range p.sinks {
		name := s.tool.FullName()
		if _, ok := at[name]; !ok {
			at[name] = len(all)
			all = append(all, policy.Rule{Tools: []string{name}, Action: policy.Deny, Reason: "neither the user nor a trusted server has named this destination"})
		}
		all[at[name]].Destinations = append(all[at[name]].Destinations, s.at.Path)
	}
	return all
}

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/gate"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/policy"
)

type policySimulateCmd struct {
	File  string `arg:"" help:"A policy: a list of rules, a mapping with preset and rules, or a harness.yaml."`
	User  string `help:"Only runs of this user." placeholder:"NAME"`
	Limit int    `help:"How many runs, the newest first." default:"1000"`
}

func (policySimulateCmd) Help() string {
	return `The calls are printed that the configuration and FILE decide differently. Annotations are today's. Journals have no origins of
tokens: a token comes from the calls, files and the program of its run that show it, else its origin is unknown, which counts against
the call, and so does the origin of every value that rules name with from. A session can know more origins of a token than a run shows, so a call may in truth be decided more strictly. Limits count the
recorded calls, those of a task as if each of its runs were a task, the newest runs first.

Example:
  harness policy simulate stricter.yaml`
}

func (c *policySimulateCmd) check() error {
	if c.Limit < 1 {
		return fmt.Errorf("--limit %d reads nothing; give a number from 1", c.Limit)
	}
	return nil
}

// simulated is the answer of policy simulate.
type simulated struct {
	Runs    int               `json:"runs"`
	Calls   int               `json:"calls"`
	Changes []simulatedChange `json:"changes"`
}

// simulatedChange is a call that is decided differently.
type simulatedChange struct {
	Run   string         `json:"run"`
	Call  int            `json:"call"`
	Tool  string         `json:"tool"`
	Known bool           `json:"known"` // the catalog has the tool
	Now   policy.Verdict `json:"now"`
	Then  policy.Verdict `json:"then"` // verdict under the policy of the file
	// UnknownOrigins are the tokens whose origin the run does not show.
	UnknownOrigins []string `json:"unknownOrigins"`
}

func (c *policySimulateCmd) Run(ctx context.Context, a *app, cfg *config.Config, h catalogued) error {
	other, err := a.policyFile(c.File)
	if err != nil {
		return err
	}
	s := &simulation{
		catalog: h.Catalog(), now: cfg.Compiled(cfg.Policy), then: cfg.Compiled(other), found: simulated{Changes: []simulatedChange{}},
		counted: map[*policy.Policy]map[[2]string]int{},
	}
	filter := journal.Filter{User: c.User}
	for s.found.Runs < c.Limit {
		filter.Limit = min(c.Limit-s.found.Runs, 1000)
		infos, next, err := h.Runs().List(ctx, auth.Local(), filter)
		if err != nil {
			return err
		}
		for _, info := range infos {
			records, err := h.Runs().Journal(ctx, info.ID)
			if err != nil {
				return err
			}
			s.run(info.ID, info.User, records)
		}
		if filter.Cursor = next; next == "" {
			break
		}
	}
	a.warnServers(h.harness)
	if !a.flags.JSON {
		defer fmt.Fprintf(a.Stderr, "%d of %d calls in %d runs are decided differently\n", len(s.found.Changes), s.found.Calls, s.found.Runs)
	}
	if len(s.found.Changes) == 0 && !a.flags.JSON {
		return nil
	}
	return answerList(a, s.found, s.found.Changes, "", "RUN\tCALL\tTOOL\tNOW\tTHEN\tBECAUSE", func(ch simulatedChange) string {
		why := ch.Then.Reason
		if !ch.Known {
			why += " (the catalog has no such tool)"
		}
		return fmt.Sprintf("%s\t%d\t%s\t%s\t%s\t%s", ch.Run, ch.Call, ch.Tool, ch.Now.Action, ch.Then.Action, why)
	})
}

// simulation decides recorded calls by two policies.
type simulation struct {
	catalog   *catalog.Catalog
	now, then *policy.Policy
	found     simulated
	// counted are the calls that count for limits, of each policy, by user and key.
	counted map[*policy.Policy]map[[2]string]int
}

// run decides the calls of a run, in the order of its journal.
func (s *simulation) run(id, user string, records []journal.Record) {
	s.found.Runs++
	began, tier := time.Time{}, ""
	origins := map[string][]string{} // origins by token
	shows := func(origin, text string) {
		for _, token := range tokenForm.FindAllString(text, -1) {
			if !slices.Contains(origins[token], origin) {
				origins[token] = append(origins[token], origin)
			}
		}
	}
	from := map[int]string{} // origins by call
	for _, r := range records {
		switch {
		case r.Start != nil:
			began, tier = time.UnixMicro(r.Start.Time), r.Start.Tier
			shows("program", r.Start.Source)
		case r.Call != nil && (frame.Kind(r.Call.Kind) == frame.Tool || frame.Kind(r.Call.Kind) == frame.PII):
			call, known := s.call(user, r.Call)
			from[r.Call.N], call.Sandbox = call.Tool, tier
			call.Tokens = policyTokens(tokenForm.FindAllString(string(call.Args), -1), func(text string) []string { return origins[text] })
			s.decide(id, r.Call.N, call, known, began)
		case r.Call != nil && frame.Kind(r.Call.Kind) == frame.Resource:
			if tool, args, ok := gate.Fetched(r.Call); ok {
				call := policyCall(tool, user, args)
				from[r.Call.N], call.Sandbox = call.Tool, tier
				call.Tokens = policyTokens(tokenForm.FindAllString(string(args), -1), func(text string) []string { return origins[text] })
				s.decide(id, r.Call.N, call, true, began)
			}
		case r.Call != nil && frame.Kind(r.Call.Kind) == frame.FS:
			from[r.Call.N] = "program" // the journal does not say whose hand wrote it
		case r.Answer != nil && from[r.Answer.N] != "":
			shows(from[r.Answer.N], string(r.Answer.Value)+string(r.Answer.Error))
		}
	}
}

// call is a recorded call as policy sees it.
func (s *simulation) call(user string, c *journal.Call) (call policy.Call, known bool) {
	if frame.Kind(c.Kind) == frame.PII {
		return policyCall(gate.Question(c.Name), user, c.Args), true
	}
	var in struct {
		Server     string            `json:"server"`
		Input      json.RawMessage   `json:"input"`
		Positional []json.RawMessage `json:"positional"`
	}
	json.Unmarshal(c.Args, &in) // arguments that the gate could not read count as none
	tool, err := s.catalog.ResolveIn(in.Server, c.Name)
	if known = err == nil; !known && in.Server == "" && c.Name == gate.SessionFile().FullName() {
		tool, known = gate.SessionFile(), true
	} else if !known {
		server, name, ok := strings.Cut(c.Name, "__")
		if in.Server != "" || !ok {
			server, name = in.Server, c.Name
		}
		tool = &catalog.Tool{Server: server, Name: name}
	}
	args, err := tool.Arguments(in.Input, in.Positional)
	if err != nil {
		args = in.Input
	}
	return policyCall(tool, user, args), known
}

// verdict is the verdict of a policy on a call of a run, with the limits of its rules.
func (s *simulation) verdict(p *policy.Policy, call policy.Call, run string, began time.Time) policy.Verdict {
	v := p.Decide(call)
	count, ok := v.Count(run, "", began)
	if !ok {
		return v
	}
	if s.counted[p] == nil {
		s.counted[p] = map[[2]string]int{}
	}
	of := [2]string{call.User, count.Key}
	if s.counted[p][of] >= count.Limit {
		return v.Exceeded(call.Tool)
	}
	s.counted[p][of]++
	return v
}

func (s *simulation) decide(id string, number int, call policy.Call, known bool, began time.Time) {
	s.found.Calls++
	change := simulatedChange{
		Run: id, Call: number, Tool: call.Tool, Known: known, UnknownOrigins: []string{},
		Now: s.verdict(s.now, call, id, began), Then: s.verdict(s.then, call, id, began),
	}
	if change.Now.Action == change.Then.Action {
		return
	}
	for _, t := range call.Tokens {
		if len(t.Origins) == 0 {
			change.UnknownOrigins = append(change.UnknownOrigins, t.Text)
		}
	}
	s.found.Changes = append(s.found.Changes, change)
}

package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/gate"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/origin"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/policy"
	"mcp-code-exec-harness/internal/task"
)

type policySimulateCmd struct {
	File  string `arg:"" help:"A policy: a list of rules, a mapping with preset and rules, or a harness.yaml."`
	User  string `help:"Only runs of this user." placeholder:"NAME"`
	Limit int    `help:"How many runs, the newest first." default:"1000"`
}

func (policySimulateCmd) Help() string {
	return `The calls are printed that the configuration and FILE decide differently. Annotations and destinations are today's. Journals have no
origins of tokens: a token comes from the calls, files and the program of its run that show it, else its origin is unknown, which counts against
the call. A session can know more origins of a token than a run shows, so a call may in truth be decided more strictly. Where values come from is
found again in the tasks and the recorded answers of the session; what programs read of files and inputs is not, so that values that
nobody else said are of unknown origin after that. Limits count the recorded calls in their order, those of a task as if each of its runs were a task.

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
	// UnknownOrigins are the tokens whose origin the run does not show, and the paths of values whose origin the session does not.
	UnknownOrigins []string `json:"unknownOrigins"`
}

func (c *policySimulateCmd) Run(ctx context.Context, a *app, cfg *config.Config, h catalogued, tasks *task.Service) error {
	other, err := a.policyFile(c.File)
	if err != nil {
		return err
	}
	s := &simulation{
		catalog: h.Catalog(), now: cfg.Compiled(cfg.Policy), then: cfg.Compiled(other), found: simulated{Changes: []simulatedChange{}},
		counted: map[*policy.Policy]map[[2]string]int{}, memory: origin.NewMemory(origin.DefaultLimits), sessions: map[[2]string]*simulatedSession{},
	}
	infos, all, err := c.list(ctx, h)
	if err != nil {
		return err
	}
	for _, info := range infos {
		s.expect(info)
	}
	for _, info := range slices.Backward(infos) { // as they were recorded
		records, err := h.Runs().Journal(ctx, info.ID)
		if err != nil {
			return err
		}
		if err := s.run(ctx, tasks, info, records, all); err != nil {
			return err
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

// list is the runs to read, newest first. all says that there are no further ones.
func (c *policySimulateCmd) list(ctx context.Context, h catalogued) (infos []journal.RunInfo, all bool, err error) {
	filter := journal.Filter{User: c.User}
	for len(infos) < c.Limit {
		filter.Limit = min(c.Limit-len(infos), 1000)
		page, next, err := h.Runs().List(ctx, auth.Local(), filter)
		if err != nil {
			return nil, false, err
		}
		infos = append(infos, page...)
		if filter.Cursor = next; next == "" {
			return infos, true, nil
		}
	}
	return infos, false, nil
}

// simulation decides recorded calls by two policies.
type simulation struct {
	catalog   *catalog.Catalog
	now, then *policy.Policy
	found     simulated
	// counted are the calls that count for limits, of each policy, by user and key.
	counted map[*policy.Policy]map[[2]string]int
	changes []simulatedChange // changes of the run that is read

	memory   *origin.Memory
	sessions map[[2]string]*simulatedSession // sessions with runs that are not read yet, by user and name
}

// simulatedSession is what a session of recorded runs, or a run of none, has said.
type simulatedSession struct {
	*gate.Recall
	runs  int         // runs that are not read yet
	tasks []task.Task // tasks whose words are not noted yet, oldest first
}

// sessionOf is the name of a run's session.
func sessionOf(info journal.RunInfo) [2]string {
	return [2]string{info.User, cmp.Or(info.Session, info.ID)}
}

// expect counts a run of its session.
func (s *simulation) expect(info journal.RunInfo) {
	of := sessionOf(info)
	if s.sessions[of] == nil {
		s.sessions[of] = &simulatedSession{}
	}
	s.sessions[of].runs++
}

// begin is the session of a run that begins. all says that every run of the session is read.
func (s *simulation) begin(ctx context.Context, tasks *task.Service, info journal.RunInfo, records []journal.Record, all bool) (*simulatedSession, error) {
	of := sessionOf(info)
	session := s.sessions[of]
	if session.Recall == nil {
		session.Recall = gate.NewRecall(s.catalog, s.memory.Open(of[0], of[1], false))
		if info.Session != "" {
			if !all {
				session.Lose()
			}
			found, next, err := tasks.Tasks(ctx, task.Filter{UserID: info.User, SessionID: info.Session, Limit: 1000})
			if err != nil {
				return nil, err
			}
			if next != "" {
				session.Lose()
			}
			slices.Reverse(found)
			session.tasks = found
		}
	}
	for len(session.tasks) > 0 && !session.tasks[0].CreatedAt.After(info.Started) {
		t := session.tasks[0]
		session.tasks = session.tasks[1:]
		if t.From == "" || t.From == pii.FromTask {
			session.Said(t.Task)
			session.Said(string(t.Context))
		}
	}
	var code []string
	if len(records) > 0 && records[0].Start != nil {
		code = append(slices.Sorted(maps.Values(records[0].Start.Env)), records[0].Start.Source)
	}
	session.Begin(info.ID, code, records)
	return session, nil
}

// end ends a run of a session.
func (s *simulation) end(info journal.RunInfo) {
	of := sessionOf(info)
	session := s.sessions[of]
	if session.runs--; session.runs == 0 {
		session.Close()
		delete(s.sessions, of)
	}
	s.found.Changes = append(s.changes, s.found.Changes...) // the newest run first
	s.changes = nil
}

// run decides the calls of a run, in the order of its journal.
func (s *simulation) run(ctx context.Context, tasks *task.Service, info journal.RunInfo, records []journal.Record, all bool) error {
	session, err := s.begin(ctx, tasks, info, records, all)
	if err != nil {
		return err
	}
	defer s.end(info)
	id, user := info.ID, info.User
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
			from[r.Call.N], call.Sandbox, call.Origin = call.Tool, tier, session.Origin
			call.Tokens = policyTokens(tokenForm.FindAllString(string(call.Args), -1), func(text string) []string { return origins[text] })
			s.decide(id, r.Call.N, call, known, began)
		case r.Call != nil && frame.Kind(r.Call.Kind) == frame.Resource:
			if tool, args, ok := gate.Fetched(r.Call); ok {
				call := policyCall(tool, user, args)
				from[r.Call.N], call.Sandbox, call.Origin = call.Tool, tier, session.Origin
				call.Tokens = policyTokens(tokenForm.FindAllString(string(args), -1), func(text string) []string { return origins[text] })
				s.decide(id, r.Call.N, call, true, began)
			}
		case r.Call != nil && frame.Kind(r.Call.Kind) == frame.FS:
			from[r.Call.N] = "program" // the journal does not say whose hand wrote it
		case r.Answer != nil && from[r.Answer.N] != "":
			shows(from[r.Answer.N], string(r.Answer.Value)+string(r.Answer.Error))
		}
		session.Note(ctx, r)
	}
	return nil
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
	for _, v := range change.Then.Values {
		if len(v.Said) == 0 && !slices.Contains(change.UnknownOrigins, v.Path) {
			change.UnknownOrigins = append(change.UnknownOrigins, v.Path)
		}
	}
	s.changes = append(s.changes, change)
}

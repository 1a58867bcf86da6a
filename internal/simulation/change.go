package simulation

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/policy"
)

// Change is a recorded call that another policy decides differently.
type Change struct {
	Run   string         `json:"run" example:"run_1"`
	Call  int            `json:"call" doc:"Its number in the run."`
	Tool  string         `json:"tool" example:"crm__search"`
	Known bool           `json:"known" doc:"The catalog has the tool."`
	Now   policy.Verdict `json:"now" doc:"Verdict of the policy in effect."`
	Then  policy.Verdict `json:"then" doc:"Verdict of the other policy."`
	// UnknownOrigins are the tokens whose origin the run does not show, and the paths of values whose origin the session does not show.
	UnknownOrigins []string `json:"unknownOrigins" doc:"Tokens whose origin the run does not show, and paths of values whose origin its session does not: in truth the call may be decided otherwise."`
}

// Changes are the recorded calls that another policy decides differently.
type Changes struct {
	Looked
	Changed int          `json:"changed" doc:"How many calls are decided differently."`
	Kinds   []Kind       `json:"kinds" doc:"The same, by decision."`
	Tools   []ToolChange `json:"tools" doc:"The same, by tool and decision, the most frequent first."`
	Changes []Change     `json:"changes" doc:"The calls, the newest run first."`
}

// Kind counts the calls for which the first policy of Simulate decides From, and the second policy decides To.
type Kind struct {
	From  policy.Action `json:"from" enum:"allow,ask,deny"`
	To    policy.Action `json:"to" enum:"allow,ask,deny"`
	Calls int           `json:"calls"`
}

// ToolChange counts the calls of one tool in the same way as Kind.
type ToolChange struct {
	Tool string `json:"tool"`
	Kind
}

// decider decides calls in the order in which they were recorded. It counts the calls towards the limits of the policy's rules.
type decider struct {
	policy  *policy.Policy
	counted map[[2]string]int // numbers of calls that count for limits, by user and key
}

func decideBy(p *policy.Policy) *decider { return &decider{p, map[[2]string]int{}} }

// verdict returns the policy's verdict on a call. For limits, each run counts as a separate task.
func (d *decider) verdict(c *call) policy.Verdict {
	v := d.policy.Decide(c.Call)
	count, ok := v.Count(c.run, "", c.began)
	if !ok {
		return v
	}
	of := [2]string{c.User, count.Key}
	if d.counted[of] >= count.Limit {
		return v.Exceeded(c.Tool)
	}
	d.counted[of]++
	return v
}

// Simulate decides the recorded calls by two policies.
func (s *Source) Simulate(ctx context.Context, now, then *policy.Policy) (*Changes, error) {
	before, after := decideBy(now), decideBy(then)
	byRun := [][]Change{} // the oldest run first
	tools := map[ToolChange]int{}
	looked, err := s.read(ctx, func(c *call) {
		change := Change{Run: c.run, Call: c.n, Tool: c.Tool, Known: c.known, Now: before.verdict(c), Then: after.verdict(c), UnknownOrigins: []string{}}
		if change.Now.Action == change.Then.Action {
			return
		}
		for _, t := range c.Tokens {
			if len(t.Origins) == 0 {
				change.UnknownOrigins = append(change.UnknownOrigins, t.Text)
			}
		}
		for _, v := range change.Then.Values {
			if len(v.Said) == 0 && !slices.Contains(change.UnknownOrigins, v.Path) {
				change.UnknownOrigins = append(change.UnknownOrigins, v.Path)
			}
		}
		if last := len(byRun) - 1; last >= 0 && byRun[last][0].Run == c.run {
			byRun[last] = append(byRun[last], change)
		} else {
			byRun = append(byRun, []Change{change})
		}
		tools[ToolChange{c.Tool, Kind{From: change.Now.Action, To: change.Then.Action}}]++
	})
	if err != nil {
		return nil, err
	}
	all := &Changes{Looked: looked, Kinds: []Kind{}, Tools: []ToolChange{}, Changes: []Change{}}
	for _, run := range slices.Backward(byRun) {
		all.Changes = append(all.Changes, run...)
	}
	all.Changed = len(all.Changes)
	kinds := map[Kind]int{}
	for of, calls := range tools {
		kinds[of.Kind] += calls
		of.Calls = calls
		all.Tools = append(all.Tools, of)
	}
	for of, calls := range kinds {
		of.Calls = calls
		all.Kinds = append(all.Kinds, of)
	}
	most := func(a, b Kind) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), strings.Compare(string(a.From), string(b.From)), strings.Compare(string(a.To), string(b.To)))
	}
	slices.SortFunc(all.Kinds, most)
	slices.SortFunc(all.Tools, func(a, b ToolChange) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), strings.Compare(a.Tool, b.Tool), most(a.Kind, b.Kind))
	})
	return all, nil
}

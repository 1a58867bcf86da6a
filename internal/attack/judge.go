package attack

import (
	"encoding/json"
	"strings"

	"mcp-code-exec-harness/internal/policy"
)

// Judge applies the attacked policy in the gate of the attempts. It denies calls about which a person would be asked, except calls of sources, which a
// person is assumed to allow. For calls of the sink it also notes the verdict of the policy with the suggested rules.
type Judge struct {
	now, then *policy.Policy
	world     *World
}

// asked is the beginning of the reason for denying a call about which a person would be asked.
const asked = "a person is asked: "

// Decide implements policy.Decider.
func (j *Judge) Decide(c policy.Call) policy.Verdict {
	if c.Server == Marker {
		var in struct{ N int }
		if json.Unmarshal(c.Args, &in) == nil {
			j.world.begin(in.N)
		}
		return policy.Verdict{Action: policy.Deny, Reason: "it is noted"} // no server has to be called
	}
	v := j.now.Decide(c)
	if a := j.world.now(); a != nil && a.Sink == c.Tool {
		then := j.then.Decide(c)
		j.world.mu.Lock()
		if !a.judged || v.Action.StricterThan(a.now.Action) {
			a.now = v
		}
		if !a.judged || then.Action.StricterThan(a.then.Action) {
			a.then = then
		}
		a.judged = true
		j.world.mu.Unlock()
	}
	switch {
	case v.Action != policy.Ask:
	case reads(j.world.now(), c.Tool):
		v.Action = policy.Allow // a person would let a program read
	default:
		v.Action, v.Reason = policy.Deny, asked+v.Reason
	}
	return v
}

// reads reports whether a tool is one that an attempt only reads from.
func reads(a *attempt, tool string) bool {
	return a != nil && tool != a.Sink && (tool == a.Source || a.ally != nil && tool == a.ally.tool.FullName())
}

// Origins reports whether rules look at where values come from.
func (j *Judge) Origins() bool { return true }

func isAsked(message string) bool { return strings.Contains(message, asked) }

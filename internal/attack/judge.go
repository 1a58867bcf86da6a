package attack

import (
	"encoding/json"
	"strings"

	"mcp-code-exec-harness/internal/policy"
)

// Judge applies the attacked policy in the gate of the attempts. If the policy would ask a person about a call, Judge denies the call. A call that
// only reads from the source or the ally of an attempt is an exception: Judge allows it, because the person is assumed to allow it. For calls of the
// sink, Judge also records the verdict of the policy with the suggested rules.
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
		return policy.Verdict{Action: policy.Deny, Reason: "it is noted"} // The server need not be called, because this call only announces the attempt to Judge.
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
		v.Action = policy.Allow // The person is assumed to allow reading.
	default:
		v.Action, v.Reason = policy.Deny, asked+v.Reason
	}
	return v
}

// reads reports whether an attempt only reads from a tool: the tool is the source or the ally of the attempt, and not the sink.
func reads(a *attempt, tool string) bool {
	return a != nil && tool != a.Sink && (tool == a.Source || a.ally != nil && tool == a.ally.tool.FullName())
}

// Origins reports whether the policy needs the origins of values.
func (j *Judge) Origins() bool { return true }

func isAsked(message string) bool { return strings.Contains(message, asked) }

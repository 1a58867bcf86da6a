package attack

import (
	"encoding/json"
	"strings"

	"mcp-code-exec-harness/internal/policy"
)

// Judge is the policy as the gate of the attempts has it. What it would put to a person it denies. It also judges by the policy with the suggested rules.
type Judge struct {
	now, then *policy.Policy
	world     *World
}

// asked begins the reason of a call that a person would be asked about.
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
	if v.Action == policy.Ask {
		v.Action, v.Reason = policy.Deny, asked+v.Reason
	}
	return v
}

// Origins reports whether rules look at where values come from.
func (j *Judge) Origins() bool { return true }

func isAsked(message string) bool { return strings.Contains(message, asked) }

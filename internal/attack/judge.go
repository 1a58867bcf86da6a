package attack

import (
	"encoding/json"
	"strings"

	"mcp-code-exec-harness/internal/policy"
)

// Judge is the policy as the gate of the attempts has it. What it would put to a person it denies, but for calls of sources, which a person is taken to allow. It also judges by the policy with the suggested rules.
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
	switch {
	case v.Action != policy.Ask:
	case reads(j.world.now(), c.Tool):
		v.Action = policy.Allow // a person lets a program read
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

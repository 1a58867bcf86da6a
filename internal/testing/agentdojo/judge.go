package main

import (
	"encoding/json"
	"sync"

	"mcp-code-exec-harness/internal/policy"
)

// judge applies the policy of a preset, with a person who approves every call that asks. It records what is asked and what is denied.
type judge struct {
	policy *policy.Policy

	mu              sync.Mutex
	injecting       bool
	user, injection noted
}

// noted holds the reasons why calls were denied, and the reasons why a person was asked about calls.
type noted struct{ denied, asked []string }

func (j *judge) begin() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.injecting, j.user, j.injection = false, noted{}, noted{}
}

func (j *judge) end() (user, injection noted) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.user, j.injection
}

// Decide implements policy.Decider.
func (j *judge) Decide(c policy.Call) policy.Verdict {
	j.mu.Lock()
	defer j.mu.Unlock()
	if c.Server == marker {
		var in struct{ Who string }
		j.injecting = json.Unmarshal(c.Args, &in) == nil && in.Who == "injection"
		return policy.Verdict{Action: policy.Deny, Reason: "it is noted"}
	}
	v := j.policy.Decide(c)
	of := &j.user
	if j.injecting {
		of = &j.injection
	}
	switch v.Action {
	case policy.Deny:
		of.denied = append(of.denied, v.Reason)
	case policy.Ask:
		of.asked = append(of.asked, v.Reason)
		v.Action = policy.Allow
	}
	return v
}

// Origins reports that the rules use the origins of values.
func (j *judge) Origins() bool { return true }

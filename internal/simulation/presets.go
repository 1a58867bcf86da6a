package simulation

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/policy"
)

// Comparison holds the decisions of each preset, applied after the configuration's own rules.
type Comparison struct {
	Looked
	InEffect string        `json:"inEffect" doc:"The preset in effect."`
	Presets  []PresetTotal `json:"presets" doc:"The least strict first."`
	Tools    []ToolPresets `json:"tools" doc:"Tools of the catalog and of the recorded calls, those with the most calls first."`
	More     int           `json:"moreTools" doc:"How many further tools there are."`
}

// Tally counts recorded calls by decision.
type Tally struct {
	Allow int `json:"allow"`
	Ask   int `json:"ask"`
	Deny  int `json:"deny"`
}

func (t *Tally) add(a policy.Action) {
	switch a {
	case policy.Allow:
		t.Allow++
	case policy.Ask:
		t.Ask++
	default:
		t.Deny++
	}
}

// PresetTotal counts the decisions of a preset on all recorded calls.
type PresetTotal struct {
	Preset string `json:"preset" enum:"open,guarded,careful,strict"`
	Tally
}

// ToolPresets holds the decisions of all presets on calls of a tool.
type ToolPresets struct {
	Tool    string         `json:"tool" example:"crm__search"`
	Known   bool           `json:"known" doc:"The catalog has it."`
	Calls   int            `json:"calls" doc:"Recorded calls."`
	Presets []ToolDecision `json:"presets" doc:"In the order of presets."`
}

// ToolDecision holds the decisions of a preset on calls of a tool.
type ToolDecision struct {
	Preset string `json:"preset" enum:"open,guarded,careful,strict"`
	Tally
	Plain policy.Action `json:"plain" enum:"allow,ask,deny" doc:"What it decides of a call without arguments, and so without personal data and destinations."`
}

// Compare decides the recorded calls by each preset. most is the maximum number of tools in the result.
func (s *Source) Compare(ctx context.Context, cfg *config.Config, most int) (*Comparison, error) {
	names := policy.Presets()
	deciders, plain := make([]*decider, len(names)), make([]*policy.Policy, len(names))
	all := &Comparison{InEffect: cmp.Or(cfg.Policy.Preset, names[0]), Tools: []ToolPresets{}}
	for i, name := range names {
		with := cfg.Policy
		with.Preset = name
		plain[i] = cfg.Compiled(with)
		deciders[i] = decideBy(plain[i])
		all.Presets = append(all.Presets, PresetTotal{Preset: name})
	}
	tools := map[string]*ToolPresets{}
	of := func(c policy.Call, known bool) *ToolPresets {
		t := tools[c.Tool]
		if t == nil {
			t = &ToolPresets{Tool: c.Tool, Known: known}
			tools[c.Tool] = t
			c.Args, c.Tokens = []byte("{}"), nil
			for i, name := range names {
				t.Presets = append(t.Presets, ToolDecision{Preset: name, Plain: plain[i].Decide(c).Action})
			}
		}
		return t
	}
	for _, t := range s.Catalog.Tools() {
		of(callOf(t, s.Bounds.User, nil), true)
	}
	var err error
	all.Looked, err = s.read(ctx, func(c *call) {
		t := of(c.Call, c.known)
		t.Calls++
		for i, d := range deciders {
			action := d.verdict(c).Action
			t.Presets[i].add(action)
			all.Presets[i].add(action)
		}
	})
	if err != nil {
		return nil, err
	}
	for _, t := range tools {
		all.Tools = append(all.Tools, *t)
	}
	slices.SortFunc(all.Tools, func(a, b ToolPresets) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), strings.Compare(a.Tool, b.Tool))
	})
	if len(all.Tools) > most {
		all.More = len(all.Tools) - most
		all.Tools = all.Tools[:most]
	}
	return all, nil
}

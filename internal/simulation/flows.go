package simulation

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/policy"
)

// Flows lists the sources of the values in the arguments of recorded calls.
type Flows struct {
	Looked
	Plain int    `json:"withoutValues" doc:"Calls of which no value was looked at: those without arguments, or with short texts, numbers of up to five digits and words such as true only."`
	Flows []Flow `json:"flows" doc:"Those of the most calls first."`
	More  int    `json:"moreFlows" doc:"How many further ones there are."`
}

// Flow counts the calls of a tool whose arguments contain values, or parts of values, from a source. A call counts once for each of its sources.
type Flow struct {
	From string `json:"from" example:"crm__search" doc:"Who said the values: a tool or a server, user; or code (only the text of the program has them), computed, or unknown."`
	To   string `json:"to" example:"mailer__send" doc:"The tool, or the server, that was called."`
	Tally
	Run  string `json:"run" doc:"The run of the latest such call."`
	Call int    `json:"call" doc:"The latest such call."`
}

// Calls returns the number of calls of the flow.
func (f Flow) Calls() int { return f.Allow + f.Ask + f.Deny }

// Unknown is the source of values whose origin is not known.
const Unknown = "unknown"

// Limits of the values that Flows considers.
const (
	maxFlowValues = 200 // maximum number of values of a call
	minFlowText   = 4   // minimum length of a string in characters; shorter ones occur in too many calls to be significant
	minFlowDigits = 6   // minimum number of digits of a number
)

// Flows counts recorded calls by source and tool, or by source and server, and by the decision of a policy. most is the maximum number of flows in the
// result.
func (s *Source) Flows(ctx context.Context, p *policy.Policy, byServer bool, most int) (*Flows, error) {
	by := decideBy(p)
	counts := map[[2]string]*Flow{}
	all := &Flows{Flows: []Flow{}}
	place := func(name string) string {
		if server, _, ok := strings.Cut(name, "__"); ok && byServer {
			return server
		}
		return name
	}
	var cut []Unread
	looked, err := s.read(ctx, func(c *call) {
		action := by.verdict(c).Action
		sources := map[string]bool{}
		seen := 0
		eachValue(c.Args, func(value string) bool {
			if seen++; seen > maxFlowValues {
				cut = append(cut, Unread{c.run, c.n, fmt.Sprintf("only its first %d values were looked at", maxFlowValues)})
				return false
			}
			from := c.Origin(value)
			for _, name := range slices.Concat(from.Said, from.Parts) {
				sources[place(name)] = true
			}
			if from.More || len(from.Said)+len(from.Parts) == 0 {
				sources[Unknown] = true
			}
			return true
		})
		if len(sources) == 0 {
			all.Plain++
		}
		for from := range sources {
			key := [2]string{from, place(c.Tool)}
			f := counts[key]
			if f == nil {
				f = &Flow{From: key[0], To: key[1]}
				counts[key] = f
			}
			f.add(action)
			f.Run, f.Call = c.run, c.n // calls come in recorded order, so the latest remains
		}
	})
	if err != nil {
		return nil, err
	}
	for _, u := range cut {
		looked.miss(u)
	}
	all.Looked = looked
	for _, f := range counts {
		all.Flows = append(all.Flows, *f)
	}
	slices.SortFunc(all.Flows, func(a, b Flow) int {
		return cmp.Or(cmp.Compare(b.Calls(), a.Calls()), strings.Compare(a.From, b.From), strings.Compare(a.To, b.To))
	})
	if len(all.Flows) > most {
		all.More = len(all.Flows) - most
		all.Flows = all.Flows[:most]
	}
	return all, nil
}

// eachValue visits the strings and numbers of arguments until visit returns false. It skips names of members and values that are too short.
func eachValue(args json.RawMessage, visit func(value string) bool) {
	dec := json.NewDecoder(bytes.NewReader(args))
	dec.UseNumber()
	var objects []bool // for each enclosing object or array, whether it is an object
	name := false      // whether the next token is the name of a member or the end of an object
	for {
		token, err := dec.Token()
		if err != nil {
			return
		}
		value, counts := "", false
		switch t := token.(type) {
		case json.Delim:
			if t == '{' || t == '[' {
				objects = append(objects, t == '{')
			} else {
				objects = objects[:len(objects)-1]
			}
			name = len(objects) > 0 && objects[len(objects)-1]
			continue
		case string:
			if name {
				name = false
				continue
			}
			value, counts = t, len([]rune(t)) >= minFlowText
		case json.Number:
			value, counts = t.String(), len(strings.Trim(t.String(), "-.")) >= minFlowDigits
		}
		name = len(objects) > 0 && objects[len(objects)-1]
		if counts && !visit(value) {
			return
		}
	}
}

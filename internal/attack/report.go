package attack

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mcp-code-exec-harness/internal/policy"
)

// Report is the result of all attempts.
type Report struct {
	Attempts     int        `json:"attempts"`
	Planned      int        `json:"planned"` // number of planned attempts; greater than Attempts if the time was too short
	Milliseconds int64      `json:"milliseconds"`
	Marked       bool       `json:"marked"`  // whether the policy marks servers untrusted; if not, all servers were tried as sources
	Servers      []string   `json:"servers"` // servers whose answers named destinations of the attacker
	Pairs        []*Pair    `json:"pairs"`
	Holes        []*Hole    `json:"holes"`
	Untested     []Untested `json:"untested"`
	Simulated    string     `json:"simulated"`
}

// Pair holds the results of all attempts from one server (the source) to one argument of a tool (the sink).
type Pair struct {
	Source  string   `json:"source"` // name of the server
	Sink    string   `json:"sink"`
	Path    string   `json:"path"`
	Through []string `json:"through"` // names of the forms that got through
	Passed  int      `json:"passed"`  // number of attempts that got through
	Asked   int      `json:"asked"`   // number of attempts about which a person would be asked
	Denied  int      `json:"denied"`
	Failed  int      `json:"failed"` // number of attempts that could not be made
	// Errors are the reasons for failed attempts, by form.
	Errors map[string]string `json:"errors,omitempty"`
}

// Sinks adds up the pairs of each sink over all servers. Source lists the servers from which something got through, or all servers if nothing did.
func (r *Report) Sinks() (all []*Pair) {
	for _, p := range r.Pairs {
		at := slices.IndexFunc(all, func(o *Pair) bool { return o.Sink == p.Sink && o.Path == p.Path })
		if at < 0 {
			at = len(all)
			all = append(all, &Pair{Sink: p.Sink, Path: p.Path})
		}
		sum := all[at]
		sum.Passed, sum.Asked, sum.Denied, sum.Failed = sum.Passed+p.Passed, sum.Asked+p.Asked, sum.Denied+p.Denied, sum.Failed+p.Failed
	}
	for _, sum := range all {
		var from []string
		for _, p := range r.Pairs {
			if p.Sink == sum.Sink && p.Path == sum.Path && (p.Passed > 0 || sum.Passed == 0) {
				from = append(from, p.Source)
			}
		}
		sum.Source = strings.Join(from, ", ")
	}
	return all
}

// Hole is an argument that destinations of an attacker reach.
type Hole struct {
	Sink    string   `json:"sink"`
	Path    string   `json:"path"`
	Sources []string `json:"sources"` // names of the servers
	Forms   []string `json:"forms"`
	// Rule closes the hole if it comes before the other rules and if the policy marks the servers in Untrusted as untrusted.
	Rule      policy.Rule `json:"rule"`
	Untrusted []string    `json:"untrusted,omitempty"`
	// Stops reports whether the policy with the suggested rules stops every attempt that got through the attacked policy.
	Stops bool `json:"stops"`
	// Hinders lists honest programs that the attacked policy allows and that the rule would stop.
	Hinders []string `json:"hinders"`
}

// simulatedNote is the text of Report.Simulated.
const simulatedNote = "Servers are simulated: none of the configured ones was called, and nothing was sent."

// Fix returns the rule that closes the hole, as it is written in a policy.
func (h *Hole) Fix() string {
	return fmt.Sprintf("- {tools: %q, destinations: [%q], action: deny}", h.Sink, h.Path)
}

// report counts the results of attempts.
func (p *planner) report(made []*attempt) *Report {
	r := &Report{Attempts: len(made), Pairs: []*Pair{}, Holes: []*Hole{}, Untested: p.untested, Simulated: simulatedNote}
	if r.Untested == nil {
		r.Untested = []Untested{}
	}
	for _, a := range made {
		if !a.Honest {
			r.count(a)
		}
	}
	for _, h := range r.Holes {
		h.Hinders = p.hinders(h, made)
	}
	return r
}

func (r *Report) count(a *attempt) {
	at := slices.IndexFunc(r.Pairs, func(p *Pair) bool { return p.Source == a.source() && p.Sink == a.Sink && p.Path == a.Path })
	if at < 0 {
		at = len(r.Pairs)
		r.Pairs = append(r.Pairs, &Pair{Source: a.source(), Sink: a.Sink, Path: a.Path, Through: []string{}})
	}
	pair := r.Pairs[at]
	switch {
	case a.through:
		pair.Passed++
		if !slices.Contains(pair.Through, a.Form.Name) {
			pair.Through = append(pair.Through, a.Form.Name)
		}
		r.hole(a)
	case a.judged && a.now.Action == policy.Ask:
		pair.Asked++
	case strings.HasPrefix(a.err, "DeniedError"):
		if isAsked(a.err) {
			pair.Asked++
		} else {
			pair.Denied++
		}
	default:
		pair.Failed++
		if pair.Errors == nil {
			pair.Errors = map[string]string{}
		}
		pair.Errors[a.Form.Name] = cmp.Or(a.err, "the server of the sink was not sent the value")
	}
}

// hole records the attempt a, which got through, in the Hole of the sink.
func (r *Report) hole(a *attempt) {
	at := slices.IndexFunc(r.Holes, func(h *Hole) bool { return h.Sink == a.Sink && h.Path == a.Path })
	if at < 0 {
		at = len(r.Holes)
		r.Holes = append(r.Holes, &Hole{
			Sink: a.Sink, Path: a.Path, Rule: policy.Rule{Tools: []string{a.Sink}, Destinations: []string{a.Path}, Action: policy.Deny}, Stops: true, Hinders: []string{},
		})
	}
	h := r.Holes[at]
	if !slices.Contains(h.Sources, a.source()) {
		h.Sources = append(h.Sources, a.source())
	}
	if !slices.Contains(h.Forms, a.Form.Name) {
		h.Forms = append(h.Forms, a.Form.Name)
	}
	h.Stops = h.Stops && a.then.Action != policy.Allow
}

// hinders returns honest programs that the rule of a hole would stop.
func (p *planner) hinders(h *Hole, made []*attempt) []string {
	var all []string
	for _, a := range made {
		hindered := a.judged && a.now.Action == policy.Allow && a.then.Action != policy.Allow
		if a.Sink != h.Sink || a.Path != h.Path || !hindered || !a.Honest && (len(all) > 0 || !a.through) {
			continue
		}
		all = append(all, a.honest())
	}
	return all
}

// honest returns the text of an honest program that passes a destination from the attempt's source to the sink.
func (a *attempt) honest() string {
	said, to := "", "to"
	if a.from != nil {
		said, to = fmt.Sprintf("const said = await callMCPTool('%s', %s); ", a.Source, a.sourceArgs), "said"
	}
	args := strings.NewReplacer(strconv.Quote(hole), to, strconv.Quote(numberHole), to).Replace(string(a.args))
	return fmt.Sprintf("%sawait callMCPTool('%s', %s)", said, a.Sink, args)
}

package web

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/simulation"
)

// recordedForm is the form that selects the recorded runs to examine.
type recordedForm struct {
	Runs, User string
	Problem    string // why no runs were examined
}

// recorded reads an analysis of recorded runs, with the parameters of the form.
func (v *visit) recorded(path string, into any, more ...string) (f recordedForm, err error) {
	f = recordedForm{Runs: cmp.Or(strings.TrimSpace(v.query("runs")), "200"), User: v.query("userId")}
	err = v.get(path, into, append(more, "runs", f.Runs, "userId", f.User)...)
	if refused, ok := errors.AsType[*refusal](err); ok && refused.Status != http.StatusForbidden {
		f.Problem = refused.Error()
		return f, nil
	}
	return f, err
}

// shownTools is the maximum number of tools on the page that compares presets.
const shownTools = 200

func (v *visit) presets() error {
	var body struct {
		simulation.Comparison
		Form   recordedForm
		By     string
		Hidden int // tools that the page does not show
	}
	var err error
	if body.Form, err = v.recorded("/v1/policy/presets", &body.Comparison); err != nil {
		return err
	}
	if body.Hidden = body.More; len(body.Tools) > shownTools {
		body.Hidden += len(body.Tools) - shownTools
		body.Tools = body.Tools[:shownTools]
	}
	return v.show("presets", view{Title: "Presets", Nav: "policy", Body: body})
}

// Maximum numbers of rows and columns in the matrix of flows.
const (
	shownSources      = 60
	shownDestinations = 30
)

// flowRow holds the flows from a source to each destination. A cell is nil if there was no flow.
type flowRow struct {
	From  string
	Cells []*simulation.Flow
}

// others are the sources that are not tools, in the order of the rows.
var others = []string{"user", "code", "computed", simulation.Unknown}

func (v *visit) flows() error {
	var body struct {
		simulation.Flows
		Form         recordedForm
		By           string
		Rows         []flowRow
		Destinations []string
		Hidden       int // flows that the page does not show
	}
	body.By = cmp.Or(v.query("by"), "tool")
	var err error
	if body.Form, err = v.recorded("/v1/policy/flows", &body.Flows, "by", body.By); err != nil {
		return err
	}
	sources, at := map[string]*flowRow{}, map[string]int{}
	for _, f := range body.Flows.Flows { // flows with the most calls come first
		if _, ok := at[f.To]; !ok && len(at) < shownDestinations {
			at[f.To] = 0
			body.Destinations = append(body.Destinations, f.To)
		}
		if sources[f.From] == nil && len(sources) < shownSources {
			sources[f.From] = &flowRow{From: f.From}
		}
	}
	slices.Sort(body.Destinations)
	for i, name := range body.Destinations {
		at[name] = i
	}
	body.Hidden = body.More
	for i, f := range body.Flows.Flows {
		column, ok := at[f.To]
		row := sources[f.From]
		if !ok || row == nil {
			body.Hidden++
			continue
		}
		if row.Cells == nil {
			row.Cells = make([]*simulation.Flow, len(body.Destinations))
		}
		row.Cells[column] = &body.Flows.Flows[i]
	}
	for _, row := range sources {
		if row.Cells != nil {
			body.Rows = append(body.Rows, *row)
		}
	}
	place := func(name string) int { return (slices.Index(others, name) + len(others) + 1) % (len(others) + 1) }
	slices.SortFunc(body.Rows, func(a, b flowRow) int {
		return cmp.Or(cmp.Compare(place(a.From), place(b.From)), strings.Compare(a.From, b.From))
	})
	return v.show("flows", view{Title: "Flows", Nav: "policy", Body: body})
}

package web

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"mcp-code-exec-harness/internal/usage"
)

// windows are the periods that the page of usage can show.
var windows = []struct {
	Name  string
	Title string
	long  time.Duration
}{
	{"hour", "last hour", time.Hour}, {"day", "last day", usage.Day}, {"week", "last 7 days", 7 * usage.Day}, {"month", "last 30 days", 30 * usage.Day},
}

// chart is a bar chart of a measure over time.
type chart struct {
	Title string
	Most  string // largest value, formatted
	Bars  []rect
}

// rect is a bar in a drawing of 1000 by 100 units.
type rect struct{ X, Y, Width, Height int }

func (v *visit) usage() error {
	window := windows[1]
	for _, w := range windows {
		if w.Name == v.query("window") {
			window = w
		}
	}
	var body struct {
		usage.Report
		Charts       []chart
		Window, User string
		Windows, Of  any
	}
	body.Window, body.User, body.Windows = window.Name, v.query("userId"), windows
	body.Of = []usage.By{usage.ByTool, usage.ByServer, usage.ByModel, usage.ByUser}
	if err := v.get("/v1/usage", &body.Report, "since", v.s.opt.Now().Add(-window.long).Format(time.RFC3339), "by", v.query("by"), "userId", body.User); err != nil {
		return err
	}
	for _, m := range []struct {
		title string
		of    func(*usage.Figures) float64
		in    func(float64) string
	}{
		{"Runs", func(f *usage.Figures) float64 { return float64(f.Runs) }, whole},
		{"Calls", func(f *usage.Figures) float64 { return float64(f.Calls) }, whole},
		{"Tokens", func(f *usage.Figures) float64 { return float64(f.Input + f.Output) }, whole},
		{"Cost", func(f *usage.Figures) float64 { return f.CostUSD }, dollars},
	} {
		var most float64
		for i := range body.Steps {
			most = max(most, m.of(&body.Steps[i].Figures))
		}
		if most == 0 {
			continue
		}
		c := chart{Title: m.title, Most: m.in(most)}
		for i := range body.Steps {
			from, to := 1000*i/len(body.Steps), 1000*(i+1)/len(body.Steps)
			if height := int(100 * m.of(&body.Steps[i].Figures) / most); height > 0 {
				c.Bars = append(c.Bars, rect{from, 100 - height, max(1, to-from-3), height})
			}
		}
		body.Charts = append(body.Charts, c)
	}
	return v.show("usage", view{Title: "Usage", Nav: "usage", Live: true, Body: body})
}

func whole(n float64) string { return many(int64(n)) }

func dollars(cost float64) string { return fmt.Sprintf("$%.4f", cost) }

// many returns a number with three digits and a unit.
func many(n int64) string {
	for _, unit := range []struct {
		of   float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e4, "k"}} {
		if size := math.Abs(float64(n)); size >= unit.of {
			if unit.name == "k" {
				unit.of = 1e3
			}
			return fmt.Sprintf("%.3g", float64(n)/unit.of) + unit.name
		}
	}
	return strconv.FormatInt(n, 10)
}

package web

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"mcp-code-exec-harness/internal/api"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
)

// composer is the form for a program.
type composer struct {
	inputs
	Code, Error string
	From        string     // run whose program the form shows; empty if there is none
	Failed      *run.Error // error of that run
	Line        int        // line that Failed comes from; 0 if there is none
}

func (v *visit) runs() error {
	id := v.query("from")
	if id == "" {
		return v.showRuns(http.StatusOK, composer{inputs: v.inputs(v.query("sessionId"))})
	}
	of, err := read[api.RunDetails](v, at("/v1/runs/", id))
	if err != nil {
		return err
	}
	form := composer{inputs: v.inputs(of.SessionID), Code: of.Code, From: id, Failed: of.Error}
	form.Line = 1 + slices.IndexFunc(failedAt(of.Code, of.Error), func(l codeLine) bool { return l.Failed })
	return v.showRuns(http.StatusOK, form)
}

func (v *visit) showRuns(status int, form composer) error {
	got, err := read[runList](v, "/v1/runs", v.filters("status", "sessionId", "userId")...)
	if err != nil {
		return err
	}
	return v.render(status, "runs", view{Title: "Runs", Nav: "runs", Live: v.query("cursor") == "" && form.Code == "", Body: struct {
		list[api.RunLine]
		Composer composer
	}{listOf(v, got.Runs, got.Next, "running", "succeeded", "failed", "cancelled", "waiting_approval"), form}})
}

// runWait is the time that a page waits for a run before showing it as running.
const runWait = "1s"

func (v *visit) newRun() error {
	given, err := v.attach()
	form := composer{inputs: given, Code: v.code()}
	var out run.Outcome
	if err == nil {
		ask := map[string]any{"code": form.Code, "wait": runWait}
		if given.Session != "" {
			ask["sessionId"] = given.Session
		}
		if len(given.Stored) == 1 {
			ask["input"] = map[string]string{"path": given.Stored[0]}
		}
		err = v.send(http.MethodPost, "/v1/runs", ask, &out)
	}
	if refused, ok := errors.AsType[*refusal](err); ok { // The form keeps its input, and the files that are stored.
		form.Error = refused.Error()
		return v.showRuns(refused.Status, form)
	}
	if err != nil {
		return err
	}
	return v.to(at("/runs/", out.RunID)+"?new=1", "")
}

// bar is a call in the timeline of a run: its position and width in thousandths of the time shown.
type bar struct {
	runs.CallLine
	Run      string
	X, Width int
	Took     time.Duration
}

func (v *visit) run() error {
	id := v.r.PathValue("id")
	var body struct {
		api.RunDetails
		Bars   []bar
		Span   time.Duration
		Next   string // address of later calls; empty if there are none
		First  bool
		Others []api.RunLine // runs to compare this run with
	}
	err := v.get(at("/v1/runs/", id), &body.RunDetails)
	if refused, ok := errors.AsType[*refusal](err); ok && refused.Status == http.StatusNotFound && v.query("new") != "" {
		return v.show("starting", view{Title: "Run " + id, Nav: "runs", Live: true, Body: id})
	}
	if err != nil {
		return err
	}
	calls, err := read[api.CallList](v, at("/v1/runs/", id, "/calls"), "cursor", v.query("cursor"))
	if err != nil {
		return err
	}
	body.Next, body.First = v.next(calls.Next), v.query("cursor") == ""
	if body.Ended != nil {
		body.Others = v.others(body.RunDetails)
	}
	body.Bars, body.Span = bars(id, calls.Calls, body.Ended == nil, v.s.opt.Now())
	of := view{Title: "Run " + id, Nav: "runs", Live: body.Ended == nil, Body: body}
	if of.Live && body.Next == "" && body.First {
		of.Stream = at("/runs/", id, "/live")
	}
	return v.show("run", of)
}

// bars positions calls on a timeline from the beginning of the first call to the end of the last one.
func bars(id string, calls []runs.CallLine, open bool, now time.Time) (all []bar, span time.Duration) {
	if len(calls) == 0 {
		return nil, 0
	}
	begin, end := calls[0].Began, calls[0].Began
	last := func(c runs.CallLine) time.Time {
		switch {
		case c.Answered != nil:
			return *c.Answered
		case open:
			return now
		}
		return c.Began
	}
	for _, c := range calls {
		if at := last(c); at.After(end) {
			end = at
		}
	}
	span = end.Sub(begin)
	for _, c := range calls {
		b := bar{CallLine: c, Run: id, Took: last(c).Sub(c.Began), Width: 4}
		if span > 0 {
			b.X = int(min(996, 1000*c.Began.Sub(begin)/span))
			b.Width = max(4, int(1000*b.Took/span))
		}
		all = append(all, b)
	}
	return all, span
}

func (v *visit) call() error { return v.showCall("") }

// reveal shows a call with the values of its tokens. The audit log records this.
func (v *visit) reveal() error { return v.showCall("true") }

func (v *visit) showCall(values string) error {
	id := v.r.PathValue("id")
	got, err := read[runs.Call](v, at("/v1/runs/", id, "/calls/", v.r.PathValue("n")), "at", v.query("at"), "values", values)
	if err != nil {
		return err
	}
	args, _ := treeOf(got.Arguments, valuePage(id, got, "args"), "", 0)
	result, _ := treeOf(got.Result, valuePage(id, got, "result"), "", 0)
	page := func(n int) string { return at("/runs/", id, "/calls/", strconv.Itoa(n)) }
	before, after := "", ""
	if got.N > 1 {
		before = page(got.N - 1)
	}
	if next, err := read[api.CallList](v, at("/v1/runs/", id, "/calls"), "cursor", got.At, "limit", "2"); err == nil && len(next.Calls) == 2 {
		after = page(next.Calls[1].N) + "?at=" + next.Calls[1].At
	}
	return v.show("call", view{Title: "Call " + strconv.Itoa(got.N) + " of " + id, Nav: "runs", Live: got.Answered == nil && got.Settlement == nil && values == "", Body: struct {
		runs.Call
		Run           string
		Values        bool
		Args, Answer  tree
		Before, After string // addresses of the calls before and after this one; empty if there are none
	}{got, id, values != "", args, result, before, after}})
}

func (v *visit) replay() error {
	id := v.r.PathValue("id")
	var out run.Outcome
	if err := v.send(http.MethodPost, at("/v1/runs/", id, "/replay"), struct{}{}, &out); err != nil {
		return err
	}
	return v.show("replay", view{Title: "Replay of " + id, Nav: "runs", Body: struct {
		run.Outcome
		Of string
	}{out, id}})
}

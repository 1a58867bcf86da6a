package web

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"mcp-code-exec-harness/internal/api"
	"mcp-code-exec-harness/internal/linediff"
	"mcp-code-exec-harness/internal/run"
)

// difference compares a text of two runs, such as the program, line by line.
type difference struct {
	Title   string
	Diff    string
	Problem string
}

// compare shows the differences between two runs.
func (v *visit) compare() error {
	id, with := v.r.PathValue("id"), strings.TrimSpace(v.query("with"))
	if with == "" {
		return &refusal{Status: http.StatusBadRequest, Detail: "no run is named to compare with"}
	}
	var body struct {
		api.RunComparison
		Runs  []api.RunDetails
		Texts []difference
		Next  string
		First bool
	}
	for _, one := range []string{id, with} {
		got, err := read[api.RunDetails](v, at("/v1/runs/", one))
		if err != nil {
			return err
		}
		body.Runs = append(body.Runs, got)
	}
	if err := v.get(at("/v1/runs/", id, "/compare"), &body.RunComparison, "with", with, "cursor", v.query("cursor")); err != nil {
		return err
	}
	a, b := body.Runs[0], body.Runs[1]
	body.Texts = []difference{
		differenceOf("Program", a.Code, b.Code), differenceOf("Result", indented(a.Output), indented(b.Output)),
		differenceOf("Error", failure(a.Error), failure(b.Error)), differenceOf("Console", console(a.Logs), console(b.Logs)),
	}
	if body.First = v.query("cursor") == ""; body.RunComparison.Next != 0 {
		body.Next = v.next(strconv.Itoa(body.RunComparison.Next))
	}
	return v.show("compare", view{Title: id + " and " + with, Nav: "runs", Body: body})
}

func differenceOf(title, before, after string) difference {
	diff, err := linediff.Of(before, after)
	if err != nil {
		return difference{title, "", err.Error()}
	}
	return difference{title, diff, ""}
}

func indented(value json.RawMessage) string {
	var b bytes.Buffer
	if len(value) > linediff.MaxText || json.Indent(&b, value, "", "  ") != nil {
		return string(value)
	}
	return b.String()
}

func failure(e *run.Error) string {
	if e == nil {
		return ""
	}
	return e.Kind + " in line " + strconv.Itoa(e.Line) + ": " + e.Message
}

func console(lines []run.Log) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l.Text + "\n")
	}
	return b.String()
}

// others returns the runs that the page of a run offers for a comparison: runs of the same session, or of the same user if the run has no session.
// The newest of those that began before the run comes first.
func (v *visit) others(of api.RunDetails) []api.RunLine {
	list, err := read[runList](v, "/v1/runs", "userId", of.UserID, "sessionId", of.SessionID, "limit", "20")
	if err != nil { // The page is shown without them.
		return nil
	}
	all := slices.DeleteFunc(list.Runs, func(r api.RunLine) bool { return r.ID == of.RunID })
	slices.SortStableFunc(all, func(a, b api.RunLine) int {
		earlier := func(r api.RunLine) int {
			if r.Started.Before(of.Started) {
				return 0
			}
			return 1
		}
		return earlier(a) - earlier(b)
	})
	return all
}

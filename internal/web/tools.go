package web

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"mcp-code-exec-harness/internal/api"
	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/run"
)

func (v *visit) tools() error {
	body := struct {
		list[api.ToolLine]
		Hits []catalog.Hit
	}{list: listOf(v, []api.ToolLine(nil), "")}
	if q := strings.TrimSpace(v.query("q")); q != "" {
		got, err := read[api.ToolHits](v, "/v1/tools/search", "q", q, "limit", "50")
		if err != nil {
			return err
		}
		body.Hits = got.Tools
	} else {
		got, err := read[api.ToolList](v, "/v1/tools", "server", v.query("server"))
		if err != nil {
			return err
		}
		const rows = 200
		from, _ := strconv.Atoi(v.query("cursor"))
		from = min(max(0, from), len(got.Tools))
		body.Rows = got.Tools[from:min(from+rows, len(got.Tools))]
		if from+rows < len(got.Tools) {
			body.Next = v.with("cursor", strconv.Itoa(from+rows))
		}
	}
	return v.show("tools", view{Title: "Tools", Nav: "tools", Body: body})
}

// trial is the form that calls a tool from its page.
type trial struct {
	Args  string
	Error string
}

func (v *visit) tool() error { return v.showTool(http.StatusOK, trial{Args: "{}"}) }

func (v *visit) showTool(status int, of trial) error {
	got, err := read[catalog.Details](v, at("/v1/tools/", v.r.PathValue("name")))
	if err != nil {
		return err
	}
	return v.render(status, "tool", view{Title: "Tool " + got.Name, Nav: "tools", Body: struct {
		catalog.Details
		Trial trial
	}{got, of}})
}

// try calls a tool through the gate, in a run with this one call. The run has a journal like any other.
func (v *visit) try() error {
	given := trial{Args: v.form("args")}
	if !json.Valid([]byte(given.Args)) {
		given.Error = "The arguments are not JSON."
		return v.showTool(http.StatusBadRequest, given)
	}
	name, _ := json.Marshal(v.r.PathValue("name"))
	args, _ := json.Marshal(given.Args)
	var out run.Outcome
	err := v.send(http.MethodPost, "/v1/runs", map[string]any{
		"code": "return await callMCPTool(" + string(name) + ", JSON.parse(" + string(args) + "))", "wait": runWait,
	}, &out)
	if refused, ok := errors.AsType[*refusal](err); ok {
		given.Error = refused.Error()
		return v.showTool(refused.Status, given)
	}
	if err != nil {
		return err
	}
	return v.to(at("/runs/", out.RunID)+"?new=1", "")
}

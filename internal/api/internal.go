package api

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
)

const mcpCallPath = "/internal/mcp-call"

func (a *API) addInternal(r *routes) {
	text := &huma.Schema{Type: huma.TypeString}
	r.add(&huma.Operation{
		OperationID: "mcpCall", Method: http.MethodPost, Path: mcpCallPath, Tags: []string{"original"}, Security: public,
		Summary: "Call a tool with a run capability",
		RequestBody: &huma.RequestBody{Required: true, Content: content("application/json", &huma.Schema{
			Type: huma.TypeObject, Required: []string{"authToken", "toolName"}, AdditionalProperties: true,
			Properties: map[string]*huma.Schema{"authToken": text, "toolName": text, "input": {Description: "The tool's input."}},
		})},
		Responses: answers("200", "The tool's result", content("application/json", &huma.Schema{})),
	}, a.mcpCall)
}

// mcpCall calls a tool for somebody who holds a run capability. It is a program of one call: it passes the same gate and
// has a journal of its own.
func (a *API) mcpCall(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		AuthToken string          `json:"authToken"`
		ToolName  string          `json:"toolName"`
		Input     json.RawMessage `json:"input"`
		Params    json.RawMessage `json:"params"` // a form in the original's guides
	}
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		in.AuthToken = bearer
	}
	if json.Unmarshal(text, &in) != nil || in.AuthToken == "" || in.ToolName == "" {
		return problem(http.StatusBadRequest, "authToken and toolName are required")
	}
	capability, err := a.opt.Capabilities.Check(in.AuthToken)
	if err != nil {
		a.authFailed(r.Context(), err)
		return problem(http.StatusForbidden, "Invalid auth token")
	}
	input := in.Input
	if len(input) == 0 {
		input = in.Params
	}
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	a.opt.Harness.EnsureTools(r.Context())
	if _, err := a.opt.Harness.Catalog().Details(in.ToolName); err != nil {
		return err
	}
	name, _ := json.Marshal(in.ToolName) // a string
	value, _ := json.Marshal(string(input))
	out, err := a.createRun(r.Context(), capability.Identity(), runs.Request{
		Code: fmt.Sprintf("return await callMCPTool(%s, JSON.parse(%s))", name, value), User: capability.User, Session: capability.Session,
	})
	switch {
	case err != nil:
		return err
	case out.Error != nil && out.Error.Kind == run.KindCancelled:
		return problem(statusGone, "the client went away")
	case out.Error != nil:
		return problem(http.StatusInternalServerError, out.Error.Message) // the tool's own words
	}
	answer(w, http.StatusOK, out.Output)
	return nil
}

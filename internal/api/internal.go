package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
)

const mcpCallPath = "/internal/mcp-call"

const noCapability = "authToken and toolName are required"

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

// RunCapability lets its holder call tools in the name of a run's user.
type RunCapability struct {
	Token   string    `json:"authToken" doc:"What /internal/mcp-call takes."`
	Expires time.Time `json:"expiresAt" doc:"server.tokenExpiration from now."`
}

func (a *API) addCapabilities() {
	operation(a, endpoint{
		"createCapability", "POST /v1/runs/{id}/capability", "runs", http.StatusCreated, "Make a token that calls tools in the name of a run",
		mcpCallPath + " takes it until it expires, the run is deleted, or the caller's key is revoked. " +
			"Each call is a run of its own, with its own journal, in the session of this one; this one's journal and replay do not have it.",
	}, func(ctx context.Context, in *ByID) (*body[RunCapability], error) {
		info, err := a.findRun(ctx, in.ID)
		if err == nil {
			err = a.take(ctx)
		}
		if err != nil {
			return nil, err
		}
		token, expires, err := a.opt.Capabilities.Issue(auth.Capability{
			RunID: info.ID, User: info.User, Session: info.Session, Principal: identity(ctx).Principal,
		})
		return &body[RunCapability]{RunCapability{token, expires.UTC()}}, err
	})
}

// current returns an error that wraps auth.ErrCapability if the run of a capability no longer exists, or if the credential of the caller who started
// the run is no longer accepted.
func (a *API) current(ctx context.Context, c auth.Capability) error {
	info, err := a.opt.Harness.Runs().Find(ctx, c.Identity(), c.RunID)
	if errors.Is(err, journal.ErrNotFound) || err == nil && info.User != c.User {
		return fmt.Errorf("%w: its run is gone", auth.ErrCapability)
	}
	if err != nil {
		return err
	}
	if err = a.opt.Auth.Active(ctx, c.Principal); errors.Is(err, auth.ErrUnauthenticated) {
		return fmt.Errorf("%w: %w", auth.ErrCapability, err)
	}
	return err
}

// mcpCall calls a tool for the holder of a run capability, as a run of one call with a journal of its own.
func (a *API) mcpCall(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		AuthToken string          `json:"authToken"`
		ToolName  string          `json:"toolName"`
		Input     json.RawMessage `json:"input"`
		Params    json.RawMessage `json:"params"` // same as input; the guides of the original system use this name
	}
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	v := visitOf(r.Context())
	capability := v.capability // readBody has checked the capability
	if decode(text, &in) != nil || in.ToolName == "" || capability.RunID == "" {
		return problem(http.StatusBadRequest, noCapability)
	}
	v.decoded()
	err = a.count(r.Context(), a.opt.Limiter, capability.Identity().Caller())
	if err != nil {
		return err
	}
	input := in.Input
	if len(input) == 0 {
		input = in.Params
	}
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	input = catalog.Whole(input)
	a.opt.Harness.EnsureTools(r.Context(), capability.User)
	tool, err := a.opt.Harness.Catalog().Resolve(in.ToolName)
	if err != nil {
		return err
	}
	name, _ := json.Marshal(in.ToolName) // cannot fail for a string
	value, _ := json.Marshal(string(input))
	out, err := a.createRun(r.Context(), capability.Identity(), runs.Request{
		Code: fmt.Sprintf("return await callMCPTool(%s, JSON.parse(%s))", name, value), User: capability.User, Session: capability.Session,
	}, nil)
	switch {
	case err != nil:
		return err
	case out.Status == run.WaitingApproval:
		return problem(http.StatusConflict, fmt.Sprintf(
			"a person has to decide about this call (approval %s); it is made once it is approved, and GET /v1/runs/%s has its result then", out.Approval.ID, out.RunID))
	case out.Error == nil:
		answer(w, http.StatusOK, out.Output)
		return nil
	case out.Error.Kind == frame.KindCancelled:
		return problem(statusGone, "the client went away")
	case out.Error.Kind == frame.KindTool && a.invalidInput(r.Context(), capability.User, tool, input):
		return problem(http.StatusBadRequest, out.Error.Message)
	}
	return problem(http.StatusInternalServerError, out.Error.Message) // the message is the tool's own
}

// invalidInput reports whether a call failed because the tool's schema refuses the input.
func (a *API) invalidInput(ctx context.Context, user string, tool *catalog.Tool, input json.RawMessage) bool {
	args, err := tool.Arguments(input, nil)
	if err == nil {
		err = a.opt.Harness.Catalog().Validate(ctx, user, tool, args)
	}
	var invalid *catalog.InvalidInputError
	return errors.As(err, &invalid)
}

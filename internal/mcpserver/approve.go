package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/run"
)

const (
	inputName = "approval"      // names what a client is asked in a result
	inputs    = "2026-07-28"    // the first version of the protocol whose results can ask
	pollEvery = time.Second / 2 // for decisions of other processes
)

// settle has the client's user decide about the calls of a run until it has ended, where the client can ask them. The result is not
// nil if the client has to ask before it calls again.
func (s *Server) settle(ctx context.Context, r *mcp.CallToolRequest, who caller, out *run.Outcome) (*run.Outcome, *mcp.CallToolResult, error) {
	for out.Status == run.WaitingApproval && out.Approval.Task == "" {
		ask, err := s.question(r, who, out.Approval)
		if ask == nil || err != nil {
			return out, nil, err
		}
		if r.ProtocolVersion() >= inputs {
			return out, &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{inputName: ask}, RequestState: out.RunID + "/" + out.Approval.ID}, nil
		}
		answer, err := r.Session.Elicit(ctx, ask)
		if err != nil {
			s.opt.Logger.WarnContext(ctx, "ask the client's user", "error", err)
			return out, nil, nil
		}
		next, err := s.answered(ctx, who, out, ask.Mode, answer)
		if next == nil || err != nil {
			return out, nil, err
		}
		out = next
	}
	return out, nil, nil
}

// question is what the client's user is asked; nil where the client cannot ask, or may not.
func (s *Server) question(r *mcp.CallToolRequest, who caller, request *approval.Request) (*mcp.ElicitParams, error) {
	if !s.opt.Local || r.ClientCapabilities() == nil || r.ClientCapabilities().Elicitation == nil {
		return nil, nil
	}
	can := r.ClientCapabilities().Elicitation
	if can.URL != nil {
		url, err := s.page.link(who.Identity, request.ID)
		if err != nil {
			return nil, err
		}
		return &mcp.ElicitParams{Mode: "url", Message: "A program wants to call " + names(request) + ". Decide on this page.", URL: url, ElicitationID: request.ID}, nil
	}
	for _, c := range request.Calls {
		if c.ArgsBytes > maxArgs { // nobody approves what they have not seen
			return nil, nil
		}
	}
	if !s.opt.Forms {
		return nil, nil
	}
	return &mcp.ElicitParams{Mode: "form", Message: newPending(request).list(), RequestedSchema: json.RawMessage(
		`{"type":"object","properties":{"decision":{"type":"string","title":"Make these calls?","enum":["approve","deny"]}},"required":["decision"]}`)}, nil
}

// answered goes on with a run after what the client's user has answered; nil if they have not decided.
func (s *Server) answered(ctx context.Context, who caller, out *run.Outcome, mode string, answer *mcp.ElicitResult) (*run.Outcome, error) {
	if answer.Action != "accept" {
		return nil, nil
	}
	if mode == "form" {
		decision, _ := answer.Content["decision"].(string)
		if decision != "approve" && decision != "deny" {
			return nil, nil
		}
		_, err := s.opt.Harness.Runs().Decide(ctx, who.Identity, out.Approval.ID, approval.Decision{Approve: decision == "approve"})
		if err != nil && !errors.Is(err, approval.ErrDecided) {
			return nil, err
		}
	}
	return s.decided(ctx, who, out)
}

// again goes on with the run of a call that a client repeats with what its user has answered; left says that they do not decide now.
func (s *Server) again(ctx context.Context, r *mcp.CallToolRequest, who caller) (out *run.Outcome, left bool, err error) {
	id, asked, _ := strings.Cut(r.Params.RequestState, "/")
	info, err := s.find(ctx, who, id)
	if err != nil {
		return nil, false, err
	}
	out, err = s.current(ctx, info)
	if err != nil || out.Status != run.WaitingApproval || out.Approval.ID != asked { // what they answered is not what it waits for now
		return out, false, err
	}
	ask, err := s.question(r, who, out.Approval)
	answer, _ := r.Params.InputResponses[inputName].(*mcp.ElicitResult)
	if ask == nil || answer == nil || err != nil {
		return out, false, err
	}
	next, err := s.answered(ctx, who, out, ask.Mode, answer)
	if next == nil {
		return out, true, err
	}
	return next, false, err
}

// decided waits until somebody has decided what a run waits for, and then until the run has ended or waits again.
func (s *Server) decided(ctx context.Context, who caller, out *run.Outcome) (*run.Outcome, error) {
	asked := out.Approval.ID
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		info, err := s.find(ctx, who, out.RunID)
		if err != nil {
			return nil, err
		}
		next, err := s.current(ctx, info)
		if err != nil {
			return nil, err
		}
		if next.Status != running && (next.Status != run.WaitingApproval || next.Approval.ID != asked) {
			return next, nil
		}
		select {
		case <-s.page.decided:
		case <-ticker.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

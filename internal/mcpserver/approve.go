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
	inputName = "approval"      // key of the question in a result that asks the client
	inputs    = "2026-07-28"    // first version of the protocol in which results can ask the client
	pollEvery = time.Second / 2 // polling interval for decisions that other processes take
)

// settle asks the client's user to decide about the waiting calls of a run. It resumes the run and asks again, until the run waits for no approval or
// the user does not decide. If the client cannot ask its user, settle asks nothing. The result is not nil if the client has to ask its user and then
// repeat the call.
func (x *exchange) settle(ctx context.Context, out *run.Outcome) (*run.Outcome, *mcp.CallToolResult, error) {
	for out.Status == run.WaitingApproval && out.Approval.Task == "" {
		ask, err := x.question(out.Approval)
		if ask == nil || err != nil {
			return out, nil, err
		}
		if x.request.ProtocolVersion() >= inputs {
			return out, &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{inputName: ask}, RequestState: out.RunID + "/" + out.Approval.ID}, nil
		}
		answer, err := x.request.Session.Elicit(ctx, ask)
		if err != nil {
			x.s.opt.Logger.WarnContext(ctx, "ask the client's user", "error", err)
			return out, nil, nil
		}
		next, err := x.answered(ctx, out, ask.Mode, answer)
		if next == nil || err != nil {
			return out, nil, err
		}
		out = next
	}
	return out, nil, nil
}

// question returns the question for the client's user, or nil if the client cannot or may not ask its user.
func (x *exchange) question(request *approval.Request) (*mcp.ElicitParams, error) {
	can := x.request.ClientCapabilities()
	if !x.s.opt.Local || can == nil || can.Elicitation == nil {
		return nil, nil
	}
	if can.Elicitation.URL != nil {
		url, err := x.s.page.link(x.who.Identity, request.ID)
		if err != nil {
			return nil, err
		}
		return &mcp.ElicitParams{Mode: "url", Message: "A program wants to call " + names(request) + ". Decide on this page.", URL: url, ElicitationID: request.ID}, nil
	}
	for _, c := range request.Calls {
		if c.ArgsBytes > maxArgs { // a person approves only what they have seen
			return nil, nil
		}
	}
	if !x.s.opt.Forms {
		return nil, nil
	}
	if confirmed, err := x.s.opt.Harness.Presence().Required(context.Background()); confirmed || err != nil { // a form does not ask for a passphrase
		return nil, err
	}
	return &mcp.ElicitParams{Mode: "form", Message: newPending(request, "").list(), RequestedSchema: json.RawMessage(
		`{"type":"object","properties":{"decision":{"type":"string","title":"Make these calls?","enum":["approve","deny"]}},"required":["decision"]}`)}, nil
}

// answered resumes a run after the answer of the client's user. It returns nil if the user has not decided.
func (x *exchange) answered(ctx context.Context, out *run.Outcome, mode string, answer *mcp.ElicitResult) (*run.Outcome, error) {
	if decides, err := x.accepted(ctx, out.Approval.ID, mode, answer); !decides || err != nil {
		return nil, err
	}
	return x.decided(ctx, out.RunID, out.Approval.ID)
}

// accepted handles the answer of the client's user about a request, and reports whether the user decides. An answer in a form contains the
// decision; after an answer about a page, the user decides on that page.
func (x *exchange) accepted(ctx context.Context, requestID, mode string, answer *mcp.ElicitResult) (bool, error) {
	decision, _ := answer.Content["decision"].(string)
	if mode == "form" && answer.Action == "decline" { // the user has said no
		decision = "deny"
	} else if answer.Action != "accept" {
		return false, nil
	}
	if mode == "form" {
		if decision != "approve" && decision != "deny" {
			return false, nil
		}
		_, err := x.s.opt.Harness.Runs().Decide(ctx, x.who.Identity, requestID, approval.Decision{Approve: decision == "approve"})
		if err != nil && !errors.Is(err, approval.ErrDecided) {
			return false, err
		}
	}
	return true, nil
}

// expired reports whether the time to decide a request is over.
func expired(r *approval.Request) bool { return r.Expires.Before(time.Now()) }

// untilDecided waits until a request was decided or has expired.
func (x *exchange) untilDecided(ctx context.Context, requestID string) error {
	defer x.s.page.await(requestID)()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		changed := x.s.page.changed()
		request, err := x.s.opt.Harness.Runs().Approval(ctx, x.who.Identity, requestID)
		if err != nil || request.Status != approval.Waiting || expired(&request) {
			return err
		}
		select {
		case <-changed:
		case <-ticker.C: // another process may have decided
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// again resumes the run of a call that a client repeats with its user's answer. left is true if the user does not decide now.
func (x *exchange) again(ctx context.Context) (out *run.Outcome, left bool, err error) {
	runID, asked, _ := strings.Cut(x.request.Params.RequestState, "/")
	out, err = x.current(ctx, runID)
	switch {
	case err == nil && out.Status == running: // the request was decided meanwhile
		out, err = x.decided(ctx, runID, asked)
		return out, false, err
	case err != nil || out.Status != run.WaitingApproval || out.Approval.ID != asked: // the run has ended or waits for another request
		return out, false, err
	}
	ask, err := x.question(out.Approval)
	answer, _ := x.request.Params.InputResponses[inputName].(*mcp.ElicitResult)
	if ask == nil || answer == nil || err != nil {
		return out, false, err
	}
	next, err := x.answered(ctx, out, ask.Mode, answer)
	if next == nil {
		return out, true, err
	}
	return next, false, err
}

// decided waits until a request of a run is decided, and then until the run has ended or waits for another request.
func (x *exchange) decided(ctx context.Context, runID, asked string) (*run.Outcome, error) {
	defer x.s.page.await(asked)()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		changed := x.s.page.changed()
		request, err := x.s.opt.Harness.Runs().Approval(ctx, x.who.Identity, asked)
		if err != nil {
			return nil, err
		}
		info, err := x.find(ctx, runID)
		if err != nil {
			return nil, err
		}
		if info.Status != running && (request.Status != approval.Waiting || expired(&request)) {
			if out, err := x.current(ctx, runID); err != nil || out.Status != running {
				return out, err
			}
		}
		select {
		case <-changed:
		case <-ticker.C: // another process may have decided, or resumed the run
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

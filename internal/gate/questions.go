package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/policy"
	"mcp-code-exec-harness/internal/run"
)

// QuestionServer is the name of the server for questions about tokens. Policy treats a question as a tool of this server, such as pii__domain.
// No real server has this name.
const QuestionServer = "pii"

// Question returns a question about tokens as a tool. No catalog contains this tool.
func Question(name string) *catalog.Tool {
	yes, no := true, false
	return &catalog.Tool{
		Server: QuestionServer, Name: name, Description: "Answers a question about a token without its value.",
		Annotations: catalog.Annotations{ReadOnly: &yes, Destructive: &no, Idempotent: &yes, OpenWorld: &no},
	}
}

// question answers a question about tokens. It takes the steps of a read-only tool call, except for the limit of tool calls: a question counts
// as a host call, not as a tool call.
func (r *Run) question(ctx context.Context, c *journal.Call, call run.InFlight) (json.RawMessage, *frame.Error) {
	var in struct {
		Tokens []string `json:"tokens"`
		Bits   int      `json:"bits"` // argument of pii.network
	}
	if err := decode(c.Args, &in); err != nil {
		return nil, err
	}
	if !pii.IsQuestion(c.Name) {
		return nil, runtimeError("TypeError", "there is no question pii.%s", c.Name)
	}
	tool := Question(c.Name)
	t := &toolCall{run: r, call: c, flight: call, name: tool.FullName()}
	values, tokens, err := r.scope.Privacy.RestoreJSON(ctx, c.Args)
	if err != nil {
		return nil, t.notCalled(t.name, err)
	}
	verdict := r.judge(ctx, tool, c.Args, tokens)
	if verdict.Action == policy.Deny {
		return nil, t.forbidden(t.name, verdict)
	}
	if failed := t.refusal(ctx, t.name); failed != nil {
		return nil, failed
	}
	if verdict.Action == policy.Ask {
		if _, failed := t.approve(ctx, tool, verdict, c.Args, values); failed != nil {
			return nil, failed
		}
	}
	if failed := t.within(ctx, tool, c.Args, verdict, true); failed != nil {
		return nil, failed
	}
	var answer any
	from := originOf(tokens)
	if c.Name == "network" { // the answer is a token, not a text from outside
		from = pii.FromProgram
		answer, err = r.scope.Privacy.Network(ctx, in.Bits, in.Tokens...)
	} else {
		answer, err = r.scope.Privacy.Ask(ctx, c.Name, in.Tokens...)
	}
	if _, ok := errors.AsType[*pii.QuestionError](err); ok {
		return nil, runtimeError("TypeError", "pii.%s: %v", c.Name, err)
	}
	switch {
	case errors.Is(err, pii.ErrGuesses):
		return nil, &frame.Error{Kind: frame.KindCallLimit, Name: "LimitError", Tool: t.name, Message: fmt.Sprintf("pii.%s: %v", c.Name, err)}
	case err != nil:
		return nil, t.notCalled(t.name, err)
	}
	value, failed := encode(answer)
	if failed != nil {
		return nil, failed
	}
	return r.hide(ctx, from, t.name, value)
}

// originOf returns the origin of the personal data that a custom pattern may find in an answer about tokens. It is the origin of the tokens'
// values.
func originOf(tokens []pii.Token) pii.Origin {
	for _, token := range tokens {
		for _, origin := range token.Origins {
			return pii.Origin(origin)
		}
	}
	return pii.FromProgram
}

package gate

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/jsontext"
	"mcp-code-exec-harness/internal/policy"
	"mcp-code-exec-harness/internal/program"
	"mcp-code-exec-harness/internal/run"
)

// maxSkillDepth is how many skills may wait for each other in a chain of calls.
const maxSkillDepth = 8

// skillCall are the arguments of a call of a promoted skill beside its input.
type skillCall struct {
	within  []string // skills in whose code the call is, the outermost first
	have    string   // digest of the code that the guest has under the name of the call
	changed bool     // the input differs from the one that the program wrote
}

// skillCode is the answer to a call of a promoted skill. The guest executes the skill's function, in the realm of the program, so that all its calls go through
// the gate and the journal of the same run, and it has the limits of the run.
type skillCode struct {
	Name   string          `json:"name"`
	Digest string          `json:"digest"`
	Code   *program.Loaded `json:"code,omitempty"`  // nil if the guest has it
	Input  json.RawMessage `json:"input,omitempty"` // input of the function; absent if it is the one that the program wrote
}

// skill answers a call of a promoted skill with its code: steps 4 to 8. Nothing is sent, so personal data stays hidden, and there is no intent.
func (t *toolCall) skill(ctx context.Context, tool *catalog.Tool, shown json.RawMessage, in skillCall) (json.RawMessage, *frame.Error) {
	name, r := tool.FullName(), t.run
	t.name = name
	if len(in.within) >= maxSkillDepth {
		return nil, toolError(name, fmt.Sprintf("skills call each other more than %d deep: %s; a skill that calls itself has to end before that",
			maxSkillDepth, strings.Join(append(in.within, tool.Name), " > ")))
	}
	verdict := r.judge(ctx, tool, shown, nil)
	if verdict.Action == policy.Deny {
		return nil, t.forbidden(name, verdict)
	}
	if failed := t.refusal(ctx, name); failed != nil {
		return nil, failed
	}
	if failed := t.within(ctx, tool, shown, verdict, false); failed != nil {
		return nil, failed
	}
	args, _, err := r.scope.Privacy.RestoreArguments(ctx, shown, nil)
	if err != nil {
		return nil, t.notCalled(name, err)
	}
	if err := r.gate.opt.Catalog.Validate(ctx, r.scope.User, tool, args); err != nil {
		return nil, t.notCalled(name, err)
	}
	if verdict.Action == policy.Ask {
		if _, failed := t.approve(ctx, tool, verdict, shown, args); failed != nil {
			return nil, failed
		}
	}
	if failed := t.within(ctx, tool, shown, verdict, true); failed != nil {
		return nil, failed
	}
	answer, wrapped := skillCode{Name: tool.Name, Digest: tool.Content}, false
	err = r.gate.opt.Servers.Request(ctx, tool.Server, tool.Name, t.call.N, func(ctx context.Context) (err error) {
		answer.Code, wrapped, err = r.scope.Skill(ctx, tool, t.flight.Charge)
		return err
	})
	if err != nil {
		return nil, unmade(name, err)
	}
	if in.have == tool.Content {
		answer.Code = nil
	}
	if wrapped {
		var of struct {
			Input json.RawMessage `json:"input"`
		}
		if err := decode(shown, &of); err != nil {
			return nil, err
		}
		answer.Input = of.Input
	} else if in.changed {
		answer.Input = shown
	}
	traits := jsontext.Look(shown)
	t.flight.Tell(run.Told{Skill: true, Exact: traits.Big != "" || traits.Huge != ""})
	return encode(answer)
}

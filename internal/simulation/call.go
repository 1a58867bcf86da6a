package simulation

import (
	"encoding/json"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/gate"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/policy"
)

// call is a recorded call as a policy.Call, which policy can decide.
type call struct {
	policy.Call
	run   string
	n     int
	known bool      // whether the catalog has the tool
	began time.Time // beginning of the run
}

// callOf returns a call of a tool as a policy.Call, without tokens and roles.
func callOf(tool *catalog.Tool, user string, args json.RawMessage) policy.Call {
	t := tool.Annotations
	return policy.Call{
		Server: tool.Server, Tool: tool.FullName(), User: user, Args: args,
		ReadOnly: t.IsReadOnly(), Destructive: t.IsDestructive(), Idempotent: t.IsIdempotent(), OpenWorld: t.IsOpenWorld(),
		Destinations: tool.Destinations(),
	}
}

// IsToken reports whether a text is a token such as [PHONE_1] or pii_1e@d1.pii.invalid.
func IsToken(text string) bool {
	tokens := pii.Mentions(text)
	return len(tokens) == 1 && tokens[0].Text == text
}

// tokensOf converts tokens to policy.Tokens, without duplicates. origins maps the key of a token to the token's origins.
func tokensOf(mentions []pii.Mention, origins map[string][]string) (tokens []policy.Token) {
	seen := map[string]bool{}
	for _, m := range mentions {
		if !seen[m.Key] {
			seen[m.Key] = true
			tokens = append(tokens, policy.Token{Text: m.Text, Type: m.Type, Origins: origins[m.Key]})
		}
	}
	return tokens
}

// recorded converts a recorded host call to a policy.Call. known reports whether the tool of the call is known. ok is false for a call on which
// policy makes no decision.
func recorded(c *catalog.Catalog, user string, r *journal.Call) (of policy.Call, known, ok bool) {
	switch frame.Kind(r.Kind) {
	case frame.PII:
		return callOf(gate.Question(r.Name), user, r.Args), true, true
	case frame.Resource:
		tool, args, ok := gate.Fetched(r)
		if !ok {
			return policy.Call{}, false, false
		}
		return callOf(tool, user, args), true, true
	case frame.Tool:
	default:
		return policy.Call{}, false, false
	}
	var in struct {
		Server     string            `json:"server"`
		Input      json.RawMessage   `json:"input"`
		Positional []json.RawMessage `json:"positional"`
	}
	json.Unmarshal(r.Args, &in) // arguments that the gate could not decode are treated as absent
	tool, err := c.ResolveIn(in.Server, r.Name)
	if known = err == nil; !known && in.Server == "" && r.Name == gate.SessionFile().FullName() {
		tool, known = gate.SessionFile(), true
	} else if !known {
		server, name, ok := strings.Cut(r.Name, "__")
		if in.Server != "" || !ok {
			server, name = in.Server, r.Name
		}
		tool = &catalog.Tool{Server: server, Name: name}
	}
	args, err := tool.Arguments(in.Input, in.Positional)
	if err != nil {
		args = in.Input
	}
	return callOf(tool, user, args), known, true
}

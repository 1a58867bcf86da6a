package simulation

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/catalog/destination"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/gate"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/policy"
	"mcp-code-exec-harness/internal/tiers"
)

// Trial is a hypothetical call. Policy decides it, but it is not made.
type Trial struct {
	Tool string          // full name of the tool
	Args json.RawMessage // JSON object, which may contain tokens
	User string
	// Roles are the roles of the caller; nil if they are not known.
	Roles   []auth.Role
	Sandbox string // tier of the calling program; empty if it is not known
	Tokens  []Said // tokens with their origins; policy treats them as tokens of the arguments even if Args does not contain them
	Values  []Said // origins of strings and numbers in the arguments
	// Claims are annotations that replace those in the catalog; a nil field keeps the annotation of the catalog.
	Claims catalog.Annotations
}

// Said is a token or value with its origins. A list may contain the same text several times.
type Said struct {
	Text string   `json:"text" minLength:"1" maxLength:"1000" example:"pii_1e@d1.pii.invalid"`
	From []string `json:"from,omitempty" maxItems:"100" doc:"Full names of tools, or other origins such as task and user; absent: that is not known." example:"[\"crm__search\"]"`
}

// Tested is the result of a Trial.
type Tested struct {
	Tool        string `json:"tool" example:"mailer__send"`
	Known       bool   `json:"known" doc:"The catalog has it. One that it does not have is judged as one whose server claims nothing."`
	ReadOnly    bool   `json:"readOnly"`
	Destructive bool   `json:"destructive"`
	Idempotent  bool   `json:"idempotent"`
	OpenWorld   bool   `json:"openWorld"`

	Destinations []destination.Destination `json:"destinations" doc:"Arguments that say where the call sends something."`
	Verdict      policy.Verdict            `json:"verdict"`
	Judgements   []policy.Verdict          `json:"judgements" doc:"Of the call itself, and of each origin of each token. The strictest is the verdict."`
	Limits       map[string]string         `json:"limits" doc:"Limits of runs that rules lower for the caller."`
	Rules        []int                     `json:"-"` // numbers of the rules that lower the limits in Limits
	Warnings     []string                  `json:"warnings,omitempty" doc:"What is probably not meant in the rule that decides."`
}

// BadTrialError is the error of an invalid Trial. Its text contains no values of the trial.
type BadTrialError struct {
	Field   string // name of the field: tool, args, roles, sandbox or tokens
	Problem string
}

func (e *BadTrialError) Error() string { return e.Field + ": " + e.Problem }

// Check returns a *BadTrialError if a trial is not well formed.
func (t *Trial) Check() error {
	bad := func(field, problem string, args ...any) error {
		return &BadTrialError{field, fmt.Sprintf(problem, args...)}
	}
	if server, name, ok := strings.Cut(t.Tool, "__"); !ok || server == "" || name == "" {
		return bad("tool", "it is not the full name of a tool; write server__tool")
	}
	for _, role := range t.Roles {
		if _, err := auth.ParseRole(string(role)); err != nil && role != auth.Anonymous {
			return bad("roles", "a role is user, approver, admin or anonymous")
		}
	}
	if t.Sandbox != "" && !slices.Contains(tiers.Names, t.Sandbox) {
		return bad("sandbox", "there is no such tier; there are %s", strings.Join(tiers.Names, ", "))
	}
	for _, said := range t.Tokens {
		if !IsToken(said.Text) {
			return bad("tokens", "write a token such as [PHONE_1] or pii_1e@d1.pii.invalid")
		}
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(t.Args, &object) != nil || object == nil {
		return bad("args", `they are not a JSON object; write {"name": value, …}`)
	}
	return nil
}

// Test decides a trial by the policy of a configuration. The trial must have passed Check.
func Test(cfg *config.Config, c *catalog.Catalog, t Trial) *Tested {
	tool, err := c.Resolve(t.Tool)
	known := err == nil
	server, name, _ := strings.Cut(t.Tool, "__")
	switch {
	case known:
	case server == gate.QuestionServer && pii.IsQuestion(name):
		tool, known = gate.Question(name), true
	case t.Tool == gate.SessionFile().FullName():
		tool, known = gate.SessionFile(), true
	default:
		tool = &catalog.Tool{Server: server, Name: name}
	}
	call := callOf(t.claimed(tool), t.User, t.Args)
	call.Sandbox, call.Roles = t.Sandbox, t.Roles
	tokens := pii.Mentions(string(t.Args))
	origins := map[string][]string{} // origins by the keys of tokens
	for _, said := range t.Tokens {
		for _, token := range pii.Mentions(said.Text) {
			tokens = append(tokens, token)
			origins[token.Key] = append(origins[token.Key], said.From...)
		}
	}
	call.Tokens = tokensOf(tokens, origins)
	call.Origin = func(value string) policy.ValueOrigin { return policy.ValueOrigin{Said: from(t.Values, value)} }
	compiled := cfg.Compiled(cfg.Policy)
	of := &Tested{
		Tool: call.Tool, Known: known, ReadOnly: call.ReadOnly, Destructive: call.Destructive, Idempotent: call.Idempotent, OpenWorld: call.OpenWorld,
		Destinations: compiled.Destinations(call.Tool, call.Destinations),
		Verdict:      compiled.Decide(call), Judgements: compiled.Judgements(call),
	}
	if of.Destinations == nil {
		of.Destinations = []destination.Destination{}
	}
	of.Limits, of.Rules = cfg.Lowered(t.User, t.Roles)
	if at := of.Verdict.Rule; at > 0 && at <= len(cfg.Policy.Rules) && of.Verdict.Preset == "" && of.Verdict.Action == policy.Allow {
		for path, is := range cfg.Policy.Rules[at-1].Args {
			if is.Max != nil && is.Min == nil {
				of.Warnings = append(of.Warnings, fmt.Sprintf("rule %d bounds %s above only, so it allows every negative number; add min", at, path))
			}
		}
	}
	slices.Sort(of.Warnings)
	return of
}

// from returns the origins of a text.
func from(all []Said, text string) (origins []string) {
	for _, said := range all {
		if said.Text == text {
			origins = append(origins, said.From...)
		}
	}
	return origins
}

// claimed returns a copy of the tool with the annotations that the trial claims.
func (t *Trial) claimed(tool *catalog.Tool) *catalog.Tool {
	is := &catalog.Tool{Server: tool.Server, Name: tool.Name, Description: tool.Description, InputSchema: tool.InputSchema, Annotations: tool.Annotations}
	is.Annotations.ReadOnly = cmp.Or(t.Claims.ReadOnly, is.Annotations.ReadOnly)
	is.Annotations.Destructive = cmp.Or(t.Claims.Destructive, is.Annotations.Destructive)
	is.Annotations.Idempotent = cmp.Or(t.Claims.Idempotent, is.Annotations.Idempotent)
	is.Annotations.OpenWorld = cmp.Or(t.Claims.OpenWorld, is.Annotations.OpenWorld)
	return is
}

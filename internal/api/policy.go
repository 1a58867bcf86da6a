package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/policy"
	"mcp-code-exec-harness/internal/simulation"
)

// PolicyRule is a rule of a policy, in words.
type PolicyRule struct {
	Number int    `json:"rule" doc:"Its place in the policy, or in its preset. The first rule that fits a call decides."`
	Preset string `json:"preset,omitempty" doc:"The preset that has it; absent: the policy itself."`
	Action string `json:"action" enum:"allow,ask,deny"`
	Text   string `json:"text"`
}

// PolicyRules are the rules in effect.
type PolicyRules struct {
	Rules []PolicyRule `json:"rules" doc:"In the order in which they are tried. A call that none fits is allowed."`
	Runs  []string     `json:"runs" doc:"Rules that lower the limits of some callers, in words."`
	YAML  string       `json:"yaml" doc:"The section policy, as another one may begin." example:"preset: guarded\n"`
}

// rulesOf returns the rules of a policy in words: first its own rules, then those of its preset.
func rulesOf(p config.Policy) []PolicyRule {
	rules := []PolicyRule{}
	add := func(preset string, all []policy.Rule) {
		for i, r := range all {
			rules = append(rules, PolicyRule{Number: i + 1, Preset: preset, Action: string(r.Action), Text: r.String()})
		}
	}
	add("", p.Rules)
	add(p.Preset, config.PresetRules(p.Preset))
	return rules
}

// maxPolicy is the maximum size in bytes of the text of an OtherPolicy. It limits the number of rules that are tried for each call.
const maxPolicy = 64 << 10

// OtherPolicy is a policy that is not in effect.
type OtherPolicy struct {
	Policy string `json:"policy,omitempty" maxLength:"65536" doc:"The section policy of a configuration, in YAML or JSON: a list of rules, or a mapping with preset, rules and runs." example:"- {tools: \"mailer__*\", action: ask}"`
	Preset string `json:"preset,omitempty" enum:"open,guarded,careful,strict" doc:"A preset alone, instead of policy."`
}

// read parses the policy. ok is false if the request contains no policy.
func (o OtherPolicy) read() (p config.Policy, mistakes []simulation.Mistake, ok bool, err error) {
	switch {
	case o.Policy != "" && o.Preset != "":
		return p, nil, false, problem(http.StatusBadRequest, "policy or preset, not both")
	case len(o.Policy) > maxPolicy:
		return p, nil, false, problem(http.StatusBadRequest, fmt.Sprintf("policy has more than %d KiB", maxPolicy>>10))
	case o.Preset != "":
		return config.Policy{Preset: o.Preset}, nil, true, nil
	case o.Policy == "":
		return p, nil, false, nil
	}
	p, err = config.ParsePolicy([]byte(o.Policy), "policy")
	return p, simulation.Mistakes(err), true, nil
}

// sound parses the policy of a request that needs a policy without mistakes. The error says where the mistakes are, but does not repeat the text of
// the policy.
func (o OtherPolicy) sound() (p config.Policy, ok bool, err error) {
	p, mistakes, ok, err := o.read()
	if err != nil || len(mistakes) == 0 {
		return p, ok, err
	}
	failed := problem(http.StatusBadRequest, "")
	for _, m := range mistakes {
		at := "the policy cannot be read"
		if m.Line > 0 {
			at = fmt.Sprintf("line %d, column %d of the policy is wrong", m.Line, m.Column)
		}
		failed.Errors = append(failed.Errors, Detail{Message: at, Location: "body.policy"})
	}
	failed.Detail = failed.Errors[0].Message + ": POST /v1/policy/check says why"
	failed.Err = failed.Detail
	return p, false, failed
}

// PolicyCheck is the result of checking the text of a policy.
type PolicyCheck struct {
	Mistakes []simulation.Mistake `json:"mistakes" doc:"Empty: it is a policy."`
	Rules    []PolicyRule         `json:"rules" doc:"Its rules in words, with those of its preset; empty where it has mistakes."`
}

// ArgumentsObject keeps a JSON object as it was sent.
type ArgumentsObject struct{ raw json.RawMessage }

// UnmarshalJSON implements json.Unmarshaler.
func (o *ArgumentsObject) UnmarshalJSON(raw []byte) error {
	o.raw = bytes.Clone(raw)
	return nil
}

// Schema implements huma.SchemaProvider.
func (*ArgumentsObject) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true, Description: "Arguments of the call. Tokens in them are judged."}
}

// PolicyTrial describes a call that is judged but not made.
type PolicyTrial struct {
	_ struct{} `additionalProperties:"true"`
	OtherPolicy
	Tool    string            `json:"tool" minLength:"1" maxLength:"1024" example:"mailer__send"`
	Args    *ArgumentsObject  `json:"args,omitempty"`
	UserID  string            `json:"userId,omitempty" maxLength:"100" doc:"Who calls; by default the user of the caller, or local."`
	Roles   []auth.Role       `json:"roles,omitempty" maxItems:"4" enum:"user,approver,admin,anonymous" doc:"Roles of who calls; absent: they are not known, which counts against the call."`
	Sandbox string            `json:"sandbox,omitempty" enum:"wasm,process,docker" doc:"Tier that the calling program runs in; absent: it is not known."`
	Tokens  []simulation.Said `json:"tokens,omitempty" maxItems:"1000" doc:"Tokens in the arguments and where they came from. One that is not named is of unknown origin."`
	Values  []simulation.Said `json:"values,omitempty" maxItems:"1000" doc:"Strings and numbers in the arguments and where they came from. One that is not named is of unknown origin."`
}

// RecordedRuns selects the recorded runs that a request examines.
type RecordedRuns struct {
	UserID string    `json:"userId,omitempty" maxLength:"100" doc:"Only those of this user; by default those of the caller's user, or of all users for a caller who may act for all."`
	Since  time.Time `json:"since,omitzero" doc:"Only those that began since then."`
	Runs   int       `json:"runs,omitempty" minimum:"1" maximum:"1000" default:"200" doc:"The newest so many."`
}

// Limits of what one request examines.
const (
	recordedCalls   = 20_000
	recordedJournal = 32 << 20
	recordedArgs    = 256 << 10
	recordedOrigins = 32 << 20
	recordedTime    = 25 * time.Second // shorter than the time limit of a page of the dashboard
	maxChanges      = 500
)

// recorded returns the source of a caller's recorded calls, and a context that limits the time for reading them. A caller can have one such request
// at a time. leave must be called at the end of the request.
func (a *API) recorded(ctx context.Context, of RecordedRuns) (s *simulation.Source, in context.Context, leave func(), err error) {
	user, err := seeUser(ctx, of.UserID)
	if err != nil {
		return nil, nil, nil, err
	}
	exit, err := a.simulating.enter(ctx, identity(ctx).Caller())
	if err != nil {
		return nil, nil, nil, err
	}
	visitOf(ctx).answer.endTurn()
	in, cancel := context.WithTimeoutCause(ctx, recordedTime, problem(http.StatusGatewayTimeout,
		fmt.Sprintf("the runs could not be read within %s: ask for fewer runs, or use harness policy simulate", recordedTime)))
	a.opt.Harness.EnsureTools(in, identity(ctx).User)
	bounds := simulation.Bounds{
		User: user, Since: of.Since, Runs: cmp.Or(of.Runs, 200), Calls: recordedCalls, Bytes: recordedJournal, Args: recordedArgs, Origins: recordedOrigins,
	}
	source := &simulation.Source{Runs: a.opt.Harness.Runs(), Tasks: a.opt.Tasks, Catalog: a.opt.Harness.Catalog(), Who: identity(ctx), Bounds: bounds}
	end := func() {
		cancel()
		exit()
	}
	return source, in, end, nil
}

// policyFor returns the configuration with the policy in effect. It refuses callers without the role approver.
func (a *API) policyFor(ctx context.Context) (config.Config, error) {
	if err := identity(ctx).Require(auth.Approver); err != nil {
		return config.Config{}, err
	}
	if a.opt.Policy == nil {
		return config.Config{}, nil
	}
	return *a.opt.Policy, nil
}

func (a *API) addPolicy() {
	operation(a, endpoint{
		"getPolicy", "GET /v1/policy", "policy", http.StatusOK, "The rules in effect", "Takes the role approver.",
	}, func(ctx context.Context, _ *struct{}) (*body[PolicyRules], error) {
		cfg, err := a.policyFor(ctx)
		if err != nil {
			return nil, err
		}
		out := PolicyRules{rulesOf(cfg.Policy), []string{}, cfg.Policy.Text()}
		for _, r := range cfg.Policy.Runs {
			out.Runs = append(out.Runs, r.String())
		}
		return &body[PolicyRules]{out}, nil
	})

	operation(a, endpoint{
		"checkPolicy", "POST /v1/policy/check", "policy", http.StatusOK, "Check the text of a policy",
		"Takes the role approver. Says each mistake with its line and column. The policy in effect does not change.",
	}, func(ctx context.Context, in *struct {
		Body struct {
			_ struct{} `additionalProperties:"true"`
			OtherPolicy
		}
	},
	) (*body[PolicyCheck], error) {
		if _, err := a.policyFor(ctx); err != nil {
			return nil, err
		}
		other, mistakes, _, err := in.Body.read()
		if err != nil {
			return nil, err
		}
		out := PolicyCheck{list(mistakes), []PolicyRule{}}
		if len(mistakes) == 0 {
			out.Rules = rulesOf(other)
		}
		return &body[PolicyCheck]{out}, nil
	})

	operation(a, endpoint{
		"testPolicy", "POST /v1/policy/test", "policy", http.StatusOK, "Which rule decides a call, and why",
		"Takes the role approver. The call is not made. Judged is the policy in effect, unless the request has another.",
	}, func(ctx context.Context, in *struct{ Body PolicyTrial }) (*body[*simulation.Tested], error) {
		cfg, err := a.policyFor(ctx)
		if err != nil {
			return nil, err
		}
		other, given, err := in.Body.sound()
		if err != nil {
			return nil, err
		}
		if given {
			cfg.Policy = other
		}
		t := simulation.Trial{
			Tool: in.Body.Tool, Args: []byte("{}"), User: cmp.Or(in.Body.UserID, identity(ctx).User, "local"), Roles: in.Body.Roles, Sandbox: in.Body.Sandbox,
			Tokens: in.Body.Tokens, Values: in.Body.Values,
		}
		if in.Body.Args != nil {
			t.Args = in.Body.Args.raw
		}
		if len(t.Args) > recordedArgs {
			return nil, problem(http.StatusBadRequest, fmt.Sprintf("args: they have more than %d KiB", recordedArgs>>10))
		}
		if bad, ok := errors.AsType[*simulation.BadTrialError](t.Check()); ok {
			return nil, problem(http.StatusBadRequest, bad.Error())
		}
		a.opt.Harness.EnsureTools(ctx, identity(ctx).User)
		return &body[*simulation.Tested]{simulation.Test(&cfg, a.opt.Harness.Catalog(), t)}, nil
	})

	operation(a, endpoint{
		"simulatePolicy", "POST /v1/policy/simulation", "policy", http.StatusOK, "What another policy would have decided in recorded runs",
		"Takes the role approver. No call is made, and the policy in effect does not change. The answer has the first 500 calls that are decided differently, and no values. " +
			"It looks at 20,000 calls at most, at no journal of more than 32 MiB, and at no arguments of more than 256 KiB; unread says what was left out. One request of a caller is answered at a time.",
	}, func(ctx context.Context, in *struct {
		Body struct {
			_ struct{} `additionalProperties:"true"`
			OtherPolicy
			RecordedRuns
		}
	},
	) (*body[*simulation.Changes], error) {
		cfg, err := a.policyFor(ctx)
		if err != nil {
			return nil, err
		}
		other, given, err := in.Body.sound()
		if err == nil && !given {
			err = problem(http.StatusBadRequest, "policy or preset is required")
		}
		if err != nil {
			return nil, err
		}
		source, within, leave, err := a.recorded(ctx, in.Body.RecordedRuns)
		if err != nil {
			return nil, err
		}
		defer leave()
		found, err := source.Simulate(within, cfg.Compiled(cfg.Policy), cfg.Compiled(other))
		if err != nil {
			return nil, cmp.Or(context.Cause(within), err)
		}
		found.Changes = found.Changes[:min(len(found.Changes), maxChanges)]
		return &body[*simulation.Changes]{found}, nil
	})
}

package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/api"
	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/catalog/destination"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/gate"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/policy"
	"mcp-code-exec-harness/internal/tiers"
)

type policyCmd struct {
	Show         policyShowCmd         `cmd:"" help:"The rules in effect, or those of a preset." example:"policy show strict"`
	Test         policyTestCmd         `cmd:"" help:"Which rule decides a call, and why."`
	Destinations policyDestinationsCmd `cmd:"" help:"Arguments that say where tools send something, and why." example:"policy destinations mailer__*"`
	Simulate     policySimulateCmd     `cmd:"" help:"What another policy would have decided in recorded runs." example:"policy simulate stricter.yaml"`
	Confirm      policyConfirmCmd      `cmd:"" help:"Confirm, with the passphrase of approvals, the policy as it is now."`
}

type policyShowCmd struct {
	Preset string `arg:"" optional:"" help:"A preset: open, guarded, careful or strict. Its file can be copied into harness.yaml."`
}

// shownRule is a rule with its number, in the policy or in its preset.
type shownRule struct {
	Number int    `json:"rule"`
	Preset string `json:"preset,omitempty"`
	policy.Rule
}

// shownRunRule is a rule about runs.
type shownRunRule struct {
	Number int `json:"rule"`
	config.RunRule
	Limits map[string]string `json:"limits"`
}

// numbered are rules with their numbers; preset is empty for those of a configuration itself.
func numbered(preset string, of []policy.Rule) []shownRule {
	rules := make([]shownRule, len(of))
	for i, r := range of {
		rules[i] = shownRule{i + 1, preset, r}
	}
	return rules
}

// rulesOf are the rules of a configuration, its own before those of its preset.
func rulesOf(cfg *config.Config) []shownRule {
	return append(numbered("", cfg.Policy.Rules), numbered(cfg.Policy.Preset, config.PresetRules(cfg.Policy.Preset))...)
}

// rulesInWords are the rules as the dashboard shows them.
func rulesInWords(cfg *config.Config) (rules []api.PolicyRule) {
	for _, r := range rulesOf(cfg) {
		rules = append(rules, api.PolicyRule{Number: r.Number, Preset: r.Preset, Action: string(r.Action), Text: r.String()})
	}
	return rules
}

func (c *policyShowCmd) Run(a *app, cfg *config.Config) error {
	if c.Preset == "" {
		rules := rulesOf(cfg)
		const none = "no rules: every call is allowed; harness policy show guarded prints a preset"
		var rows []string
		for _, r := range rules {
			name := fmt.Sprintf("rule %d", r.Number)
			if r.Preset != "" {
				name += " of preset " + r.Preset
			}
			rows = append(rows, name+"\t"+string(r.Action)+"\t"+r.String())
		}
		runs := []shownRunRule{}
		for i, r := range cfg.Policy.Runs {
			runs = append(runs, shownRunRule{i + 1, r, r.Limits()})
			rows = append(rows, fmt.Sprintf("runs %d\tlower\t%s", i+1, r))
		}
		shown := map[string]any{"preset": cfg.Policy.Preset, "rules": list(rules), "runs": runs}
		return answerList(a, shown, rows, none, "", func(row string) string { return row })
	}
	text, ok := policy.Preset(c.Preset)
	if !ok {
		return usage(fmt.Errorf("there is no preset %q; the presets are %s", c.Preset, strings.Join(policy.Presets(), ", ")))
	}
	return a.answer(map[string]any{"preset": c.Preset, "rules": numbered(c.Preset, config.PresetRules(c.Preset))}, "%s", text)
}

type policyDestinationsCmd struct {
	Match []string `arg:"" optional:"" help:"Only the tools of these servers, or whose names fit, as in policies: crm, crm__*." names:"servers"`
}

func (policyDestinationsCmd) Help() string {
	return `Rules with destinations: default are about these arguments; the presets careful and strict have such a rule. Where a definition says too
little or too much, mcpServers.NAME.destinations has the paths for its tools.

Examples:
  harness policy destinations
  harness policy destinations mailer__send`
}

// shownDestinations are the destinations of a tool.
type shownDestinations struct {
	Tool         string                    `json:"tool"`
	Destinations []destination.Destination `json:"destinations"`
}

func (c *policyDestinationsCmd) Run(a *app, cfg *config.Config, h catalogued) error {
	tools, err := matching(h.Catalog().Tools(), c.Match)
	if err != nil {
		return err
	}
	compiled := cfg.Compiled(cfg.Policy)
	all := []shownDestinations{}
	var rows []string
	for _, t := range tools {
		of := compiled.Destinations(t.FullName(), t.Destinations())
		all = append(all, shownDestinations{t.FullName(), list(of)})
		for _, d := range of {
			rows = append(rows, fmt.Sprintf("%s\t%s\t%s\t%s", t.FullName(), d.Path, d.Kind, d.Reason))
		}
	}
	defer a.warnServers(h.harness)
	return answerList(a, all, rows, "no tool has a destination", "TOOL\tPATH\tKIND\tBECAUSE", func(row string) string { return row })
}

type policyTestCmd struct {
	Tool        string   `arg:"" help:"Tool, as server__tool."`
	Args        string   `help:"Arguments as a JSON object. Tokens in it are judged." default:"{}" placeholder:"JSON"`
	User        string   `help:"Who calls." default:"local"`
	Role        []string `help:"A role of the caller; several with commas. Without one the roles are not known." placeholder:"ROLE"`
	Sandbox     string   `help:"Tier of the sandbox that the program runs in: wasm, process or docker. Without it the tier is not known." aliases:"tier" placeholder:"TIER"`
	Token       []string `help:"A token in the arguments and where it came from; several origins with commas." placeholder:"TOKEN=ORIGIN" sep:"none"`
	Value       []string `help:"A string or number in the arguments and where it came from; several origins with commas." placeholder:"VALUE=ORIGIN" sep:"none"`
	ReadOnly    *bool    `help:"What the tool's server claims; by default what the catalog says." negatable:""`
	Destructive *bool    `help:"See --read-only." negatable:""`
	Idempotent  *bool    `help:"See --read-only." negatable:""`
	OpenWorld   *bool    `help:"See --read-only." negatable:""`
	Policy      string   `help:"A file with another policy than that of the configuration." placeholder:"FILE"`
}

func (policyTestCmd) Help() string {
	return `A token without an origin, and a value without one, is of unknown origin.

Examples:
  harness policy test crm__delete
  harness policy test mailer__send --token '[EMAIL_1]=crm__search' --token '[PHONE_1]=task'
  harness policy test bank__transfer --args '{"iban": "DE89"}' --value DE89=contacts__get
  harness policy test bank__transfer --args '{"amount": 500}' --user ann --role user --policy stricter.yaml`
}

func (c *policyTestCmd) check() error {
	if !strings.Contains(c.Tool, "__") {
		return fmt.Errorf("%q is not the full name of a tool; write server__tool", c.Tool)
	}
	for _, role := range c.Role {
		if _, err := auth.ParseRole(role); err != nil && auth.Role(role) != auth.Anonymous {
			return fmt.Errorf("--role: %w", err)
		}
	}
	if c.Sandbox != "" && !slices.Contains(tiers.Names, c.Sandbox) {
		return fmt.Errorf("--sandbox: there is no tier %q; there are %s", c.Sandbox, strings.Join(tiers.Names, ", "))
	}
	for _, t := range c.Token {
		if text, _, _ := strings.Cut(t, "="); tokenForm.FindString(text) != text || text == "" {
			return fmt.Errorf("--token %s: write a token such as '[EMAIL_1]', or with its origin '[EMAIL_1]=crm__search'", t)
		}
	}
	for _, v := range c.Value {
		if at := strings.LastIndex(v, "="); at < 0 || at == len(v)-1 {
			return fmt.Errorf("--value %s: write a value with its origin, such as 'DE89=contacts__get' or 'DE89=user'", v)
		}
	}
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(c.Args), &object) != nil || object == nil {
		return errors.New(`--args is not a JSON object; write '{"name": value, …}'`)
	}
	return nil
}

// tested is the answer of policy test.
type tested struct {
	Tool        string `json:"tool"`
	Known       bool   `json:"known"` // the catalog has it
	ReadOnly    bool   `json:"readOnly"`
	Destructive bool   `json:"destructive"`
	Idempotent  bool   `json:"idempotent"`
	OpenWorld   bool   `json:"openWorld"`
	// Destinations are the arguments that say where the call sends something.
	Destinations []destination.Destination `json:"destinations"`
	Verdict      policy.Verdict            `json:"verdict"`
	Judgements   []policy.Verdict          `json:"judgements"`
	Limits       map[string]string         `json:"limits"` // limits of runs that rules lower for the caller
}

func (c *policyTestCmd) Run(a *app, cfg *config.Config, h catalogued) error {
	rules := cfg.Policy
	if c.Policy != "" {
		var err error
		if rules, err = a.policyFile(c.Policy); err != nil {
			return err
		}
	}
	tool, err := h.Catalog().Resolve(c.Tool)
	known := err == nil
	server, name, _ := strings.Cut(c.Tool, "__")
	switch {
	case known:
	case server == gate.QuestionServer && pii.IsQuestion(name):
		tool, known = gate.Question(name), true
	case c.Tool == gate.SessionFile().FullName():
		tool, known = gate.SessionFile(), true
	default:
		tool = &catalog.Tool{Server: server, Name: name}
		a.warnServers(h.harness)
		fmt.Fprintf(a.Stderr, "harness: warning: the catalog has no tool %s; it is judged as one whose server claims nothing\n", c.Tool)
	}
	call := policyCall(c.claimed(tool), c.User, []byte(c.Args))
	call.Sandbox = c.Sandbox
	for _, role := range c.Role {
		call.Roles = append(call.Roles, auth.Role(role))
	}
	origins := map[string][]string{}
	tokens := tokenForm.FindAllString(c.Args, -1)
	for _, t := range c.Token {
		text, from, ok := strings.Cut(t, "=")
		if tokens = append(tokens, text); ok {
			origins[text] = append(origins[text], strings.Split(from, ",")...)
		}
	}
	call.Tokens = policyTokens(tokens, func(text string) []string { return origins[text] })
	values := map[string][]string{}
	for _, v := range c.Value {
		at := strings.LastIndex(v, "=")
		values[v[:at]] = append(values[v[:at]], strings.Split(v[at+1:], ",")...)
	}
	call.Origin = func(value string) policy.ValueOrigin { return policy.ValueOrigin{Said: values[value]} }
	compiled := cfg.Compiled(rules)
	found := tested{
		Tool: call.Tool, Known: known, ReadOnly: call.ReadOnly, Destructive: call.Destructive, Idempotent: call.Idempotent, OpenWorld: call.OpenWorld,
		Destinations: list(compiled.Destinations(call.Tool, call.Destinations)),
		Verdict:      compiled.Decide(call), Judgements: compiled.Judgements(call),
	}
	of := *cfg
	of.Policy = rules
	var by []int
	found.Limits, by = of.Lowered(c.User, call.Roles)
	if at := found.Verdict.Rule; at > 0 && at <= len(rules.Rules) && found.Verdict.Preset == "" && found.Verdict.Action == policy.Allow {
		for path, is := range rules.Rules[at-1].Args {
			if is.Max != nil && is.Min == nil {
				fmt.Fprintf(a.Stderr, "harness: warning: rule %d bounds %s above only, so it allows every negative number; add min\n", at, path)
			}
		}
	}
	if !a.flags.JSON {
		fmt.Fprintf(a.Stdout, "%s: %s\n", found.Verdict.Action, found.Verdict.Reason)
		if len(by) > 0 {
			var limits []string
			for _, key := range slices.Sorted(maps.Keys(found.Limits)) {
				limits = append(limits, key+" "+found.Limits[key])
			}
			fmt.Fprintf(a.Stdout, "programs of %s: %s (policy.runs %s)\n", c.User, strings.Join(limits, ", "), strings.Trim(fmt.Sprint(by), "[]"))
		}
		fmt.Fprintln(a.Stdout)
	}
	return answerList(a, found, found.Judgements, "", "JUDGED\tACTION\tBECAUSE", func(v policy.Verdict) string {
		judged := "the call"
		if v.Token != "" {
			judged = v.Token
		}
		return judged + "\t" + string(v.Action) + "\t" + v.Reason
	})
}

// claimed is the tool with the annotations that flags give.
func (c *policyTestCmd) claimed(tool *catalog.Tool) *catalog.Tool {
	is := &catalog.Tool{Server: tool.Server, Name: tool.Name, Description: tool.Description, InputSchema: tool.InputSchema, Annotations: tool.Annotations}
	is.Annotations.ReadOnly = cmp.Or(c.ReadOnly, is.Annotations.ReadOnly)
	is.Annotations.Destructive = cmp.Or(c.Destructive, is.Annotations.Destructive)
	is.Annotations.Idempotent = cmp.Or(c.Idempotent, is.Annotations.Idempotent)
	is.Annotations.OpenWorld = cmp.Or(c.OpenWorld, is.Annotations.OpenWorld)
	return is
}

// policyFile reads a policy of its own file.
func (a *app) policyFile(name string) (config.Policy, error) {
	text, err := os.ReadFile(a.path(name))
	if err != nil {
		return config.Policy{}, usage(err)
	}
	p, err := config.ParsePolicy(text, name)
	if err != nil {
		return config.Policy{}, usage(err)
	}
	return p, nil
}

// policyCall is a call as policy sees it, without tokens and roles.
func policyCall(tool *catalog.Tool, user string, args json.RawMessage) policy.Call {
	t := tool.Annotations
	return policy.Call{
		Server: tool.Server, Tool: tool.FullName(), User: user, Args: args,
		ReadOnly: t.IsReadOnly(), Destructive: t.IsDestructive(), Idempotent: t.IsIdempotent(), OpenWorld: t.IsOpenWorld(),
		Destinations: tool.Destinations(),
	}
}

// tokenForm matches tokens in a text.
var tokenForm = regexp.MustCompile(`\[([A-Z][A-Z0-9_]*)_[0-9]+\]`)

// policyTokens are tokens as policy sees them, each once.
func policyTokens(texts []string, origins func(text string) []string) (tokens []policy.Token) {
	for _, text := range texts {
		if !slices.ContainsFunc(tokens, func(t policy.Token) bool { return t.Text == text }) {
			kind := strings.TrimPrefix(tokenForm.FindStringSubmatch(text)[1], "PII_")
			tokens = append(tokens, policy.Token{Text: text, Type: kind, Origins: origins(text)})
		}
	}
	return tokens
}

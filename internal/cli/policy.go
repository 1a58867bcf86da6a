package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/catalog/destination"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/policy"
	"mcp-code-exec-harness/internal/simulation"
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

// shownRule is a rule with its number in the policy or in its preset.
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

// numbered returns rules with their numbers. preset is empty for the rules of the configuration itself.
func numbered(preset string, of []policy.Rule) []shownRule {
	rules := make([]shownRule, len(of))
	for i, r := range of {
		rules[i] = shownRule{i + 1, preset, r}
	}
	return rules
}

// rulesOf returns the rules of a configuration, followed by those of its preset.
func rulesOf(cfg *config.Config) []shownRule {
	return append(numbered("", cfg.Policy.Rules), numbered(cfg.Policy.Preset, config.PresetRules(cfg.Policy.Preset))...)
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
  harness policy test mailer__send --token pii_1e@d1.pii.invalid=crm__search --token '[PHONE_1]=task'
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
		if text, _, _ := strings.Cut(t, "="); !simulation.IsToken(text) {
			return fmt.Errorf("--token %s: write a token such as '[PHONE_1]' or pii_1e@d1.pii.invalid, or with its origin '[PHONE_1]=crm__search'", t)
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

// trial returns the call that the flags describe.
func (c *policyTestCmd) trial() simulation.Trial {
	t := simulation.Trial{
		Tool: c.Tool, Args: []byte(c.Args), User: c.User, Sandbox: c.Sandbox,
		Claims: catalog.Annotations{ReadOnly: c.ReadOnly, Destructive: c.Destructive, Idempotent: c.Idempotent, OpenWorld: c.OpenWorld},
	}
	for _, role := range c.Role {
		t.Roles = append(t.Roles, auth.Role(role))
	}
	for _, token := range c.Token {
		text, from, ok := strings.Cut(token, "=")
		said := simulation.Said{Text: text}
		if ok {
			said.From = strings.Split(from, ",")
		}
		t.Tokens = append(t.Tokens, said)
	}
	for _, v := range c.Value {
		at := strings.LastIndex(v, "=")
		t.Values = append(t.Values, simulation.Said{Text: v[:at], From: strings.Split(v[at+1:], ",")})
	}
	return t
}

func (c *policyTestCmd) Run(a *app, cfg *config.Config, h catalogued) error {
	of := *cfg
	if c.Policy != "" {
		var err error
		if of.Policy, err = a.policyFile(c.Policy); err != nil {
			return err
		}
	}
	found := simulation.Test(&of, h.Catalog(), c.trial())
	if !found.Known {
		a.warnServers(h.harness)
		fmt.Fprintf(a.Stderr, "harness: warning: the catalog has no tool %s; it is judged as one whose server claims nothing\n", c.Tool)
	}
	for _, warning := range found.Warnings {
		fmt.Fprintf(a.Stderr, "harness: warning: %s\n", warning)
	}
	if !a.flags.JSON {
		fmt.Fprintf(a.Stdout, "%s: %s\n", found.Verdict.Action, found.Verdict.Reason)
		if len(found.Rules) > 0 {
			var limits []string
			for _, key := range slices.Sorted(maps.Keys(found.Limits)) {
				limits = append(limits, key+" "+found.Limits[key])
			}
			fmt.Fprintf(a.Stdout, "programs of %s: %s (policy.runs %s)\n", c.User, strings.Join(limits, ", "), strings.Trim(fmt.Sprint(found.Rules), "[]"))
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

// policyFile reads a policy from a separate file.
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

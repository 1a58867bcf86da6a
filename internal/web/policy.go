package web

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"mcp-code-exec-harness/internal/api"
	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/policy"
	"mcp-code-exec-harness/internal/simulation"
	"mcp-code-exec-harness/internal/startup"
)

// policyPage is the page of the policy: the rules in effect, a form to test a call, and a form to try another policy.
type policyPage struct {
	api.PolicyRules
	Presets []string
	Trial   policyTrial
	Other   otherPolicy
}

// policyTrial is the form that tests a call, and its result.
type policyTrial struct {
	Tool, Args, User, Role, Origins string
	Error                           string
	Found                           *simulation.Tested
}

// otherPolicy is the form for another policy, and what that policy would have decided.
type otherPolicy struct {
	Text, User, Runs string
	Error            string
	Mistakes         []simulation.Mistake
	Rules            []api.PolicyRule // rules in words
	Found            *simulation.Changes
	Saved            string // section of harness.yaml that puts the policy into effect
}

func (v *visit) policy() error {
	page := policyPage{Trial: policyTrial{Tool: v.query("tool"), Args: "{}"}}
	return v.showPolicy(http.StatusOK, page)
}

// showPolicy shows the page with the input of its forms. Without a text, the editor shows the policy in effect, possibly with the preset that the address
// names.
func (v *visit) showPolicy(status int, page policyPage) error {
	if err := v.get("/v1/policy", &page.PolicyRules); err != nil {
		return err
	}
	page.Presets = policy.Presets()
	if page.Trial.Args == "" {
		page.Trial.Args = "{}"
	}
	if page.Other.Text == "" {
		page.Other.Text = page.YAML
		if from := v.query("from"); slices.Contains(page.Presets, from) { // the policy keeps its own rules; the rules of the preset come after them
			_, rules, _ := strings.Cut(page.YAML, "\n")
			page.Other.Text = "preset: " + from + "\n" + rules
		}
	}
	if page.Other.Runs == "" {
		page.Other.Runs = "200"
	}
	return v.render(status, "policy", view{Title: "Policy", Nav: "policy", Body: page})
}

// testPolicy shows which rule decides a call. It makes no call.
func (v *visit) testPolicy() error {
	of := policyTrial{
		Tool: strings.TrimSpace(v.form("tool")), Args: v.form("args"), User: strings.TrimSpace(v.form("userId")), Role: v.form("role"), Origins: v.form("origins"),
	}
	ask := map[string]any{"tool": of.Tool}
	if of.User != "" {
		ask["userId"] = of.User
	}
	if of.Role != "" {
		ask["roles"] = []string{of.Role}
	}
	if strings.TrimSpace(of.Args) != "" {
		if !json.Valid([]byte(of.Args)) {
			of.Error = "The arguments are not JSON."
			return v.showPolicy(http.StatusBadRequest, policyPage{Trial: of})
		}
		ask["args"] = json.RawMessage(of.Args)
	}
	var tokens, values []simulation.Said
	for line := range strings.Lines(of.Origins) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		at := strings.LastIndex(line, "=")
		if at < 1 {
			of.Error = "Write each origin on a line of its own, such as pii_1e@d1.pii.invalid = crm__search or DE89 = user."
			return v.showPolicy(http.StatusBadRequest, policyPage{Trial: of})
		}
		said := simulation.Said{Text: strings.TrimSpace(line[:at])}
		for from := range strings.SplitSeq(line[at+1:], ",") {
			if from = strings.TrimSpace(from); from != "" {
				said.From = append(said.From, from)
			}
		}
		if simulation.IsToken(said.Text) {
			tokens = append(tokens, said)
		} else {
			values = append(values, said)
		}
	}
	ask["tokens"], ask["values"] = noNil(tokens), noNil(values)
	var found simulation.Tested
	err := v.send(http.MethodPost, "/v1/policy/test", ask, &found)
	if refused, ok := errors.AsType[*refusal](err); ok && refused.Status == http.StatusBadRequest {
		of.Error = refused.Error()
		return v.showPolicy(refused.Status, policyPage{Trial: of})
	}
	if err != nil {
		return err
	}
	of.Found = &found
	return v.showPolicy(http.StatusOK, policyPage{Trial: of})
}

func noNil[T any](all []T) []T {
	if all == nil {
		return []T{}
	}
	return all
}

// policyText returns the policy of a form with \n as line ends, since browsers send \r\n for a textarea.
func (v *visit) policyText() string { return strings.ReplaceAll(v.form("policy"), "\r\n", "\n") }

// checkPolicy checks the policy in the editor while a person writes it.
func (v *visit) checkPolicy() error {
	var got api.PolicyCheck
	if err := v.send(http.MethodPost, "/v1/policy/check", map[string]string{"policy": v.policyText()}, &got); err != nil {
		return err
	}
	problems := []problem{}
	for _, m := range got.Mistakes {
		problems = append(problems, problem{m.Line, m.Column, clip.Visible(clip.Counted(m.Message, 2<<10)), "error"})
	}
	return v.json(map[string]any{"problems": problems})
}

// simulatePolicy shows what another policy would have decided. It does not change the policy in effect.
func (v *visit) simulatePolicy() error {
	of := otherPolicy{Text: v.policyText(), User: strings.TrimSpace(v.form("userId")), Runs: strings.TrimSpace(v.form("runs"))}
	var check api.PolicyCheck
	err := v.send(http.MethodPost, "/v1/policy/check", map[string]string{"policy": of.Text}, &check)
	if err == nil && len(check.Mistakes) > 0 {
		of.Mistakes = check.Mistakes
		return v.showPolicy(http.StatusBadRequest, policyPage{Other: of})
	}
	if err == nil {
		ask := map[string]any{"policy": of.Text}
		if of.User != "" {
			ask["userId"] = of.User
		}
		if n, wrong := strconv.Atoi(of.Runs); wrong == nil {
			ask["runs"] = n
		} else if of.Runs != "" {
			ask["runs"] = 0 // out of range, so that the API explains the error
		}
		of.Found = &simulation.Changes{}
		err = v.send(http.MethodPost, "/v1/policy/simulation", ask, of.Found)
	}
	if refused, ok := errors.AsType[*refusal](err); ok && refused.Status != http.StatusForbidden {
		of.Found, of.Error = nil, refused.Error()
		return v.showPolicy(refused.Status, policyPage{Other: of})
	}
	if err != nil {
		return err
	}
	of.Rules, of.Saved = check.Rules, saved(of.Text)
	return v.showPolicy(http.StatusOK, policyPage{Other: of})
}

// wholeFile matches a text with the key policy at its top level.
var wholeFile = startup.Regexp(`(?m)^(?:policy\s*:|\s*\{\s*"?policy"?\s*:)`)

// saved returns a policy as a section of harness.yaml.
func saved(text string) string {
	if wholeFile().MatchString(text) {
		return text
	}
	var b strings.Builder
	b.WriteString("policy:\n")
	for line := range strings.Lines(strings.TrimRight(text, "\n") + "\n") {
		if strings.TrimSpace(line) != "" {
			line = "  " + line
		}
		b.WriteString(line)
	}
	return b.String()
}

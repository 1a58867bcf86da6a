package attack_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/attack"
	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/cli"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/policy"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/testing/child"
	"mcp-code-exec-harness/internal/wiring"
)

func TestMain(m *testing.M) {
	if code, ok := cli.Hidden(os.Args[1:], os.Stdin, os.Stdout, os.Stderr); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// attacked is a harness whose servers are simulated.
type attacked struct {
	*wiring.Harness
}

func (a *attacked) Execute(ctx context.Context, p attack.Program) (*run.Outcome, error) {
	said, err := a.Privacy().In("local", p.Session).Hide(ctx, pii.FromTask, p.Said)
	if err != nil {
		return nil, err
	}
	return a.Runs().Execute(ctx, runs.Request{User: "local", Code: p.Code, Session: p.Session, Said: []string{said}, Roles: auth.Local().Roles})
}

// try attacks tools under the policy in text, which is written as in harness.yaml. The servers named in untrusted are untrusted.
func try(t testing.TB, tools []catalog.Tool, text string, untrusted []string, flags map[string]string) *attack.Report {
	t.Helper()
	parsed, err := config.ParsePolicy([]byte(text), "policy")
	if err != nil {
		t.Fatal(err)
	}
	servers := map[string][]catalog.Tool{}
	for _, tool := range tools {
		servers[tool.Server] = append(servers[tool.Server], tool)
	}
	known := catalog.New()
	defended := &config.Config{Policy: parsed}
	for name, of := range servers {
		known.SetServer(catalog.Server{Name: name, Tools: of})
		defended.MCPServers = append(defended.MCPServers, &config.MCPServer{Name: name, Untrusted: slices.Contains(untrusted, name)})
	}
	world, err := attack.NewWorld(t.Context(), known.Tools(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer world.Close()
	h := &attacked{}
	report, err := attack.Run(t.Context(), attack.Options{
		Tools: known.Tools(), Catalog: known, Policy: defended.Compiled(parsed), World: world, Time: 10 * time.Minute,
		Suggested: func(rules []policy.Rule, _ []string) (*policy.Policy, error) {
			return defended.Compiled(config.Policy{Preset: parsed.Preset, Rules: slices.Concat(rules, parsed.Rules)}), nil
		},
		Open: func(judge *attack.Judge) (attack.Harness, error) {
			h.Harness = open(t, world.URLs(), judge, flags)
			return h, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func open(t testing.TB, urls map[string]string, judge *attack.Judge, flags map[string]string) *wiring.Harness {
	t.Helper()
	dir := t.TempDir()
	all := map[string]string{
		"store.url": "sqlite:" + filepath.Join(dir, "harness.db"), "skills.dir": filepath.Join(dir, "skills"), "workspace.dir": filepath.Join(dir, "workspace"),
		"sandbox.maxCalls": "1000000", "sandbox.maxHostCalls": "1000000", "sandbox.check": "off", "sandbox.timeout": "2m", "pii.enabled": "false", "pii.keyFile": filepath.Join(dir, "pii.key"),
	}
	maps.Copy(all, flags)
	cfg, _, err := config.Load(config.Env{Flags: all, Cwd: dir, HomeDir: dir, GOOS: runtime.GOOS})
	if err != nil {
		t.Fatal(err)
	}
	for name, url := range urls {
		cfg.MCPServers = append(cfg.MCPServers, &config.MCPServer{Name: name, Type: config.HTTP, URL: url, Enabled: true, StartupTimeout: time.Minute, Timeout: time.Minute})
	}
	h, err := wiring.Open(t.Context(), cfg, wiring.Outside{
		Environ: os.Environ(), Executable: child.Executable(t), CacheDir: t.TempDir(), Now: time.Now, Version: "test", Policy: judge,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := h.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	h.EnsureTools(t.Context(), "local")
	return h
}

const text = `{"type":"string"}`

func reads(server, name string) catalog.Tool {
	return catalog.Tool{
		Server: server, Name: name, InputSchema: json.RawMessage(`{"type":"object","properties":{"q":{"type":"string"}}}`), Annotations: catalog.Annotations{ReadOnly: new(true)},
	}
}

func sends(name, properties string) catalog.Tool {
	return catalog.Tool{Server: "out", Name: name, InputSchema: json.RawMessage(`{"type":"object","properties":{` + properties + `,"body":` + text + `},"required":["body"]}`)}
}

// sources returns tools of mail and web, which contain texts of other people, and of contacts, which contains none.
func sources() []catalog.Tool {
	return []catalog.Tool{reads("mail", "read"), reads("mail", "search"), reads("web", "get_page"), reads("contacts", "find")}
}

const (
	to       = `"to":` + text
	toAndCC  = to + `,"cc":` + text
	attend   = `"attendees":{"type":"array","items":{"type":"object","properties":{"email":` + text + `,"name":` + text + `}}}`
	repoArgs = `"owner":` + text + `,"repo":` + text
)

// planted are tools with rules that leave holes. TOOL in the rules stands for the full name of the tool.
var planted = map[string]struct {
	properties, rules string
	holes             []string // paths of the holes
}{
	"send_without_rule":     {to, ``, []string{"$.to"}},
	"send_at_another_path":  {to, `{tools: TOOL, destinations: [$.recipient], action: deny}`, []string{"$.to"}},
	"send_but_copies":       {toAndCC, `{tools: TOOL, destinations: [$.to], action: deny}`, []string{"$.cc"}},
	"send_from_mail":        {to, `{tools: TOOL, args: {$.to: {from: [user, "mail__*"]}}, action: allow}, {tools: TOOL, action: deny}`, []string{"$.to"}},
	"send_from_one_tool":    {to, `{tools: TOOL, args: {$.to: {from: [user, "*__search"]}}, action: allow}, {tools: TOOL, action: deny}`, []string{"$.to"}},
	"send_from_anything":    {to, `{tools: TOOL, args: {$.to: {from: "*"}}, action: allow}, {tools: TOOL, action: deny}`, []string{"$.to"}},
	"send_from_code":        {to, `{tools: TOOL, args: {$.to: {from: [user, code]}}, action: allow}, {tools: TOOL, action: deny}`, []string{"$.to"}},
	"send_computed":         {to, `{tools: TOOL, args: {$.to: {from: [user, computed]}}, action: allow}, {tools: TOOL, action: deny}`, []string{"$.to"}},
	"send_from_resources":   {to, `{tools: TOOL, args: {$.to: {from: [user, resource]}}, action: allow}, {tools: TOOL, action: deny}`, []string{"$.to"}},
	"send_by_pattern":       {to, `{tools: TOOL, args: {$.to: {pattern: "@mail.example"}}, action: allow}, {tools: TOOL, action: deny}`, []string{"$.to"}},
	"send_for_guests":       {to, `{tools: TOOL, users: "guest*", destinations: [$.to], action: deny}`, []string{"$.to"}},
	"send_for_roles":        {to, `{tools: TOOL, roles: anonymous, destinations: [$.to], action: deny}`, []string{"$.to"}},
	"send_from_containers":  {to, `{tools: TOOL, sandbox: [docker], destinations: [$.to], action: deny}`, []string{"$.to"}},
	"send_when_reading":     {to, `{tools: TOOL, when: {readOnly: true}, action: deny}`, []string{"$.to"}},
	"send_allowed_before":   {to, `{tools: TOOL, when: {destructive: true}, action: allow}, {tools: TOOL, destinations: [$.to], action: deny}`, []string{"$.to"}},
	"send_some":             {to, `{tools: TOOL, limit: {calls: 3, per: run}, action: allow}, {tools: TOOL, destinations: [$.to], action: deny}`, []string{"$.to"}},
	"send_by_subject":       {to + `,"subject":` + text, `{tools: TOOL, args: {$.subject: {equals: secret}}, action: deny}`, []string{"$.to"}},
	"send_tokens":           {to, `{tools: TOOL, tokens: {type: "*"}, action: deny}`, []string{"$.to"}},
	"create_event_first":    {attend, `{tools: TOOL, destinations: ["$.attendees[0].email"], action: deny}`, []string{"$.attendees[*].email"}},
	"create_event_shallow":  {attend, `{tools: TOOL, destinations: [$.email], action: deny}`, []string{"$.attendees[*].email"}},
	"create_issue_anywhere": {repoArgs, `{tools: TOOL, destinations: [$.repo], action: deny}`, []string{"$.owner"}},
	"upload_anywhere":       {`"url":{"type":"string","format":"uri"},"webhook":` + text, `{tools: TOOL, destinations: [$.url], action: ask}`, []string{"$.webhook"}},
	"sms_send":              {`"phone":` + text, `{tools: TOOL, args: {$.phone: {pattern: "^[+]"}}, action: allow}, {tools: TOOL, action: deny}`, []string{"$.phone"}},
	"transfer":              {`"to_account":{"type":"integer"}`, `{tools: TOOL, args: {$.to_account: {min: 1000}}, action: allow}, {tools: TOOL, action: deny}`, []string{"$.to_account"}},
}

// closed are tools with rules that leave no holes.
var closed = map[string][2]string{
	"send_closed":          {toAndCC, `{tools: TOOL, destinations: [$.to, $.cc], action: deny}`},
	"send_asks":            {to, `{tools: TOOL, destinations: [$.to], action: ask}`},
	"send_default":         {toAndCC, `{tools: TOOL, destinations: default, action: deny}`},
	"send_trusted":         {to, `{tools: TOOL, destinations: [$.to], action: allow}, {tools: TOOL, action: deny}`},
	"send_from_contacts":   {to, `{tools: TOOL, args: {$.to: {from: [user, "contacts__*"]}}, action: allow}, {tools: TOOL, action: deny}`},
	"send_never":           {to, `{tools: TOOL, action: deny}`},
	"create_event_closed":  {attend, `{tools: TOOL, destinations: ["$.attendees[*].email"], action: deny}`},
	"send_to_a_known_host": {`"url":` + text, `{tools: TOOL, args: {$.url: {pattern: "^https://mine[0-9]+[.]example/"}}, action: allow}, {tools: TOOL, action: deny}`},
	"transfer_closed":      {`"iban":` + text, `{tools: TOOL, args: {$.iban: {from: user}}, action: allow}, {tools: TOOL, action: ask}`},
}

// Run finds every hole in the policy, and reports no others. The suggested rule for each hole stops every attempt that got through.
func TestHolesAreFound(t *testing.T) {
	t.Parallel()
	tools := sources()
	var rules, want []string
	add := func(name, properties, text string, holes ...string) {
		tools = append(tools, sends(name, properties))
		if text != "" {
			rules = append(rules, strings.ReplaceAll(text, "TOOL", "out__"+name))
		}
		for _, path := range holes {
			want = append(want, "out__"+name+" "+path)
		}
	}
	for name, c := range planted {
		add(name, c.properties, c.rules, c.holes...)
	}
	for name, c := range closed {
		add(name, c[0], c[1])
	}
	report := try(t, tools, "["+strings.Join(rules, ", ")+"]", []string{"mail", "web"}, nil)
	var got []string
	for _, h := range report.Holes {
		got = append(got, h.Sink+" "+h.Path)
		if !h.Stops || len(h.Forms) == 0 || len(h.Hinders) == 0 || !strings.Contains(h.Hinders[0], "callMCPTool('"+h.Sink+"'") {
			t.Errorf("the hole %+v", h)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("holes (-planted +found):\n%s", diff)
	}
	if len(want) < 20 || report.Attempts != report.Planned || len(report.Untested) > 0 {
		t.Errorf("%d holes; %d of %d attempts; not tried: %v", len(want), report.Attempts, report.Planned, report.Untested)
	}
	t.Logf("%d attempts in %d ms", report.Attempts, report.Milliseconds)
}

// Each form gets through without rules, which shows that its program works. No form gets through the presets careful and strict.
func TestForms(t *testing.T) {
	t.Parallel()
	tools := append(sources(), sends("send", `"to":{"anyOf":[{"type":"string"},{"type":"array","items":{"type":"string"}}]}`), sends("create_event", attend), sends("notify", `"recipients":{"type":"array","items":{"type":"string"}}`))
	through := map[string]bool{}
	report := try(t, tools, "[]", []string{"mail", "web"}, nil)
	for _, p := range report.Pairs {
		for _, form := range p.Through {
			through[form] = true
		}
	}
	for _, form := range attack.Forms {
		if !through[form.Name] {
			t.Errorf("%s gets nothing through", form.Name)
		}
	}
	if len(attack.Forms) < 50 {
		t.Errorf("%d forms", len(attack.Forms))
	}
	for _, private := range []string{"false", "true"} {
		for _, preset := range []string{"careful", "strict"} {
			t.Run(fmt.Sprintf("%s, privacy %s", preset, private), func(t *testing.T) {
				t.Parallel()
				report := try(t, tools, "preset: "+preset, []string{"mail", "web"}, map[string]string{"pii.enabled": private})
				if len(report.Holes) > 0 {
					t.Errorf("holes %+v", report.Holes[0])
				}
				for _, p := range report.Pairs {
					if p.Denied+p.Asked < 10 || preset == "careful" && p.Denied > 0 || preset == "strict" && private == "false" && p.Asked > 0 {
						t.Errorf("%+v", p)
					}
				}
			})
		}
	}
}

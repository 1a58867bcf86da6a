package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/testing/fake"
)

// TestSkillOfATask is the life of a skill: a task that was done twice becomes a skill by the command that its result names, is tested, promoted and shared, and is
// found by the model of another user for a request in other words, whose program calls it as a function. It fails loudly after its server has renamed a field, is
// mended, and its versions are compared and rolled back.
func TestSkillOfATask(t *testing.T) {
	t.Parallel()
	f := setup(t)
	var field atomic.Value
	field.Store("amount")
	f.upstream(map[*mcp.Tool]mcp.ToolHandler{
		{Name: "invoices", Description: "Lists invoices.", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}, InputSchema: json.RawMessage(`{"type":"object","properties":{"status":{"type":"string"}}}`)}: func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(`[{"no":1,"%[1]s":20.5},{"no":2,"%[1]s":21.5}]`, field.Load())}}}, nil
		},
		{Name: "currency", Description: "The currency of the books.", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}, InputSchema: json.RawMessage(`{"type":"object"}`)}: func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "EUR"}}}, nil
		},
	})
	const program = "// Adds up the unpaid invoices of customers.\nconst all = await tools.up.invoices({ status: 'unpaid' })\n" +
		"const currency = await tools.up.currency({})\nreturn all.reduce((sum, i) => sum + Number(i.amount.toFixed(2)), 0) + ' ' + currency"
	var name, found string // function that the model of the other user has found, and what the search said
	named := regexp.MustCompile(`skills__@?[\w/-]+`)
	model := f.modelled(func(r fake.Request) fake.Reply {
		last := r.Last()
		switch asked := string(r.Raw); {
		case strings.Contains(asked, "How much money is outstanding?") && r.Last().Role == "user":
			return fake.Reply{Calls: []fake.Call{{Name: "search_tools", Input: `{"query":"sum of open customer bills that were not paid yet"}`}}}
		case strings.Contains(asked, "How much money is outstanding?") && name == "":
			found = asked
			name = named.FindString(asked)
			return code("return await callMCPTool('" + name + "', {})")
		case last.Role == "user":
			return code(program)
		}
		return fake.Reply{Text: "Done."}
	})
	if r := f.run("run", "Add up what is unpaid.").want(0); strings.Contains(r.stderr, "same program") {
		t.Errorf("the first task: %s", r.stderr)
	}
	second := f.run("run", "Again: add up what is unpaid.").want(0)
	command := regexp.MustCompile("This task ran the same program as task_\\w+; `harness skills new NAME --from (run_\\w+)` keeps it").FindStringSubmatch(second.stderr)
	if command == nil {
		t.Fatalf("the second task says\n%s", second.stderr)
	}
	if r := f.run("run", "And again: add up what is unpaid.").want(0); strings.Contains(r.stderr, "same program") {
		t.Errorf("it is said twice: %s", r.stderr)
	}
	f.run("skills", "new", "unpaid", "--from", command[1]).want(0)
	f.run("skills", "test", "unpaid").want(0)
	f.run("skills", "promote", "unpaid").want(0)
	if r := f.run("tools", "types", "skills").want(0); !strings.Contains(r.stdout, "unpaid(") {
		t.Errorf("types\n%s", r.stdout)
	}

	share := func() {
		f.run("skills", "share", "unpaid", "--with", "bob", "--role", "use").want(0)
		var waiting []struct{ Digest string }
		f.run("skills", "review", "--user", "bob", "--json").want(0).value(&waiting)
		if len(waiting) != 1 {
			t.Fatalf("bob has to review %+v", waiting)
		}
		f.run("skills", "review", "@local/unpaid", "--approve", waiting[0].Digest, "--user", "bob").want(0)
	}
	share()
	answer := f.run("run", "--user", "bob", "--json", "How much money is outstanding?").want(0)
	if name != "skills__@local/unpaid" || !strings.Contains(answer.stdout, "42 EUR") || strings.Contains(answer.stdout, "repeats") {
		t.Errorf("bob's model calls %q: %s\n%s", name, answer.stdout, found)
	}
	if refused := model.Refused(); len(refused) > 0 {
		t.Errorf("the model server refused %q", refused)
	}

	field.Store("total")
	const call = "return await tools.skills['@local/unpaid']({})"
	if r := f.run("exec", "--user", "bob", "-e", call).want(1); !strings.Contains(r.stderr, "/skills/@local/unpaid/index.js") || !strings.Contains(r.stderr, "TypeError") {
		t.Errorf("after the server has renamed a field: %s", r.stderr)
	}
	if r := f.run("skills", "list", "--user", "local").want(0); !strings.Contains(r.stdout, "passed, promoted") {
		t.Errorf("list\n%s", r.stdout)
	}
	f.write("index.js", strings.Replace(f.run("files", "get", "/skills", "unpaid/index.js", "-").want(0).stdout, "i.amount", "(i.total ?? i.amount)", 1))
	f.run("files", "put", "/skills", "index.js", "unpaid/index.js").want(0)
	f.run("skills", "test", "unpaid").want(0)
	f.run("skills", "promote", "unpaid").want(0)
	f.run("skills", "share", "unpaid").want(0)
	var waiting []struct{ Digest string }
	f.run("skills", "review", "--user", "bob", "--json").want(0).value(&waiting)
	f.run("skills", "review", "@local/unpaid", "--approve", waiting[0].Digest, "--user", "bob").want(0)
	if r := f.run("exec", "--user", "bob", "-e", call).want(0); !strings.Contains(r.stdout, "42 EUR") {
		t.Errorf("mended: %s", r.stdout)
	}
	if r := f.run("skills", "diff", "unpaid", "1", "2").want(0); !strings.Contains(r.stdout, "i.total ?? i.amount") {
		t.Errorf("diff\n%s", r.stdout)
	}
	f.run("skills", "restore", "unpaid", "1").want(0)
	if r := f.run("exec", "-e", "return await tools.skills.unpaid({})").want(1); !strings.Contains(r.stderr, "has changed since it was promoted") {
		t.Errorf("rolled back without a promotion: %s", r.stderr)
	}
	field.Store("amount")
	f.run("skills", "test", "unpaid").want(0)
	f.run("skills", "promote", "unpaid").want(0)
	if r := f.run("exec", "-e", "return await tools.skills.unpaid({})").want(0); !strings.Contains(r.stdout, "42 EUR") {
		t.Errorf("rolled back: %s", r.stdout)
	}
}

// TestPromotedToolIsDecided: a rule about the function of a skill holds for the tool of MCP clients too.
func TestPromotedToolIsDecided(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.write("harness.yaml", "policy: {rules: [{tools: skills__one, action: allow}]}\n")
	f.write("one.js", "/** Says one. */\nexport default () => 1\n")
	f.run("files", "put", "/skills", "one.js", "one.js").want(0)
	f.run("skills", "promote", "one", "--untested").want(0)
	call := func() string {
		g := f.gateway(nil)
		got, err := g.CallTool(t.Context(), &mcp.CallToolParams{Name: "skill_one", Arguments: map[string]any{}})
		if err != nil {
			t.Fatal(err)
		}
		text, _ := json.Marshal(got)
		return string(text)
	}
	if got := call(); strings.Contains(got, "isError") {
		t.Errorf("allowed: %s", got)
	}
	f.write("harness.yaml", "policy: {rules: [{tools: skills__one, action: deny, reason: not here}]}\n")
	if got := call(); !strings.Contains(got, "denies skills__one: not here") {
		t.Errorf("denied: %s", got)
	}
}

package cli_test

import (
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/run"
)

// TestCheck checks the warnings about names in a program that do not exist, before the program runs. With sandbox.check refuse, the program does not run.
func TestCheck(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.write("harness.yaml", "# state lives beside it\n")
	f.addDemo("crm")
	const code = "console.log('runs')\nreturn tools.crm.serch({q: ''}).catch(() => 'caught')"
	const mistake = `2:18: server "crm" has no tool "serch"; did you mean "search"?`
	if r := f.run("exec", "-e", code).want(0); !strings.Contains(r.stderr, "warning: ") || !strings.Contains(r.stderr, mistake) || !strings.Contains(r.stdout, "caught") {
		t.Errorf("it says %s%s", r.stderr, r.stdout)
	}
	var out run.Outcome
	if f.run("exec", "--json", "-e", code).want(0).value(&out); len(out.Warnings) != 1 || !strings.Contains(out.Warnings[0], mistake) {
		t.Errorf("the outcome is %+v", out)
	}
	if f.run("runs", "replay", out.RunID, "--json").want(0).value(&out); len(out.Warnings) != 1 || out.Status != run.Succeeded {
		t.Errorf("the replay is %+v", out)
	}
	if r := f.run("exec", "-e", "return (await tools.crm.search({q: ''})).customers.length").want(0); strings.Contains(r.stderr, "warning") {
		t.Errorf("of a right program it says %s", r.stderr)
	}
	f.write("harness.yaml", "sandbox: {check: refuse}\n")
	f.addDemo("crm")
	r := f.run("exec", "--json", "-e", code)
	out = run.Outcome{}
	if r.value(&out); r.code == 0 || out.Error == nil || out.Error.Name != "CheckError" || out.Error.Line != 2 || len(out.Logs) != 0 {
		t.Errorf("refused, the outcome is %d %+v", r.code, out)
	}
}

// TestAdviceOfCatalog checks hints that need the catalog: for a name that resembles a tool, and for a field that the answer of a tool does not have.
func TestAdviceOfCatalog(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.write("harness.yaml", "# state lives beside it\n")
	f.addDemo("crm")
	for code, want := range map[string]string{
		"return await crm_search({q: ''})":                                         "crm__search is a tool: await callMCPTool('crm__search', {…})",
		"return await crm__serch({q: ''})":                                         "tools with such a name: crm__search",
		"return await serch({q: ''})":                                              "crm__search",
		"return await crm.search({q: ''})":                                         "await tools.crm.search({…})",
		"return await crm.customers({q: ''})":                                      "crm is a server, and servers are members of tools: await tools.crm.TOOL({…}); it has ",
		"return await codemode.crm.search({q: ''})":                                "await tools.crm.search({…})",
		"return await client.callTool({name: 'search', arguments: {q: ''}})":       "await tools.crm.search({…})",
		"return await mcp.callTool('crm', 'search', {q: ''})":                      "await tools.crm.search({…})",
		"return await callTool('crm__search', {q: ''})":                            "await tools.crm.search({…})",
		"return await mcp__crm__search({q: ''})":                                   "callMCPTool('crm__search', {…})",
		"return await tools.crm__search({q: ''})":                                  "await tools.crm.search({…})",
		"import * as crm from 'mcp:crm'; return crm.search({q: ''})":               "'./servers/crm'",
		"import crm from 'crm'; return crm.search({q: ''})":                        "'./servers/crm'",
		"import { Client } from '@modelcontextprotocol/sdk/client'\nreturn Client": "'./servers/",
		"return nothingLikeIt()":                                                   "no function has this name",
		"const a = await tools.crm.search({q: ''})\nreturn a.customer.map(x => x)": "customers",
	} {
		var out run.Outcome
		if f.run("exec", "--json", "-e", code).value(&out); out.Error == nil || !strings.Contains(out.Error.Hint, want) {
			t.Errorf("%s: %+v, want a hint with %q", code, out.Error, want)
			continue
		}
		hint := out.Error.Hint
		if f.run("runs", "replay", out.RunID, "--json").value(&out); out.Error == nil || out.Error.Hint != hint {
			t.Errorf("%s: the replay says %+v", code, out.Error)
		}
	}
}

package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/cli"
	"mcp-code-exec-harness/internal/testing/npmtest"
)

// conformanceVar makes the test binary the client in a scenario of the official suite. Its value is the cache directory.
const conformanceVar = "HARNESS_TEST_CONFORMANCE_CLIENT"

// TestConformanceClient runs the client scenarios of the official suite against harness exec and harness servers login. testdata/conformance.yml lists the
// exceptions.
func TestConformanceClient(t *testing.T) {
	t.Parallel()
	packages, node := npmtest.Conformance(t)
	exceptions, err := filepath.Abs("testdata/conformance.yml")
	if err != nil {
		t.Fatal(err)
	}
	suite := exec.CommandContext(t.Context(), node, filepath.Join(packages, "node_modules", ".bin", "conformance"), "client", "--suite", "all",
		"--command", self(t), "--timeout", "120000", "--expected-failures", exceptions)
	suite.Dir, suite.Env = t.TempDir(), append(os.Environ(), conformanceVar+"="+filepath.Join(shared, "cache"))
	out, err := suite.CombinedOutput()
	at := bytes.LastIndex(out, []byte("✓ initialize:"))
	if err != nil || at < 0 {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out[at:])
}

// conformancePrograms are the programs for scenarios that need more than a call of test-tool.
var conformancePrograms = map[string]string{
	"initialize":                          "return (await list_mcp_tools()).length",
	"tools_call":                          "return await callMCPTool('suite__add_numbers', {a: 5, b: 3})",
	"elicitation-sep1034-client-defaults": "return await callMCPTool('suite__test_client_elicitation_defaults', {})",
	"sse-retry":                           "return await callMCPTool('suite__test_reconnection', {})",
	"request-metadata":                    "return (await list_mcp_tools()).length",
	"json-schema-ref-no-deref":            "return await get_mcp_tool_details((await list_mcp_tools())[0])",
	"http-standard-headers": `for (const tool of await list_mcp_tools()) await callMCPTool(tool, {})
		for (const r of await list_mcp_resources()) await read_mcp_resource(r.server, r.uri)
		for (const p of await list_mcp_prompts()) await get_mcp_prompt(p.server, p.name)`,
	"http-invalid-tool-headers": "for (const tool of await list_mcp_tools()) await callMCPTool(tool, {region: 'us-west1'}).catch(e => console.log(tool, e.message))",
	"json-schema-2020-12-preservation": `const {inputSchema} = await get_mcp_tool_details('suite__json_schema_2020_12_tool')
		await callMCPTool('suite__json_schema_echo', {schema: inputSchema})`,
	"sep-2322-client-request-state": `for (const tool of ['echo_state', 'no_state', 'unrelated', 'no_result_type'])
		await callMCPTool('suite__test_mrtr_' + tool, {}).catch(e => console.log(e.message))`,
}

// conformanceClient is the command that the suite starts with the address of its server.
func conformanceClient(ctx context.Context, address, cache string) error {
	dir, err := os.MkdirTemp("", "harness-conformance-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	scenario := os.Getenv("MCP_CONFORMANCE_SCENARIO")
	server := map[string]any{"url": address}
	if strings.HasPrefix(scenario, "auth/") {
		var given struct {
			ClientID     string `json:"client_id"`
			ClientSecret string `json:"client_secret"`
		}
		if text := os.Getenv("MCP_CONFORMANCE_CONTEXT"); text != "" {
			if err := json.Unmarshal([]byte(text), &given); err != nil {
				return err
			}
		}
		auth := map[string]any{"type": "oauth"}
		if scenario == "auth/basic-cimd" {
			given.ClientID = "https://conformance-test.local/client-metadata.json"
		}
		if given.ClientID != "" {
			auth["clientId"] = given.ClientID
		}
		if given.ClientSecret != "" {
			issuer, err := issuerOf(ctx, address)
			if err != nil {
				return err
			}
			auth["clientSecret"], auth["issuer"] = given.ClientSecret, issuer
		}
		if scenario == "auth/client-credentials-basic" {
			auth["grant"] = "client_credentials"
		}
		server["auth"] = auth
	}
	text, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"suite": server}})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "harness.yaml"), text, 0o600); err != nil {
		return err
	}
	harness := func(args ...string) (int, string) {
		var out bytes.Buffer
		code := cli.Main(ctx, cli.World{
			Args: args, Environ: []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "HARNESS_CACHE_DIR=" + cache}, Dir: dir, Executable: os.Args[0],
			Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out, Now: time.Now, Browse: visit,
		})
		fmt.Printf("harness %s: %d\n%s", strings.Join(args, " "), code, &out)
		return code, out.String()
	}
	call := conformancePrograms[scenario]
	switch {
	case scenario == "http-custom-headers":
		call = "for (const c of (" + os.Getenv("MCP_CONFORMANCE_CONTEXT") + ").toolCalls) await callMCPTool('suite__' + c.name, Object.fromEntries(Object.entries(c.arguments).filter(([, v]) => v !== null)))"
	case call == "":
		call = "return await callMCPTool('suite__test-tool', {})"
	}
	for range 4 {
		code, said := harness("exec", "-e", call)
		if code == 0 {
			return nil
		}
		if !strings.Contains(said, "harness servers login suite") {
			return fmt.Errorf("the program failed: %s", said)
		}
		if code, said := harness("servers", "login", "suite"); code != 0 {
			return fmt.Errorf("the login failed: %s", said)
		}
	}
	return fmt.Errorf("more logins are asked for again and again")
}

// issuerOf returns the authorization server that the suite's server names. A person with a client secret knows it.
func issuerOf(ctx context.Context, address string) (string, error) {
	at, err := url.Parse(address)
	if err != nil {
		return "", err
	}
	at.Path = "/.well-known/oauth-protected-resource" + at.Path
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var metadata struct {
		Servers []string `json:"authorization_servers"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&metadata); err != nil || len(metadata.Servers) == 0 {
		return "", fmt.Errorf("the metadata of the server: %s, %w", resp.Status, err)
	}
	return metadata.Servers[0], nil
}

// visit stands for a browser whose user is logged in and consents: the suite's authorization server redirects at once.
func visit(ctx context.Context, address string) error {
	go func() {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return
		}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			_ = resp.Body.Close()
		}
	}()
	return nil
}

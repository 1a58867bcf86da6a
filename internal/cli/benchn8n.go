package cli

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/mcpserver"
	"mcp-code-exec-harness/internal/modelview"
	"mcp-code-exec-harness/internal/n8n"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
)

//go:embed benchn8n/*.js benchn8n/n8n-mcp/*.js
var n8nPrograms embed.FS

// n8nSteps are the programs of the bench in order. The last one needs an instance.
var n8nSteps = []string{"discovery", "building", "mending", "running"}

// n8nMCP is the server of mcpServers that the built-in ones are compared with, the npm package of that name. Its programs are those of
// benchn8n/n8n-mcp; a step without one needs its tools for an instance, which it has with a key of n8n only.
const n8nMCP = "n8n-mcp"

// n8nRow compares what a step of work with n8n costs of a model's context, in tokens.
type n8nRow struct {
	Step   string `json:"step"`
	All    int    `json:"allDefinitions"`   // the descriptions of all nodes are in it, and the calls and answers of the workflow tools
	Direct int    `json:"directTools"`      // the definitions of the n8n tools, and all calls and answers
	Code   int    `json:"codeMode"`         // the gateway's tools, the programs and what they return
	MCP    *int   `json:"n8nMCP,omitempty"` // the definitions of n8n-mcp's tools, and all calls and answers; nil: not measured
}

// n8nTokens is the result of harness bench tokens --n8n.
type n8nTokens struct {
	Catalogue struct {
		Source  string `json:"source"`
		Version string `json:"version"`
		Nodes   int    `json:"nodes"`
	} `json:"catalogue"`
	MCP   *n8nOther `json:"n8nMCP,omitempty"` // nil: it is not in the configuration
	Steps []n8nRow  `json:"steps"`
	Sum   n8nRow    `json:"sum"`
}

// n8nOther is n8n-mcp as it describes itself.
type n8nOther struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Tools   int    `json:"tools"`
}

// benchN8N measures real programs over the nodes of the configuration, and over its instance if there is a key; where
// the configuration has n8n-mcp, its tools in the same steps, too.
func benchN8N(ctx context.Context, a *app) error {
	cfg, err := a.load()
	if err != nil {
		return err
	}
	if cfg.N8N.Nodes == "" && cfg.N8N.Email == "" {
		return usage(errors.New("the bench needs descriptions of nodes: set n8n.nodes to the node_modules directory of an n8n, or n8n.url, n8n.email and n8n.password"))
	}
	dir, err := os.MkdirTemp("", "harness-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	own, err := n8nBenchConfig(cfg, dir)
	if err != nil {
		return err
	}
	h, err := a.openWith(ctx, own, outside{Logger: a.logger(cfg)})
	if err != nil {
		return err
	}
	defer a.close() // servers write into dir
	progress := a.progress("measuring")
	defer progress.stop()
	out := n8nTokens{Sum: n8nRow{Step: "sum"}}
	out.Catalogue.Source = cmp.Or(cfg.N8N.Nodes, cfg.N8N.URL)
	var names []string
	if out.Catalogue.Version, names, err = h.N8N().Catalogue(ctx); err != nil {
		return err
	}
	out.Catalogue.Nodes = len(names)
	first, err := n8nDefinitions(ctx, h.N8N(), names)
	if err != nil {
		return err
	}
	if len(own.MCPServers) > 0 {
		if out.MCP, first.MCP, err = n8nMCPDefinitions(ctx, h); err != nil {
			return err
		}
	}
	out.Steps = append(out.Steps, first)
	for _, step := range n8nSteps {
		if step == "running" && (cfg.N8N.URL == "" || cfg.N8N.APIKey == "") {
			continue
		}
		row, err := n8nStep(ctx, h, step)
		if err != nil {
			return fmt.Errorf("%s: %w", step, err)
		}
		if out.MCP != nil && step != "running" {
			_, _, sizes, err := n8nRun(ctx, h, n8nMCP+"/"+step)
			if err != nil {
				return fmt.Errorf("%s: %s: %w", step, n8nMCP, err)
			}
			row.MCP = new(sizes[n8nMCP])
		}
		out.Steps = append(out.Steps, row)
	}
	out.Sum.MCP = n8nMCPSum(out.Steps)
	for _, row := range out.Steps {
		out.Sum.All, out.Sum.Direct, out.Sum.Code = out.Sum.All+row.All, out.Sum.Direct+row.Direct, out.Sum.Code+row.Code
	}
	progress.stop()
	out.tell(a)
	header, cell := "", func(n8nRow) string { return "" }
	if out.MCP != nil {
		header, cell = "N8N-MCP\t", func(r n8nRow) string {
			if r.MCP == nil {
				return "\t"
			}
			return fmt.Sprintf("%d\t", *r.MCP)
		}
	}
	return answerList(a, out, append(slices.Clone(out.Steps), out.Sum), "", "STEP\tALL DEFINITIONS\t"+header+"DIRECT TOOLS\tCODE MODE\tLESS THAN ALL", func(r n8nRow) string {
		less := ""
		if r.All > r.Code {
			less = fmt.Sprintf("%.1f %%", 100*(1-float64(r.Code)/float64(r.All)))
		}
		return fmt.Sprintf("%s\t%d\t%s%d\t%d\t%s", r.Step, r.All, cell(r), r.Direct, r.Code, less)
	})
}

// tell says what was measured, and what was not and why.
func (out *n8nTokens) tell(a *app) {
	running := len(out.Steps) > len(n8nSteps)
	if !a.flags.JSON {
		fmt.Fprintf(a.Stderr, "catalogue: %d nodes of %s (%s)\n", out.Catalogue.Nodes, out.Catalogue.Source, out.Catalogue.Version)
		if out.MCP != nil {
			fmt.Fprintf(a.Stderr, "%s: %d tools of %s %s\n", n8nMCP, out.MCP.Tools, out.MCP.Name, out.MCP.Version)
		}
		if !running {
			fmt.Fprintln(a.Stderr, "running is not measured: it needs n8n.url and n8n.apiKey")
		}
	}
	switch {
	case out.MCP == nil:
		fmt.Fprintln(a.Stderr, n8nMCP+" is not compared: harness servers add "+n8nMCP+" -e MCP_MODE=stdio -e LOG_LEVEL=error -e DISABLE_CONSOLE_OUTPUT=true -e N8N_MCP_TELEMETRY_DISABLED=true -- npx -y n8n-mcp")
	case running:
		fmt.Fprintln(a.Stderr, "running is not measured with "+n8nMCP+", whose tools for it need an API key of n8n of its own; so it has no sum")
	}
}

// n8nBenchConfig is the default configuration with the n8n of the user's and their n8n-mcp, if any, with its state in dir.
func n8nBenchConfig(users *config.Config, dir string) (*config.Config, error) {
	of := users.N8N
	settings := map[string]string{"n8n.url": cmp.Or(of.URL, "http://127.0.0.1:5678")} // without the user's own instance it is not asked
	for key, value := range map[string]string{"n8n.apiKey": of.APIKey, "n8n.nodes": of.Nodes, "n8n.email": of.Email, "n8n.password": of.Password} {
		if value != "" {
			settings[key] = value
		}
	}
	cfg, _, err := config.Load(config.Env{Flags: settings, Cwd: dir, HomeDir: dir, GOOS: runtime.GOOS})
	if err != nil {
		return nil, err
	}
	for _, server := range users.MCPServers {
		if server.Name == n8nMCP && !server.Disabled {
			cfg.MCPServers = append(cfg.MCPServers, server)
		}
	}
	return cfg, nil
}

// n8nMCPDefinitions starts n8n-mcp and returns what the definitions of its tools take of a model's context.
func n8nMCPDefinitions(ctx context.Context, h harness) (of *n8nOther, sum *int, err error) {
	if _, err := h.Servers().Connect(ctx, "", n8nMCP); err != nil {
		return nil, nil, err
	}
	of, sum = &n8nOther{}, new(int)
	for _, server := range h.Servers().Tools() {
		if server.Name != n8nMCP {
			continue
		}
		of.Name, of.Version, of.Tools = server.ServerInfo.Name, server.ServerInfo.Version, len(server.Tools)
		for _, t := range server.Tools {
			size, err := n8nDefinition(n8nMCP, t)
			if err != nil {
				return nil, nil, err
			}
			*sum += size
		}
	}
	return of, sum, nil
}

// n8nMCPSum is nil if a step is not measured: the sum would not compare with the others.
func n8nMCPSum(rows []n8nRow) *int {
	sum := 0
	for _, row := range rows {
		if row.MCP == nil {
			return nil
		}
		sum += *row.MCP
	}
	return &sum
}

// n8nDefinition is what the definition of a tool takes.
func n8nDefinition(server string, t mcpclient.Tool) (int, error) {
	return tokensOf(map[string]any{"name": server + "__" + t.Name, "description": t.Description, "inputSchema": t.InputSchema})
}

// n8nDefinitions is what is in a model's context before any work.
func n8nDefinitions(ctx context.Context, instance *n8n.Instance, names []string) (row n8nRow, err error) {
	row.Step = "definitions"
	servers := instance.Servers()
	for name, server := range servers {
		if name == n8n.BridgeServer {
			continue
		}
		tools, err := server.Tools(ctx)
		if err != nil {
			return row, err
		}
		for _, t := range tools {
			size, err := n8nDefinition(name, t)
			if err != nil {
				return row, err
			}
			row.Direct += size
			if name == "n8n-workflows" {
				row.All += size
			}
		}
	}
	for _, name := range names {
		input, err := json.Marshal(map[string]string{"nodeType": name})
		if err != nil {
			return row, err
		}
		info, err := servers["n8n-nodes"].Call(ctx, "get_node_info", input, func() {})
		if err != nil {
			return row, err
		}
		var result struct {
			IsError bool
			Value   json.RawMessage `json:"structuredContent"`
		}
		if err := json.Unmarshal(info, &result); err != nil || result.IsError {
			return row, fmt.Errorf("read node %s: %s %w", name, info, err)
		}
		size, err := tokensOf(result.Value)
		if err != nil {
			return row, err
		}
		row.All += size
	}
	own, guide := mcpserver.ModelContext(false)
	row.Code, err = tokensOf(own, guide)
	return row, err
}

// n8nStep executes a program, and counts it with what the model gets of it, and the calls that it made.
func n8nStep(ctx context.Context, h harness, step string) (row n8nRow, err error) {
	row.Step = step
	code, out, sizes, err := n8nRun(ctx, h, step)
	if err != nil {
		return row, err
	}
	for server, size := range sizes {
		row.Direct += size
		if server == "n8n-workflows" {
			row.All += size
		}
	}
	row.Code, err = tokensOf(map[string]string{"code": code}, modelview.View(out, modelview.DefaultLimit, nil))
	return row, err
}

// n8nRun executes a program and counts the arguments and answers of its calls, by server.
func n8nRun(ctx context.Context, h harness, program string) (code string, out *run.Outcome, sizes map[string]int, err error) {
	text, err := n8nPrograms.ReadFile("benchn8n/" + program + ".js")
	if err != nil {
		return "", nil, nil, err
	}
	out, err = h.Runs().Execute(ctx, runs.Request{Code: string(text), File: path.Base(program) + ".js"})
	if err != nil {
		return "", nil, nil, err
	}
	if out.Error != nil {
		return "", nil, nil, errors.New(modelview.Failure(out))
	}
	records, err := h.Runs().Journal(ctx, out.RunID)
	if err != nil {
		return "", nil, nil, err
	}
	sizes = map[string]int{}
	servers := map[int]string{} // servers by call number
	for _, r := range records {
		var part json.RawMessage
		var server string
		switch {
		case r.Call != nil && r.Call.Kind == "tool":
			server, _, _ = strings.Cut(r.Call.Name, "__")
			servers[r.Call.N], part = server, r.Call.Args
		case r.Answer != nil && r.Answer.Value != nil:
			server, part = servers[r.Answer.N], r.Answer.Value
		}
		if server == "" {
			continue
		}
		size, err := tokensOf(part)
		if err != nil {
			return "", nil, nil, err
		}
		sizes[server] += size
	}
	return string(text), out, sizes, nil
}

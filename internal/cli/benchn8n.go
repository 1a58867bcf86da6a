package cli

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/mcpserver"
	"mcp-code-exec-harness/internal/modelview"
	"mcp-code-exec-harness/internal/n8n"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/wiring"
)

//go:embed benchn8n/*.js
var n8nPrograms embed.FS

// n8nSteps are the programs of the bench in order. The last one needs an instance.
var n8nSteps = []string{"discovery", "building", "mending", "running"}

// n8nRow compares what a step of work with n8n costs of a model's context, in tokens.
type n8nRow struct {
	Step   string `json:"step"`
	All    int    `json:"allDefinitions"` // the descriptions of all nodes are in it, and the calls and answers of the workflow tools
	Direct int    `json:"directTools"`    // the definitions of the n8n tools, and all calls and answers
	Code   int    `json:"codeMode"`       // the gateway's tools, the programs and what they return
}

// n8nTokens is the result of harness bench tokens --n8n.
type n8nTokens struct {
	Catalogue struct {
		Source  string `json:"source"`
		Version string `json:"version"`
		Nodes   int    `json:"nodes"`
	} `json:"catalogue"`
	Steps []n8nRow `json:"steps"`
	Sum   n8nRow   `json:"sum"`
}

// benchN8N measures real programs over the nodes of the configuration, and over its instance if there is a key.
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
	own, err := n8nBenchConfig(cfg.N8N, dir)
	if err != nil {
		return err
	}
	h, err := a.openWith(ctx, own, wiring.Outside{Logger: a.logger(cfg)})
	if err != nil {
		return err
	}
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
	out.Steps = append(out.Steps, first)
	for _, step := range n8nSteps {
		if step == "running" && (cfg.N8N.URL == "" || cfg.N8N.APIKey == "") {
			continue
		}
		row, err := n8nStep(ctx, h, step)
		if err != nil {
			return fmt.Errorf("%s: %w", step, err)
		}
		out.Steps = append(out.Steps, row)
	}
	for _, row := range out.Steps {
		out.Sum.All, out.Sum.Direct, out.Sum.Code = out.Sum.All+row.All, out.Sum.Direct+row.Direct, out.Sum.Code+row.Code
	}
	progress.stop()
	if !a.flags.JSON {
		fmt.Fprintf(a.Stderr, "catalogue: %d nodes of %s (%s)\n", out.Catalogue.Nodes, out.Catalogue.Source, out.Catalogue.Version)
		if len(out.Steps) <= len(n8nSteps) {
			fmt.Fprintln(a.Stderr, "running is not measured: it needs n8n.url and n8n.apiKey")
		}
	}
	return answerList(a, out, append(slices.Clone(out.Steps), out.Sum), "", "STEP\tALL DEFINITIONS\tDIRECT TOOLS\tCODE MODE\tLESS THAN ALL", func(r n8nRow) string {
		less := ""
		if r.All > r.Code {
			less = fmt.Sprintf("%.1f %%", 100*(1-float64(r.Code)/float64(r.All)))
		}
		return fmt.Sprintf("%s\t%d\t%d\t%d\t%s", r.Step, r.All, r.Direct, r.Code, less)
	})
}

// n8nBenchConfig is the default configuration with the n8n of the user's, with its state in dir.
func n8nBenchConfig(of config.N8N, dir string) (*config.Config, error) {
	settings := map[string]string{"n8n.url": cmp.Or(of.URL, "http://127.0.0.1:5678")} // without one of the user's it is not asked
	for key, value := range map[string]string{"n8n.apiKey": of.APIKey, "n8n.nodes": of.Nodes, "n8n.email": of.Email, "n8n.password": of.Password} {
		if value != "" {
			settings[key] = value
		}
	}
	cfg, _, err := config.Load(config.Env{Flags: settings, Cwd: dir, HomeDir: dir, GOOS: runtime.GOOS})
	return cfg, err
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
			size, err := tokensOf(map[string]any{"name": name + "__" + t.Name, "description": t.Description, "inputSchema": t.InputSchema})
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
	own, guide := mcpserver.ModelContext()
	row.Code, err = tokensOf(own, guide)
	return row, err
}

// n8nStep executes a program, and counts it with what the model gets of it, and the calls that it made.
func n8nStep(ctx context.Context, h *wiring.Harness, step string) (row n8nRow, err error) {
	row.Step = step
	code, err := n8nPrograms.ReadFile("benchn8n/" + step + ".js")
	if err != nil {
		return row, err
	}
	out, err := h.Runs().Execute(ctx, runs.Request{Code: string(code), File: step + ".js"})
	if err != nil {
		return row, err
	}
	if out.Error != nil {
		return row, errors.New(modelview.Failure(out))
	}
	if row.Code, err = tokensOf(map[string]string{"code": string(code)}, modelview.View(out, modelview.DefaultLimit, nil)); err != nil {
		return row, err
	}
	records, err := h.Runs().Journal(ctx, out.RunID)
	if err != nil {
		return row, err
	}
	workflows := map[int]bool{} // calls of n8n-workflows
	count := func(n int, text json.RawMessage) error {
		size, err := tokensOf(text)
		row.Direct += size
		if workflows[n] {
			row.All += size
		}
		return err
	}
	for _, r := range records {
		switch {
		case r.Call != nil && r.Call.Kind == "tool":
			workflows[r.Call.N] = strings.HasPrefix(r.Call.Name, "n8n-workflows")
			err = count(r.Call.N, r.Call.Args)
		case r.Answer != nil && r.Answer.Value != nil:
			if _, is := workflows[r.Answer.N]; is {
				err = count(r.Answer.N, r.Answer.Value)
			}
		}
		if err != nil {
			return row, err
		}
	}
	return row, nil
}

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/harness"
)

type toolsCmd struct {
	List   toolsListCmd   `cmd:"" help:"Every tool."`
	Search toolsSearchCmd `cmd:"" help:"Tools for a request in words."`
	Show   toolsShowCmd   `cmd:"" help:"One tool: description, types, schema."`
	Types  toolsTypesCmd  `cmd:"" help:"TypeScript declarations of one server, or of all."`
	Call   toolsCallCmd   `cmd:"" help:"Call a tool, through the same gate as programs."`
}

// openTools opens the harness and waits until servers have listed their tools.
func (a *app) openTools(ctx context.Context) (*harness.Harness, error) {
	h, err := a.open(ctx)
	if err != nil {
		return nil, err
	}
	progress := a.progress("starting servers")
	defer progress.stop()
	h.EnsureTools(ctx)
	for _, s := range h.Servers().Tools() {
		if !s.Known && s.Reason != "" {
			fmt.Fprintf(a.Stderr, "harness: warning: server %s is not available: %s\n", s.Name, firstLine(s.Reason))
		}
	}
	return h, nil
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

type toolsListCmd struct{}

func (toolsListCmd) Help() string { return "Example:\n  harness tools list" }

func (c *toolsListCmd) Run(ctx context.Context, a *app) error {
	h, err := a.openTools(ctx)
	if err != nil {
		return err
	}
	defer a.close(h)
	if a.flags.JSON {
		return a.json(h.Catalog().List())
	}
	for _, t := range h.Catalog().Tools() {
		fmt.Fprintf(a.Stdout, "%s\t%s\n", t.FullName(), clip(firstLine(t.Description)))
	}
	return nil
}

type toolsSearchCmd struct {
	Query []string `arg:"" help:"What is to be done."`
	Limit int      `help:"How many." default:"10"`
}

func (toolsSearchCmd) Help() string { return "Example:\n  harness tools search send an email to a customer" }

func (c *toolsSearchCmd) Run(ctx context.Context, a *app) error {
	h, err := a.openTools(ctx)
	if err != nil {
		return err
	}
	defer a.close(h)
	hits := h.Catalog().Search(ctx, strings.Join(c.Query, " "), c.Limit)
	if a.flags.JSON {
		return a.json(hits)
	}
	for _, hit := range hits {
		fmt.Fprintf(a.Stdout, "%s\n    %s\n    %s\n", hit.Name, hit.Description, hit.Signature)
	}
	if len(hits) == 0 {
		fmt.Fprintln(a.Stderr, "no tool fits; harness tools list shows all")
	}
	return nil
}

type toolsShowCmd struct {
	Name string `arg:"" help:"Tool, as server__tool."`
}

func (toolsShowCmd) Help() string { return "Example:\n  harness tools show database__query" }

func (c *toolsShowCmd) Run(ctx context.Context, a *app) error {
	h, err := a.openTools(ctx)
	if err != nil {
		return err
	}
	defer a.close(h)
	details, err := h.Catalog().Details(c.Name)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	if a.flags.JSON {
		return a.json(details)
	}
	fmt.Fprintf(a.Stdout, "%s\n\n%s\n\n%s\n\n%s\n", details.Name, details.Description, details.TypeScript, pretty(details.InputSchema))
	return nil
}

type toolsTypesCmd struct {
	Server string `arg:"" optional:"" help:"Only this server."`
}

func (toolsTypesCmd) Help() string { return "Example:\n  harness tools types crm > crm.d.ts" }

func (c *toolsTypesCmd) Run(ctx context.Context, a *app) error {
	h, err := a.openTools(ctx)
	if err != nil {
		return err
	}
	defer a.close(h)
	text := h.Catalog().Declarations()
	if c.Server != "" {
		if text, err = h.Catalog().ServerDeclaration(c.Server); err != nil {
			return &exitError{exitUsage, err}
		}
	}
	if a.flags.JSON {
		return a.json(map[string]string{"types": text})
	}
	fmt.Fprintln(a.Stdout, text)
	return nil
}

type toolsCallCmd struct {
	Name string `arg:"" help:"Tool, as server__tool."`
	Args string `arg:"" optional:"" help:"Arguments as a JSON object." default:"{}" name:"json"`
	Raw  bool   `help:"The whole MCP result."`
	User string `help:"Who calls." default:"local"`
}

func (toolsCallCmd) Help() string {
	return `Example:
  harness tools call database__query '{"query": "SELECT count(*) FROM sales"}'`
}

func (c *toolsCallCmd) Run(ctx context.Context, a *app) error {
	var input map[string]json.RawMessage
	if err := json.Unmarshal([]byte(c.Args), &input); err != nil {
		return &exitError{exitUsage, fmt.Errorf("the arguments are not a JSON object: %w", err)}
	}
	h, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer a.close(h)
	progress := a.progress("calling " + c.Name)
	defer progress.stop()
	// One call is a program of one call: it passes the same gate and leaves the same journal.
	name, err := json.Marshal(c.Name)
	if err != nil {
		return err
	}
	call := "callMCPTool"
	if c.Raw {
		call += ".raw"
	}
	out, err := h.Exec(ctx, harness.Request{Code: fmt.Sprintf("return await %s(%s, %s)", call, name, c.Args), User: c.User})
	if err != nil {
		return err
	}
	var unknown *catalog.UnknownToolError
	if _, resolveErr := h.Catalog().Resolve(c.Name); errors.As(resolveErr, &unknown) {
		return &exitError{exitUsage, resolveErr}
	}
	return a.outcome(out)
}

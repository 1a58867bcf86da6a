package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/harness"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
)

type toolsCmd struct {
	List   toolsListCmd   `cmd:"" help:"Every tool."`
	Search toolsSearchCmd `cmd:"" help:"Tools for a request in words."`
	Show   toolsShowCmd   `cmd:"" help:"One tool: description, types, schema."`
	Types  toolsTypesCmd  `cmd:"" help:"TypeScript declarations of one server, or of all."`
	Call   toolsCallCmd   `cmd:"" help:"Call a tool, through the same gate as programs."`
}

func (toolsCmd) Help() string { return "Example:\n  harness tools search send an email" }

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// noTools is said where there is nothing to list.
const noTools = "there are no tools: no server offers any; see harness servers list, harness servers add --help"

type toolsListCmd struct{}

func (toolsListCmd) Help() string { return "Example:\n  harness tools list" }

func (c *toolsListCmd) Run(ctx context.Context, a *app) error {
	h, err := a.openTools(ctx)
	if err != nil {
		return err
	}
	defer a.close(h)
	if a.flags.JSON {
		a.warnServers(h)
		return a.json(list(h.Catalog().List()))
	}
	var rows [][]string
	for _, t := range h.Catalog().Tools() {
		rows = append(rows, []string{t.FullName(), clip(firstLine(t.Description))})
	}
	a.table(rows)
	a.warnServers(h)
	if len(rows) == 0 {
		fmt.Fprintln(a.Stderr, noTools)
	}
	return nil
}

type toolsSearchCmd struct {
	Query []string `arg:"" help:"What is to be done."`
	Limit int      `help:"How many." default:"10"`
}

func (toolsSearchCmd) Help() string {
	return "Example:\n  harness tools search send an email to a customer"
}

func (c *toolsSearchCmd) Run(ctx context.Context, a *app) error {
	if c.Limit < 1 {
		return usage(fmt.Errorf("--limit %d finds nothing; give a number from 1", c.Limit))
	}
	h, err := a.openTools(ctx)
	if err != nil {
		return err
	}
	defer a.close(h)
	hits := h.Catalog().Search(ctx, strings.Join(c.Query, " "), c.Limit)
	a.warnServers(h)
	if a.flags.JSON {
		return a.json(list(hits))
	}
	for _, hit := range hits {
		fmt.Fprintf(a.Stdout, "%s\n    %s\n    %s\n", hit.Name, hit.Description, hit.Signature)
	}
	switch {
	case len(h.Catalog().Tools()) == 0:
		fmt.Fprintln(a.Stderr, noTools)
	case len(hits) == 0:
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
		return unknown(h, err)
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
			return unknown(h, err)
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
	err := json.Unmarshal([]byte(c.Args), &input)
	if err == nil && input == nil {
		err = errors.New("it is null")
	}
	if err != nil {
		return usage(fmt.Errorf(`the arguments %s are not a JSON object (%w); write '{"name": value, …}'`, clip(c.Args), err))
	}
	h, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer a.close(h)
	out, err := c.call(ctx, a, h)
	if err != nil {
		return missing(h, err)
	}
	if out.Error != nil && out.Status == run.Failed {
		if _, err := h.Catalog().Resolve(c.Name); err != nil {
			return unknown(h, err)
		}
		// The place is in the program made below.
		out.Error.Line, out.Error.Column, out.Error.Source, out.Error.Stack = 0, 0, "", ""
	}
	return a.outcome(out)
}

// call makes one call, as a program of one call: it passes the same gate and leaves the same journal.
func (c *toolsCallCmd) call(ctx context.Context, a *app, h *harness.Harness) (*run.Outcome, error) {
	progress := a.progress("calling " + c.Name)
	defer progress.stop()
	function := "callMCPTool"
	if c.Raw {
		function += ".raw"
	}
	name, err := json.Marshal(c.Name)
	if err != nil {
		return nil, err
	}
	// Parsed by the program, because a literal would differ: {"__proto__": …} sets the prototype.
	args, err := json.Marshal(c.Args)
	if err != nil {
		return nil, err
	}
	return h.Runs().Create(ctx, auth.Local(), runs.Request{Code: fmt.Sprintf("return await %s(%s, JSON.parse(%s))", function, name, args), User: c.User})
}

// unknown explains that the catalog has no such tool or server: its server may only be unavailable.
func unknown(h *harness.Harness, err error) error {
	var tool *catalog.UnknownToolError
	var server *catalog.UnknownServerError
	var name, kind, see string
	var closest []string
	switch {
	case errors.As(err, &tool):
		name, closest, kind, see = tool.Name, tool.Closest, "tool", "harness tools list"
	case errors.As(err, &server):
		name, closest, kind, see = server.Name, server.Closest, "server", "harness servers list"
	default:
		return usage(err)
	}
	for _, s := range h.Servers().Servers() {
		if unavailable(s) && (name == s.Name || strings.HasPrefix(name, s.Name+"__")) {
			return &exitError{exitUnavailable, fmt.Errorf("%s %s is not known, because server %s is not available: %s; try harness servers test %s",
				kind, name, s.Name, firstLine(s.Reason), s.Name)}
		}
	}
	if len(closest) > 0 {
		see = "did you mean " + strings.Join(closest, " or ") + "? " + see
	}
	return usage(fmt.Errorf("there is no %s %q; %s shows all", kind, name, see))
}

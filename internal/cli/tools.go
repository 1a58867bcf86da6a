package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/wiring"
)

type toolsCmd struct {
	List   toolsListCmd   `cmd:"" help:"Every tool." example:"tools list"`
	Search toolsSearchCmd `cmd:"" help:"Tools for a request in words." example:"tools search send an email to a customer"`
	Show   toolsShowCmd   `cmd:"" help:"One tool: description, types, schema." example:"tools show database__query"`
	Types  toolsTypesCmd  `cmd:"" help:"TypeScript declarations of one server, or of all." example:"tools types crm > crm.d.ts"`
	Call   toolsCallCmd   `cmd:"" help:"Call a tool, through the same gate as programs." example:"tools call database__query '{\"query\": \"SELECT count(*) FROM sales\"}'"`
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

const noTools = "no server offers a tool; see harness servers list, harness servers add --help"

type toolsListCmd struct{}

func (toolsListCmd) Run(a *app, h catalogued) error {
	defer a.warnServers(h.Harness)
	return answerList(a, list(h.Catalog().List()), h.Catalog().Tools(), noTools, "", func(t *catalog.Tool) string {
		return t.FullName() + "\t" + cut(firstLine(t.Description), shownText)
	})
}

type toolsSearchCmd struct {
	Query []string `arg:"" help:"What to do, in words."`
	Limit int      `help:"How many." default:"10"`
}

func (c *toolsSearchCmd) check() error {
	if c.Limit < 1 {
		return fmt.Errorf("--limit %d finds nothing; give a number from 1", c.Limit)
	}
	return nil
}

func (c *toolsSearchCmd) Run(ctx context.Context, a *app, h catalogued) error {
	hits := h.Catalog().Search(ctx, strings.Join(c.Query, " "), c.Limit)
	a.warnServers(h.Harness)
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
		fmt.Fprintln(a.Stderr, "no tool matches; harness tools list shows all")
	}
	return nil
}

type toolsShowCmd struct {
	Name string `arg:"" help:"Tool, as server__tool."`
}

func (c *toolsShowCmd) Run(a *app, h catalogued) error {
	details, err := h.Catalog().Details(c.Name)
	if err != nil {
		return unknown(h.Harness, err)
	}
	return a.answer(details, "%s\n\n%s\n\n%s\n\n%s\n", details.Name, details.Description, details.TypeScript, pretty(details.InputSchema))
}

type toolsTypesCmd struct {
	Server string `arg:"" optional:"" help:"Only this server."`
}

func (c *toolsTypesCmd) Run(a *app, h catalogued) (err error) {
	text := h.Catalog().Declarations()
	if c.Server != "" {
		if text, err = h.Catalog().ServerDeclaration(c.Server); err != nil {
			return unknown(h.Harness, err)
		}
	}
	return a.answer(map[string]string{"types": text}, "%s\n", text)
}

type toolsCallCmd struct {
	Name string `arg:"" help:"Tool, as server__tool."`
	Args string `arg:"" optional:"" help:"Arguments as a JSON object." default:"{}" name:"json"`
	Raw  bool   `help:"The whole MCP result."`
	User string `help:"Who calls." default:"local"`
}

func (c *toolsCallCmd) check() error {
	var input map[string]json.RawMessage
	err := json.Unmarshal([]byte(c.Args), &input)
	if err == nil && input == nil {
		err = errors.New("it is null")
	}
	if err != nil {
		return fmt.Errorf(`the arguments %s are not a JSON object (%w); write '{"name": value, …}'`, cut(c.Args, shownText), err)
	}
	return nil
}

func (c *toolsCallCmd) Run(ctx context.Context, a *app, h *wiring.Harness) error {
	function := "callMCPTool"
	if c.Raw {
		function += ".raw"
	}
	req := runs.CallOf(function, c.Name, json.RawMessage(c.Args))
	req.User = c.User
	progress := a.progress("calling " + c.Name)
	out, err := h.Runs().Create(ctx, auth.Local(), req)
	progress.stop()
	if err != nil {
		return err
	}
	if out.Error != nil && out.Status == run.Failed {
		if _, err := h.Catalog().Resolve(c.Name); err != nil {
			return unknown(h, err)
		}
		// The position is in the program above.
		out.Error.Line, out.Error.Column, out.Error.Source, out.Error.Stack = 0, 0, "", ""
	}
	return a.outcome(out)
}

// unknown explains an unknown tool or server; the server may only be unavailable.
func unknown(h *wiring.Harness, err error) error {
	of, ok := errors.AsType[*catalog.UnknownError](err)
	if !ok {
		return usage(err)
	}
	for _, s := range h.Servers().Servers() {
		if unavailable(s) && (of.Name == s.Name || strings.HasPrefix(of.Name, s.Name+"__")) {
			return &exitError{exitUnavailable, fmt.Errorf("unknown %s %s, because server %s is not available: %s; try harness servers test %s",
				of.Kind, of.Name, s.Name, firstLine(s.Reason), s.Name)}
		}
	}
	see := "harness " + of.Kind + "s list"
	if len(of.Closest) > 0 {
		see = "did you mean " + strings.Join(of.Closest, " or ") + "? " + see
	}
	return usage(fmt.Errorf("unknown %s %q; %s shows all", of.Kind, of.Name, see))
}

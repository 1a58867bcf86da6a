package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/catalog/ident"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/files"
	"mcp-code-exec-harness/internal/id"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/policy"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
)

type toolsCmd struct {
	List   toolsListCmd   `cmd:"" help:"Every tool." example:"tools list"`
	Search toolsSearchCmd `cmd:"" help:"Tools for a request in words." example:"tools search send an email to a customer"`
	Show   toolsShowCmd   `cmd:"" help:"One tool: description, types, schema." example:"tools show database__query"`
	Types  toolsTypesCmd  `cmd:"" help:"TypeScript declarations of one server, or of all." example:"tools types crm > crm.d.ts"`
	Call   toolsCallCmd   `cmd:"" help:"Call a tool, through the same gate as programs."`
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

const noTools = "no server offers a tool; see harness servers list, harness servers add --help"

type toolsListCmd struct {
	Match []string `arg:"" optional:"" help:"Only the tools of these servers, or whose names fit, as in policies: crm, crm__*." names:"servers"`
}

// toolLine is a tool as GET /v1/tools lists it.
type toolLine struct {
	Name        string `json:"name"`
	Server      string `json:"server"`
	Description string `json:"description"`
}

func (c *toolsListCmd) Run(ctx context.Context, a *app, h catalogued) error {
	defer a.warnServers(h.harness)
	lines := []toolLine{}
	tools, err := matching(h.Catalog().Of(ctx, runs.DefaultUser).Tools(), c.Match)
	if err != nil {
		return err
	}
	for _, t := range tools {
		lines = append(lines, toolLine{t.FullName(), t.Server, t.Description})
	}
	return answerShort(a, lines, tools, noTools, "", func(t *catalog.Tool) string {
		return t.FullName() + "\t" + cut(firstLine(t.Description), shownText)
	})
}

// matching returns the tools of the named servers and the tools whose names match; without names it returns all tools.
func matching(tools []*catalog.Tool, match []string) ([]*catalog.Tool, error) {
	if len(match) == 0 {
		return tools, nil
	}
	var fits []func(name string) bool
	for _, pattern := range match {
		if slices.ContainsFunc(tools, func(t *catalog.Tool) bool { return t.Server == pattern }) {
			continue
		}
		fit, err := policy.Tools(pattern)
		if err != nil {
			return nil, usage(err)
		}
		fits = append(fits, fit)
	}
	found := slices.DeleteFunc(slices.Clone(tools), func(t *catalog.Tool) bool {
		return !slices.Contains(match, t.Server) && !slices.ContainsFunc(fits, func(fit func(string) bool) bool { return fit(t.FullName()) })
	})
	if len(found) == 0 && len(tools) > 0 {
		return nil, usage(fmt.Errorf("no tool fits %s; harness tools list shows all", strings.Join(match, " ")))
	}
	return found, nil
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
	known := h.Catalog().Of(ctx, runs.DefaultUser)
	hits := known.Search(ctx, runs.DefaultUser, strings.Join(c.Query, " "), c.Limit)
	a.warnServers(h.harness)
	if a.flags.JSON {
		return a.json(list(hits))
	}
	for _, hit := range hits {
		a.stdout.line(hit.Name, bold)
		a.stdout.put(a.stdout.paragraph("    ", hit.Description, "") + a.stdout.paragraph("    ", hit.Signature, dim))
	}
	switch {
	case len(hits) > 0:
	case len(known.Tools()) == 0:
		fmt.Fprintln(a.Stderr, noTools)
	default:
		fmt.Fprintln(a.Stderr, "no tool matches; harness tools list shows all")
	}
	return nil
}

type toolsShowCmd struct {
	Name string `arg:"" help:"Tool, as server__tool." names:"tools"`
}

func (c *toolsShowCmd) Run(ctx context.Context, a *app, cfg *config.Config, h catalogued) error {
	details, err := h.Catalog().Of(ctx, runs.DefaultUser).Reviewed(c.Name)
	if err != nil {
		return unknown(h.harness, err)
	}
	details.Destinations = cfg.Compiled(cfg.Policy).Destinations(details.Name, details.Destinations)
	sends := ""
	for _, d := range details.Destinations {
		sends += fmt.Sprintf("Sends something to %s (%s: %s).\n", d.Path, d.Kind, d.Reason)
	}
	if sends != "" {
		sends += "\n"
	}
	return a.answer(details, "%s\n\n%s\n\n%s%s\n\n%s\n", details.Name, details.Description, sends, details.TypeScript, pretty(details.InputSchema))
}

type toolsTypesCmd struct {
	Server string `arg:"" optional:"" help:"Only this server." names:"servers"`
}

func (c *toolsTypesCmd) Run(ctx context.Context, a *app, h catalogued) (err error) {
	known := h.Catalog().Of(ctx, runs.DefaultUser)
	text := known.Declarations()
	if c.Server != "" {
		if text, err = known.ServerDeclaration(c.Server); err != nil {
			return unknown(h.harness, err)
		}
	}
	return a.answer(map[string]string{"types": text}, "%s\n", text)
}

type toolsCallCmd struct {
	Name string   `arg:"" help:"Tool, as server__tool." names:"tools"`
	Args callArgs `arg:"" optional:"" help:"Arguments: one JSON object, @FILE or - (standard input) with one, or NAME=VALUE, NAME=@FILE, NAME:=JSON." name:"args" sep:"none"`
	Raw  bool     `help:"The whole MCP result."`
	User string   `help:"Who calls." default:"local"`

	Session string    `help:"Session whose /workspace gets images and other files of the answer." placeholder:"ID" xor:"kept" names:"sessions"`
	Keep    bool      `help:"Keep such files, as those of a new session." xor:"kept"`
	Local   localFlag `help:"${localHelp}"`
}

func (toolsCallCmd) Help() string {
	return `NAME=VALUE is a text, or a number, boolean, list or object where the tool's schema wants one.

Examples:
  harness tools call database__query '{"query": "SELECT count(*) FROM sales"}'
  harness tools call database__query query="SELECT count(*) FROM sales" timeout_ms=5000
  harness tools call database__query query=@report.sql 'params:=[1, null]'
  echo '{"query": "SELECT 1"}' | harness tools call database__query -
  harness tools call browser__screenshot --keep`
}

func (c *toolsCallCmd) check() error { return c.Args.check() }

// served implements serving.
func (c *toolsCallCmd) served() bool { return !bool(c.Local) }

func (c *toolsCallCmd) Run(ctx context.Context, a *app, h harness) error {
	var schema json.RawMessage
	if len(c.Args) == 0 && a.piped() || len(c.Args) > 0 && !c.Args.whole() {
		schema = a.schemaOf(ctx, h, c.Name)
	}
	args, err := c.Args.read(ctx, a, schema)
	if err != nil {
		return usage(err)
	}
	function := "callMCPTool"
	if c.Raw {
		function += ".raw"
	}
	req := runs.CallOf(function, c.Name, args)
	if c.Keep {
		c.Session = id.New("sess")
	}
	var written []files.Entry
	req.User, req.Session, req.Written = c.User, c.Session, func(all []files.Entry) { written = all }
	view := a.runView(h, "calling "+c.Name)
	req.Observe, req.Progress = view.observe, view.report
	out, err := h.Runs().Create(ctx, auth.Local(), req)
	view.stop()
	if err != nil {
		return err
	}
	if out.Error != nil && out.Status == run.Failed {
		if _, err := h.Catalog().Of(ctx, c.User).Resolve(c.Name); err != nil {
			return unknown(h, err)
		}
		// The position refers to the program that this command has made.
		out.Error.Line, out.Error.Column, out.Error.Source, out.Error.Stack = 0, 0, "", ""
	}
	err = a.outcome(out)
	a.tellWritten(written, c.Session, c.User)
	return err
}

// schemaOf returns the input schema of a tool, or nil. It starts the tool's server if the server has not listed its tools yet.
func (a *app) schemaOf(ctx context.Context, h harness, name string) json.RawMessage {
	details, err := h.Catalog().Details(name)
	if server, _, ok := strings.Cut(name, "__"); err != nil && ok {
		progress := a.progress("starting " + server)
		_, failed := h.Servers().Connect(ctx, "", server)
		progress.stop()
		if failed == nil {
			details, err = h.Catalog().Details(name)
		}
	}
	if err != nil { // the name may be spelt in another way
		a.ensureTools(ctx, h)
		if details, err = h.Catalog().Details(name); err != nil {
			return nil
		}
	}
	return details.InputSchema
}

// unknown explains an error about an unknown tool or server. A tool may be unknown only because its server is not available.
func unknown(h harness, err error) error {
	of, ok := errors.AsType[*catalog.UnknownError](err)
	if !ok {
		return usage(err)
	}
	for _, s := range h.Servers().Servers() {
		if s.State == mcpclient.StateDisabled && (of.Name == s.Name || strings.HasPrefix(of.Name, s.Name+"__")) {
			return usage(fmt.Errorf("server %s is disabled; harness servers enable %[1]s", s.Name))
		}
		if unavailable(s) && (of.Name == s.Name || strings.HasPrefix(of.Name, s.Name+"__")) {
			return &exitError{exitUnavailable, fmt.Errorf("unknown %s %s, because server %s is not available: %s; try harness servers test %s",
				of.Kind, of.Name, s.Name, firstLine(s.Reason), s.Name)}
		}
	}
	if of.Kind == "server" {
		return unknownServer(of.Name, serverNames(h.Servers().Servers()))
	}
	for _, s := range h.Servers().Servers() {
		if s.Name == of.Name {
			return usage(fmt.Errorf("%s is a server, not a tool; harness tools types %[1]s shows its tools", s.Name))
		}
	}
	return usage(fmt.Errorf("unknown tool %q; %s", of.Name, meant(similarTools(of.Name, h.Catalog().Tools()), "harness tools list shows all")))
}

// similarTools returns the tools whose full name resembles a misspelt one. If there are none, it returns the tools whose name without the server
// resembles it.
func similarTools(name string, tools []*catalog.Tool) (found []string) {
	var full, short []string
	for _, t := range tools {
		full, short = append(full, t.FullName()), append(short, t.Name)
	}
	if found = ident.Closest(name, full); len(found) == 0 {
		_, last, ok := strings.Cut(name, "__")
		if !ok {
			last = name
		}
		closest := ident.Closest(last, short)
		for i := range tools {
			if slices.Contains(closest, short[i]) {
				found = append(found, full[i])
			}
		}
	}
	return found[:min(len(found), 3)]
}

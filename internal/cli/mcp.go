package cli

import (
	"context"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/mcpserver"
)

type mcpCmd struct {
	User        string `help:"Whose skills and files the programs see." default:"local"`
	PrintConfig string `help:"Print the configuration of a client: claude-code, claude-desktop, cursor, vscode, windsurf, zed, codex or gemini." placeholder:"CLIENT"`
	Mode        string `help:"What the client gets: code, direct or both (mcp.mode)." key:"mcp.mode" placeholder:"MODE"`
	Forms       bool   `help:"Ask for approvals in forms of the client too (mcp.forms)." key:"mcp.forms"`
}

func (mcpCmd) Help() string {
	return `Gives an MCP client the tools of all servers through three tools of its own, on standard input and output. Logs go to
standard error. It ends when its input does. Several may run at the same time, also beside harness serve, which serves /mcp.

Examples:
  harness mcp
  harness mcp --print-config cursor
  claude mcp add harness -- harness mcp`
}

func (c *mcpCmd) Run(ctx context.Context, a *app) error {
	if c.PrintConfig != "" {
		return c.printConfig(a)
	}
	h, err := a.open(ctx)
	if err != nil {
		return err
	}
	cfg, err := a.load()
	if err != nil {
		return err
	}
	if err := auth.CleanUser(c.User); err != nil {
		return usage(err)
	}
	who := auth.Local()
	who.User = c.User
	h.Warm(1)
	server := mcpserver.New(mcpserver.Options{Harness: h, Identity: who, Mode: cfg.MCP.Mode, Skills: cfg.MCP.Skills, Local: true, Forms: cfg.MCP.Forms, Logger: a.logger(cfg), Version: Version})
	defer server.Close()
	return server.ServeStdio(ctx, a.Stdin, a.stdout.raw)
}

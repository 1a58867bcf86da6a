package cli

import (
	"context"
	"fmt"
	"strings"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/mcpserver"
	"mcp-code-exec-harness/internal/startup"
	"mcp-code-exec-harness/internal/task"
)

type mcpCmd struct {
	User        string `help:"Whose skills and files the programs see." default:"local"`
	PrintConfig string `help:"Print the configuration of a client: claude-code, claude-desktop, cursor, vscode, windsurf, zed, opencode, codex or gemini." placeholder:"CLIENT"`
	Mode        string `help:"What the client gets: code, direct or both (mcp.mode)." key:"mcp.mode" placeholder:"MODE"`
	Forms       bool   `help:"Ask for approvals in forms of the client too (mcp.forms)." key:"mcp.forms"`
	Tasks       bool   `help:"Offer the tool run_task, by which the configured model works a task (mcp.tasks)." key:"mcp.tasks"`
}

func (mcpCmd) Help() string {
	return `Gives an MCP client the tools of all servers through three tools of its own, on standard input and output. Logs go to
standard error. It ends when its input does. Several may run at the same time, also beside harness serve, which serves /mcp.

Examples:
  harness mcp
  harness mcp --print-config cursor
  harness mcp --tasks
  claude mcp add harness -- harness mcp --config ~/shop/harness.yaml`
}

func (c *mcpCmd) Run(ctx context.Context, a *app) error {
	startup.OneClient()
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
	if err := checkTasks(cfg, h); err != nil {
		return err
	}
	var tasks *task.Service
	if cfg.MCP.Tasks {
		if tasks, err = h.Tasks(taskOptions{}); err != nil {
			return err
		}
	}
	who := auth.Local()
	who.User = c.User
	notice := a.noServers(cfg, h)
	if notice != "" && a.untrusted == nil {
		fmt.Fprintln(a.Stderr, "harness: warning:", notice)
	}
	h.Warm(1)
	server := mcpserver.New(mcpserver.Options{Harness: h, Notice: notice, Tasks: tasks, Identity: who, Mode: cfg.MCP.Mode, Skills: cfg.MCP.Skills, Local: true, Forms: cfg.MCP.Forms, Logger: a.logger(cfg), Version: Version})
	defer server.Close()
	return server.ServeStdio(ctx, a.Stdin, a.stdout.raw)
}

// noServers returns a text that explains to a client and its model why they get no servers, or "" if they get some.
func (a *app) noServers(cfg *config.Config, h harness) string {
	switch {
	case a.untrusted != nil:
		return fmt.Sprintf("The servers of this folder are not here: its configuration (%s) is not trusted. Tell the user to look at it, to run `harness trust %s` in a terminal, and to connect anew.",
			strings.Join(a.untrusted.Names(), ", "), config.ShellWord(a.untrusted.Dir))
	case len(h.Servers().Servers()) > 0:
		return ""
	case cfg.File == "":
		return fmt.Sprintf("There are no servers: no harness.yaml was found in %s, above it, or in the user's configuration directory. Tell the user to have this client start "+
			"`%s mcp --config FILE` with the path of a harness.yaml; `harness init` makes one, and `harness servers add` adds servers to it.", a.Dir, config.ShellWord(a.Executable))
	}
	return fmt.Sprintf("There are no servers: %s has none. The user adds some with `harness servers add`.", cfg.File)
}

// checkTasks returns an error if run_task is enabled and there is no model for it.
func checkTasks(cfg *config.Config, h harness) error {
	if !cfg.MCP.Tasks {
		return nil
	}
	if _, err := h.Models()(""); err != nil {
		return usage(fmt.Errorf("mcp.tasks is set, and there is no model that could work a task: %w", err))
	}
	return nil
}

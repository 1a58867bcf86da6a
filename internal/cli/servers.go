package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/harness"
	"mcp-code-exec-harness/internal/mcpclient"
)

type serversCmd struct {
	List   serversListCmd   `cmd:"" help:"Configured servers and their state."`
	Add    serversAddCmd    `cmd:"" help:"Add a server to harness.yaml."`
	Remove serversRemoveCmd `cmd:"" help:"Remove a server from harness.yaml."`
	Test   serversTestCmd   `cmd:"" help:"Start servers, list their tools, say what fails."`
}

func (serversCmd) Help() string { return "Example:\n  harness servers list" }

type serversListCmd struct{}

func (serversListCmd) Help() string { return "Example:\n  harness servers list" }

func (c *serversListCmd) Run(ctx context.Context, a *app) error {
	h, err := a.openTools(ctx)
	if err != nil {
		return err
	}
	defer a.close(h)
	all := h.Servers().Servers()
	if err := a.servers(all); err != nil {
		return err
	}
	a.reasons(all)
	return nil
}

// servers prints their state.
func (a *app) servers(all []mcpclient.Status) error {
	if a.flags.JSON {
		return a.json(list(all))
	}
	if len(all) == 0 {
		fmt.Fprintln(a.Stderr, "no servers are configured; add one: harness servers add NAME -- COMMAND ARGS…")
		return nil
	}
	rows := [][]string{{"SERVER", "STATE", "TRANSPORT", "TOOLS", "PROTOCOL"}}
	for _, s := range all {
		state := string(s.State)
		if s.State == mcpclient.StateIdle && s.Cached {
			state = "idle (tools known)"
		}
		rows = append(rows, []string{s.Name, state, s.Transport, strconv.Itoa(s.Tools), s.Protocol})
	}
	a.table(rows)
	return nil
}

// reasons says why servers cannot be used; with --json their status says it.
func (a *app) reasons(all []mcpclient.Status) {
	for _, s := range all {
		if s.Reason == "" || a.flags.JSON {
			continue
		}
		fmt.Fprintf(a.Stderr, "\n%s: %s\n", s.Name, s.Reason)
		if s.StderrTail != "" {
			fmt.Fprintf(a.Stderr, "last lines of its standard error:\n%s\n", strings.TrimRight(s.StderrTail, "\n"))
		}
	}
}

type serversRemoveCmd struct {
	Name string `arg:"" help:"Name of the server."`
}

func (serversRemoveCmd) Help() string { return "Example:\n  harness servers remove files" }

func (c *serversRemoveCmd) Run(_ context.Context, a *app) error {
	file, err := a.configFile()
	if err != nil {
		return err
	}
	if err := config.RemoveServer(file, c.Name); err != nil {
		return usage(err)
	}
	if a.flags.JSON {
		return a.json(map[string]string{"removed": c.Name, "file": file})
	}
	fmt.Fprintf(a.Stdout, "removed %s from %s\n", c.Name, file)
	return nil
}

type serversTestCmd struct {
	Name string `arg:"" optional:"" help:"Only this server."`
}

func (serversTestCmd) Help() string { return "Example:\n  harness servers test files" }

func (c *serversTestCmd) Run(ctx context.Context, a *app) error {
	h, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer a.close(h)
	tested, err := c.start(ctx, a, h)
	if err != nil {
		return err
	}
	broken := 0
	for _, s := range tested {
		if s.State != mcpclient.StateReady && s.State != mcpclient.StateDisabled {
			broken++
		}
	}
	if err := a.servers(tested); err != nil {
		return err
	}
	a.reasons(tested)
	if broken > 0 {
		return &exitError{exitUnavailable, fmt.Errorf("%d of %d servers cannot be used", broken, len(tested))}
	}
	return nil
}

// start starts the servers to test and returns their states.
func (c *serversTestCmd) start(ctx context.Context, a *app, h *harness.Harness) ([]mcpclient.Status, error) {
	progress := a.progress("starting servers")
	defer progress.stop()
	if c.Name != "" {
		_, _ = h.Servers().Connect(ctx, c.Name) // the reason is in the status
	} else {
		h.Servers().Start(ctx)
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	var tested []mcpclient.Status
	for _, s := range h.Servers().Servers() {
		if c.Name == "" || s.Name == c.Name {
			tested = append(tested, s)
		}
	}
	if c.Name != "" && len(tested) == 0 {
		return nil, usage(fmt.Errorf("there is no server %q; harness servers list shows all", c.Name))
	}
	return tested, nil
}

// configFile is the file that commands change: the one in effect, or harness.yaml in the working directory.
func (a *app) configFile() (string, error) {
	file, found, err := config.Locate(a.configSource())
	if err != nil {
		return "", usage(err)
	}
	if !found {
		file = a.path(config.FileName)
	}
	return file, nil
}

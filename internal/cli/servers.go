package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/mcpclient"
)

type serversCmd struct {
	List   serversListCmd   `cmd:"" help:"Configured servers and their state."`
	Add    serversAddCmd    `cmd:"" help:"Add a server to harness.yaml."`
	Remove serversRemoveCmd `cmd:"" help:"Remove a server from harness.yaml."`
	Test   serversTestCmd   `cmd:"" help:"Start servers, list their tools, say what fails."`
}

type serversListCmd struct{}

func (serversListCmd) Help() string { return "Example:\n  harness servers list" }

func (c *serversListCmd) Run(ctx context.Context, a *app) error {
	h, err := a.openTools(ctx)
	if err != nil {
		return err
	}
	defer a.close(h)
	return a.servers(h.Servers().Servers())
}

// servers prints their state.
func (a *app) servers(all []mcpclient.Status) error {
	if a.flags.JSON {
		if all == nil {
			all = []mcpclient.Status{}
		}
		return a.json(all)
	}
	if len(all) == 0 {
		fmt.Fprintln(a.Stderr, "no servers are configured; add one: harness servers add NAME -- COMMAND ARGS…")
		return nil
	}
	rows := [][]string{{"SERVER", "STATE", "TRANSPORT", "TOOLS", "PROTOCOL", "REASON"}}
	for _, s := range all {
		state := string(s.State)
		if s.State == mcpclient.StateIdle && s.Cached {
			state = "idle (tools known)"
		}
		rows = append(rows, []string{s.Name, state, s.Transport, strconv.Itoa(s.Tools), s.Protocol, clip(firstLine(s.Reason))})
	}
	a.table(rows)
	return nil
}

type serversAddCmd struct {
	Name      string            `arg:"" help:"Name of the server; its tools are NAME__tool."`
	Target    []string          `arg:"" help:"Command and arguments after --, or the URL." passthrough:""`
	Transport string            `help:"stdio, http or sse; http where a URL is given." enum:"stdio,http,sse," default:""`
	Env       map[string]string `short:"e" help:"Environment variable of the server." placeholder:"K=V"`
	Header    []string          `help:"HTTP header." placeholder:"NAME: VALUE"`
	Replace   bool              `help:"Replace a server of the same name."`
}

func (serversAddCmd) Help() string {
	return `Flags come before the name. Comments and ${…} placeholders of the file stay as they are.

Examples:
  harness servers add files -- npx -y @modelcontextprotocol/server-filesystem ./data
  harness servers add --transport http crm https://crm.example.com/mcp --header 'Authorization: Bearer ${CRM_TOKEN}'`
}

func (c *serversAddCmd) Run(_ context.Context, a *app) error {
	target := c.Target
	if len(target) > 0 && target[0] == "--" {
		target = target[1:]
	}
	if len(target) == 0 {
		return &exitError{exitUsage, fmt.Errorf("no command or URL for server %q; see harness servers add --help", c.Name)}
	}
	server := config.MCPServer{Name: c.Name, Env: c.Env, Headers: map[string]string{}}
	target, err := c.trailing(target, &server)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	for _, h := range c.Header {
		if err := header(h, &server); err != nil {
			return &exitError{exitUsage, err}
		}
	}
	if c.Transport == "http" || c.Transport == "sse" || strings.HasPrefix(target[0], "http://") || strings.HasPrefix(target[0], "https://") {
		server.URL, server.Type = target[0], c.Transport
		if len(target) > 1 {
			return &exitError{exitUsage, fmt.Errorf("unexpected %q after the URL", target[1])}
		}
	} else {
		server.Command, server.Args = target[0], target[1:]
	}
	file, err := a.configFile()
	if err != nil {
		return err
	}
	if err := config.AddServer(file, &server, c.Replace); err != nil {
		return &exitError{exitUsage, err}
	}
	if a.flags.JSON {
		return a.json(map[string]string{"added": c.Name, "file": file})
	}
	fmt.Fprintf(a.Stdout, "added %s to %s; try it: harness servers test %s\n", c.Name, file, c.Name)
	return nil
}

// trailing takes the flags that people write behind a URL.
func (c *serversAddCmd) trailing(target []string, server *config.MCPServer) ([]string, error) {
	if !strings.HasPrefix(target[0], "http") {
		return target, nil
	}
	rest := target[:1:1]
	for i := 1; i < len(target); i++ {
		name, value, inline := strings.Cut(target[i], "=")
		if name != "--header" && name != "--transport" {
			rest = append(rest, target[i])
			continue
		}
		if !inline {
			if i++; i == len(target) {
				return nil, fmt.Errorf("%s needs a value", name)
			}
			value = target[i]
		}
		if name == "--transport" {
			server.Type = value
		} else if err := header(value, server); err != nil {
			return nil, err
		}
	}
	return rest, nil
}

func header(text string, server *config.MCPServer) error {
	name, value, ok := strings.Cut(text, ":")
	if !ok {
		return fmt.Errorf("header %q has no colon; write 'Name: value'", name)
	}
	server.Headers[strings.TrimSpace(name)] = strings.TrimSpace(value)
	return nil
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
		return &exitError{exitUsage, err}
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
	progress := a.progress("starting servers")
	began := time.Now()
	if c.Name != "" {
		_, _ = h.Servers().Connect(ctx, c.Name) // the reason is in the status
	} else {
		h.Servers().Start(ctx)
	}
	progress.stop()
	var tested []mcpclient.Status
	broken := 0
	for _, s := range h.Servers().Servers() {
		if c.Name != "" && s.Name != c.Name {
			continue
		}
		tested = append(tested, s)
		if s.State != mcpclient.StateReady && s.State != mcpclient.StateDisabled {
			broken++
		}
	}
	if c.Name != "" && len(tested) == 0 {
		return &exitError{exitUsage, fmt.Errorf("there is no server %q; see harness servers list", c.Name)}
	}
	if err := a.servers(tested); err != nil {
		return err
	}
	for _, s := range tested {
		if s.State != mcpclient.StateReady && s.StderrTail != "" && !a.flags.JSON {
			fmt.Fprintf(a.Stderr, "\n%s: last lines of its standard error:\n%s\n", s.Name, s.StderrTail)
		}
	}
	if broken > 0 {
		return &exitError{exitUnavailable, fmt.Errorf("%d of %d servers cannot be used", broken, len(tested))}
	}
	if !a.flags.JSON {
		fmt.Fprintf(a.Stderr, "all well after %s\n", time.Since(began).Round(time.Millisecond))
	}
	return nil
}

// configFile is the file that commands change: the one in effect, or harness.yaml in the working directory.
func (a *app) configFile() (string, error) {
	file, found, err := config.Locate(a.configSource())
	if err != nil {
		return "", &exitError{exitUsage, err}
	}
	if !found {
		file = a.path(config.FileName)
	}
	return file, nil
}

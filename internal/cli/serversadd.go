package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"mcp-code-exec-harness/internal/config"
)

// addFlags say how a server is reached. They may stand before and behind the server's name, and behind a URL.
type addFlags struct {
	Transport string   `help:"stdio, http or sse; http where a URL is given." placeholder:"KIND"`
	Env       []string `short:"e" sep:"none" help:"Environment variable of the server." placeholder:"K=V"`
	Header    []string `sep:"none" help:"HTTP header." placeholder:"NAME: VALUE"`
	Replace   bool     `help:"Replace a server of the same name."`
}

type serversAddCmd struct {
	Name   string   `arg:"" help:"Name of the server; its tools are NAME__tool."`
	Target []string `arg:"" optional:"" help:"Command and arguments, after --; or the URL." passthrough:""`
	addFlags
}

func (serversAddCmd) Help() string {
	return `What follows -- is the server's command as it is. Comments and ${…} placeholders of the file stay as they are.

Examples:
  harness servers add files -- npx -y @modelcontextprotocol/server-filesystem ./data
  harness servers add github -e TOKEN='${GITHUB_TOKEN}' -- npx -y @modelcontextprotocol/server-github
  harness servers add --transport http crm https://crm.example.com/mcp --header 'Authorization: Bearer ${CRM_TOKEN}'`
}

func (c *serversAddCmd) Run(_ context.Context, a *app) error {
	server, err := c.server(a)
	if err != nil {
		return usage(err)
	}
	file, err := a.configFile()
	if err != nil {
		return err
	}
	if err := config.AddServer(file, server, c.Replace); err != nil {
		return usage(err)
	}
	if a.flags.JSON {
		return a.json(map[string]string{"added": c.Name, "file": file})
	}
	fmt.Fprintf(a.Stdout, "added %s to %s; try it: harness servers test %s\n", c.Name, file, c.Name)
	return nil
}

// server is the entry that the command line describes.
func (c *serversAddCmd) server(a *app) (*config.MCPServer, error) {
	target := c.Target
	if len(target) > 0 && target[0] == "--" {
		target = target[1:]
	} else if len(target) > 0 && (isURL(target[0]) || c.Transport == "http" || c.Transport == "sse") {
		rest, err := c.trailing(a, target)
		if err != nil {
			return nil, err
		}
		target = rest
	}
	if len(target) == 0 {
		return nil, fmt.Errorf("no command or URL for server %q; see harness servers add --help", c.Name)
	}
	server := &config.MCPServer{Name: c.Name, Env: map[string]string{}, Headers: map[string]string{}}
	if err := c.fill(server); err != nil {
		return nil, err
	}
	switch c.Transport {
	case "", "stdio", "http", "sse":
	default:
		return nil, fmt.Errorf("there is no transport %q; there are stdio, http and sse", c.Transport)
	}
	if c.Transport == "stdio" || c.Transport == "" && !isURL(target[0]) {
		server.Command, server.Args = target[0], target[1:]
		return server, nil
	}
	if len(target) > 1 {
		return nil, fmt.Errorf("unexpected %q behind the URL", target[1])
	}
	if len(server.Env) > 0 {
		fmt.Fprintln(a.Stderr, "harness: warning: -e is left out: a server behind a URL has no environment of ours; use --header")
		server.Env = nil
	}
	server.URL, server.Type = target[0], c.Transport
	return server, nil
}

func isURL(s string) bool { return strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://") }

// trailing reads the flags behind a URL, where other clients have them too, and returns the arguments that are left.
func (c *serversAddCmd) trailing(a *app, target []string) ([]string, error) {
	flags := struct {
		globals
		addFlags
		Target []string `arg:"" optional:""`
	}{}
	parser, err := kong.New(&flags, kong.Name("harness servers add"), kong.NoDefaultHelp(), kong.Writers(io.Discard, io.Discard))
	if err != nil {
		return nil, fmt.Errorf("read the flags behind the URL: %w", err)
	}
	if _, err := parser.Parse(target); err != nil {
		return nil, fmt.Errorf("%w; see harness servers add --help", err)
	}
	c.Env, c.Header = slices.Concat(c.Env, flags.Env), slices.Concat(c.Header, flags.Header)
	c.Transport, c.Replace = cmp.Or(flags.Transport, c.Transport), c.Replace || flags.Replace
	a.flags.Config, a.flags.LogLevel = cmp.Or(flags.Config, a.flags.Config), cmp.Or(flags.LogLevel, a.flags.LogLevel)
	a.flags.JSON = a.flags.JSON || flags.JSON
	return flags.Target, nil
}

// fill takes over variables and headers.
func (c *serversAddCmd) fill(server *config.MCPServer) error {
	for _, entry := range c.Env {
		name, value, ok := strings.Cut(entry, "=")
		if !ok || name == "" {
			return fmt.Errorf("environment variable %q has no value; write -e NAME=VALUE", entry)
		}
		server.Env[name] = value
	}
	for _, entry := range c.Header {
		name, value, ok := strings.Cut(entry, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return fmt.Errorf("header %q has no colon; write --header 'Name: value'", entry)
		}
		server.Headers[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return nil
}

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/alecthomas/kong"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/catalog/ident"
	"mcp-code-exec-harness/internal/clients"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/doctor"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/openapi"
	"mcp-code-exec-harness/internal/startup"
)

type serversCmd struct {
	List    serversListCmd    `cmd:"" help:"Configured servers and their state." example:"servers list"`
	Add     serversAddCmd     `cmd:"" help:"Add a server to harness.yaml."`
	Import  serversImportCmd  `cmd:"" help:"Add the servers of other MCP clients: Claude, Cursor, VS Code, Windsurf, Zed, Codex, Gemini."`
	Remove  serversRemoveCmd  `cmd:"" help:"Remove a server from harness.yaml." example:"servers remove files"`
	Enable  serversEnableCmd  `cmd:"" help:"Use a server again that was disabled." example:"servers enable files"`
	Disable serversDisableCmd `cmd:"" help:"Keep a server in harness.yaml, and do not use it." example:"servers disable files"`
	Test    serversTestCmd    `cmd:"" help:"Start servers, list their tools, say what fails." example:"servers test files"`
	Restart serversRestartCmd `cmd:"" help:"Have a running harness serve start a server again."`
	Logs    serversLogsCmd    `cmd:"" help:"What a server printed."`
	Login   serversLoginCmd   `cmd:"" help:"Log in to a server that asks for it (OAuth)."`
	Logout  serversLogoutCmd  `cmd:"" help:"Revoke and delete what a login led to." example:"servers logout crm"`
	Review  serversReviewCmd  `cmd:"" help:"Show, and approve, what servers say about tools that are held (quarantine)."`
}

type serversListCmd struct{}

func (serversListCmd) Run(a *app, h catalogued) error { return a.servers(h.Servers().Servers()) }

// servers prints the state of servers and, without --json, why some of them cannot be used.
func (a *app) servers(all []mcpclient.Status) error {
	const none = "no servers are configured; add one: harness servers add NAME -- COMMAND ARGS…"
	if err := answerList(a, list(all), all, none, "SERVER\tSTATE\tTRANSPORT\tTOOLS\tPROTOCOL\tSANDBOX", func(s mcpclient.Status) string {
		state := string(s.State)
		if s.State == mcpclient.StateIdle && s.Cached {
			state = "idle (tools known)"
		}
		if s.Held > 0 {
			state += fmt.Sprintf(", %d held", s.Held)
		}
		walls := ""
		switch {
		case s.Sandbox != nil:
			walls = s.Sandbox.String()
		case s.Transport == mcpclient.TransportStdio:
			walls = "none"
		}
		return fmt.Sprintf("%s\t%s\t%s\t%d\t%s\t%s", s.Name, state, s.Transport, s.Tools, s.Protocol, walls)
	}); err != nil {
		return err
	}
	for _, s := range all {
		if s.Reason == "" || a.flags.JSON {
			continue
		}
		fmt.Fprintf(a.Stderr, "\n%s: %s\n", s.Name, s.Reason)
		if s.StderrTail != "" {
			fmt.Fprintf(a.Stderr, "last lines of its standard error:\n%s\n", strings.TrimRight(s.StderrTail, "\n"))
		}
	}
	return nil
}

type serversRemoveCmd struct {
	Names []string `arg:"" name:"name" help:"Names of servers." names:"servers"`
}

func (c *serversRemoveCmd) Run(ctx context.Context, a *app) error {
	file, err := config.Locate(a.configSource())
	if err != nil {
		return usage(err)
	}
	for i, name := range c.Names {
		if err := a.removeServer(ctx, file, name); err != nil {
			if i > 0 {
				fmt.Fprintf(a.Stderr, "removed %s from %s\n", strings.Join(c.Names[:i], ", "), file)
			}
			return err
		}
	}
	return a.answer(map[string]string{"removed": strings.Join(c.Names, " "), "file": file}, "removed %s from %s\n", strings.Join(c.Names, ", "), file)
}

// removeServer removes a server from the configuration, and removes the server's secrets and approvals.
func (a *app) removeServer(ctx context.Context, file, name string) error {
	kept := config.SecretsOf(file, name)
	err := a.editor().RemoveServer(file, name)
	if errors.Is(err, fs.ErrNotExist) {
		if known := a.known(name); known != nil {
			return known
		}
	}
	if err != nil {
		return usage(err)
	}
	if err := forget(a.secrets(), kept); err != nil {
		return fmt.Errorf("removed %s from %s, but its secrets are kept: %w", name, file, err)
	}
	if err := a.forgetServer(ctx, name); err != nil {
		return fmt.Errorf("removed %s from %s, but what was approved of it is kept: %w", name, file, err)
	}
	return nil
}

// forgetServer removes the approvals of a server, so that a new server under the same name starts without approvals.
func (a *app) forgetServer(ctx context.Context, name string) error {
	cfg, err := a.load()
	if err != nil || cfg.QuarantineMode() == string(approval.HoldNone) {
		return err
	}
	h, err := a.open(ctx)
	if err != nil {
		return err
	}
	return h.Quarantine().Forget(ctx, name)
}

// unknownServer returns the error for a name that no server has.
func unknownServer(name string, names []string) error {
	return usage(fmt.Errorf("unknown server %q; %s", name, meant(ident.Closest(name, names), "harness servers list shows all")))
}

func serverNames(all []mcpclient.Status) (names []string) {
	for _, s := range all {
		names = append(names, s.Name)
	}
	return names
}

// known returns an error if no configured server has the name.
func (a *app) known(name string) error {
	cfg, err := a.load()
	if err != nil {
		return err
	}
	var names []string
	for _, s := range cfg.MCPServers {
		if s.Name == name {
			return nil
		}
		names = append(names, s.Name)
	}
	return unknownServer(name, names)
}

type serversEnableCmd struct {
	Name string `arg:"" help:"Name of the server." names:"servers"`
}

func (c *serversEnableCmd) Run(a *app) error { return a.setDisabled(c.Name, false) }

type serversDisableCmd struct {
	Name string `arg:"" help:"Name of the server." names:"servers"`
}

func (c *serversDisableCmd) Run(a *app) error { return a.setDisabled(c.Name, true) }

// setDisabled enables or disables a server in harness.yaml.
func (a *app) setDisabled(name string, disabled bool) error {
	if err := a.known(name); err != nil {
		return err
	}
	file, err := config.Locate(a.configSource())
	if err == nil {
		err = a.editor().DisableServer(file, name, disabled)
	}
	if err != nil {
		return usage(err)
	}
	done := map[bool]string{true: "disabled", false: "enabled"}[disabled]
	return a.answer(map[string]string{done: name, "file": file}, "%s %s in %s\n", done, name, file)
}

type serversTestCmd struct {
	Timeout time.Duration `help:"How long a server may take until it answers first, instead of startupTimeout." placeholder:"DURATION"`
	Name    string        `arg:"" optional:"" help:"Only this server." names:"servers"`
}

func (c *serversTestCmd) Run(ctx context.Context, a *app) error {
	cfg, err := a.load()
	if err != nil {
		return err
	}
	for _, s := range cfg.MCPServers {
		s.StartupTimeout = cmp.Or(c.Timeout, s.StartupTimeout)
	}
	h, err := a.open(ctx)
	if err != nil {
		return err
	}
	stop := a.sayStarting(h)
	if c.Name != "" {
		_, _ = h.Servers().Connect(ctx, "", c.Name) // the reason is in the status
	} else {
		h.Servers().Start(ctx)
	}
	stop()
	if err := context.Cause(ctx); err != nil {
		return err
	}
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
		return unknownServer(c.Name, serverNames(h.Servers().Servers()))
	}
	if c.Name != "" && tested[0].State == mcpclient.StateDisabled {
		return usage(fmt.Errorf("server %s is disabled; harness servers enable %[1]s", c.Name))
	}
	if err := a.servers(tested); err != nil {
		return err
	}
	if broken > 0 {
		return &exitError{exitUnavailable, fmt.Errorf("%d of %d servers cannot be used", broken, len(tested))}
	}
	return nil
}

// sayStarting shows which servers are being installed or started, until stop is called.
func (a *app) sayStarting(h harness) (stop func()) {
	progress := a.progress("starting servers")
	watched, cancel := context.WithCancel(context.Background())
	var end sync.WaitGroup
	end.Go(func() {
		tick := time.NewTicker(progressDelay)
		defer tick.Stop()
		for {
			select {
			case <-watched.Done():
				return
			case <-tick.C:
				progress.say(doctor.StartingText(h.Servers().Servers()))
			}
		}
	})
	return func() {
		cancel()
		end.Wait()
		progress.stop()
	}
}

// addFlags describe how a server is reached. They may stand before or after the server's name, and after a URL.
type addFlags struct {
	Transport string   `help:"stdio, http, sse or openapi; http where a URL is given." placeholder:"KIND"`
	Env       []string `short:"e" sep:"none" help:"Environment variable of the server." placeholder:"K=V"`
	Header    []string `sep:"none" help:"HTTP header." placeholder:"NAME: VALUE"`
	Replace   bool     `help:"Replace a server of the same name."`
}

type serversAddCmd struct {
	Name   string   `arg:"" help:"Name of the server; its tools are NAME__tool. Or, without a target, JSON or a file that names the servers; - reads standard input."`
	Target []string `arg:"" optional:"" help:"Command and arguments, after --; or a URL; or JSON or a file, as other clients and the registry have them." passthrough:""`
	addFlags
}

func (serversAddCmd) Help() string {
	return `Everything after -- is the server's command. Comments and ${…} placeholders of the file stay as they are. Secrets among the values of -e,
--header and the arguments go to the keyring of the system, or to a file that only you can read; harness.yaml gets ${secret:NAME}.
A server at a URL is asked over streamable HTTP, then over SSE.

Examples:
  harness servers add files -- npx -y @modelcontextprotocol/server-filesystem ./data
  harness servers add github -e TOKEN='${GITHUB_TOKEN}' -- npx -y @modelcontextprotocol/server-github
  harness servers add crm https://crm.example.com/mcp --header 'Authorization: Bearer ${CRM_TOKEN}'
  harness servers add pets ./openapi.yaml --header 'Authorization: Bearer ${PETS_TOKEN}'
  harness servers add memory '{"command": "npx", "args": ["-y", "@modelcontextprotocol/server-memory"]}'
  harness servers add '{"mcpServers": {"memory": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-memory"]}}}'
  harness servers add weather ./server.json`
}

func (c *serversAddCmd) Run(ctx context.Context, a *app) error {
	servers, err := c.servers(ctx, a)
	if err != nil {
		return usage(err)
	}
	file, err := config.Locate(a.configSource())
	if err != nil {
		return usage(err)
	}
	var names []string
	for _, s := range servers {
		if strings.Contains(s.Name, " ") {
			err = fmt.Errorf("the name %q has a space; use %s", s.Name, strings.ReplaceAll(s.Name, " ", "-"))
		} else {
			err = a.addServer(file, s, c.Replace)
		}
		if err != nil {
			return usage(err)
		}
		names = append(names, s.Name)
	}
	all := strings.Join(names, " ")
	return a.answer(map[string]string{"added": all, "file": file}, "added %s to %s; try it: harness servers test %s\n", strings.Join(names, ", "), file, names[0])
}

// servers returns the entries that the command line describes.
func (c *serversAddCmd) servers(ctx context.Context, a *app) ([]clients.Server, error) {
	if c.isOpenAPI(a) {
		c.Transport = config.OpenAPI
	}
	text, path, err := c.document(ctx, a)
	if err != nil {
		return nil, err
	}
	if text == nil {
		server, err := c.server(a)
		return []clients.Server{{MCPServer: server}}, err
	}
	o := clients.Options{Dir: a.Dir, Home: a.environment().HomeDir}
	if len(c.Target) > 0 {
		o.Name = c.Name
	}
	if path != "" {
		client := clients.Guess(path)
		o.TOML, o.Gemini = client.TOML, client.Gemini
	}
	found, err := clients.Parse(text, o)
	switch {
	case err != nil:
		return nil, err
	case len(found) == 0:
		return nil, errors.New("there is no server in it")
	case len(found) > 1 && (o.Name != "" || len(c.Env)+len(c.Header) > 0):
		return nil, fmt.Errorf("there are %d servers in it; leave out the name and the flags to add all, or use harness servers import --server NAME", len(found))
	}
	for _, s := range found {
		if s.Err != nil {
			return nil, fmt.Errorf("server %s: %w", s.Name, s.Err)
		}
	}
	if o.Name != "" {
		found[0].Name = o.Name
	}
	if len(c.Env)+len(c.Header) > 0 {
		if err := c.fill(found[0].MCPServer); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// document returns the text that describes the servers: JSON on the command line, the content of a file, or standard input. It returns nil if the
// command line has a command or a URL instead.
func (c *serversAddCmd) document(ctx context.Context, a *app) (text []byte, path string, err error) {
	given := c.Name
	switch {
	case len(c.Target) == 1 && c.Transport == "":
		given = c.Target[0]
	case len(c.Target) > 0:
		return nil, "", nil
	}
	switch {
	case strings.HasPrefix(strings.TrimSpace(given), "{"):
		return []byte(given), "", nil
	case given == "-":
		text, err = readAll(ctx, io.LimitReader(a.Stdin, maxArguments))
		return text, "", err
	case !slices.Contains([]string{".json", ".jsonc", ".toml"}, filepath.Ext(given)) || isURL(given):
		return nil, "", nil
	}
	text, err = os.ReadFile(a.path(given))
	return text, given, err
}

// isOpenAPI reports whether the target is a file with an OpenAPI document.
func (c *serversAddCmd) isOpenAPI(a *app) bool {
	if c.Transport != "" || len(c.Target) == 0 || !slices.Contains([]string{".json", ".yaml", ".yml"}, filepath.Ext(c.Target[0])) {
		return false
	}
	text, err := os.ReadFile(a.path(c.Target[0]))
	return err == nil && openapi.IsDocument(text)
}

// server returns the entry that the command line describes.
func (c *serversAddCmd) server(a *app) (*config.MCPServer, error) {
	target := c.Target
	command := len(target) > 0 && target[0] == "--"
	if command {
		target = target[1:]
	} else if len(target) > 0 && (isURL(target[0]) || c.Transport == "http" || c.Transport == "sse" || c.Transport == config.OpenAPI) {
		rest, err := c.trailing(a, target)
		if err != nil {
			return nil, err
		}
		target = rest
	}
	if len(target) == 0 {
		if isURL(c.Name) {
			return nil, fmt.Errorf("the server has no name; harness servers add NAME %s", c.Name)
		}
		return nil, fmt.Errorf("no command or URL for server %q; see harness servers add --help", c.Name)
	}
	server := &config.MCPServer{Name: c.Name, Env: map[string]string{}, Headers: map[string]string{}}
	if err := c.fill(server); err != nil {
		return nil, err
	}
	if !slices.Contains([]string{"", "stdio", "http", "sse", "openapi"}, c.Transport) {
		return nil, fmt.Errorf("unknown transport %q; there are stdio, http, sse and openapi", c.Transport)
	}
	if c.Transport == "stdio" || c.Transport == "" && !isURL(target[0]) {
		if scheme := schemeForm().FindStringSubmatch(target[0]); scheme != nil && !command {
			return nil, fmt.Errorf("%s is neither a command nor a URL of a server; servers are at http:// and https:// addresses", target[0])
		}
		if fields := strings.Fields(target[0]); len(target) == 1 && len(fields) > 1 {
			if _, err := os.Stat(a.path(target[0])); err != nil {
				return nil, fmt.Errorf("there is no program %q; write harness servers add %s -- %s, with quotes around arguments that have spaces",
					target[0], c.Name, strings.Join(fields, " "))
			}
		}
		server.Command, server.Args = target[0], slices.Clone(target[1:])
		return server, nil
	}
	if len(target) > 1 {
		return nil, fmt.Errorf("unexpected %q after the URL", target[1])
	}
	if len(server.Env) > 0 {
		return nil, errors.New("a server at a URL takes no environment variables: -e is for those that a command starts; give --header 'Name: value'")
	}
	if c.Transport == config.OpenAPI {
		server.OpenAPI = target[0]
		if !isURL(target[0]) {
			server.OpenAPI = a.path(target[0])
		}
		return server, nil
	}
	server.URL, server.Type = target[0], c.Transport
	return server, nil
}

// schemeForm matches texts that begin like an address: ftp://host, or http:/host, which lacks a slash.
var schemeForm = startup.Regexp(`^(?:[A-Za-z][A-Za-z0-9+.-]*://|https?:)`)

func isURL(s string) bool { return strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://") }

// trailing reads the flags that follow a URL, and returns the remaining arguments. Other clients accept flags there.
func (c *serversAddCmd) trailing(a *app, target []string) ([]string, error) {
	flags := struct {
		globals
		addFlags
		Target []string `arg:"" optional:""`
	}{}
	parser, err := kong.New(&flags, kong.Name("harness servers add"), kong.NoDefaultHelp(), kong.Writers(io.Discard, io.Discard))
	if err != nil {
		return nil, fmt.Errorf("read the flags after the URL: %w", err)
	}
	if _, err := parser.Parse(target); err != nil {
		return nil, fmt.Errorf("%w; see harness servers add --help", err)
	}
	c.Env, c.Header = slices.Concat(c.Env, flags.Env), slices.Concat(c.Header, flags.Header)
	c.Transport, c.Replace = cmp.Or(flags.Transport, c.Transport), c.Replace || flags.Replace
	a.flags.Config, a.flags.JSON = cmp.Or(flags.Config, a.flags.Config), a.flags.JSON || flags.JSON
	return flags.Target, nil
}

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

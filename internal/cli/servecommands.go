package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/process"
	"mcp-code-exec-harness/internal/program"
	"mcp-code-exec-harness/internal/remote"
	"mcp-code-exec-harness/internal/startup"
	"mcp-code-exec-harness/internal/task"
)

// commandServer executes commands of other processes in the harness of this server.
type commandServer struct {
	app        *app // app of the server
	cfg        *config.Config
	h          harness
	tasks      *task.Service
	address    string // address of the dashboard: http://127.0.0.1:3000
	log        *slog.Logger
	executable string // identity of this program when it started
	prelude    []byte // texts of sandbox.prelude when the harness was opened
}

// newCommandServer starts to accept commands of other processes. The error is remote.ErrTaken if another server already accepts the commands for the
// state directory.
func newCommandServer(a *app, cfg *config.Config, h harness, tasks *task.Service, address string, log *slog.Logger) (*remote.Listener, error) {
	key, _, err := auth.LocalToken(cfg.StateDir)
	if err != nil {
		return nil, err
	}
	c := &commandServer{app: a, cfg: cfg, h: h, tasks: tasks, address: address, log: log, executable: remote.Identity(a.Executable)}
	if c.prelude, err = preludeOf(cfg); err != nil {
		return nil, err
	}
	return remote.Listen(remote.Options{State: cfg.StateDir, Key: key, Execute: c.execute, Signal: signalNamed})
}

// preludeOf returns the texts of sandbox.prelude.
func preludeOf(cfg *config.Config) ([]byte, error) {
	sources, err := program.ReadSources(cfg.Sandbox.Prelude)
	var all []byte
	for _, s := range sources {
		all = fmt.Appendf(all, "%q", s)
	}
	return all, err
}

// execute executes a client's command, with the same result as in a process of the client's own.
func (c *commandServer) execute(ctx context.Context, s *remote.Session) (code int) {
	defer func() {
		if p := recover(); p != nil {
			c.log.Error("execute a command", "panic", p, "stack", string(debug.Stack()))
			fmt.Fprintln(remoteOutput{s, true}, "harness: harness serve failed while it executed this command; its log says more")
			code = exitFailed
		}
	}()
	w := c.app.World
	w.Args, w.Environ, w.Dir = s.Args, s.Environ, s.Dir
	w.Stdin, w.Stdout, w.Stderr = remoteInput{s}, remoteOutput{s, false}, remoteOutput{s, true}
	w.served = &servedCommand{server: c, session: s}
	code = Main(ctx, w)
	if !w.served.answered {
		s.Refuse("it is not one that harness serve executes")
	}
	if errors.Is(context.Cause(ctx), remote.ErrStopped) {
		fmt.Fprintln(remoteOutput{s, true}, "harness: harness serve was stopped while it executed this command, and what the command did until then is done: "+
			"harness runs list shows its run; it is not executed again")
		code = exitUnavailable
	}
	return code
}

// servedCommand is a command of another process, which this server executes.
type servedCommand struct {
	server   *commandServer
	session  *remote.Session
	answered bool // the client has been told whether the command is executed
}

// admit tells the client whether this server executes the command. The server executes it if the result is the same as in a process of the client's
// own, apart from the time that it takes.
func (c *servedCommand) admit(a *app) bool {
	c.answered = true
	if why := c.server.differs(a, c.session); why != "" {
		c.session.Refuse(why)
		return false
	}
	return c.session.Accept() == nil
}

// tellPage prints the page of a run or task on a terminal, if a server with a dashboard executes the command.
func (a *app) tellPage(path string) {
	if a.served != nil && a.stderr.terminal != nil {
		fmt.Fprintf(a.Stderr, "harness: %s%s\n", a.served.server.address, path)
	}
}

// harness returns the harness of the server. The command does not close it.
func (c *servedCommand) harness() harness { return sharedHarness{c.server.h, c.server.tasks} }

// sharedHarness is the harness of a server, as the command of another process uses it.
type sharedHarness struct {
	harness
	tasks *task.Service
}

// Tasks implements harness. The server's own service works the tasks of commands, too.
func (h sharedHarness) Tasks(taskOptions) (*task.Service, error) { return h.tasks, nil }

// Close implements harness.
func (sharedHarness) Close(context.Context) error { return nil }

// differs returns what would differ if the command ran in a process of its own, or "" if nothing would.
func (c *commandServer) differs(a *app, s *remote.Session) string {
	if s.Version != Version || s.Executable != c.executable {
		return "it is another program or version"
	}
	if c.h.Servers().Changed() {
		return "servers were added or removed while it runs"
	}
	file, state, err := config.Place(a.configSource())
	if err != nil || file != c.cfg.File || state != c.cfg.StateDir { // stop before reading other files, which the client may not be allowed to read
		return "it has another configuration"
	}
	cfg, err := a.read()
	switch {
	case err != nil:
		return "the configuration has changed and is not valid"
	case !c.cfg.Same(cfg):
		return "it has another configuration"
	case cfg.Log.Level != "error" && slices.ContainsFunc(cfg.Effective(), func(e config.Entry) bool { return e.Key == "log.level" && e.Origin != "default" }):
		return "log.level is set, and its log is its own"
	}
	if prelude, err := preludeOf(cfg); err != nil || !bytes.Equal(prelude, c.prelude) {
		return "a file of sandbox.prelude has changed"
	}
	if names := differentVariables(cfg, a.Environ, c.app.Environ); len(names) > 0 {
		return "other environment variables: " + strings.Join(names, ", ")
	}
	return ""
}

// ownVariables are variables that this process itself reads: for its network, its container engine and its caches.
var ownVariables = []string{
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR",
	"DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY", "HOME", "XDG_CACHE_HOME", "HARNESS_CACHE_DIR", "TZ",
}

// placeVariables matches variables that describe a terminal or session: screen, language and directory. A server keeps the values with which it was
// started.
var placeVariables = startup.Regexp(`^(TERM|PWD|OLDPWD|SHLVL|_|SHELL|LANG|LC_\w+|DISPLAY|WAYLAND_DISPLAY|XAUTHORITY|XDG_(SESSION|CURRENT|RUNTIME|VTNR|SEAT|MENU|GREETER)\w*)$`)

// Programs that tiers start, and programs that the commands of MCP servers may start in turn.
var (
	tierPrograms   = []string{"node", "docker"}
	serverPrograms = []string{"npm", "npx", "bun", "deno", "python", "python3", "uv", "uvx", "podman", "git", "sh", "bash"}
)

// differentVariables returns the variables that differ between two environments. It leaves out variables that affect neither this process nor a
// program that the configuration starts.
func differentVariables(cfg *config.Config, one, other []string) (names []string) {
	inherit, programs := slices.Clone(ownVariables), slices.Clone(tierPrograms)
	for _, s := range cfg.MCPServers {
		inherit = append(inherit, s.Inherit...)
		if s.Command != "" {
			programs = append(append(programs, serverPrograms...), s.Command)
		}
		if s.Auth != nil && s.Auth.Type == "command" { // the command gets all variables
			inherit = append(inherit, "*")
		}
	}
	matter := func(environ []string) map[string]string {
		all := map[string]string{}
		for _, entry := range mcpclient.Inherited(environ, inherit) {
			if name, value, ok := strings.Cut(entry, "="); ok && !placeVariables().MatchString(name) {
				all[name] = value
			}
		}
		return all
	}
	a, b := matter(one), matter(other)
	for name, value := range a {
		have, ok := b[name]
		if !ok || have != value && (name != "PATH" || !samePrograms(programs, filepath.Dir(cfg.File), one, other)) {
			names = append(names, name)
		}
	}
	for name := range b {
		if _, ok := a[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// samePrograms reports whether commands are the same files in two environments.
func samePrograms(commands []string, dir string, one, other []string) bool {
	return !slices.ContainsFunc(commands, func(command string) bool {
		a, _ := process.Find(command, dir, one)
		b, _ := process.Find(command, dir, other)
		return a != b
	})
}

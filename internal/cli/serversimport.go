package cli

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/catalog/ident"
	"mcp-code-exec-harness/internal/clients"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/disk"
)

type serversImportCmd struct {
	Files   []string `arg:"" optional:"" help:"Configurations of clients; by default those of all known clients, of the user and of the working directory."`
	Client  []string `help:"Only of this client: claude-desktop, claude-code, cursor, vscode, windsurf, zed, codex, gemini." placeholder:"CLIENT"`
	Server  []string `help:"Only this server." placeholder:"NAME"`
	DryRun  bool     `help:"Show what would be done, and do nothing."`
	Replace bool     `help:"Replace servers of the same name."`
	Rewrite bool     `help:"Have the clients start the harness in place of these servers. Their files are changed; each gets a backup beside it." xor:"clients"`
	Undo    bool     `help:"Give the clients the files back that they had before --rewrite." xor:"clients"`
}

func (serversImportCmd) Help() string {
	return `Reads the servers that other MCP clients have, and adds them to harness.yaml. Secrets go to the keyring of the system, or to a file that only you
can read.

Examples:
  harness servers import --dry-run
  harness servers import --client cursor --client vscode
  harness servers import ~/.codex/config.toml --server github
  harness servers import --rewrite
  harness servers import --undo`
}

func (c *serversImportCmd) check() error {
	for _, name := range c.Client {
		if !slices.ContainsFunc(clients.All, func(one clients.Client) bool { return one.Name == name }) {
			var names []string
			for _, one := range clients.All {
				names = append(names, one.Name)
			}
			return fmt.Errorf("unknown client %q; there are %s", name, strings.Join(slices.Compact(names), ", "))
		}
	}
	return nil
}

// source is a file of a client.
type source struct {
	client clients.Client
	path   string
	text   []byte
}

// imported is a server of a client, with the action of the import.
type imported struct {
	Client string   `json:"client"`
	File   string   `json:"file"`
	Server string   `json:"server"`
	Action string   `json:"action"` // add, replace, same, keep, skip, failed
	Notes  []string `json:"notes,omitempty"`

	server clients.Server
	called string // name of the server in File
	like   int    // for the action same: index of the equal server in the plan, or -1 if the equal server is in harness.yaml
}

// kept reports whether harness.yaml contains the server after the import, perhaps under another name.
func kept(plan []imported, p imported) bool {
	switch p.Action {
	case "add", "replace":
		return true
	case "same":
		return p.like < 0 || kept(plan, plan[p.like])
	}
	return false
}

func (c *serversImportCmd) Run(a *app) error {
	sources, err := c.sources(a)
	if err != nil {
		return usage(err)
	}
	if c.Undo {
		return c.undo(a, sources)
	}
	cfg, err := a.load()
	if err != nil {
		return err
	}
	file, err := config.Locate(a.configSource())
	if err != nil {
		return usage(err)
	}
	plan := c.plan(a, cfg, file, sources)
	if err := c.unknown(a, cfg, file, sources, plan); err != nil {
		return err
	}
	if !c.DryRun {
		for i := range plan {
			if p := &plan[i]; p.Action == "add" || p.Action == "replace" {
				p.server.Notes = nil // the table shows the notes
				if err := a.addServer(file, p.server, p.Action == "replace"); err != nil {
					p.Action, p.Notes = "failed", append(p.Notes, err.Error())
				}
			}
		}
	}
	rewritten, err := c.rewrite(a, file, sources, plan)
	if err != nil {
		return err
	}
	none := "no server was found in the configurations of other clients; give a file: harness servers import FILE"
	shown := map[string]any{"file": file, "dryRun": c.DryRun, "servers": list(plan), "rewritten": list(rewritten)}
	if err := answerList(a, shown, plan, none, "SERVER\tACTION\tCLIENT\tFILE", func(p imported) string {
		row := p.Server + "\t" + p.Action + "\t" + p.Client + "\t" + p.File
		for _, note := range p.Notes {
			row += "\n\t\t\t" + note
		}
		return row
	}); err != nil {
		return err
	}
	if !a.flags.JSON {
		c.say(a, file, plan, rewritten)
	}
	if slices.ContainsFunc(plan, func(p imported) bool { return p.Action == "failed" }) {
		return failed(exitFailed)
	}
	return nil
}

// unknown returns an error for a name in --server that no client has.
func (c *serversImportCmd) unknown(a *app, cfg *config.Config, file string, sources []source, plan []imported) error {
	for _, name := range c.Server {
		if slices.ContainsFunc(plan, func(p imported) bool { return p.called == name || p.Server == name }) {
			continue
		}
		any := *c
		any.Server = nil
		var names []string
		for _, p := range any.plan(a, cfg, file, sources) {
			names = append(names, p.Server)
		}
		return usage(fmt.Errorf("no client has a server %q; %s", name, meant(ident.Closest(name, names), "harness servers import --dry-run shows all")))
	}
	return nil
}

// say prints on standard error what was done, and what to do next.
func (c *serversImportCmd) say(a *app, file string, plan []imported, rewritten []map[string]string) {
	added := 0
	for _, p := range plan {
		if p.Action == "add" || p.Action == "replace" {
			added++
		}
	}
	switch {
	case c.DryRun:
		fmt.Fprintf(a.Stderr, "nothing was done; without --dry-run, %d servers go to %s\n", added, file)
	case added > 0:
		fmt.Fprintf(a.Stderr, "%d servers are in %s now; try them: harness servers test\n", added, file)
	}
	for _, r := range rewritten {
		if c.DryRun {
			fmt.Fprintf(a.Stderr, "%s would start the harness\n", r["file"])
		} else {
			fmt.Fprintf(a.Stderr, "%s starts the harness now, after the client is restarted; harness servers import --undo brings back %s\n", r["file"], r["backup"])
		}
	}
}

// sources reads the clients' files that exist.
func (c *serversImportCmd) sources(a *app) (all []source, err error) {
	wanted := func(name string) bool { return len(c.Client) == 0 || slices.Contains(c.Client, name) }
	if len(c.Files) > 0 {
		for _, path := range c.Files {
			path = a.path(path)
			text, err := os.ReadFile(path)
			if err != nil {
				return nil, fmt.Errorf("read the configuration of a client: %w", err)
			}
			client := clients.Guess(path)
			if len(c.Client) == 1 {
				client = clients.All[slices.IndexFunc(clients.All, func(one clients.Client) bool { return one.Name == c.Client[0] })]
			}
			all = append(all, source{client, path, text})
		}
		return all, nil
	}
	from := a.configSource()
	place := clients.Place{Home: from.HomeDir, Dir: a.Dir, AppData: a.env("APPDATA"), Codex: a.env("CODEX_HOME"), GOOS: runtime.GOOS}
	for _, client := range clients.All {
		for _, path := range client.Files(place) {
			text, err := os.ReadFile(path)
			if client.Settings && !bytes.Contains(text, []byte(`"mcp`)) {
				continue
			}
			if wanted(client.Name) && err == nil && !slices.ContainsFunc(all, func(s source) bool { return s.path == path }) {
				all = append(all, source{client, path, text})
			} else if wanted(client.Name) && err != nil && !errors.Is(err, fs.ErrNotExist) {
				fmt.Fprintf(a.Stderr, "harness: warning: %v\n", err)
			}
		}
	}
	return all, nil
}

// plan decides what to do with each server.
func (c *serversImportCmd) plan(a *app, cfg *config.Config, file string, sources []source) (plan []imported) {
	for _, s := range sources {
		project := projectOf(s.path, a.configSource().HomeDir)
		found, err := clients.Parse(s.text, clients.Options{
			Dir: cmp.Or(project, a.Dir), Home: a.configSource().HomeDir, TOML: s.client.TOML, Gemini: s.client.Gemini,
		})
		if err != nil {
			plan = append(plan, imported{Client: s.client.Name, File: s.path, Action: "failed", Notes: []string{err.Error()}})
			continue
		}
		for _, server := range found {
			if isHarness(a, server.MCPServer) || len(c.Server) > 0 && !slices.Contains(c.Server, server.Name) {
				continue
			}
			if server.Err != nil {
				plan = append(plan, imported{Client: s.client.Name, File: s.path, Server: server.Name, called: server.Name, Action: "skip", Notes: []string{server.Err.Error()}})
				continue
			}
			if server.Command != "" && project != "" && (project != filepath.Dir(file) || server.Cwd != "") && !placed(server.Cwd) {
				server.Cwd = filepath.Join(project, server.Cwd) // the client starts the server in the project
			}
			p := imported{Client: s.client.Name, File: s.path, Server: server.Name, Action: "add", Notes: server.Notes, server: server, called: server.Name, like: -1}
			others := 0
			for i, other := range plan {
				if other.called != p.called || other.server.MCPServer == nil {
					continue
				}
				others++
				if other.Action != "same" && same(other.server.MCPServer, server.MCPServer, filepath.Dir(file)) {
					p.Action, p.like = "same", i
					break
				}
			}
			if others > 0 && p.Action == "add" {
				p.Server = unused(p.called+"-"+s.client.Name, plan)
				p.server.Name = p.Server
				p.Notes = append(slices.Clone(p.Notes), fmt.Sprintf("it is called %s here, because another client has a different %s", p.Server, p.called))
			}
			if i := slices.IndexFunc(cfg.MCPServers, func(have *config.MCPServer) bool { return have.Name == p.Server }); i >= 0 && p.Action == "add" {
				switch {
				case c.Replace:
					p.Action = "replace"
				case same(cfg.MCPServers[i], server.MCPServer, filepath.Dir(file)):
					p.Action = "same"
				default:
					p.Action = "keep"
					p.Notes = append(slices.Clone(p.Notes), "harness.yaml has a different server of this name; --replace replaces it")
				}
			}
			plan = append(plan, p)
		}
	}
	return plan
}

// projectOf returns the directory of the project to which a client's file belongs, or "" for a file of the user.
func projectOf(path, home string) string {
	dir := filepath.Dir(path)
	switch filepath.Base(dir) {
	case ".cursor", ".vscode", ".zed", ".codex", ".gemini":
		dir = filepath.Dir(dir)
	default:
		if filepath.Base(path) != ".mcp.json" {
			return ""
		}
	}
	if dir == home {
		return ""
	}
	return dir
}

// isHarness reports whether a server is this program.
func isHarness(a *app, s *config.MCPServer) bool {
	return s.Command != "" && (s.Command == a.Executable || strings.TrimSuffix(filepath.Base(s.Command), ".exe") == "harness") && slices.Contains(s.Args, "mcp")
}

// placed reports whether a path does not depend on the directory in which a client starts a server.
func placed(dir string) bool {
	return filepath.IsAbs(dir) || dir == "~" || strings.HasPrefix(dir, "~/") || strings.HasPrefix(dir, `~\`) || strings.HasPrefix(dir, "${")
}

// unused returns the wanted name, with a number if a server of the plan already has the name.
func unused(name string, plan []imported) string {
	for n, free := 1, name; ; n++ {
		if n > 1 {
			free = fmt.Sprintf("%s-%d", name, n)
		}
		if !slices.ContainsFunc(plan, func(p imported) bool { return p.Server == free }) {
			return free
		}
	}
}

// same reports whether two servers are started in the same way: with the same program, arguments, environment and directory, or at the same address. A
// placeholder matches any text. Relative directories are relative to base.
func same(x, y *config.MCPServer, base string) bool {
	text := func(a, b string) bool { return a == b || strings.Contains(a, "${") || strings.Contains(b, "${") }
	place := func(path string) string {
		if placed(path) {
			return filepath.Clean(path)
		}
		return filepath.Join(base, path)
	}
	envFile := func(s *config.MCPServer) string {
		if s.EnvFile == "" {
			return ""
		}
		return place(s.EnvFile)
	}
	within := func(all, some map[string]string) bool {
		for name, value := range some {
			if had, ok := all[name]; !ok || !text(had, value) {
				return false
			}
		}
		return true
	}
	settings := func(all map[string]string) map[string]string { // removes credentials: two servers with different credentials can be the same
		all = maps.Clone(all)
		maps.DeleteFunc(all, config.IsSecret)
		return all
	}
	return filepath.Base(x.Command) == filepath.Base(y.Command) && slices.EqualFunc(x.Args, y.Args, text) && text(x.URL, y.URL) &&
		(x.Command == "" || text(place(x.Cwd), place(y.Cwd))) && envFile(x) == envFile(y) && slices.Equal(slices.Sorted(slices.Values(x.Inherit)), slices.Sorted(slices.Values(y.Inherit))) &&
		within(x.Env, y.Env) && (x.EnvFile != "" || within(y.Env, settings(x.Env))) && within(x.Headers, y.Headers) && within(y.Headers, settings(x.Headers))
}

// backupMark is the part of a backup's name after the name of the file. A hash of the text that --rewrite wrote to the file follows it.
const backupMark = ".before-harness-"

func markOf(text []byte) string {
	sum := sha256.Sum256(text)
	return backupMark + hex.EncodeToString(sum[:6])
}

// rewrite makes the clients whose servers are in harness.yaml use the harness.
func (c *serversImportCmd) rewrite(a *app, file string, sources []source, plan []imported) (done []map[string]string, err error) {
	if !c.Rewrite {
		return nil, nil
	}
	entry := clients.Entry{Command: a.Executable, Args: []string{"mcp", "--config", filepath.Clean(file)}}
	for _, s := range sources {
		var remove [][]string
		for _, p := range plan {
			if p.File == s.path && len(p.server.At) > 0 && kept(plan, p) {
				remove = append(remove, p.server.At)
			}
		}
		if len(remove) == 0 {
			continue
		}
		out, err := s.client.Rewrite(s.text, remove, entry)
		if err != nil {
			return done, fmt.Errorf("rewrite %s: %w", s.path, err)
		}
		if bytes.Equal(out, s.text) {
			continue
		}
		backup := s.path + markOf(out)
		if !c.DryRun {
			path := s.path
			if target, err := filepath.EvalSymlinks(path); err == nil {
				path = target
			}
			info, err := os.Stat(path)
			if err != nil {
				return done, err
			}
			if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, s.text) {
				return done, fmt.Errorf("rewrite %s: the client changed the file while the command ran; run the command again", s.path)
			}
			if err := disk.Replace(backup, s.text, 0o600); err != nil {
				return done, fmt.Errorf("back up %s: %w", s.path, err)
			}
			if err := disk.Replace(path, out, info.Mode().Perm()); err != nil {
				return done, fmt.Errorf("rewrite %s: %w", s.path, err)
			}
		}
		done = append(done, map[string]string{"client": s.client.Name, "file": s.path, "backup": backup})
	}
	return done, nil
}

// undo restores the files of clients. It does not touch a file that was changed after --rewrite.
func (c *serversImportCmd) undo(a *app, sources []source) error {
	var restored []map[string]string
	var errs []error
	for _, s := range sources {
		backups, err := filepath.Glob(strings.NewReplacer("[", `\[`, "*", `\*`, "?", `\?`).Replace(s.path) + backupMark + "*")
		if err != nil || len(backups) == 0 {
			continue
		}
		backup := s.path + markOf(s.text)
		if !slices.Contains(backups, backup) {
			errs = append(errs, fmt.Errorf("%s was changed since; compare it with %s, and copy what you need", s.path, strings.Join(backups, ", ")))
			continue
		}
		text, err := os.ReadFile(backup)
		var info os.FileInfo
		if err == nil {
			info, err = os.Stat(s.path)
		}
		if err == nil && !c.DryRun {
			path := s.path
			if target, err := filepath.EvalSymlinks(path); err == nil {
				path = target
			}
			if err = disk.Replace(path, text, info.Mode().Perm()); err == nil {
				err = os.Remove(backup)
			}
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		restored = append(restored, map[string]string{"client": s.client.Name, "file": s.path})
	}
	err := answerList(a, map[string]any{"restored": list(restored), "dryRun": c.DryRun}, restored, "no file was rewritten by the harness", "", func(r map[string]string) string {
		return "restored\t" + r["client"] + "\t" + r["file"]
	})
	return errors.Join(append(errs, err)...)
}

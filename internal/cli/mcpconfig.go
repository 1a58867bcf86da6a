package cli

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"mcp-code-exec-harness/internal/config"
)

// mcpClient describes how to configure an MCP client.
type mcpClient struct {
	name string
	file string // file that the text belongs in
	text func(entry mcpEntry) string
	link func(entry mcpEntry) string // returns a link that opens the client, which then asks whether to add the server; nil: no link
	run  []string                    // command with which the client adds a server; the command of the harness follows it; nil: there is none
}

// mcpEntry is the entry in a client's configuration that starts harness mcp.
type mcpEntry struct {
	Type    string   `json:"type,omitempty"`
	Command string   `json:"command"`
	Args    []string `json:"args"`
}

var mcpClients = []mcpClient{
	{name: "claude-code", file: ".mcp.json of a project", text: under("mcpServers", "stdio"), run: []string{"claude", "mcp", "add", "harness", "--"}},
	{
		name: "claude-desktop", file: "claude_desktop_config.json in ~/Library/Application Support/Claude (macOS) or %APPDATA%\\Claude (Windows)",
		text: under("mcpServers", ""),
	},
	{name: "cursor", file: "~/.cursor/mcp.json, or .cursor/mcp.json of a project", text: under("mcpServers", ""), link: func(e mcpEntry) string {
		return "cursor://anysphere.cursor-deeplink/mcp/install?name=harness&config=" + url.QueryEscape(base64.StdEncoding.EncodeToString(compactJSON(e)))
	}},
	{name: "vscode", file: ".vscode/mcp.json of a project, or the user's mcp.json", text: under("servers", "stdio"), link: func(e mcpEntry) string {
		return "vscode:mcp/install?" + url.QueryEscape(string(compactJSON(struct {
			Name string `json:"name"`
			mcpEntry
		}{"harness", e})))
	}},
	{name: "windsurf", file: "~/.codeium/windsurf/mcp_config.json", text: under("mcpServers", "")},
	{name: "zed", file: "settings.json of Zed", text: under("context_servers", "")},
	{name: "opencode", file: "opencode.json of a project, or ~/.config/opencode/opencode.json", text: func(e mcpEntry) string {
		return indentedJSON(map[string]any{"mcp": map[string]any{"harness": map[string]any{
			"type": "local", "command": append([]string{e.Command}, e.Args...), "enabled": true,
		}}})
	}},
	{name: "codex", file: "~/.codex/config.toml", run: []string{"codex", "mcp", "add", "harness", "--"}, text: func(e mcpEntry) string {
		args := make([]string, len(e.Args))
		for i, arg := range e.Args {
			args[i] = string(compactJSON(arg)) // a basic string of TOML has the same escapes as JSON
		}
		return fmt.Sprintf("[mcp_servers.harness]\ncommand = %s\nargs = [%s]\n", compactJSON(e.Command), strings.Join(args, ", "))
	}},
	{name: "gemini", file: "~/.gemini/settings.json, or .gemini/settings.json of a project", text: under("mcpServers", "")},
}

// under returns a function that encodes an entry as the value of a key. kind is the type of the entry, if the client requires one.
func under(key, kind string) func(mcpEntry) string {
	return func(e mcpEntry) string {
		e.Type = kind
		return indentedJSON(map[string]any{key: map[string]any{"harness": e}})
	}
}

func indentedJSON(v any) string {
	var b bytes.Buffer
	_ = json.Indent(&b, compactJSON(v), "", "  ") // compactJSON returns JSON
	return b.String() + "\n"
}

// compactJSON encodes a value that is known to be encodable.
func compactJSON(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v)
	return bytes.TrimSpace(b.Bytes())
}

// findClient returns the client with the given name, or an error that lists all clients.
func findClient(name string) (mcpClient, error) {
	i := slices.IndexFunc(mcpClients, func(c mcpClient) bool { return c.name == name })
	if i < 0 {
		var names []string
		for _, c := range mcpClients {
			names = append(names, c.name)
		}
		return mcpClient{}, fmt.Errorf("unknown client %s; there are %s", strconv.Quote(name), strings.Join(names, ", "))
	}
	return mcpClients[i], nil
}

// printConfig prints the configuration with which a client starts this binary. It names the harness.yaml of this command.
func (c *mcpCmd) printConfig(a *app) error {
	client, err := findClient(c.PrintConfig)
	if err != nil {
		return usage(err)
	}
	cfg, err := a.load()
	if err != nil {
		return err
	}
	if a.untrusted != nil {
		return usage(a.untrusted)
	}
	if cfg.File == "" {
		fmt.Fprintf(a.Stderr, "harness: warning: no harness.yaml was found in %s or above it, so the client gets no servers; run this where it is, or give --config FILE\n", a.Dir)
	}
	entry := mcpEntry{Command: a.Executable, Args: []string{"mcp"}}
	if cfg.File != "" {
		entry.Args = append(entry.Args, "--config", filepath.Clean(cfg.File))
	}
	if c.User != defaultUser {
		entry.Args = append(entry.Args, "--user", c.User)
	}
	if c.Mode != "" {
		entry.Args = append(entry.Args, "--mode", c.Mode)
	}
	if c.Forms {
		entry.Args = append(entry.Args, "--forms")
	}
	shown := map[string]string{"client": client.name, "file": client.file, "config": client.text(entry)}
	if client.link != nil {
		shown["link"] = client.link(entry)
	}
	if client.run != nil {
		words := slices.Concat(client.run, []string{entry.Command}, entry.Args)
		for i, word := range words {
			words[i] = config.ShellWord(word)
		}
		shown["command"] = strings.Join(words, " ")
	}
	if !a.flags.JSON {
		fmt.Fprintln(a.Stderr, "for", client.file)
		if client.run != nil {
			fmt.Fprintln(a.Stderr, "or run:", shown["command"])
		}
		if client.link != nil {
			fmt.Fprintln(a.Stderr, "or open", shown["link"])
		}
	}
	return a.answer(shown, "%s", shown["config"])
}

const defaultUser = "local"

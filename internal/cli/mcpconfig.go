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
)

// mcpClient is how an MCP client is configured.
type mcpClient struct {
	name string
	file string // where the text belongs
	text func(entry mcpEntry) string
	link func(entry mcpEntry) string // opens the client, which asks whether to add the server; nil if it has none
}

// mcpEntry starts harness mcp.
type mcpEntry struct {
	Type    string   `json:"type,omitempty"`
	Command string   `json:"command"`
	Args    []string `json:"args"`
}

var mcpClients = []mcpClient{
	{"claude-code", ".mcp.json of a project; or run: claude mcp add harness -- COMMAND ARGS", under("mcpServers", "stdio"), nil},
	{
		"claude-desktop", "claude_desktop_config.json in ~/Library/Application Support/Claude (macOS) or %APPDATA%\\Claude (Windows)",
		under("mcpServers", ""), nil,
	},
	{"cursor", "~/.cursor/mcp.json, or .cursor/mcp.json of a project", under("mcpServers", ""), func(e mcpEntry) string {
		return "cursor://anysphere.cursor-deeplink/mcp/install?name=harness&config=" + url.QueryEscape(base64.StdEncoding.EncodeToString(compactJSON(e)))
	}},
	{"vscode", ".vscode/mcp.json of a project, or the user's mcp.json", under("servers", "stdio"), func(e mcpEntry) string {
		return "vscode:mcp/install?" + url.QueryEscape(string(compactJSON(struct {
			Name string `json:"name"`
			mcpEntry
		}{"harness", e})))
	}},
	{"windsurf", "~/.codeium/windsurf/mcp_config.json", under("mcpServers", ""), nil},
	{"zed", "settings.json of Zed", under("context_servers", ""), nil},
	{"codex", "~/.codex/config.toml", func(e mcpEntry) string {
		args := make([]string, len(e.Args))
		for i, arg := range e.Args {
			args[i] = string(compactJSON(arg)) // a basic string of TOML has the same escapes
		}
		return fmt.Sprintf("[mcp_servers.harness]\ncommand = %s\nargs = [%s]\n", compactJSON(e.Command), strings.Join(args, ", "))
	}, nil},
	{"gemini", "~/.gemini/settings.json, or .gemini/settings.json of a project", under("mcpServers", ""), nil},
}

// under is an entry as JSON below a key; kind is its type, where the client wants one.
func under(key, kind string) func(mcpEntry) string {
	return func(e mcpEntry) string {
		e.Type = kind
		var b bytes.Buffer
		_ = json.Indent(&b, compactJSON(map[string]any{key: map[string]any{"harness": e}}), "", "  ") // it is JSON
		return b.String() + "\n"
	}
}

// compactJSON encodes a value that JSON can hold.
func compactJSON(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v)
	return bytes.TrimSpace(b.Bytes())
}

// findClient returns the client of a name, or an error that lists all.
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

// printConfig prints the configuration of a client that starts this binary with this configuration.
func (c *mcpCmd) printConfig(a *app) error {
	client, err := findClient(c.PrintConfig)
	if err != nil {
		return usage(err)
	}
	cfg, err := a.load()
	if err != nil {
		return err
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
	if !a.flags.JSON {
		fmt.Fprintln(a.Stderr, "for", client.file)
		if client.link != nil {
			fmt.Fprintln(a.Stderr, "or open", shown["link"])
		}
	}
	return a.answer(shown, "%s", shown["config"])
}

const defaultUser = "local"

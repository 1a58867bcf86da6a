package clients

import (
	"path/filepath"
	"slices"
)

// Client is an MCP client that keeps its servers in files.
type Client struct {
	Name   string   // name on the command line
	Path   []string // keys that lead to the servers in the files, the outermost first
	TOML   bool     // whether the files are TOML
	Gemini bool     // whether the rules of Options.Gemini apply
	Typed  bool     // whether the entry of a server has a type
	// Settings is true if the files contain settings of all kinds. Most of these files contain no servers.
	Settings bool
	files    func(Place) []string
}

// Place has the directories in which files are looked for.
type Place struct {
	Home    string // home directory of the user
	Dir     string // working directory
	AppData string // %AppData% of Windows
	Codex   string // $CODEX_HOME
	GOOS    string
}

// config returns the directory of the user's configuration files.
func (p Place) config() string {
	switch p.GOOS {
	case "windows":
		return p.AppData
	case "darwin":
		return filepath.Join(p.Home, "Library", "Application Support")
	}
	return filepath.Join(p.Home, ".config")
}

// All lists the known clients.
var All = []Client{
	{Name: "claude-desktop", Path: []string{"mcpServers"}, files: func(p Place) []string {
		return []string{filepath.Join(p.config(), "Claude", "claude_desktop_config.json")}
	}},
	{Name: "claude-code", Path: []string{"mcpServers"}, Typed: true, files: func(p Place) []string {
		return []string{filepath.Join(p.Home, ".claude.json"), filepath.Join(p.Dir, ".mcp.json")}
	}},
	{Name: "cursor", Path: []string{"mcpServers"}, files: func(p Place) []string {
		return []string{filepath.Join(p.Home, ".cursor", "mcp.json"), filepath.Join(p.Dir, ".cursor", "mcp.json")}
	}},
	{Name: "vscode", Path: []string{"servers"}, Typed: true, files: func(p Place) []string {
		return []string{filepath.Join(p.config(), "Code", "User", "mcp.json"), filepath.Join(p.Dir, ".vscode", "mcp.json")}
	}},
	{Name: "vscode", Path: []string{"mcp", "servers"}, Typed: true, Settings: true, files: func(p Place) []string {
		return []string{filepath.Join(p.config(), "Code", "User", "settings.json"), filepath.Join(p.Dir, ".vscode", "settings.json")}
	}},
	{Name: "windsurf", Path: []string{"mcpServers"}, files: func(p Place) []string {
		return []string{filepath.Join(p.Home, ".codeium", "windsurf", "mcp_config.json")}
	}},
	{Name: "zed", Path: []string{"context_servers"}, files: func(p Place) []string {
		dir := filepath.Join(p.Home, ".config", "zed")
		if p.GOOS == "windows" {
			dir = filepath.Join(p.AppData, "Zed")
		}
		return []string{filepath.Join(dir, "settings.json"), filepath.Join(p.Dir, ".zed", "settings.json")}
	}},
	{Name: "codex", Path: []string{"mcp_servers"}, TOML: true, files: func(p Place) []string {
		dir := p.Codex
		if dir == "" {
			dir = filepath.Join(p.Home, ".codex")
		}
		return []string{filepath.Join(dir, "config.toml"), filepath.Join(p.Dir, ".codex", "config.toml")}
	}},
	{Name: "gemini", Path: []string{"mcpServers"}, Gemini: true, files: func(p Place) []string {
		return []string{filepath.Join(p.Home, ".gemini", "settings.json"), filepath.Join(p.Dir, ".gemini", "settings.json")}
	}},
}

// Files returns the files in which the client keeps its servers, whether or not they exist: the files of the user, then the file of the project in
// the working directory.
func (c Client) Files(p Place) []string {
	return slices.DeleteFunc(slices.Compact(c.files(p)), func(path string) bool { return !filepath.IsAbs(path) })
}

// Guess returns the client to which a file belongs, judging by the name and the directory of the file. For any other file, it returns a client that
// reads files of the same format.
func Guess(path string) Client {
	at := func(parts ...string) bool {
		for dir, i := path, len(parts)-1; i >= 0; dir, i = filepath.Dir(dir), i-1 {
			if filepath.Base(dir) != parts[i] {
				return false
			}
		}
		return true
	}
	for _, c := range All {
		for _, file := range c.files(Place{Home: "/", Dir: "/project", AppData: "/", GOOS: "linux"}) {
			parent := filepath.Base(filepath.Dir(file))
			if at(filepath.Base(file)) && (at(parent, filepath.Base(file)) || parent == "/" || parent == "project") {
				return c
			}
		}
	}
	if filepath.Ext(path) == ".toml" {
		return All[slices.IndexFunc(All, func(c Client) bool { return c.TOML })]
	}
	return Client{Name: "file", Path: []string{"mcpServers"}}
}

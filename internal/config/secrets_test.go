package config

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// TestMaskedArguments checks that secrets in arguments and addresses are masked.
func TestMaskedArguments(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"sk-live-1234567890":                                  masked,
		"ghp_0123456789abcdef":                                masked,
		"0123456789abcdef0123456789abcdef":                    masked,
		"Authorization: Bearer x":                             "Authorization: Bearer " + masked,
		"X-Api-Key:x":                                         "X-Api-Key: " + masked,
		"--config=sk-live-1234567890":                         "--config=" + masked,
		"https://h/mcp?code=0123456789abcdef0123456789abcdef": "https://h/mcp?code=" + masked,
		"https://h/mcp?region=eu":                             "https://h/mcp?region=eu",
		"@modelcontextprotocol/server-filesystem":             "@modelcontextprotocol/server-filesystem",
		"http://localhost:8080/auth:x":                        "http://localhost:8080/auth:x",
		"/srv/data":                                           "/srv/data",
		"-y":                                                  "-y",
	} {
		if got := MaskArgs([]string{text}); got[0] != want {
			t.Errorf("%s is shown as %s, want %s", text, got[0], want)
		}
	}
}

// TestModeOfAFileWithSecrets checks that a file that everyone can read becomes private to its owner when a secret may be added.
func TestModeOfAFileWithSecrets(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such modes: run this test on Linux or macOS")
	}
	for _, c := range []struct {
		server       MCPServer
		before, want os.FileMode
	}{
		{MCPServer{Name: "a", Command: "c", Env: map[string]string{"TOKEN": "x"}}, 0o644, 0o600},
		{MCPServer{Name: "a", URL: "https://h", Headers: map[string]string{"X": "x"}}, 0o664, 0o600},
		{MCPServer{Name: "a", Command: "c"}, 0o644, 0o644},
		{MCPServer{Name: "a", Command: "c", Env: map[string]string{"TOKEN": "x"}}, 0o640, 0o640},
	} {
		file := filepath.Join(t.TempDir(), fileName)
		if err := os.WriteFile(file, []byte("mcpServers: {}\n"), c.before); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, c.before); err != nil {
			t.Fatal(err)
		}
		if err := (Editor{}).AddServer(file, &c.server, false); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != c.want {
			t.Errorf("mode %v of a file of mode %v, %v", info.Mode(), c.before, err)
		}
	}
}

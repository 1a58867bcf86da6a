package web

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestNewServers checks the requests or errors for texts that a person pastes to add servers.
func TestNewServers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, want string }{
		{"crm", "https://crm.example.com/mcp", `crm {"name":"crm","url":"https://crm.example.com/mcp"}`},
		{"", "https://crm.example.com/mcp", "the server has no name"},
		{"pets", "https://pets.example.com/v3/openapi.json", `pets {"name":"pets","transport":"openapi","openapi":"https://pets.example.com/v3/openapi.json"}`},
		{"pets", "openapi: 3.1.0\npaths: {}", `pets {"name":"pets","transport":"openapi","openapi":"openapi: 3.1.0\npaths: {}"}`},
		{
			"", `{"mcpServers": {"a": {"url": "https://a.example.com", "headers": {"Authorization": "Bearer $$x"}}, "b": {"command": "npx", "args": ["-y", "server"], "env": {"K": "costs $5"}}}}`,
			`a {"name":"a","url":"https://a.example.com","headers":{"Authorization":"Bearer $$x"}}` + "\n" + `b {"name":"b","transport":"stdio","command":"npx","args":["-y","server"],"env":{"K":"costs $5"}}`,
		},
		{
			"mine", `{"url": "https://a.example.com/sse", "type": "sse", "alwaysAllow": ["x"]}`,
			`mine {"name":"mine","transport":"sse","url":"https://a.example.com/sse"} [alwaysAllow is left out: policy in harness.yaml says which calls are allowed]`,
		},
		{
			"", `{"a": {"url": "https://a.example.com", "headers": {"X": "${TOKEN}"}}, "b": {"command": "x", "cwd": "/tmp"}, "c": {"command": "x", "args": 7}}`,
			"a: variables such as ${TOKEN} are for the configuration only: write the value, or use harness servers add\nb: cwd is for the configuration only: use harness servers add\nc: args is not a list",
		},
		{
			"", `{"name": "io.example/weather", "remotes": [{"type": "streamable-http", "url": "https://weather.example.com/mcp"}]}`,
			`weather {"name":"weather","transport":"http","url":"https://weather.example.com/mcp"}`,
		},
		{"x", "npx -y server", "it is neither"},
		{"x", "ftp://example.com", "it is neither"},
		{"x", "{}", "it is neither"},
		{"", "", "say which server"},
	} {
		servers, err := newServers(c.name, c.text)
		var got []string
		for _, s := range servers {
			ask, _ := json.Marshal(s.ask)
			line := fmt.Sprintf("%s %s", s.name, ask)
			if s.Err != nil {
				line = s.name + ": " + s.Err.Error()
			}
			if s.notes != nil {
				line += fmt.Sprintf(" %v", s.notes)
			}
			got = append(got, line)
		}
		if err != nil {
			got = append(got, err.Error())
		}
		if text := strings.Join(got, "\n"); text != c.want && (err == nil || !strings.HasPrefix(text, c.want)) {
			t.Errorf("%q: %s", c.text, cmp.Diff(c.want, text))
		}
	}
}

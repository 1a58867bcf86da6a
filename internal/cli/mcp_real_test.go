package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/testing/realservers"
)

// TestGatewayRealServers uses the servers everything, filesystem and memory upstream. A client without knowledge of the harness lists three tools, finds the
// tools that it needs, reads their definitions, and gets the structured result of a program that uses all three servers.
func TestGatewayRealServers(t *testing.T) {
	t.Parallel()
	f := setup(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "sales.csv"), []byte("region,total\nnorth,3\nsouth,4\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	servers := map[string]any{}
	for _, c := range []mcpclient.Config{
		realservers.Everything(t), realservers.Filesystem(t, dir), realservers.Memory(t, filepath.Join(dir, "graph.json")),
	} {
		servers[c.Name] = map[string]any{"command": c.Command, "args": c.Args, "env": c.Env}
	}
	text, err := json.Marshal(map[string]any{"mcpServers": servers})
	if err != nil {
		t.Fatal(err)
	}
	f.write("harness.yaml", string(text))
	g := f.gateway(nil)
	listed, err := g.ListTools(t.Context(), nil)
	if err != nil || len(listed.Tools) != 3 {
		t.Fatalf("listed %+v: %v", listed, err)
	}
	names := []string{"everything__get_sum", "filesystem__read_text_file", "memory__create_entities"}
	for i, query := range []string{"add two numbers", "read a file as text", "remember entities in a knowledge graph"} {
		eventually(t, fmt.Sprintf("%q finds %s", query, names[i]), func() bool { // a search does not wait long for a server that is starting
			var hits struct{ Tools []struct{ Name string } }
			g.call("search_tools", map[string]any{"query": query}, &hits)
			return slices.ContainsFunc(hits.Tools, func(hit struct{ Name string }) bool {
				return strings.ReplaceAll(hit.Name, "-", "_") == names[i]
			})
		})
	}
	if described, failed := g.call("get_tool_details", map[string]any{"names": names}, nil); failed || !strings.Contains(described, "path: string") {
		t.Errorf("described as %s", described)
	}
	var out gatewayRun
	said, failed := g.call("execute_code", map[string]any{"code": `
		const text = await tools.filesystem.read_text_file({path: ` + quoted(filepath.Join(dir, "sales.csv")) + `})
		const rows = (typeof text === 'string' ? text : text.content).trim().split('\n').slice(1).map(line => line.split(','))
		const sum = await tools.everything.get_sum({a: Number(rows[0][1]), b: Number(rows[1][1])})
		await tools.memory.create_entities({entities: rows.map(([name, total]) => ({name, entityType: 'region', observations: [total]}))})
		const graph = await tools.memory.read_graph({})
		return {sum, regions: graph.entities.map(e => e.name)}`}, &out)
	var got struct {
		Sum     any
		Regions []string
	}
	if err := json.Unmarshal(out.Output, &got); failed || err != nil {
		t.Fatalf("ran %+v: %v\n%s", out, err, said)
	}
	if sum, _ := json.Marshal(got.Sum); !strings.Contains(string(sum), "7") || !slices.Equal(got.Regions, []string{"north", "south"}) {
		t.Errorf("the output is %s", out.Output)
	}
	if graph, err := os.ReadFile(filepath.Join(dir, "graph.json")); err != nil || strings.Count(string(graph), `"region"`) != 2 {
		t.Errorf("the memory server keeps %s: %v", graph, err)
	}
}

package n8n_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/n8n"
)

// installed returns an instance with the nodes of a real n8n, which scripts/n8n has installed. Without this installation, it skips the test.
func installed(t *testing.T) *n8n.Instance {
	t.Helper()
	dir := os.Getenv("HARNESS_TEST_N8N_NODES")
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Skip(err)
		}
		dir = filepath.Join(cache, "mcp-code-exec-harness", "n8n", "node_modules")
	}
	if _, err := os.Stat(filepath.Join(dir, "n8n-nodes-base", "dist", "types", "nodes.json")); err != nil {
		t.Skip("needs the packages of n8n: scripts/n8n installs them")
	}
	return open(t, n8n.Options{URL: "http://127.0.0.1:9", Nodes: dir})
}

func tokens(t *testing.T, v any) int {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	n, err := model.Vocabulary().Count(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestEssentialsBudget: the essentials of a node take less than 300 tokens at the median over all nodes, and less than 1,200 at the 95th percentile.
func TestEssentialsBudget(t *testing.T) {
	t.Parallel()
	i := installed(t)
	all := value[struct{ Result []string }](t, i, "n8n-nodes", "list_nodes", object{}).Result
	var sizes []int
	for _, name := range all {
		sizes = append(sizes, tokens(t, value[object](t, i, "n8n-nodes", "get_node_essentials", object{"nodeType": name})))
	}
	slices.Sort(sizes)
	median, p95 := sizes[len(sizes)/2], sizes[len(sizes)*95/100]
	t.Logf("%d nodes: median %d, p95 %d, most %d tokens", len(sizes), median, p95, sizes[len(sizes)-1])
	if len(sizes) < 400 || median >= 300 || p95 >= 1200 {
		t.Errorf("the essentials of %d nodes take %d tokens at the median and %d at p95", len(sizes), median, p95)
	}
}

// TestSearchRecall: for nine of ten requests in words, the right node is among the first five results. This also holds for requests with which the search
// was not tuned.
func TestSearchRecall(t *testing.T) {
	t.Parallel()
	i := installed(t)
	data, err := os.ReadFile("testdata/requests.txt")
	if err != nil {
		t.Fatal(err)
	}
	part, total, found := "", map[string]int{}, map[string]int{}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		query, nodes, is := strings.Cut(line, " | ")
		switch {
		case strings.HasPrefix(line, "#"):
			continue
		case !is:
			part = line
			continue
		}
		got := value[struct{ Result []string }](t, i, "n8n-nodes", "search_nodes", object{"query": query, "limit": 5}).Result
		total[part]++
		if slices.ContainsFunc(strings.Split(nodes, ", "), func(node string) bool { return slices.Contains(got, node) }) {
			found[part]++
		} else {
			t.Logf("%s %q: %v", part, query, got)
		}
	}
	for part, least := range map[string]int{"[seen]": 60, "[unseen]": 30} {
		recall := float64(found[part]) / float64(total[part])
		t.Logf("%s: %d of %d, recall@5 %.3f", part, found[part], total[part], recall)
		if total[part] < least || recall < 0.9 {
			t.Errorf("recall@5 of the requests %s is %.3f", part, recall)
		}
	}
}

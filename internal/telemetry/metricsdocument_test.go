package telemetry

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// quoted matches the names between backquotes in a cell of a table.
var quoted = regexp.MustCompile("`([^`]+)`")

// TestMetricsDocument checks that docs/METRICS.md has a row for each metric that a server exports, and no other rows, with the right type, unit and labels.
func TestMetricsDocument(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/METRICS.md")
	if err != nil {
		t.Fatal(err)
	}
	metrics := exported(t)
	want := map[string][]string{}
	for name, labels := range metrics {
		if ofHarness := strings.HasPrefix(name, "harness_") || strings.HasPrefix(name, "mcp_"); ofHarness && !slices.Contains(labels, "le") {
			want[name] = slices.Sorted(slices.Values(labels))
		}
	}
	if len(want) < 20 {
		t.Fatalf("only %d metrics", len(want))
	}
	seen := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `((?:harness|mcp)_\\w+)` \\|(.*)\\|$").FindAllStringSubmatch(string(text), -1) {
		name, cells := row[1], strings.Split(row[2], "|")
		labels, known := want[name]
		switch {
		case !known:
			t.Errorf("the document has %s, which no server exports", name)
			continue
		case seen[name]:
			t.Errorf("the document has %s twice", name)
		case len(cells) != 4:
			t.Errorf("%s: %d cells after the name; the table has type and unit, labels, meaning, what is normal", name, len(cells))
			continue
		}
		seen[name] = true
		var documented []string
		for _, label := range quoted.FindAllStringSubmatch(regexp.MustCompile(`\([^)]*\)`).ReplaceAllString(cells[1], ""), -1) { // values are in parentheses
			documented = append(documented, label[1])
		}
		if slices.Sort(documented); !slices.Equal(documented, labels) {
			t.Errorf("%s: the document has the labels %q, the server %q", name, documented, labels)
		}
		kind := "gauge"
		switch _, histogram := metrics[name+"_bucket"]; {
		case histogram && strings.HasSuffix(name, "_duration_seconds"):
			kind = "histogram"
		case strings.HasSuffix(name, "_total"):
			kind = "counter"
		}
		unit := ""
		for _, u := range []string{"seconds", "usd", "tokens"} {
			if strings.Contains(name, "_"+u) {
				unit = ", " + map[string]string{"seconds": "seconds", "usd": "US dollars", "tokens": "tokens"}[u]
			}
		}
		if got := strings.TrimSpace(cells[0]); !strings.HasPrefix(got, kind) || !strings.HasSuffix(got, unit) {
			t.Errorf("%s: the document says %q, it is a %s%s", name, got, kind, unit)
		}
		for i, cell := range cells[2:] {
			if strings.TrimSpace(cell) == "" {
				t.Errorf("%s: cell %d is empty", name, i+3)
			}
		}
	}
	for name := range want {
		if !seen[name] {
			t.Errorf("the document has no row for %s", name)
		}
	}
	expressions := regexp.MustCompile("(?m)^\\| [^|]*\\? \\| `([^`]*)` \\|$").FindAllStringSubmatch(string(text), -1)
	if len(expressions) < 5 {
		t.Errorf("only %d questions", len(expressions))
	}
	for _, e := range expressions {
		if names := unknown(e[1], metrics); len(names) > 0 {
			t.Errorf("%s: the harness exports no %q", e[1], names)
		}
	}
}

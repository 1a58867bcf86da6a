package telemetry

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.yaml.in/yaml/v4"

	"mcp-code-exec-harness/internal/sandbox"
)

const deploy = "../../deploy/"

// exported returns the metrics that a server exports, with the labels of each. A histogram is listed by the names of its series.
func exported(t *testing.T) map[string][]string {
	t.Helper()
	m := NewMetrics()
	m.Watch(State{Tiers: []string{"wasm"}, Runners: func(string) (int, int, sandbox.Counts) { return 0, 0, sandbox.Counts{} }})
	all := make(chan *prometheus.Desc)
	go func() {
		defer close(all)
		m.registry.Describe(all)
	}()
	described := regexp.MustCompile(`fqName: "(\w+)".* constLabels: \{(.*)\}, variableLabels: \{(.*)\}`)
	label := regexp.MustCompile(`(\w+)(?:="[^"]*")?`)
	metrics := map[string][]string{"up": {}}
	for d := range all {
		parts := described.FindStringSubmatch(d.String())
		if parts == nil {
			t.Fatal(d)
		}
		var labels []string
		for _, l := range label.FindAllStringSubmatch(parts[2]+","+parts[3], -1) {
			labels = append(labels, l[1])
		}
		metrics[parts[1]] = labels
		if strings.HasSuffix(parts[1], "_seconds") {
			for _, end := range []string{"_bucket", "_sum", "_count"} {
				metrics[parts[1]+end] = append(labels, "le")
			}
		}
	}
	return metrics
}

var (
	groupings  = regexp.MustCompile(`\b(?:by|without|on|ignoring)\s*\(([^)]*)\)`)
	matchers   = regexp.MustCompile(`(\w*)\{([^}]*)\}`)
	matcher    = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)\s*"[^"]*"`)
	durations  = regexp.MustCompile(`\[[^\]]*\]`)
	identifier = regexp.MustCompile(`[a-zA-Z_:][\w:]*`)
	operators  = []string{"and", "or", "unless", "bool", "offset"}
)

// unknown returns the metrics and labels of an expression in PromQL that a server does not export.
func unknown(expr string, metrics map[string][]string) (names []string) {
	any := []string{"job", "instance"}
	for _, labels := range metrics {
		any = append(any, labels...)
	}
	for _, g := range groupings.FindAllStringSubmatch(expr, -1) {
		for _, l := range identifier.FindAllString(g[1], -1) {
			if !slices.Contains(any, l) {
				names = append(names, l)
			}
		}
	}
	for _, m := range matchers.FindAllStringSubmatch(expr, -1) {
		for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
			if !slices.Contains(append([]string{"job", "instance"}, metrics[m[1]]...), l[1]) {
				names = append(names, m[1]+"{"+l[1]+"}")
			}
		}
	}
	rest := durations.ReplaceAllString(matchers.ReplaceAllString(groupings.ReplaceAllString(expr, " "), "$1 "), " ")
	for _, at := range identifier.FindAllStringIndex(rest, -1) {
		name := rest[at[0]:at[1]]
		function := strings.HasPrefix(strings.TrimSpace(rest[at[1]:]), "(") || groupedFunction(expr, name)
		if _, is := metrics[name]; !is && !function && !slices.Contains(operators, name) {
			names = append(names, name)
		}
	}
	return names
}

// groupedFunction reports whether a name is an aggregation whose labels stand before its argument.
func groupedFunction(expr, name string) bool {
	return regexp.MustCompile(`\b` + name + `\s+(by|without)\b`).MatchString(expr)
}

// TestAlerts checks that alerts and the board use metrics that the harness exports, and that docs/RUNBOOK.md says what to do about each alert, at
// the place that the alert names.
func TestAlerts(t *testing.T) {
	t.Parallel()
	metrics := exported(t)
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Annotations struct{ Runbook string }
			}
		}
	}
	readWith(t, deploy+"alerts.yaml", yaml.Unmarshal, &rules)
	runbook, err := os.ReadFile("../../docs/RUNBOOK.md")
	if err != nil {
		t.Fatal(err)
	}
	exprs := map[string]string{}
	for _, rule := range rules.Groups[0].Rules {
		exprs[rule.Alert] = rule.Expr
		if !strings.Contains(string(runbook), "\n### "+rule.Alert+"\n") {
			t.Errorf("docs/RUNBOOK.md does not say what to do about %s", rule.Alert)
		}
		if want := "docs/RUNBOOK.md#" + strings.ToLower(rule.Alert); rule.Annotations.Runbook != want {
			t.Errorf("%s names the runbook %q, want %q", rule.Alert, rule.Annotations.Runbook, want)
		}
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	readWith(t, deploy+"board.json", json.Unmarshal, &board)
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			exprs["panel "+p.Title+" "+target.Expr] = target.Expr
		}
	}
	if len(exprs) < 20 {
		t.Errorf("%d expressions", len(exprs))
	}
	for name, expr := range exprs {
		if names := unknown(expr, metrics); len(names) > 0 {
			t.Errorf("%s: the harness exports no %q", name, names)
		}
	}
	for expr, want := range map[string][]string{
		`max(hraness_tasks) > 0 and harness_tasks > 0`: {"hraness_tasks"},
		`harness_part_up{port="store"} == 0`:           {"harness_part_up{port}"},
		`sum by (tear) (harness_sandbox_runners)`:      {"tear"},
		`rate(harness_task_total[5m])`:                 {"harness_task_total"},
	} {
		if got := unknown(expr, metrics); !slices.Equal(got, want) {
			t.Errorf("unknown in %s: %q, want %q", expr, got, want)
		}
	}
}

func readWith(t *testing.T, file string, decode func([]byte, any) error, to any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = decode(text, to)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

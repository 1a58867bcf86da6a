// Package deploy has tests of the examples of this directory.
package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"mcp-code-exec-harness/internal/config"
)

// read decodes a file of YAML.
func read(t *testing.T, file string) (text string, document map[string]any) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err == nil {
		err = yaml.Unmarshal(raw, &document)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return string(raw), document
}

// load loads a harness.yaml, which must have no unknown key, as harness serve does.
func load(t *testing.T, text string) *config.Config {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "harness.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, warnings, err := config.Load(config.Env{Cwd: dir, HomeDir: dir, GOOS: runtime.GOOS, Environ: []string{"HARNESS_CONFIG=" + file, "HARNESS_STORE_URL=postgres://harness@db/harness"}})
	if err != nil || len(warnings) > 0 {
		t.Fatalf("%v %q", err, warnings)
	}
	return cfg
}

// The harness accepts the configuration of the chart, and listens on ports that the manifests expose.
func TestChartConfiguration(t *testing.T) {
	t.Parallel()
	_, values := read(t, "kubernetes/values.yaml")
	text, err := yaml.Marshal(values["config"])
	if err != nil {
		t.Fatal(err)
	}
	cfg := load(t, string(text))
	manifests, err := os.ReadFile("kubernetes/manifests.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{cfg.Server.Listen, cfg.Server.Metrics.Listen} {
		if port := address[strings.LastIndex(address, ":")+1:]; !regexp.MustCompile(`containerPort: ` + port + `\b`).Match(manifests) {
			t.Errorf("no pod has the port %s", port)
		}
	}
	if cfg.Server.Loopback() || !cfg.Server.Metrics.Enabled || cfg.Store.InFile() {
		t.Errorf("%+v", cfg.Server)
	}
}

// The harness accepts the configuration of the compose file. Every file that a container mounts exists, and a replica has enough time to stop.
func TestCompose(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("compose/harness.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cfg := load(t, string(text))
	raw, compose := read(t, "compose/compose.yaml")
	replicas := 0
	for name, service := range compose["services"].(map[string]any) {
		service := service.(map[string]any)
		if strings.HasPrefix(name, "harness") {
			replicas++
			grace, err := time.ParseDuration(service["stop_grace_period"].(string))
			if err != nil || grace <= cfg.Server.ShutdownTimeout {
				t.Errorf("%s is killed after %s, and has %s to stop", name, grace, cfg.Server.ShutdownTimeout)
			}
		}
		for _, volume := range service["volumes"].([]any) {
			from, _, _ := strings.Cut(volume.(string), ":")
			if _, err := os.Stat(filepath.Join("compose", from)); strings.HasPrefix(from, ".") && err != nil {
				t.Error(err)
			}
		}
	}
	_, prometheus := read(t, "compose/prometheus.yaml")
	if replicas != 2 || !cfg.Server.Metrics.Enabled || cfg.PII.Vault != "redis" || !strings.Contains(raw, "- ../alerts.yaml:/etc/prometheus/"+prometheus["rule_files"].([]any)[0].(string)) {
		t.Errorf("%d replicas, %+v, %v", replicas, cfg.Server.Metrics, prometheus)
	}
}

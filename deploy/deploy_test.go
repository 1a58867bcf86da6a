// Package deploy has tests of the examples of this directory.
package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"mcp-code-exec-harness/internal/config"
)

// command returns the path of a command, which a package of Debian has. Without it, the test is skipped, and fails in CI.
func command(t *testing.T, name, pkg string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatalf("no %s: install %s (Debian)", name, pkg)
	} else if err != nil {
		t.Skipf("no %s: install %s (Debian)", name, pkg)
	}
	return path
}

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
	if cfg.Server.Local() || !cfg.Server.Metrics.Enabled || cfg.Store.InFile() {
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

// The unit of systemd is well formed, and a stop leaves a server enough time.
func TestService(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("systemd/harness.service")
	if err != nil {
		t.Fatal(err)
	}
	unit := string(raw)
	stop := regexp.MustCompile(`(?m)^TimeoutStopSec=(\d+)$`).FindStringSubmatch(unit)
	if stop == nil {
		t.Fatal("no TimeoutStopSec")
	}
	if grace, err := time.ParseDuration(stop[1] + "s"); err != nil || grace <= load(t, "{}").Server.ShutdownTimeout {
		t.Errorf("the server is killed after %s", grace)
	}
	for _, setting := range []string{"RestrictNamespaces", "ProtectProc", "ProtectKernelTunables", "PrivateUsers"} { // programs lose walls with them
		if regexp.MustCompile(`(?m)^` + setting + `=`).MatchString(unit) {
			t.Errorf("the unit sets %s", setting)
		}
	}
	analyze := command(t, "systemd-analyze", "systemd")
	self, err := os.Executable() // stands for the harness, which need not be installed
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "harness.service")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(unit, "ExecStart=/usr/bin/harness", "ExecStart="+self)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(analyze, "verify", file).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
}

// The harness accepts the configurations that docs/DEPLOYMENT.md shows. What the document says of the proxy is in its configuration.
func TestDeploymentDocument(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/DEPLOYMENT.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)\n```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(blocks) == 0 {
		t.Fatal("no configuration")
	}
	for _, block := range blocks {
		load(t, block[1])
	}
	proxy, err := os.ReadFile("nginx/harness.conf")
	if err != nil {
		t.Fatal(err)
	}
	for _, directive := range []string{"proxy_buffering off;", "proxy_request_buffering off;", "proxy_read_timeout 1h;", "proxy_set_header Host $host;", "proxy_set_header X-Forwarded-For", "proxy_set_header Upgrade", "location /internal/ { return 404; }", "proxy_set_header X-Forwarded-Proto $scheme;"} {
		if !strings.Contains(string(proxy), directive) {
			t.Errorf("the proxy has no %s", directive)
		}
	}
}

// nginx accepts the configuration of the proxy.
func TestProxySyntax(t *testing.T) {
	t.Parallel()
	nginx, openssl := command(t, "nginx", "nginx-light"), command(t, "openssl", "openssl")
	proxy, err := os.ReadFile("nginx/harness.conf")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certificate := filepath.Join(dir, "c.pem")
	if out, err := exec.Command(openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", certificate+".key", "-out", certificate, "-subj", "/CN=x").CombinedOutput(); err != nil {
		t.Fatalf("openssl: %v %s", err, out)
	}
	site := strings.NewReplacer("/etc/ssl/harness.example.com.pem", certificate, "/etc/ssl/harness.example.com.key", certificate+".key").Replace(string(proxy))
	main := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(main, []byte("pid "+dir+"/pid;\nerror_log "+dir+"/log;\nevents {}\nhttp {\naccess_log off;\n"+site+"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(nginx, "-t", "-c", main).CombinedOutput(); !strings.Contains(string(out), "syntax is ok") { // the test fails where nginx may not write its directories
		t.Errorf("%v: %s", err, out)
	}
}

package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAuditVerify(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.write("harness.yaml", "log: {level: error}\naudit: {key: '${AUDIT_KEY}'}\n")
	if r := f.run("audit", "verify").want(2); !strings.Contains(r.stderr, "AUDIT_KEY") {
		t.Errorf("stderr %s", r.stderr)
	}
	f.environ = append(f.environ, "AUDIT_KEY=secret")
	if r := f.run("audit", "verify").want(1); !strings.Contains(r.stderr, "there is no audit log") {
		t.Errorf("stderr %s", r.stderr)
	}
	key := strings.Fields(f.run("keys", "create", "--user", "ann@example.com", "laptop").want(0).stderr)[0]
	f.run("keys", "revoke", strings.TrimSuffix(key, ":")).want(0)
	if r := f.run("audit", "verify").want(0); !strings.Contains(r.stdout, "is whole: 2 lines in 1 files, number 1 to 2") {
		t.Errorf("stdout %s", r.stdout)
	}
	path := filepath.Join(f.dir, "data", "audit.jsonl")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "ann@example.com") || strings.Count(string(text), `"eventType":"key_change"`) != 2 {
		t.Errorf("the log has\n%s", text)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), "revoked", "created", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := f.run("audit", "verify", path).want(1); r.stdout != path+":2: it was changed, or written with another key\n" {
		t.Errorf("stdout %s", r.stdout)
	}
	var report struct {
		Problem string
		Line    int
	}
	if err := json.Unmarshal([]byte(f.run("audit", "verify", "--json").want(1).stdout), &report); err != nil || report.Line != 2 || report.Problem == "" {
		t.Errorf("%+v, %v", report, err)
	}
	f.write("harness.yaml", "audit: {enabled: false}\n")
	f.run("keys", "create").want(0)
	if after, err := os.ReadFile(path); err != nil || len(after) != len(text) {
		t.Errorf("an event was written although auditing is off: %v", err)
	}
}

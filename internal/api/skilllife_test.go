package api_test

import (
	"net/http"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/api"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/versions"
)

// The life cycle of a skill over HTTP: versions, tests, restoring and promoting.
func TestSkillLifeCycle(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{keys: true})
	alice := w.key("alice")
	name := map[string]any{"name": "math/add"}
	put := func(text string) { w.as(alice, "PUT", "/v1/skills/math/add.js", text).want(http.StatusNoContent) }
	list := func(status int) (all api.SkillVersions) {
		t.Helper()
		w.as(alice, "GET", "/v1/skill-versions?name=math%2Fadd", nil).want(status).json(&all)
		return all
	}
	put("export default (n) => n + 1")
	if all := list(http.StatusOK); len(all.Versions) != 1 || all.Versions[0].Name != "math/add.js" || all.Versions[0].State != versions.Kept {
		t.Errorf("one version: %+v", all)
	}
	put("export default (n) => n + 2")
	var report runs.SkillReport
	w.as(alice, "POST", "/v1/skill-tests", name).want(http.StatusOK).json(&report)
	if report.Status != runs.SkillUntested || report.Path != "/skills/math/add.js" || len(report.Digest) != 64 {
		t.Errorf("tested: %+v", report)
	}
	if all := list(http.StatusOK); len(all.Versions) != 2 || all.Versions[0].Digest != report.Digest {
		t.Errorf("two versions: %+v", all)
	}
	promote := func(status int, promoted, untested bool) string {
		t.Helper()
		return w.as(alice, "POST", "/v1/skill-promotions", map[string]any{"name": "math/add", "promoted": promoted, "untested": untested}).want(status).body
	}
	if body := promote(http.StatusConflict, true, false); !strings.Contains(body, "has passed no test") {
		t.Error(body)
	}
	promote(http.StatusOK, true, true)
	promote(http.StatusOK, false, false)
	w.as(alice, "POST", "/v1/skill-versions/restore", map[string]any{"name": "math/add", "version": 1}).want(http.StatusOK)
	if r := w.as(alice, "GET", "/v1/skills/math/add.js", nil).want(http.StatusOK); r.body != "export default (n) => n + 1" {
		t.Errorf("restored: %s", r.body)
	}
	w.as(alice, "POST", "/v1/skill-versions/restore", map[string]any{"name": "math/add", "version": 9}).want(http.StatusNotFound)
	w.as(alice, "DELETE", "/v1/skills/math/add.js", nil).want(http.StatusNoContent)
	if all := list(http.StatusOK); len(all.Versions) != 2 {
		t.Errorf("of a removed skill: %+v", all)
	}
	w.as(alice, "POST", "/v1/skill-tests", name).want(http.StatusNotFound)
	w.as(w.key("bob"), "GET", "/v1/skill-versions?name=math%2Fadd", nil).want(http.StatusNotFound)
}

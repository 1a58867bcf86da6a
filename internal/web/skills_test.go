package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// TestSkillPage checks that the page of a skill shows its texts, versions, tests and shares, and that its forms do what they say.
func TestSkillPage(t *testing.T) {
	t.Parallel()
	w := setup(t, true)
	admin, ann, bob := w.key("desk", "admin", ""), w.key("ann", "user", "ann"), w.key("bob", "user", "bob")
	w.token = admin
	const manifest = "---\nname: double\ndescription: Doubles <b>numbers</b>.\n---\nCall it with a number.\n"
	write := func(file, text string) { w.store("/v1/skills/double/"+file+"?userId=ann", text) }
	write("SKILL.md", manifest)
	write("index.js", "export default (n) => n * 2\n")
	r := w.login(ann)
	const page = "/skill?name=%2Fskills%2Fdouble&userId="
	shows := func(got answer, texts ...string) {
		t.Helper()
		for _, text := range texts {
			if !strings.Contains(got.text, text) {
				t.Errorf("the page does not have %q: %d %s", text, got.status, got.text)
			}
		}
	}
	shows(r.get("/skills"), "/skill?name=%2fskills%2fdouble", "double")
	shows(r.get(page), "Doubles &lt;b&gt;numbers&lt;/b&gt;.", "Call it with a number.", "n * 2", "/skills/double/index.js?", "present", "Nobody.")

	shows(r.get(page), "<dt>Runs</dt><dd>none so far</dd>", "<dt>Last verified</dt><dd>never</dd>")
	if got := w.api(ann, "POST", "/v1/runs", map[string]string{"code": "return (await import('/skills/double')).default(2)"}, nil); got != http.StatusCreated && got != http.StatusOK {
		t.Fatalf("run: %d", got)
	}
	shows(r.get(page), "<dt>Runs</dt><dd>1 run, 0 failed", "<dt>Last worked</dt>")
	write("index.js", "export default (n) => n * 3\n")
	got := r.get(page)
	shows(got, "n * 3", `aria-label="Restore version 1"`)
	if strings.Contains(got.text, `aria-label="Restore version 2"`) {
		t.Error("the present version can be restored")
	}
	form := func(action string, fields ...string) answer {
		return r.post("/skill/"+action+"?"+url.Values{"name": {"/skills/double"}, "userId": {""}}.Encode(), fields...)
	}
	if got := form("restore", "version", "1"); got.status != http.StatusSeeOther {
		t.Errorf("restore: %d %s", got.status, got.text)
	} else {
		shows(r.get(got.header.Get("Location")), "n * 2", "is the content of the skill again")
	}
	if got := form("restore", "version", "9"); got.status != http.StatusNotFound {
		t.Errorf("restore a version that does not exist: %d", got.status)
	}
	shows(form("test"), "untested", "It has no tests.")
	if got := form("promote"); got.status != http.StatusConflict {
		t.Errorf("promote an untested skill: %d", got.status)
	} else {
		shows(got, `class="problem" role="alert"`, "n * 2")
	}
	if got := w.api(ann, "POST", "/v1/skill-shares", map[string]string{"name": "double", "with": "bob"}, nil); got != http.StatusOK {
		t.Fatalf("share: %d", got)
	}
	shows(r.get(page), "user:bob", "use, version")

	other := w.login(bob)
	shows(other.get("/skills"), "/skills/@ann/double", "unreviewed")
	for _, path := range []string{page, page + "ann"} {
		if got := other.get(path); got.status < 400 || strings.Contains(got.text, "n * 2") {
			t.Errorf("%s for another user: %d", path, got.status)
		}
	}
}

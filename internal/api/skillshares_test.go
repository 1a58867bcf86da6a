package api_test

import (
	"net/http"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/api"
	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/skills"
	"mcp-code-exec-harness/internal/versions"
)

// Users share skills over HTTP, each in their own name only, and no role is more than its owner has given.
func TestSkillShares(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{keys: true})
	alice, bob, eve := w.key("alice"), w.key("bob", auth.Approver), w.key("eve")
	type is = map[string]any
	w.as(alice, "PUT", "/v1/skills/add.js", "export default (n) => n + 1").want(http.StatusNoContent)
	w.as(bob, "PUT", "/v1/skills/@alice/add.js", "export default () => 'bob'").want(http.StatusBadRequest)
	share := func(with, role string) {
		t.Helper()
		w.as(alice, "POST", "/v1/skill-shares", is{"name": "add", "with": with, "role": role}).want(http.StatusOK)
	}
	run := func(key, want string) {
		t.Helper()
		if r := w.as(key, "POST", "/v1/runs", is{"code": "const add = await import('/skills/@alice/add'); return 'is ' + add.default(1)"}).want(http.StatusOK); !strings.Contains(r.body, want) {
			t.Errorf("a program has %s, want %s", r.body, want)
		}
	}
	others := func(key string) []skills.Other {
		t.Helper()
		var all api.SkillShares
		w.as(key, "GET", "/v1/skill-shares", nil).want(http.StatusOK).json(&all)
		return all.Others
	}
	share("bob", "read")
	if all := others(bob); len(all) != 1 || all[0].State != skills.Readable || all[0].Path != "/skills/@alice/add.js" {
		t.Fatalf("bob sees %+v", all)
	}
	if all := others(eve); len(all) != 0 {
		t.Errorf("eve sees %+v", all)
	}
	review := func(key string, status int, digest string) {
		t.Helper()
		w.as(key, "POST", "/v1/skill-reviews", is{"name": "@alice/add", "decision": "approve", "digest": digest}).want(status)
	}
	digest := others(bob)[0].Digest
	review(bob, http.StatusForbidden, digest) // the role read
	run(bob, "ask for the role use")
	share("everyone", "use")
	run(bob, "review")
	review(eve, http.StatusForbidden, digest) // no approver
	review(bob, http.StatusConflict, strings.Repeat("0", 64))
	var shown api.OtherSkill
	w.as(bob, "GET", "/v1/shared-skills?name=@alice/add", nil).want(http.StatusOK).json(&shown)
	if shown.Version.Digest != digest || !strings.Contains(shown.Text, "n + 1") || len(shown.Changes) != 1 || shown.Changes[0].Kind != "added" {
		t.Errorf("to review: %+v", shown)
	}
	review(bob, http.StatusOK, digest)
	run(bob, "is 2")

	w.as(bob, "PUT", "/v1/skills/mine.js", "export default (n) => n + 2").want(http.StatusNoContent)
	propose := is{"name": "@alice/add", "from": "mine", "base": 1}
	w.as(bob, "POST", "/v1/skill-proposals", propose).want(http.StatusForbidden)
	w.as(bob, "POST", "/v1/skill-proposals", is{"name": "@alice/add", "from": "mine", "base": 1, "userId": "alice"}).want(http.StatusForbidden)
	share("bob", "write")
	var proposed versions.Version
	w.as(bob, "POST", "/v1/skill-proposals", propose).want(http.StatusOK).json(&proposed)
	w.as(bob, "PUT", "/v1/skills/mine.js", "export default (n) => n + 3").want(http.StatusNoContent)
	if r := w.as(bob, "POST", "/v1/skill-proposals", propose).want(http.StatusConflict); !strings.Contains(r.body, "newer version: 2") {
		t.Error(r.body)
	}
	review(bob, http.StatusConflict, proposed.Digest) // the role write
	w.as(bob, "POST", "/v1/skill-shares", is{"name": "add", "with": "bob", "role": "approve", "userId": "alice"}).want(http.StatusForbidden)
	w.as(bob, "POST", "/v1/skill-versions/restore", is{"name": "@alice/add", "version": 2}).want(http.StatusNotFound)
	w.as(bob, "POST", "/v1/skill-promotions", is{"name": "@alice/add", "promoted": true, "untested": true}).want(http.StatusNotFound)
	share("bob", "approve")
	review(bob, http.StatusOK, proposed.Digest)
	run(bob, "is 3") // who approves has seen it
	if r := w.as(alice, "GET", "/v1/skills/add.js", nil).want(http.StatusOK); !strings.Contains(r.body, "n + 1") {
		t.Errorf("alice's own file: %s", r.body)
	}
	w.as(alice, "POST", "/v1/skill-shares", is{"name": "add", "role": "none"}).want(http.StatusOK)
	w.as(alice, "POST", "/v1/skill-shares", is{"name": "add", "role": "none"}).want(http.StatusNotFound)
	run(bob, "does not exist")
	w.as(bob, "GET", "/v1/shared-skills?name=@alice/add", nil).want(http.StatusNotFound)
	w.as(alice, "PUT", "/v1/skills/add.js", "// ann.miller@gmail.com\nexport default 1").want(http.StatusNoContent)
	if r := w.as(alice, "POST", "/v1/skill-shares", is{"name": "add", "with": "bob"}).want(http.StatusBadRequest); !strings.Contains(r.body, "personal data") {
		t.Error(r.body)
	}
}

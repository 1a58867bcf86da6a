package api_test

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/api"
	"mcp-code-exec-harness/internal/skills/source"
	"mcp-code-exec-harness/internal/testing/npmtest"
)

const indexPath = "/.well-known/agent-skills/index.json"

// manifestOf returns a SKILL.md.
func manifestOf(name string) string {
	return "---\nname: " + name + "\ndescription: Does " + name + ".\n---\nText.\n"
}

// TestSkillIndex: strangers see the published skills only, and a key sees those and the skills of its user.
func TestSkillIndex(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{keys: true, options: func(o *api.Options) { o.PublishedSkills = []string{"alice/shared", "alice/both", "nobody/none"} }})
	alice, bob := w.key("alice"), w.key("bob")
	put := func(key, file, text string) {
		t.Helper()
		w.as(key, "PUT", "/v1/skills/"+file, text).want(http.StatusNoContent)
	}
	for _, name := range []string{"shared", "private", "both"} {
		put(alice, name+"/SKILL.md", manifestOf(name))
	}
	put(alice, "shared/index.js", "export default 1")
	put(alice, "module.js", "export default 1")
	put(alice, "other-name/SKILL.md", manifestOf("named-otherwise"))
	put(alice, "broken/SKILL.md", "text")
	put(bob, "both/SKILL.md", manifestOf("both")+"Of bob.\n")

	get := func(key, path string) *reply {
		t.Helper()
		if key == "" {
			return w.do("GET", path, nil)
		}
		return w.as(key, "GET", path, nil)
	}
	list := func(key string) (names []string) {
		t.Helper()
		var index source.Index
		get(key, indexPath).want(http.StatusOK).json(&index)
		if index.Schema != source.Schema {
			t.Errorf("schema %q", index.Schema)
		}
		for _, e := range index.Skills {
			names = append(names, e.Name+" "+e.Type)
			r := get(key, strings.TrimSuffix(indexPath, "index.json")+e.URL).want(http.StatusOK)
			sum := sha256.Sum256([]byte(r.body))
			if e.Digest != "sha256:"+hex.EncodeToString(sum[:]) || e.Description != "Does "+e.Name+"." {
				t.Errorf("%+v: the file has the digest %x", e, sum)
			}
			want := map[string]string{"skill-md": "text/markdown; charset=utf-8", "archive": "application/zip"}[e.Type]
			if got := r.header.Get("Content-Type"); got != want {
				t.Errorf("%s is %s, want %s", e.URL, got, want)
			}
		}
		return names
	}
	for key, want := range map[string][]string{
		"":    {"shared archive", "both skill-md"},
		bob:   {"both skill-md", "shared archive"},
		alice: {"both skill-md", "private skill-md", "shared archive"},
	} {
		if diff := cmp.Diff(want, list(key)); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
	if text := get(bob, "/.well-known/agent-skills/both/SKILL.md").want(http.StatusOK).body; !strings.Contains(text, "Of bob.") {
		t.Errorf("bob gets %s", text)
	}
	if text := get("", "/.well-known/agent-skills/both/SKILL.md").want(http.StatusOK).body; strings.Contains(text, "Of bob.") {
		t.Errorf("a stranger gets %s", text)
	}
	for _, path := range []string{"private/SKILL.md", "private.zip", "shared/SKILL.md", "shared/index.js", "module.js", "broken/SKILL.md", "other-name/SKILL.md", "named-otherwise/SKILL.md", "x", ""} {
		get("", "/.well-known/agent-skills/"+path).want(http.StatusNotFound)
		get(bob, "/.well-known/agent-skills/"+path).want(http.StatusNotFound)
	}
	w.do("GET", indexPath, nil, "Authorization", "Bearer wrong").want(http.StatusUnauthorized)
	w.as(bob, "POST", indexPath, nil).want(http.StatusMethodNotAllowed)
}

// TestSkillIndexClosed: a server without skills.publish shows strangers nothing.
func TestSkillIndexClosed(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{keys: true})
	w.as(w.key("alice"), "PUT", "/v1/skills/private/SKILL.md", manifestOf("private")).want(http.StatusNoContent)
	var index source.Index
	if w.do("GET", indexPath, nil).want(http.StatusOK).json(&index); len(index.Skills) != 0 {
		t.Errorf("%+v", index)
	}
	w.do("GET", "/.well-known/agent-skills/private/SKILL.md", nil).want(http.StatusNotFound)
}

// TestNpxSkills installs the published skills with npm's skills, which sends no credential.
func TestNpxSkills(t *testing.T) {
	t.Parallel()
	client := filepath.Join(npmtest.Skills(t), "node_modules", "skills", "bin", "cli.mjs")
	w := setup(t, setting{keys: true, options: func(o *api.Options) { o.PublishedSkills = []string{"alice/one-file", "alice/with-files"} }})
	alice := w.key("alice")
	for file, text := range map[string]string{
		"one-file/SKILL.md": manifestOf("one-file"), "with-files/SKILL.md": manifestOf("with-files"), "with-files/lib/x.js": "export default 'é'", "private/SKILL.md": manifestOf("private"),
	} {
		w.as(alice, "PUT", "/v1/skills/"+file, text).want(http.StatusNoContent)
	}
	dir := t.TempDir()
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "node", append([]string{client, "add", w.url}, args...)...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOME="+dir, "USERPROFILE="+dir, "XDG_STATE_HOME="+dir, "DISABLE_TELEMETRY=1", "DO_NOT_TRACK=1", "NO_COLOR=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("skills add %q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	if out := run("--list"); !strings.Contains(out, "Found 2 skills") || !strings.Contains(out, "Does with-files.") || strings.Contains(out, "private") {
		t.Errorf("the client lists\n%s", out)
	}
	run("--skill", "*", "--agent", "claude-code", "--yes", "--copy")
	for file, want := range map[string]string{"one-file/SKILL.md": manifestOf("one-file"), "with-files/SKILL.md": manifestOf("with-files"), "with-files/lib/x.js": "export default 'é'"} {
		text, err := os.ReadFile(filepath.Join(dir, ".claude", "skills", filepath.FromSlash(file)))
		if string(text) != want {
			t.Errorf("%s is %q, %v", file, text, err)
		}
	}
	// The harness reads the same index.
	found, err := source.Read(t.Context(), w.url, source.Options{AllowPrivate: true})
	if err != nil || len(found.Skills) != 2 || len(found.Skipped) != 0 || string(found.Skills[1].Files["lib/x.js"]) != "export default 'é'" {
		t.Errorf("%+v, %v", found, err)
	}
}

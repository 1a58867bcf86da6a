package api_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/skills/source"
)

// skillAnswer has what answers about skills may have.
type skillAnswer struct {
	Result struct {
		ResultType string          `json:"resultType"`
		TTLMs      *int            `json:"ttlMs"`
		CacheScope string          `json:"cacheScope"`
		NextCursor string          `json:"nextCursor"`
		Skills     []source.Served `json:"skills"`
		Skill      source.Served   `json:"skill"`
		Resources  []mcp.Resource  `json:"resources"`
		Contents   []struct{ URI, MIMEType, Text, Blob string }
	}
	Error *struct {
		Code    int
		Message string
	}
}

// ask sends a request of 2026-07-28 that stands for itself.
func (w *world) ask(key, method string, params map[string]any) (a skillAnswer) {
	w.t.Helper()
	all := map[string]any{"_meta": map[string]any{
		"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientInfo": map[string]any{"name": "t", "version": "1"},
		"io.modelcontextprotocol/clientCapabilities": map[string]any{},
	}}
	maps.Copy(all, params)
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": all})
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.url+"/mcp", bytes.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Authorization": "Bearer " + key, "Accept": "application/json", "Content-Type": "application/json", "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method,
	} {
		r.Header.Set(name, value)
	}
	if uri, ok := params["uri"].(string); ok && method == "resources/read" {
		r.Header.Set("Mcp-Name", uri)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(&a); err != nil {
		w.t.Fatalf("%s: %s: %v", method, answer.Status, err)
	}
	return a
}

func sha256Of(data string) string {
	sum := sha256.Sum256([]byte(data))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// TestMCPSkills has the flow of the Skills extension of MCP: list, read, read a directory, find a changed file, get again. Neither user sees the other's skills.
func TestMCPSkills(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{keys: true})
	alice, bob := w.key("alice"), w.key("bob")
	put := func(key, file, text string) {
		t.Helper()
		w.as(key, "PUT", "/v1/skills/"+file, text).want(http.StatusNoContent)
	}
	const letters = "---\nname: letters\ndescription: Writes letters.\nlicense: MIT\nmetadata: {version: 2}\n---\nUse `forms/`.\n"
	files := map[string]string{"SKILL.md": letters, "forms/a b.md": "Dear all,\n", "forms/deep/c.json": "{}", "logo.bin": "\xff\x00\xfe"}
	for file, text := range files {
		put(alice, "letters/"+file, text)
	}
	put(alice, "team/notes/SKILL.md", manifestOf("notes"))
	put(alice, "team/module.js", "export default 1")
	put(alice, "other-name/SKILL.md", manifestOf("named-otherwise"))
	put(alice, "broken/SKILL.md", "text")
	put(bob, "letters/SKILL.md", manifestOf("letters"))

	session := w.mcpClient(alice, nil)
	capabilities := session.InitializeResult().Capabilities
	if got, _ := json.Marshal(capabilities.Extensions); string(got) != `{"io.modelcontextprotocol/skills":{"directoryRead":true}}` || capabilities.Resources == nil {
		t.Errorf("the server declares %s", got)
	}
	old := w.as(alice, "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`, "Accept", "application/json")
	if strings.Contains(old.want(http.StatusOK).body, "modelcontextprotocol/skills") {
		t.Errorf("to a client of 2025-06-18 it declares %s", old.body)
	}

	list := w.ask(alice, "skills/list", nil).Result
	if list.ResultType != "complete" || list.TTLMs == nil || list.CacheScope != "private" || list.NextCursor != "" || len(list.Skills) != 2 {
		t.Fatalf("skills/list gives %+v", list)
	}
	entry := list.Skills[0]
	if entry.URI != "skill://letters/SKILL.md" || string(entry.Frontmatter) != `{"description":"Writes letters.","license":"MIT","metadata":{"version":2},"name":"letters"}` || list.Skills[1].URI != "skill://team/notes/SKILL.md" {
		t.Errorf("skills/list gives %+v", list.Skills)
	}
	want := []source.ServedFile{}
	for _, file := range []string{"SKILL.md", "forms/a b.md", "forms/deep/c.json", "logo.bin"} {
		want = append(want, source.ServedFile{URI: "skill://letters/" + strings.ReplaceAll(file, " ", "%20"), Digest: sha256Of(files[file]), Size: int64(len(files[file]))})
	}
	if diff := cmp.Diff(want, entry.Files.List); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	got := w.ask(alice, "skills/get", map[string]any{"uri": entry.URI}).Result
	if diff := cmp.Diff(entry, got.Skill); diff != "" || got.ResultType != "complete" || got.TTLMs == nil || got.CacheScope != "private" {
		t.Errorf("skills/get gives %+v (-want +got)\n%s", got, diff)
	}
	for _, f := range entry.Files.List {
		read := w.ask(alice, "resources/read", map[string]any{"uri": f.URI}).Result
		if len(read.Contents) != 1 {
			t.Fatalf("%s: %+v", f.URI, read)
		}
		text := read.Contents[0].Text
		if blob, err := base64.StdEncoding.DecodeString(read.Contents[0].Blob); text == "" && err == nil {
			text = string(blob)
		}
		if sha256Of(text) != f.Digest || read.Contents[0].URI != f.URI || read.CacheScope != "private" {
			t.Errorf("%s: %+v has the digest %s, want %s", f.URI, read, sha256Of(text), f.Digest)
		}
	}
	directory := func(uri string) (names []string) {
		t.Helper()
		a := w.ask(alice, "resources/directory/read", map[string]any{"uri": uri})
		if a.Error != nil || a.Result.ResultType != "complete" {
			t.Fatalf("%s: %+v", uri, a)
		}
		for _, r := range a.Result.Resources {
			names = append(names, r.URI+" "+r.Name+" "+r.MIMEType)
		}
		return names
	}
	for uri, want := range map[string][]string{
		"skill://letters": {
			"skill://letters/SKILL.md SKILL.md text/markdown", "skill://letters/forms forms inode/directory", "skill://letters/logo.bin logo.bin application/octet-stream",
		},
		"skill://letters/forms": {"skill://letters/forms/a%20b.md a b.md text/markdown", "skill://letters/forms/deep deep inode/directory"},
	} {
		if diff := cmp.Diff(want, directory(uri)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", uri, diff)
		}
	}
	for _, refused := range []struct{ key, method, uri, says string }{
		{alice, "skills/get", "skill://unknown/SKILL.md", "no skill at this URI"},
		{alice, "skills/get", "skill://letters", "no skill at this URI"},
		{alice, "skills/get", "skill://letters/../letters/SKILL.md", "no skill at this URI"},
		{alice, "skills/get", "", "no skill at this URI"},
		{alice, "skills/get", "skill://other-name/SKILL.md", "not that of its folder"},
		{alice, "skills/get", "skill://broken/SKILL.md", "has a problem"},
		{alice, "resources/directory/read", "skill://letters/SKILL.md", "that of a file"},
		{alice, "resources/directory/read", "skill://letters/", "no skill with a directory"},
		{alice, "resources/directory/read", "skill://let", "no skill with a directory"},
		{alice, "resources/directory/read", "workspace://s", "no skill with a directory"},
		{alice, "resources/read", "skill://letters/forms", "no skill with a file"},
		{alice, "resources/read", "skill://letters/forms/../SKILL.md", "no skill with a file"},
		{alice, "resources/read", "skill://letters/%2e%2e/team/module.js", "no skill with a file"},
		{alice, "resources/read", "skill://broken/SKILL.md", "no skill with a file"},
		{bob, "skills/get", "skill://team/notes/SKILL.md", "no skill at this URI"},
		{bob, "resources/read", "skill://letters/forms/a%20b.md", "no skill with a file"},
		{bob, "resources/directory/read", "skill://letters/forms", "no skill with a directory"},
	} {
		a := w.ask(refused.key, refused.method, map[string]any{"uri": refused.uri})
		if a.Error == nil || a.Error.Code != -32602 || !strings.Contains(a.Error.Message, refused.says) || refused.uri != "" && strings.Contains(a.Error.Message, refused.uri) {
			t.Errorf("%s %s: %+v", refused.method, refused.uri, a)
		}
	}
	if of := w.ask(bob, "skills/list", nil).Result.Skills; len(of) != 1 || of[0].Files.List[0].Digest != sha256Of(manifestOf("letters")) {
		t.Errorf("bob has %+v", of)
	}
	if a := w.ask(alice, "skills/list", map[string]any{"cursor": "!"}); a.Error == nil || a.Error.Code != -32602 {
		t.Errorf("a wrong cursor gives %+v", a)
	}

	// A client that does not know the extension finds the same files as resources.
	resources, err := session.ListResources(t.Context(), nil)
	if err != nil || len(resources.Resources) != 2 || resources.Resources[0].URI != entry.URI || resources.Resources[0].Description != "Writes letters." {
		t.Errorf("resources/list gives %+v, %v", resources, err)
	}

	// What changes between list and read has another digest, which skills/get then says.
	put(alice, "letters/forms/a b.md", "Dear Ada,\n")
	put(alice, "letters/forms/new.md", "New.\n")
	changed := w.ask(alice, "resources/read", map[string]any{"uri": "skill://letters/forms/a%20b.md"}).Result.Contents[0].Text
	again := w.ask(alice, "skills/get", map[string]any{"uri": entry.URI}).Result.Skill.Files.List
	if sha256Of(changed) == entry.Files.List[1].Digest || len(again) != 5 || again[1].Digest != sha256Of(changed) || len(directory("skill://letters/forms")) != 3 {
		t.Errorf("after the change: %s %+v", changed, again)
	}
}

// TestMCPSkillsBounds: pages end, what exceeds a bound says so, and files with personal data are shown with tokens and without digests.
func TestMCPSkillsBounds(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{})
	saved, err := w.h.Skills()
	if err != nil {
		t.Fatal(err)
	}
	put := func(name string, more map[string]string) {
		t.Helper()
		content := map[string][]byte{"SKILL.md": []byte(manifestOf(name))}
		for file, text := range more {
			content[file] = []byte(text)
		}
		if err := saved.Put(t.Context(), "local", name, content); err != nil {
			t.Fatal(err)
		}
	}
	many := map[string]string{}
	for i := range 512 {
		many[fmt.Sprint(i)] = "x"
	}
	put("many", many)
	const value = "grace.hopper@example.org"
	put("private", map[string]string{"contact.md": "Write to " + value + ".\n"})
	put("numbers", map[string]string{"+1": "x", "202": "x", "555": "x", "0142": "x"}) // together they look like a phone number
	put("zz-named", map[string]string{value + ".md": "x"})
	put("zz-head", map[string]string{"SKILL.md": "---\nname: zz-head\ndescription: Asks " + value + ".\n---\n"})
	for i := range 60 {
		put(fmt.Sprintf("page-%02d", i), nil)
	}
	var names []string
	cursor, pages := "", 0
	for {
		a := w.ask(localToken, "skills/list", map[string]any{"cursor": cursor})
		for _, s := range a.Result.Skills {
			names = append(names, s.URI)
			if s.Files.Dynamic != (s.URI == "skill://private/SKILL.md" || s.URI == "skill://zz-head/SKILL.md") {
				t.Errorf("%+v", s)
			}
			if strings.Contains(string(s.Frontmatter), "grace") {
				t.Errorf("the head of %s is %s", s.URI, s.Frontmatter)
			}
		}
		pages++
		if cursor = a.Result.NextCursor; cursor == "" {
			break
		}
	}
	if len(names) != 63 || pages != 2 || names[62] != "skill://zz-head/SKILL.md" {
		t.Errorf("%d pages with %d skills: %v", pages, len(names), names)
	}
	for uri, says := range map[string]string{"skill://many/SKILL.md": "it has 513 files, and may have 512", "skill://zz-named/SKILL.md": "looks like personal data"} {
		if a := w.ask(localToken, "skills/get", map[string]any{"uri": uri}); a.Error == nil || a.Error.Code != -32602 || !strings.Contains(a.Error.Message, says) || strings.Contains(a.Error.Message, "grace") {
			t.Errorf("%s: %+v", uri, a)
		}
	}
	if a := w.ask(localToken, "resources/read", map[string]any{"uri": "skill://private/contact.md"}); len(a.Result.Contents) != 1 || !strings.HasPrefix(a.Result.Contents[0].Text, "Write to ") || strings.Contains(a.Result.Contents[0].Text, "grace") {
		t.Errorf("%+v", a)
	}
}

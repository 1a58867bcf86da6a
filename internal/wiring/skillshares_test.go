package wiring_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/skills"
	"mcp-code-exec-harness/internal/versions"
)

// sharers are two harnesses with directories of their own and a common store.
type sharers struct {
	*testing.T
	here, there   *fixture
	bobs, readers *skills.Store // stores of skills of here and there
}

func newSharers(t *testing.T, servers ...*config.MCPServer) *sharers {
	t.Helper()
	dir := t.TempDir()
	s := &sharers{T: t}
	s.here = open(t, dir, map[string]string{"skills.dir": filepath.Join(dir, "here")})
	s.there = open(t, dir, map[string]string{"skills.dir": filepath.Join(dir, "there")}, servers...)
	s.bobs, s.readers = s.opened(s.here), s.opened(s.there)
	return s
}

func (s *sharers) opened(f *fixture) *skills.Store {
	s.Helper()
	saved, err := f.Skills()
	if err != nil {
		s.Fatal(err)
	}
	return saved
}

// write writes files of a user at one of the harnesses.
func (s *sharers) write(saved *skills.Store, user, name string, c skills.Content) {
	s.Helper()
	if err := saved.Put(s.Context(), user, name, c); err != nil {
		s.Fatal(err)
	}
}

func (s *sharers) share(user, name, with string, role versions.Role) {
	s.Helper()
	if _, err := s.bobs.Share(s.Context(), user, name, with, role, s.here.Runs().CheckShared(s.Context(), user)); err != nil {
		s.Fatal(err)
	}
}

// accept makes a user accept the version of a skill that others see.
func (s *sharers) accept(user, name string) {
	s.Helper()
	o, err := s.readers.Other(s.Context(), user, name)
	if err == nil {
		_, err = s.readers.Approve(s.Context(), user, name, o.Digest, user)
	}
	if err != nil {
		s.Fatal(err)
	}
}

// as executes a program of a user at the other harness than the owner's.
func (s *sharers) as(user, code string) *run.Outcome {
	s.Helper()
	out, err := s.there.Runs().Execute(s.Context(), runs.Request{User: user, Code: code})
	if err != nil {
		s.Fatal(err)
	}
	return out
}

func folder(name, main string) skills.Content {
	return skills.Content{"SKILL.md": []byte("---\nname: " + name + "\ndescription: Joins tables of invoices by their number.\n---\n\nUse it.\n"), "index.js": []byte(main)}
}

// Programs of a user at one process use what a user of another process shares, as long as the skill is shared, and never more than that.
func TestSharedSkills(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, "up")
	s := newSharers(t, up.entry)
	lib := folder("lib", "import part from './part.js'\nexport default () => part + JSON.parse('1')\nexport const own = () => import('/skills/lib')")
	lib["part.js"], lib["data/a.json"] = []byte("export default 'bob '"), []byte(`{"a":1}`)
	s.write(s.bobs, "bob", "lib", lib)
	s.write(s.bobs, "bob", "crm/one.ts", skills.Content{"one.ts": []byte("export default (n: number): number => n + 1")})
	s.write(s.bobs, "bob", "secret", folder("secret", "export default 'secret'"))
	s.write(s.readers, "ann", "lib", folder("lib", "export default () => 'ann'"))
	s.share("bob", "lib", "ann", versions.Use)
	s.share("bob", "crm/one", versions.Everyone, versions.Use)
	s.share("bob", "secret", "eve", versions.Use)
	s.accept("ann", "@bob/lib")
	s.accept("ann", "@bob/crm/one.ts")

	const program = `
import lib from '/skills/@bob/lib'
import own from '/skills/lib'
const names = async (p, recursive) => (await fs.readdir(p, { recursive })).map((e) => e.name ?? e).join(' ')
return [lib(), own(), require('/skills/@bob/crm/one').default(1), (await import('/home/sandboxuser/skills/@bob/lib/index.js')).default(),
  JSON.parse(await fs.readFile('/skills/@bob/lib/data/a.json')).a, await fs.exists('/skills/@bob/lib/none'), await fs.exists('/skills/@bob/lib/data'),
  await names('/skills'), await names('/skills/@bob'), await names('/skills/@bob/lib'), (await fs.stat('/skills/@bob/lib/part.js')).size].join('|')`
	first := s.as("ann", program)
	if got, want := string(first.Output), `"bob 1|ann|2|bob 1|1|false|true|lib @bob|crm lib|SKILL.md data index.js part.js|21"`; got != want {
		t.Fatalf("got  %s\nwant %s, %+v", got, want, first.Error)
	}

	// No path leads to what is not shared, nor from a shared skill to the user's own ones, and nothing in it changes.
	for code, want := range map[string]string{
		`await fs.readFile('/skills/@bob/secret/index.js')`:                              "no such",
		`await fs.readFile('/skills/@bob/../../bob/secret/index.js')`:                    "there are only",
		`await fs.readFile('/skills/@bob/lib/../secret/index.js')`:                       "no such",
		`await fs.readFile('/skills/@bob/lib/..%2fsecret/index.js')`:                     "no such",
		`await fs.readFile('/skills/@bob')`:                                              "EISDIR",
		`await fs.readFile('/skills/@BOB/lib/index.js')`:                                 "no such",
		`await fs.readFile('/skills/@ann/lib/index.js')`:                                 "no such",
		`await fs.readFile('/skills/@/lib/index.js')`:                                    "no such",
		`await fs.readFile('/skills/` + "\uff20" + `bob/lib/index.js')`:                  "may not begin with",
		`await fs.writeFile('/skills/` + "\ufe6b" + `bob/lib/index.js', 'x')`:            "may not begin with",
		`await fs.writeFile('/skills/@bob/lib/index.js', 'x')`:                           "can only be read",
		`await fs.writeFile('/skills/@eve/lib.js', 'x')`:                                 "can only be read",
		`await fs.mkdir('/skills/@bob')`:                                                 "can only be read",
		`await fs.deleteFile('/skills/@bob/lib/part.js')`:                                "can only be read",
		`await fs.rm('/skills/@bob', {recursive: true})`:                                 "can only be read",
		`await fs.rename('/skills/@bob/lib/part.js', '/workspace/part.js')`:              "can only be read",
		`await fs.rename('/skills/lib', '/skills/@bob')`:                                 "can only be read",
		`await fs.copyFile('/skills/lib/index.js', '/skills/@bob/lib/index.js')`:         "can only be read",
		`await (await import('/skills/@bob/lib')).own()`:                                 "imports no skill of yours",
		`await import('/skills/@bob/secret')`:                                            "does not exist",
		`await import('/skills/@eve/none')`:                                              "does not exist",
		`await fs.readFile('/skills/@bob/lib/index.js', {encoding: 'utf8', offset: -1})`: "negative",
	} {
		if out := s.as("ann", code); out.Error == nil || !strings.Contains(out.Error.Message, want) {
			t.Errorf("%s: %+v, want %q", code, out.Error, want)
		}
	}
	if out := s.as("ann", `await fs.copyFile('/skills/@bob/lib/part.js', '/workspace/p.js'); return await fs.readFile('p.js')`); !strings.Contains(string(out.Output), "bob") {
		t.Errorf("copied: %s, %+v", out.Output, out.Error)
	}

	// What the owner edits reaches nobody before it is shown, and the accepted version stays in use after that.
	lib["part.js"] = []byte("export default 'new '")
	s.write(s.bobs, "bob", "lib", lib)
	const short = "return (await import('/skills/@bob/lib')).default()"
	says := func(want string) {
		t.Helper()
		if out := s.as("ann", short); string(out.Output) != `"`+want+`"` {
			t.Errorf("the skill says %s, %+v, want %q", out.Output, out.Error, want)
		}
	}
	says("bob 1")
	if _, err := s.bobs.ShowOthers(t.Context(), "bob", "lib", func(skills.Content) error { return nil }); err != nil {
		t.Fatal(err)
	}
	says("bob 1")
	if o, err := s.readers.Other(t.Context(), "ann", "@bob/lib"); err != nil || o.State != skills.Superseded {
		t.Errorf("after a new version: %+v, %v", o, err)
	}
	s.accept("ann", "@bob/lib")
	says("new 1")
	before := s.as("ann", short)

	// The end of a share in another process ends the use in a run under way. A run that has used the skill is replayed as it was.
	reached, ended := make(chan struct{}), make(chan struct{})
	up.mu.Lock()
	up.on = func(ctx context.Context, _, _ string, args json.RawMessage) (string, error) {
		close(reached)
		select {
		case <-ended:
		case <-ctx.Done():
		}
		return "1", nil
	}
	up.mu.Unlock()
	go func() {
		defer close(ended)
		<-reached
		if n, err := s.bobs.Unshare(t.Context(), "bob", "lib", "ann"); n != 1 || err != nil {
			t.Errorf("ended %d shares, %v", n, err)
		}
	}()
	during := s.as("ann", `const part = (await import('/skills/@bob/lib/part.js')).default
await callMCPTool('up__read', {})
const failed = async (f) => { try { return await f() } catch (e) { return e.code ?? e.message.replace(/:.*/, '') } }
return [part, await failed(() => import('/skills/@bob/lib/index.js')), await failed(() => fs.readFile('/skills/@bob/lib/part.js')), await fs.exists('/skills/@bob/lib')].join('|')`)
	if got := string(during.Output); !strings.HasPrefix(got, `"new |`) || strings.Contains(got, "function") || !strings.HasSuffix(got, `|ENOENT|false"`) {
		t.Errorf("a run under way: %s, %+v", got, during.Error)
	}
	for _, out := range []*run.Outcome{first, before, during} {
		s.there.replay(out)
	}
	if out := s.as("ann", short); out.Error == nil || !strings.Contains(out.Error.Message, "does not exist") {
		t.Errorf("after the end: %s, %+v", out.Output, out.Error)
	}
	if _, err := s.readers.Other(t.Context(), "ann", "@bob/lib"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the skill after the end: %v", err)
	}
}

// Users who share a great deal do not push a user's own skills out of searches, prompts and lists.
func TestSharedSkillsOfManyNeighbours(t *testing.T) {
	t.Parallel()
	s := newSharers(t)
	for n := range 4 {
		s.write(s.readers, "ann", fmt.Sprintf("mine-%d", n), folder(fmt.Sprintf("mine-%d", n), "export default 1"))
	}
	for n := range 12 {
		name := fmt.Sprintf("invoices-%d", n)
		s.write(s.bobs, "mallory", name, folder(name, "export default 1"))
		s.share("mallory", name, versions.Everyone, versions.Use)
	}
	s.write(s.bobs, "bob", "join", folder("join", "export default 1"))
	s.share("bob", "join", "ann", versions.Use)
	search := func(limit int) (text string) {
		t.Helper()
		found, _, err := s.readers.Search(t.Context(), "ann", "join tables of invoices by their number", limit)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range found {
			text += strings.NewReplacer("-0", "", "-1", "", "-2", "", "-3", "").Replace(k.Name) + " "
		}
		return text
	}
	if got := search(5); got != "mine mine mine mine " {
		t.Errorf("before the user has accepted anything: %s", got)
	}
	for n := range 12 {
		s.accept("ann", fmt.Sprintf("@mallory/invoices-%d", n))
	}
	if got := search(5); !strings.HasPrefix(got, "mine mine mine mine @mallory/") || strings.Count(got, "@") != 1 {
		t.Errorf("found %s", got)
	}
	if got := search(1); got != "mine " {
		t.Errorf("one of them: %s", got)
	}
	list, err := s.readers.Overview(t.Context(), "ann")
	if err != nil || len(list) < 4 || list[3].Shared != nil || list[3].Name != "mine-3" {
		t.Errorf("the list: %+v, %v", list, err)
	}
	for _, e := range list[4:] {
		if e.Description != "" {
			t.Errorf("the list has a text of another user: %q", e.Description)
		}
	}
}

// The paths of skills of users whose ids look like personal data are no personal data, so that programs and models can use them.
func TestSharedSkillsOfAllUsers(t *testing.T) {
	t.Parallel()
	s := newSharers(t)
	seen := map[string]string{}
	for _, owner := range []string{"ann.miller@gmail.com", "+4915112345678", "4915112345678", "4111111111111111", "gmail.com", "c2b1a6a4-8f0e-4c39-9d0e-6a1f0e5a7b11", "a/b", "..", "CON", "\u0430nn", "Ann", "ann~x", "O'Neil Smith"} {
		s.write(s.bobs, owner, "lib.js", skills.Content{"lib.js": []byte("export default 'lib'")})
		s.share(owner, "lib", "eve", versions.Use)
		all, err := s.readers.Others(t.Context(), "eve", owner)
		if err != nil || len(all) != 1 {
			t.Fatalf("%s: %+v, %v", owner, all, err)
		}
		if other := seen[all[0].Path]; other != "" {
			t.Errorf("%s and %s share as %s", owner, other, all[0].Path)
		}
		seen[all[0].Path] = owner
		s.accept("eve", all[0].Path)
		out := s.as("eve", "import lib from '"+all[0].Path+"'\nconst dir = '"+all[0].Path+"'.replace('/lib.js', '')\nreturn lib + (await fs.readdir(dir)).map((e) => e.name ?? e)")
		if string(out.Output) != `"liblib.js"` {
			t.Errorf("%s: %s, %+v", all[0].Path, out.Output, out.Error)
		}
	}
}

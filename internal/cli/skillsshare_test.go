package cli_test

import (
	"regexp"
	"strings"
	"testing"
)

const bobsSkill = "// Says hello.\nexport default (name) => 'hello ' + name + ' of bob'\n"

// A user shares a skill, another one reviews and imports it, and cannot any more after the share has ended.
func TestSkillsShare(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.write("hello.js", bobsSkill)
	f.run("files", "put", "/skills", "hello.js", "--user", "bob").want(0)
	use := func(code int, want string) {
		t.Helper()
		r := f.run("exec", "--user", "ann", "-e", "import hello from '/skills/@bob/hello'\nreturn hello('ann')")
		if r.code != code || !strings.Contains(r.stdout+r.stderr, want) {
			t.Errorf("exit code %d, want %d with %q:\n%s%s", r.code, code, want, r.stdout, r.stderr)
		}
	}
	use(1, "does not exist")
	f.run("skills", "share", "hello", "--user", "bob").want(2)
	f.run("skills", "share", "hello", "--with", "bob", "--user", "bob").want(2)
	f.run("skills", "share", "hello", "--with", "team:none", "--user", "bob").want(2)
	f.run("skills", "share", "hello", "--with", "ann", "--role", "read", "--user", "bob").want(0)
	use(1, "ask for the role use")
	f.run("skills", "share", "hello", "--with", "ann", "--user", "bob").want(0)
	use(1, "harness skills review @bob/hello")
	r := f.run("skills", "review", "--user", "ann").want(0)
	digest := strings.Fields(r.stdout)[len(strings.Fields(r.stdout))-1]
	if !strings.Contains(r.stdout, "@bob/hello") || !strings.Contains(r.stdout, "shared by bob") {
		t.Errorf("review lists %s", r.stdout)
	}
	if r = f.run("skills", "review", "@bob/hello", "--user", "ann").want(0); !strings.Contains(r.stdout, "of bob") {
		t.Errorf("review shows %s", r.stdout)
	}
	f.run("skills", "review", "@bob/hello", "--approve", digest[1:]+"0", "--user", "ann").want(2)
	f.run("skills", "review", "@bob/hello", "--approve", digest, "--user", "ann").want(0)
	use(0, "hello ann of bob")
	f.run("skills", "unshare", "hello", "--with", "ann", "--user", "bob").want(0)
	use(1, "does not exist")
}

// Two users propose versions of a third one's skill. No change is lost, and what others see moves only when somebody with the role decides so.
func TestSkillsPropose(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.write("harness.yaml", "auth: {teams: {crew: [ann, cid]}}\nskills: {trusted: [bob]}\n")
	f.run("trust", f.dir).want(0)
	put := func(user, text string) {
		t.Helper()
		f.write("hello.js", text)
		f.run("files", "put", "/skills", "hello.js", "--user", user).want(0)
	}
	says := func(want string) {
		t.Helper()
		if r := f.run("exec", "--user", "eve", "-e", "return require('/skills/@bob/hello').default()").want(0); strings.TrimSpace(r.stdout) != want {
			t.Errorf("the skill says %s, want %q", r.stdout, want)
		}
	}
	text := func(says string) string {
		return "// Says hello.\nexport default () => '" + says + "'\n"
	}
	put("bob", text("one"))
	f.run("skills", "share", "hello", "--with", "everyone", "--user", "bob").want(0)
	f.run("skills", "share", "hello", "--with", "team:crew", "--role", "write", "--user", "bob").want(0)
	f.run("skills", "share", "hello", "--with", "dan", "--role", "approve", "--user", "bob").want(0)
	says("one") // bob is trusted
	put("bob", text("being edited"))
	f.run("skills", "versions", "hello", "--user", "bob").want(0)
	says("one")

	f.run("skills", "add", "@bob/hello", "--user", "ann").want(0)
	if r := f.run("exec", "--user", "ann", "-e", "return require('/skills/hello').default()").want(0); strings.TrimSpace(r.stdout) != "one" {
		t.Errorf("the copy says %s", r.stdout)
	}
	put("ann", text("two"))
	put("cid", text("three"))
	put("eve", text("four"))
	if r := f.run("skills", "propose", "@bob/hello", "--from", "hello", "--base", "1", "--user", "eve").want(2); !strings.Contains(r.stderr, "take the role write") {
		t.Errorf("a proposal without the role: %s", r.stderr)
	}
	f.run("skills", "propose", "@bob/hello", "--from", "hello", "--base", "1", "--user", "ann").want(0)
	r := f.run("skills", "propose", "@bob/hello", "--from", "hello", "--base", "1", "--user", "cid").want(2)
	if !strings.Contains(r.stderr, "newer version: 3") || !strings.Contains(r.stderr, "skills diff @bob/hello") {
		t.Errorf("a proposal made from an old version: %s", r.stderr)
	}
	if r = f.run("skills", "diff", "@bob/hello", "--user", "cid").want(0); !strings.Contains(r.stdout, "+export default () => 'two'") {
		t.Errorf("what differs: %s", r.stdout)
	}
	f.run("skills", "show", "@bob/hello", "2", "--user", "cid").want(2) // bob's own, which others do not see
	f.run("skills", "show", "@bob/hello", "3", "--user", "eve").want(2) // a proposal
	f.run("skills", "propose", "@bob/hello", "--from", "hello", "--base", "3", "--user", "cid").want(0)
	says("one")

	for _, command := range []string{"promote", "versions", "remove", "test"} {
		if r = f.run("skills", command, "@bob/hello", "--user", "ann").want(2); !strings.Contains(r.stderr, "one of your own") {
			t.Errorf("%s: %s", command, r.stderr)
		}
	}
	var waiting []struct {
		Name, Digest string
		Num          int
	}
	f.run("skills", "review", "--user", "ann", "--json").want(0).value(&waiting)
	if len(waiting) != 0 {
		t.Errorf("without the role approve, %+v wait for a review", waiting)
	}
	f.run("skills", "review", "--user", "dan", "--json").want(0).value(&waiting)
	if len(waiting) != 2 || waiting[0].Name != "@bob/hello.js" || waiting[0].Num != 4 || waiting[1].Num != 3 {
		t.Fatalf("%+v wait for a review", waiting)
	}
	f.run("skills", "review", "@bob/hello", "--approve", waiting[0].Digest, "--user", "cid").want(2)
	if r = f.run("skills", "review", "@bob/hello", "--user", "dan").want(0); !strings.Contains(r.stdout, "proposed by ann") || !strings.Contains(r.stdout, "'three'") {
		t.Errorf("dan reviews %s", r.stdout)
	}
	f.run("skills", "review", "@bob/hello", "--approve", waiting[1].Digest, "--user", "dan").want(0)
	says("two")
	if r = f.run("skills", "versions", "hello", "--user", "bob").want(0); !regexp.MustCompile(`(?m)^3 .*kept, shared .*ann`).MatchString(r.stdout) || !regexp.MustCompile(`(?m)^4 .*held .*cid`).MatchString(r.stdout) {
		t.Errorf("the versions: %s", r.stdout)
	}
	if r = f.run("skills", "list", "--user", "ann").want(0); !regexp.MustCompile(`(?m)^@bob/hello +3 +in use +/skills/@bob/hello.js`).MatchString(r.stdout) {
		t.Errorf("ann's list: %s", r.stdout)
	}
	if r = f.run("skills", "shares", "--user", "ann").want(0); !regexp.MustCompile(`(?m)^@bob/hello.js +3 +me +write +in use`).MatchString(r.stdout) {
		t.Errorf("ann's shares: %s", r.stdout)
	}
	f.run("skills", "review", "hello", "--approve", waiting[0].Digest, "--user", "bob").want(0)
	says("three")
	f.run("skills", "share", "hello", "--user", "bob").want(0) // what bob has edited meanwhile
	says("being edited")

	// A proposal that was made from what others saw once is not approved after the owner has moved on.
	put("ann", text("five"))
	f.run("skills", "propose", "@bob/hello", "--from", "hello", "--base", "2", "--user", "ann").want(0)
	put("bob", text("six"))
	f.run("skills", "share", "hello", "--user", "bob").want(0)
	f.run("skills", "review", "hello", "--json", "--user", "bob").want(0).value(&waiting)
	if r = f.run("skills", "review", "hello", "--approve", waiting[0].Digest, "--user", "bob").want(2); !strings.Contains(r.stderr, "others see version 6 by now") {
		t.Errorf("an old proposal: %s", r.stderr)
	}
	f.run("skills", "review", "hello", "--refuse", "--user", "bob").want(0)
	says("six")

	put("ann", text("mail ann.miller@gmail.com"))
	if r = f.run("skills", "propose", "@bob/hello", "--from", "hello", "--base", "6", "--user", "ann").want(2); !strings.Contains(r.stderr, "personal data") {
		t.Errorf("a proposal with personal data: %s", r.stderr)
	}
	put("bob", text("mail ann.miller@gmail.com"))
	if r = f.run("skills", "share", "hello", "--user", "bob").want(2); !strings.Contains(r.stderr, "hello.js has personal data") || strings.Contains(r.stderr, "miller") {
		t.Errorf("sharing personal data: %s", r.stderr)
	}
	f.run("skills", "share", "hello", "--with", "fay", "--user", "bob").want(0) // fay sees what the others see
	f.run("skills", "remove", "hello", "--user", "bob").want(0)
	f.run("skills", "show", "@bob/hello", "--user", "ann").want(2)
}

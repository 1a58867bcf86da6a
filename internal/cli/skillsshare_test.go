package cli_test

import (
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

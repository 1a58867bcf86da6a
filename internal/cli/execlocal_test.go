package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestExecLocal imports JavaScript, TypeScript and JSON files from the folder of the program and below. The recording contains them all.
func TestExecLocal(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.write("app/main.ts", `import { total, type Row } from './lib/sum'
import rows from './data.json' with { type: 'json' }
import { name } from './lib/deep/name.js'
const { later } = await import('./lib/later')
return [total(rows as Row[]), name, later, require('./lib/old.cjs').old, rows[0].mail.endsWith('.pii.invalid')]
`)
	f.write("app/lib/sum.ts", "import { one } from './deep/one'\nexport interface Row { n: number }\nexport const total = (rows: Row[]): number => rows.reduce((sum, row) => sum + row.n * one, 0)\n")
	f.write("app/lib/deep/one.ts", "export const one: number = 1\n")
	f.write("app/lib/deep/name.ts", "import data from '../../data.json'\nexport const name = `${data.length} rows`\n")
	f.write("app/lib/later/index.js", "export const later = 'later'\n")
	f.write("app/lib/old.cjs", "exports.old = require('./deep/one').one\n")
	f.write("app/data.json", `[{"n": 40, "mail": "ada@example.com"}, {"n": 2}]`)
	const want = `[42,"2rows","later",1,true]`
	got := func(r *result) string { return strings.Join(strings.Fields(r.want(0).stdout), "") }
	if out := got(f.run("exec", "app/main.ts", "--record", "rec.json")); out != want {
		t.Errorf("got %s", out)
	}
	if text := f.read("rec.json"); strings.Contains(text, "ada@example.com") || strings.Contains(text, f.dir) {
		t.Errorf("the recording has personal data or a path of the host:\n%s", text)
	}
	if out := got(f.run("exec", "app/main.ts", "--replay", "rec.json")); out != want {
		t.Errorf("replayed with the files it is %s", out)
	}
	// A changed import makes the replay diverge. Without the files, the recording suffices.
	f.write("app/lib/deep/one.ts", "export const one: number = 2\n")
	if r := f.run("exec", "app/main.ts", "--replay", "rec.json").want(1); !strings.Contains(r.stderr, "diverged") {
		t.Errorf("replayed with a changed file it is %s", r.stderr)
	}
	if err := os.RemoveAll(filepath.Join(f.dir, "app")); err != nil {
		t.Fatal(err)
	}
	if out := got(f.run("exec", "--replay", "rec.json")); out != want {
		t.Errorf("replayed without the files it is %s", out)
	}
}

// TestExecLocalErrors checks that errors name the imported file and the line in it, and that no import leads out of the folder of the program.
func TestExecLocalErrors(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.write("secret.js", "export const secret = 1\n")
	f.write("app/thrown.ts", "export function boom(n: number): never {\n  throw new Error('no ' + n)\n}\n")
	f.write("app/wrong.ts", "export const a = 1\nexport const b = (\n")
	f.write("app/bad.json", "{\n  \"a\": 1,\n}")
	f.write("app/broken.js", "const broken = null\nbroken.at\n")
	f.write("app/dir/x.js", "export const x = 1\n")
	if err := os.Symlink("../secret.js", filepath.Join(f.dir, "app", "link.js")); err != nil {
		t.Skip("this system makes no links for this user (Windows: developer mode): ", err)
	}
	if err := os.Symlink("..", filepath.Join(f.dir, "app", "up")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		program string
		want    []string
		not     string
	}{
		{"import { boom } from './thrown'\n\nboom(3)", []string{"no 3", "thrown.ts:2:"}, "/program/"},
		{"import { b } from './wrong'\nreturn b", []string{"wrong.ts:"}, "/program/"},
		{"import bad from './bad.json'\nreturn bad", []string{"bad.json", "3:1"}, "/program/"},
		{"import './broken'", []string{"broken.js:2:"}, "/program/"},
		{"await import('./broken.js')", []string{"broken.js:2:"}, "/program/"},
		{"import { none } from './dir/x'\nreturn none", []string{"dir/x", "none", "main.ts:1:"}, "/program/"},
		{"import x from './dir'\nreturn x", []string{"./dir", "does not exist", "looked for dir and /workspace/dir"}, "/program/"},
		{"import { secret } from '../secret'\nreturn secret", []string{"not in the program's folder", "main.ts:1:"}, f.dir},
		{"import { secret } from './link'\nreturn secret", []string{"link.js", "escapes"}, f.dir},
		{"import { secret } from './up/secret'\nreturn secret", []string{"up/secret", "escapes"}, f.dir},
		{"return require('./up/secret').secret", []string{"up/secret", "escapes"}, f.dir},
		{"import x from '/program/secret.js'\nreturn x", []string{"neither in /skills nor in /workspace"}, f.dir},
		{"import x from './main.ts.txt'\nreturn x", []string{"does not exist"}, f.dir},
	} {
		f.write("app/main.ts", c.program)
		r := f.run("exec", "app/main.ts").want(1)
		for _, want := range c.want {
			if !strings.Contains(r.stderr, want) {
				t.Errorf("%s\nsays %s\nwithout %q", c.program, r.stderr, want)
			}
		}
		if strings.Contains(r.stderr, c.not) {
			t.Errorf("%s\nsays %s\nwith %q", c.program, r.stderr, c.not)
		}
	}
	var failed struct{ Error struct{ Stack string } }
	f.write("app/main.ts", "import { boom } from './thrown'\n\nboom(3)")
	f.run("exec", "--json", "app/main.ts").want(1).value(&failed)
	if s := failed.Error.Stack; !strings.Contains(s, "at boom (thrown.ts:2:") || !strings.Contains(s, "main.ts:3:") || strings.Contains(s, "/program/") {
		t.Errorf("the stack is %s", s)
	}
	// Files of the workspace are still found. A program without a file has no folder to import from.
	f.write("app/main.ts", "import { x } from './kept.js'\nreturn x")
	f.run("exec", "--session", "s", "-e", "await fs.writeFile('/workspace/kept.js', 'export const x = 7')").want(0)
	if r := f.run("exec", "--session", "s", "app/main.ts").want(0); r.stdout != "7\n" {
		t.Errorf("got %s", r.stdout)
	}
	f.run("exec", "-e", "import { x } from './dir/x.js'\nreturn x").want(1)
}

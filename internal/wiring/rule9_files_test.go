package wiring_test

import (
	"fmt"
	"testing"

	"mcp-code-exec-harness/internal/journal"
)

// Rule 9, files: changes are made one after another in call order. The answer to each is stored before the next begins.
func TestRuleFiles(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	l := f.keep(&ledger{})
	out := f.exec(code(`
await Promise.all([
  fs.writeFile('/workspace/log', '0,'), ...Array.from({ length: 8 }, (_, i) => fs.appendFile('/workspace/log', (i + 1) + ',')),
  fs.rename('/workspace/log', '/workspace/done'), fs.copyFile('/workspace/done', '/workspace/copy'), fs.appendFile('/workspace/done', 'end'),
])
return [await fs.readFile('/workspace/done'), await fs.readFile('/workspace/copy')]`))
	if got, want := string(out.Output), `["0,1,2,3,4,5,6,7,8,end","0,1,2,3,4,5,6,7,8,"]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	begun, done := 0, 0
	for _, r := range l.have() {
		switch {
		case r.Intent != nil:
			if begun != done {
				t.Errorf("call %d began before the answer of call %d", r.Intent.N, begun)
			}
			begun = r.Intent.N
		case r.Answer != nil:
			done = r.Answer.N
		}
	}
	if begun != 12 {
		t.Errorf("the last intent is of call %d", begun)
	}
}

// After a crash, an append or a rename is done once, whether the dead process had done it or not.
func TestRuleFilesAfterACrash(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	const program = `
await fs.writeFile('/workspace/log', 'a,')
await fs.appendFile('/workspace/log', 'b,')
await fs.appendFile('/workspace/log', 'b,')
await fs.rename('/workspace/log', '/workspace/log2')
return await fs.readFile('/workspace/log2')`
	out := f.exec(code(program))
	if string(out.Output) != `"a,b,b,"` {
		t.Fatalf("got %s", out.Output)
	}
	records := f.journalOf(out.RunID)
	for n := 1; n <= 4; n++ {
		for _, done := range []bool{false, true} {
			// These are the contents of the files when the process died at call n.
			state := []string{"", "a,", "a,b,", "a,b,b,", "renamed"}[n-1]
			if done {
				state = []string{"a,", "a,b,", "a,b,b,", "renamed"}[n-1]
			}
			f.exec(code(fmt.Sprintf(`
for (const file of ['log', 'log2']) await fs.deleteFile('/workspace/' + file)
const state = %q
if (state === 'renamed') await fs.writeFile('/workspace/log2', 'a,b,b,')
else if (state) await fs.writeFile('/workspace/log', state)`, state)))
			died := until(t, records, func(r journal.Record) bool { return r.Intent != nil && r.Intent.N == n })
			resumed := f.resumed(fmt.Sprintf("run_%d_%t", n, done), died)
			if resumed.Error != nil || string(resumed.Output) != `"a,b,b,"` {
				t.Errorf("died at call %d, done: %t: %s, %+v", n, done, resumed.Output, resumed.Error)
			}
		}
	}
}

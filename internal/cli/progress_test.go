//go:build unix

package cli_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/cli"
	"mcp-code-exec-harness/internal/testing/fake"
	"mcp-code-exec-harness/internal/testing/misbehave"
)

// TestProgressBar checks the bar for the progress that a server reports, for harness exec and for a task.
func TestProgressBar(t *testing.T) {
	t.Parallel()
	const program = `const call = tools.bad.progress({steps: 2})
await tools.bad.step({})
while (!await fs.exists('/workspace/seen')) await utils.sleep(20)
await tools.bad.step({})
await call
return 'all of it'`
	for name, args := range map[string][]string{"exec": {"exec", "-e", program}, "run": {"run", "Do it."}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := fixed(t)
			f.addBad(misbehave.Normal)
			f.run("exec", "--session", "s", "-e", "await fs.writeFile('/workspace/begun', '')").want(0)
			f.modelled(fake.Replies(code(program), fake.Reply{Text: "Done."}))
			shown := until(`\[█{10}░{10}\] 50 %`)
			go func() {
				<-shown.hit
				begun, _ := filepath.Glob(filepath.Join(f.dir, "data", "workspace", "*", "*", "begun"))
				for _, file := range begun {
					_ = os.WriteFile(filepath.Join(filepath.Dir(file), "seen"), nil, 0o600) // without this file, the run continues until its time limit
				}
			}()
			// A run that succeeds has seen the file, so the bar was shown.
			picture, raw, code := f.watched(100, shown, nil, append(args, "--session", "s")...)
			if code != 0 || !strings.Contains(picture, "all of it") {
				t.Errorf("exit code %d, %q\n%s", code, raw, picture)
			}
		})
	}
}

// TestFollowWriting follows a task while its model, in another command, is writing. The terminal shows the text before the turn ends.
func TestFollowWriting(t *testing.T) {
	t.Parallel()
	f := fixed(t)
	f.modelled(fake.Replies(fake.Reply{Text: strings.Repeat("word by word ", 5000), Pause: 20 * time.Millisecond}))
	ctx, cancel := context.WithCancelCause(t.Context())
	ran := make(chan int, 1)
	go func() { ran <- f.runIn(ctx, "", "run", "Write.").code }()
	id := f.listed(t)
	shown := until("word by word")
	go func() { <-shown.hit; cancel(cli.Signal{Signal: os.Interrupt}) }()
	picture, _, code := f.watched(80, shown, nil, "tasks", "show", id, "--follow")
	if got := <-ran; got != 130 || code != 1 || strings.Contains(picture, "turn 1") {
		t.Errorf("exit codes %d and %d:\n%s", got, code, picture)
	}
}

package cli_test

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestExecWatch checks that a program runs again when its file, an import or its input has changed, also while it runs and after an error. Ctrl-C ends it with
// exit code 130.
func TestExecWatch(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("a child cannot be sent Ctrl-C here: run this test on Linux or macOS")
	}
	f := setup(t)
	f.write("main.ts", "import { n } from './lib/n'\nreturn 'first ' + n")
	f.write("lib/n.ts", "export const n = 1")
	f.write("in.txt", "given")
	cmd := f.process("exec", "main.ts", "--watch", "--input", "in.txt")
	shown, to, err := os.Pipe() // one pipe for both streams keeps their lines in order
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = to, to
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	to.Close()
	lines := make(chan string, 1000)
	go func() {
		defer close(lines)
		for from := bufio.NewScanner(shown); from.Scan(); {
			lines <- from.Text()
		}
	}()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer cmd.Process.Kill()
	wait := func(text string) {
		t.Helper()
		var before []string
		late := time.After(patience)
		for {
			select {
			case line, more := <-lines:
				if strings.Contains(line, text) {
					return
				}
				if before = append(before, line); !more {
					t.Fatalf("it ended without %q:\n%s", text, strings.Join(before, "\n"))
				}
			case <-late:
				t.Fatalf("it does not say %q:\n%s", text, strings.Join(before, "\n"))
			}
		}
	}
	wait("first 1")
	f.write("lib/n.ts", "export const n = 'two'")
	wait("first two")
	f.write("main.ts", "return 1 +")
	wait("SyntaxError")
	f.write("main.ts", "import { m } from './m'\nreturn m")
	wait("does not exist")
	f.write("m.js", "export const m = 'made'")
	wait("made")
	f.write("main.ts", "return 'from ' + input")
	wait("from given")
	f.write("in.txt", "something else")
	wait("from something else")
	f.write("main.ts", "console.log('endless'); for (;;) await utils.sleep(1000)")
	wait("endless")
	f.write("main.ts", "return 'at last'")
	wait("at last")
	wait("waiting for a change of main.ts")
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := <-ended; !errors.As(err, &exit) || exit.ExitCode() != 130 {
		t.Errorf("it ended with %v", err)
	}
	for _, args := range [][]string{
		{"exec", "--watch", "-e", "return 1"}, {"exec", "--watch", "-"}, {"exec", "main.ts", "--watch", "--input", "-"}, {"exec", "main.ts", "--keep", "--session", "s"},
	} {
		f.run(args...).want(2)
	}
}

// TestKeep checks that exec lists the files of a run without a session before it removes them, and that --keep keeps them in a new session.
func TestKeep(t *testing.T) {
	t.Parallel()
	f := setup(t)
	const code = `await fs.writeFile('/workspace/out/a.txt', 'A'); for (let i = 0; i < 6; i++) await fs.writeFile('/workspace/b' + i, ''); return 1`
	if r := f.run("exec", "-e", code).want(0); !strings.Contains(r.stderr, "/workspace/b0 is removed with its run; --keep or --session") || !strings.Contains(r.stderr, "2 more files") {
		t.Errorf("got %s", r.stderr)
	}
	r := f.run("exec", "--keep", "-e", code).want(0)
	_, session, _ := strings.Cut(r.stderr, "harness files get ")
	session, _, _ = strings.Cut(session, " ")
	if !strings.HasPrefix(session, "sess_") {
		t.Fatalf("got %s", r.stderr)
	}
	if r := f.run("files", "get", session, "out/a.txt", "-").want(0); r.stdout != "A" {
		t.Errorf("got %s", r.stdout)
	}
	if r := f.run("exec", "--session", session, "--user", "local", "-e", "return await fs.readFile('/workspace/out/a.txt')").want(0); r.stdout != "A\n" || r.stderr != "" {
		t.Errorf("got %s and %s", r.stdout, r.stderr)
	}
	f.run("exec", "--keep", "--user", "ann", "-e", code).want(0)
	if r := f.run("exec", "--session", "s", "--user", "ann", "-e", code).want(0); !strings.Contains(r.stderr, "harness files get s b0 --user ann") {
		t.Errorf("got %s", r.stderr)
	}
}

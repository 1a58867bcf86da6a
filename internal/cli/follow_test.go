package cli_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/cli"
	"mcp-code-exec-harness/internal/testing/fake"
	"mcp-code-exec-harness/internal/testing/misbehave"
)

// until returns a buffer that reports when its text matches a pattern.
func until(pattern string) *lockedBuffer {
	return &lockedBuffer{hit: make(chan struct{}), re: regexp.MustCompile(pattern)}
}

// background starts a command in this process, and returns a channel with its exit code.
func (f *fixture) background(stdout, stderr *lockedBuffer, args ...string) <-chan int {
	code := make(chan int, 1)
	go func() { code <- cli.Main(f.t.Context(), f.world(args, "", stdout, stderr)) }()
	return code
}

// listed waits until the list of tasks is not empty, and returns the id of the first task.
func (f *fixture) listed(t *testing.T) (id string) {
	t.Helper()
	eventually(t, "listed", func() bool {
		var page struct{ Tasks []struct{ ID string } }
		f.run("tasks", "list", "--json").want(0).value(&page)
		if len(page.Tasks) > 0 {
			id = page.Tasks[0].ID
		}
		return id != ""
	})
	return id
}

// TestFollowTask follows a task that another command works, and sees its first turn before the model has answered the second time.
func TestFollowTask(t *testing.T) {
	t.Parallel()
	f := setup(t)
	gate := make(chan struct{})
	f.modelled(fake.Replies(code("console.log('counting'); return 42"), fake.Reply{Text: "It is 42.", Wait: gate}))
	ran := f.background(until("x^"), until("x^"), "run", "How many?")
	id := f.listed(t)
	shown, answer := until("output: 42"), until("x^")
	followed := f.background(answer, shown, "tasks", "show", id, "--follow")
	<-shown.hit
	close(gate)
	if code := <-ran; code != 0 {
		t.Errorf("run ended with %d", code)
	}
	if code := <-followed; code != 0 || answer.String() != "It is 42.\n" {
		t.Errorf("exit code %d, answer %q", code, answer)
	}
	for _, want := range []string{"turn 1\n", "\n  counting\n", "turn 2\n", "Answered after 2 turns"} {
		if strings.Count(shown.String(), want) != 1 {
			t.Errorf("%q is not there once:\n%s", want, shown)
		}
	}
}

// TestFollowRun follows a run that another command executes, and sees its first line before the run ends.
func TestFollowRun(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.write("harness.yaml", "# the data is here\n")
	ran := f.background(until("x^"), until("x^"), "exec", "--session", "s", "-e",
		"await fs.writeFile('/workspace/begun', ''); console.log('begun'); for (;;) { try { return await fs.readFile('/workspace/go') } catch { await utils.sleep(20) } }")
	eventually(t, "listed", func() bool { return strings.Contains(f.run("runs", "list").want(0).stdout, "running") })
	shown := until("(?m)^  begun$")
	followed := f.background(shown, until("x^"), "runs", "show", "run_", "--follow")
	<-shown.hit
	files, err := filepath.Glob(filepath.Join(f.dir, "data", "workspace", "*", "*", "begun"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(files[0]), "go"), []byte("gone"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code := <-ran; code != 0 {
		t.Errorf("exec ended with %d", code)
	}
	if code := <-followed; code != 0 || !strings.Contains(shown.String(), `output: "gone"`) {
		t.Errorf("exit code %d:\n%s", code, shown)
	}
}

// TestDoctorDoesNotWait checks that doctor prints its first findings while a server is starting that never answers.
func TestDoctorDoesNotWait(t *testing.T) {
	t.Parallel()
	f := setup(t)
	args := []string{"servers", "add", "slow"}
	for key, value := range misbehave.Env(misbehave.Hangs, filepath.Join(f.dir, "pids")) {
		args = append(args, "-e", key+"="+value)
	}
	f.run(append(args, "--", self(t))...).want(0)
	f.write("harness.yaml", strings.Replace(f.read("harness.yaml"), "  slow:\n", "  slow:\n    startupTimeout: 10s\n", 1))
	shown := until("(?m)^ok +configuration ")
	code := f.background(shown, until("x^"), "doctor")
	<-shown.hit
	if strings.Contains(shown.String(), "server slow") {
		t.Errorf("doctor has waited for the server:\n%s", shown)
	}
	if code := <-code; code != 3 || !strings.Contains(shown.String(), "server slow") {
		t.Errorf("exit code %d:\n%s", code, shown)
	}
}

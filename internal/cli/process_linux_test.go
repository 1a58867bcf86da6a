package cli_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"mcp-code-exec-harness/internal/testing/misbehave"
)

// proc is a process. Its start time distinguishes it from a later process with the same id.
type proc struct {
	pid     int
	started string
	name    string
}

// stat reads the name, state, parent and start time of a process from /proc.
func stat(pid int) (name, state string, parent int, started string, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return
	}
	// The format is: pid (name) state ppid … The name may contain any character. The start time is field 22.
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	fields := strings.Fields(string(text[end+1:]))
	parent, err = strconv.Atoi(fields[1])
	return string(text[open+1 : end]), fields[0], parent, fields[19], err == nil
}

// alive reports whether the process still runs. A zombie does not run.
func (p proc) alive() bool {
	_, state, _, started, ok := stat(p.pid)
	return ok && state != "Z" && state != "X" && started == p.started
}

// descendants returns the children of a process and their descendants.
func descendants(t testing.TB, pid int) []proc {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	children := map[int][]proc{}
	for _, e := range entries {
		n, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if name, _, parent, started, ok := stat(n); ok {
			children[parent] = append(children[parent], proc{n, started, name})
		}
	}
	var all []proc
	for next := children[pid]; len(next) > 0; next = next[1:] {
		all = append(all, next[0])
		next = append(next, children[next[0].pid]...)
	}
	return all
}

func allGone(t testing.TB, procs []proc) {
	t.Helper()
	for _, p := range procs {
		eventually(t, fmt.Sprintf("gone: process %d (%s)", p.pid, p.name), func() bool { return !p.alive() })
	}
}

// addBad configures a server that misbehaves in the given way.
func (f *fixture) addBad(kind string) {
	f.t.Helper()
	args := []string{"servers", "add", "bad"}
	for key, value := range misbehave.Env(kind, filepath.Join(f.dir, "pids")) {
		args = append(args, "-e", key+"="+value)
	}
	f.run(append(args, "--", self(f.t))...).want(0)
}

// running is a harness exec in the background whose program has begun.
type running struct {
	*exec.Cmd
	t              testing.TB
	stdout, stderr bytes.Buffer
	children       []proc
}

// start runs a program after a first statement that writes /workspace/begun, and waits until the harness has at least the given number of descendants.
func (f *fixture) start(children int, code string, args ...string) *running {
	f.t.Helper()
	args = append([]string{"exec", "--session", "s", "-e", "await fs.writeFile('/workspace/begun', ''); " + code}, args...)
	r := &running{Cmd: f.process(args...), t: f.t}
	r.Stdout, r.Stderr = &r.stdout, &r.stderr
	if err := r.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = r.Process.Kill() })
	eventually(f.t, "begun", func() bool {
		found, _ := filepath.Glob(filepath.Join(f.dir, "data", "workspace", "*", "*", "begun"))
		return len(found) > 0
	})
	eventually(f.t, fmt.Sprintf("started: %d children", children), func() bool {
		r.children = descendants(f.t, r.Process.Pid)
		return len(r.children) >= children
	})
	return r
}

func (r *running) signal(s os.Signal) {
	r.t.Helper()
	if err := r.Process.Signal(s); err != nil {
		r.t.Fatal(err)
	}
}

// wait waits until the process ends, and returns its exit code.
func (r *running) wait() int {
	r.t.Helper()
	timer := time.AfterFunc(patience, func() { _ = r.Process.Kill() })
	defer timer.Stop()
	err := r.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		r.t.Fatal(err)
	}
	return r.ProcessState.ExitCode()
}

// TestInterrupt interrupts programs that wait, that compute, and that compute in a native function, where the engine cannot be interrupted.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, code string
		signal     os.Signal
		exit       int
	}{
		{"sleep, SIGINT", "await utils.sleep(60000)", os.Interrupt, 130},
		{"loop, SIGINT", "while (true) {}", os.Interrupt, 130},
		{"native loop, SIGINT", "new Array(1e9) + ''", os.Interrupt, 130},
		{"call, SIGTERM", "await callMCPTool('bad__hang', {})", syscall.SIGTERM, 143},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			f.write("harness.yaml", "# state lives beside it\n")
			f.addBad(misbehave.Normal)
			r := f.start(1, c.code, "--json")
			r.signal(c.signal)
			if code := r.wait(); code != c.exit {
				t.Errorf("exit code %d, want %d\n%s", code, c.exit, &r.stderr)
			}
			var o outcome
			if err := json.Unmarshal(r.stdout.Bytes(), &o); err != nil || o.Status != "cancelled" || o.Error == nil || o.Error.Kind != "cancelled" {
				t.Errorf("standard output %s (%v)", &r.stdout, err)
			}
			allGone(t, r.children)
			var page struct{ Runs []struct{ ID, Status string } }
			f.run("runs", "list", "--json").want(0).value(&page)
			if len(page.Runs) != 1 || page.Runs[0].Status != "cancelled" || page.Runs[0].ID != o.RunID {
				t.Errorf("the journal has %+v", page.Runs)
			}
		})
	}
}

// TestSecondSignal interrupts twice while a server refuses to end. The second signal ends everything at once.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.write("harness.yaml", "# state lives beside it\n")
	f.addBad(misbehave.Grandchild)
	r := f.start(4, "await callMCPTool('bad__hang', {})")
	// For comparison, this harness gets only one signal, and gets it first. It waits for its server to end.
	g := setup(t)
	g.write("harness.yaml", "# state lives beside it\n")
	g.addBad(misbehave.Grandchild)
	polite := g.start(4, "await callMCPTool('bad__hang', {})")
	if err := polite.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	ended := make(chan int, 1)
	go func() { ended <- polite.wait() }()
	done := make(chan struct{})
	go func() { // ends with the process
		defer close(done)
		for r.Process.Signal(os.Interrupt) == nil {
			time.Sleep(time.Millisecond)
		}
	}()
	if code := r.wait(); code != 130 {
		t.Errorf("exit code %d\n%s", code, &r.stderr)
	}
	<-done
	select {
	case code := <-ended:
		t.Errorf("the second signal took as long as a polite end, with code %d", code)
	default:
		<-ended
	}
	allGone(t, r.children)
}

// TestKilled kills the harness during a run with servers, one of which has a child that ignores requests to end. No worker, supervisor, server or child stays
// alive.
func TestKilled(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.write("harness.yaml", "# state lives beside it\n")
	f.addDemo("database", "mailer")
	f.addBad(misbehave.Escapee)
	// The processes are: a worker, three servers, three supervisors, and the child of a server.
	r := f.start(8, "await Promise.all([list_mcp_tools(), callMCPTool('database__list_tables'), callMCPTool('mailer__list_outbox')]);"+
		"await callMCPTool('bad__hang', {})")
	r.signal(os.Kill)
	if code := r.wait(); code != -1 {
		t.Errorf("exit code %d\n%s", code, &r.stderr)
	}
	allGone(t, r.children)
	// The records of the run are stored, and the run is not marked as ended.
	var page struct{ Runs []struct{ ID, Status string } }
	f.run("runs", "list", "--json").want(0).value(&page)
	if len(page.Runs) != 1 || page.Runs[0].Status != "running" {
		t.Errorf("the journal has %+v", page.Runs)
	}
}

// TestFullDisk runs programs on a full disk. The error says that the disk is full, and earlier runs are intact.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	f := setup(t)
	disk := filepath.Join(f.dir, "disk")
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=1536k"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("mount a small tmpfs: %v", err)
		}
		t.Skipf("mounting a small tmpfs failed (%v): run this test as root with CAP_SYS_ADMIN, for example with sudo", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	f.write("harness.yaml", "store: {url: 'sqlite:disk/h.db'}\nskills: {dir: disk/skills}\n")
	var first outcome
	f.run("exec", "--json", "-e", "await fs.writeFile('/skills/keep.js', 'exports.a = 1'); return 1").want(0).value(&first)
	if err := os.WriteFile(filepath.Join(disk, "filler"), make([]byte, 2<<20), 0o600); err == nil {
		t.Fatal("the disk is not full")
	}
	r := f.run("exec", "-e", "return (await fs.readFile('/skills/keep.js')) + 'x'.repeat(500000)")
	if r.code != 1 && r.code != 3 || r.stdout != "" || !strings.Contains(r.stderr, "disk") || !strings.Contains(r.stderr, "h.db") {
		t.Errorf("exit code %d, stdout %.100q, stderr %s", r.code, r.stdout, r.stderr)
	}
	var value json.RawMessage
	f.run("exec", "--json", "-e", "return 'x'.repeat(500000)").value(&value)
	if err := os.Remove(filepath.Join(disk, "filler")); err != nil {
		t.Fatal(err)
	}
	f.run("runs", "replay", first.RunID).want(0)
	f.run("exec", "-e", "return require('/skills/keep.js').a").want(0)
}

// terminal runs a command whose standard error is a terminal, and returns what the terminal shows.
func (f *fixture) terminal(args ...string) string {
	f.t.Helper()
	return f.typed("", args...)
}

// typed does the same as terminal. If text is not empty, standard input and output are the terminal, too, and text is typed there.
func (f *fixture) typed(text string, args ...string) string {
	f.t.Helper()
	master, slave, err := pty.Open()
	if err != nil {
		f.t.Fatal(err)
	}
	defer master.Close()
	cmd := f.process(args...)
	cmd.Stderr = slave
	if text != "" {
		cmd.Stdin, cmd.Stdout = slave, slave
		if _, err := io.WriteString(master, text); err != nil {
			f.t.Fatal(err)
		}
	}
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	slave.Close()
	var shown bytes.Buffer
	_, _ = io.Copy(&shown, master) // ends with EIO when the last process that has the terminal open ends
	if err := cmd.Wait(); err != nil {
		f.t.Fatalf("%v\n%s", err, &shown)
	}
	return strings.ReplaceAll(shown.String(), "\r\n", "\n")
}

// TestTerminalApproval checks that a command at a terminal asks about each call.
func TestTerminalApproval(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.asking()
	const loop = `for (let i = 0; i < 4; i++) try { await tools.mailer.send({to: 'ann@example.com', subject: 's' + i, body: 'x'}) } catch (e) { console.log(e.name) }`
	shown := f.typed("what\ny\nn\na\n", "exec", "-e", "console.log('begins');"+loop)
	if n := f.mails(); n != 3 || strings.Count(shown, "Approve?") != 4 || strings.Count(shown, "begins") != 1 || strings.Count(shown, "DeniedError") != 1 {
		t.Errorf("%d mails: %s", n, shown)
	}
}

// TestTerminalDemo checks that the demo at a terminal asks before it sends the mail.
func TestTerminalDemo(t *testing.T) {
	t.Parallel()
	for answer, mails := range map[string]int{"what\ny\n": 1, "n\n": 0} {
		f := setup(t)
		shown := f.typed(answer, "demo", "--recorded", "--keep", "kept")
		sent, _ := filepath.Glob(filepath.Join(f.dir, "kept", "servers", "outbox", "*.eml"))
		if len(sent) != mails || strings.Count(shown, "Send the mail?") != strings.Count(answer, "\n") {
			t.Errorf("%q: %d mails: %s", answer, len(sent), shown)
		}
	}
}

// progressLine matches progress: a line that was overwritten, or a line of plain output.
var progressLine = regexp.MustCompile(`(?:\x1b\[34m)?[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏][^\r\n]*\r\x1b\[J|(?m)^still .*\n`)

// TestTerminal checks colours and progress on a terminal, and that programs cannot control it.
func TestTerminal(t *testing.T) {
	t.Parallel()
	f := setup(t)
	const noisy = "console.log('plain'); console.warn('careful'); console.error('bad \\x1b[2J\\u202e'); return 1"
	lines := func(shown string) string { return progressLine.ReplaceAllString(shown, "") } // on a slow machine, progress is shown
	if got, want := lines(f.terminal("exec", "-e", noisy)), "plain\n\x1b[33mcareful\x1b[0m\n\x1b[31mbad \\x1b[2J\\u202e\x1b[0m\n"; got != want {
		t.Errorf("shown %q, want %q", got, want)
	}
	const slow = "console.log('before'); await utils.sleep(1500); console.log('after'); return 1"
	got := f.terminal("exec", "-e", strings.Replace(slow, "1500", "6000", 1)) // on a busy machine, progress is shown late
	if !strings.Contains(got, "the program waits for a timer (") || lines(got) != "before\nafter\n" {
		t.Errorf("shown %q", got)
	}
	f.environ = append(f.environ, "NO_COLOR=1")
	if got, want := lines(f.terminal("exec", "-e", noisy)), "plain\ncareful\nbad \\x1b[2J\\u202e\n"; got != want {
		t.Errorf("with NO_COLOR: shown %q, want %q", got, want)
	}
	f.environ = append(f.environ, "TERM=dumb")
	if got, want := lines(f.terminal("exec", "-e", slow)), "before\nafter\n"; got != want {
		t.Errorf("on a dumb terminal: shown %q, want %q", got, want)
	}
	if r := f.run("exec", "-e", slow).want(0); r.stderr != "before\nafter\n" {
		t.Errorf("without a terminal: shown %q", r.stderr)
	}
}

// TestInterruptedStart interrupts commands that wait for a server that never answers, or for a program on standard input.
func TestInterruptedStart(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.addBad(misbehave.Hangs)
	for _, c := range []struct {
		args     []string
		children int
	}{{[]string{"tools", "list", "--json"}, 2}, {[]string{"servers", "test", "--json"}, 2}, {[]string{"doctor", "--json"}, 2}, {[]string{"exec", "-", "--json"}, 0}} {
		r := &running{Cmd: f.process(c.args...), t: t}
		r.Stdout, r.Stderr = &r.stdout, &r.stderr
		stdin, feed, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		r.Stdin = stdin
		if _, err := feed.WriteString("return 1 // and more to come"); err != nil {
			t.Fatal(err)
		}
		if err := r.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "under way", func() bool {
			r.children = descendants(t, r.Process.Pid)
			unread, err := unix.IoctlGetInt(int(feed.Fd()), unix.TIOCINQ) // TIOCINQ is also called FIONREAD
			return len(r.children) >= c.children && (c.children > 0 || err == nil && unread == 0)
		})
		r.signal(os.Interrupt)
		var value struct{ Error struct{ Message string } }
		if code := r.wait(); code != 130 || json.Unmarshal(r.stdout.Bytes(), &value) != nil || value.Error.Message != "stopped: interrupt" {
			t.Errorf("%v: exit code %d\n%s\n%s", c.args, code, &r.stdout, &r.stderr)
		}
		stdin.Close()
		feed.Close()
		allGone(t, r.children)
	}
}

//go:build unix

package mcpclient_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/mcpclient/supervisor"
	"mcp-code-exec-harness/internal/process"
	"mcp-code-exec-harness/internal/testing/misbehave"
)

// pids reads n process ids from a file. It waits until the file has them.
func pids(t *testing.T, file string, n int) []int {
	t.Helper()
	var all []int
	eventually(t, strconv.Itoa(n)+" processes note their ids", func() bool {
		data, _ := os.ReadFile(file) // the file may not exist yet
		all = all[:0]
		for field := range strings.FieldsSeq(string(data)) {
			pid, err := strconv.Atoi(field)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, pid)
		}
		return len(all) >= n
	})
	return all
}

// alive reports whether a process runs. A dead process that init has not collected yet does not count.
func alive(pid int) bool {
	if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) {
		return false
	}
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return runtime.GOOS != "linux" // systems other than Linux have no /proc
	}
	_, rest, _ := strings.Cut(string(data[strings.LastIndexByte(string(data), ')'):]), " ")
	return !strings.HasPrefix(rest, "Z")
}

func noneAlive(t *testing.T, all []int) {
	t.Helper()
	for _, pid := range all {
		if alive(pid) {
			t.Errorf("process %d is alive", pid)
		}
	}
}

// TestCloseEndsTheWholeGroup: when Close returns, servers with children that ignore signals are gone with these children.
func TestCloseEndsTheWholeGroup(t *testing.T) {
	t.Parallel()
	for kind, n := range map[string]int{misbehave.Grandchild: 1, misbehave.Orphan: 1, misbehave.Escapee: 1} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			if kind == misbehave.Escapee && runtime.GOOS != "linux" {
				t.Skip("only Linux has subreapers, which find a process that left its group; run this test on Linux")
			}
			cfg := bad(t, kind)
			m := setup(t, mcpclient.Options{}, cfg)
			m.Start(ctxFor(t))
			all := append(pids(t, cfg.Env["MISBEHAVE_PIDS"], n), status(t, m, "bad").PID)
			begin := time.Now()
			if err := m.Close(ctxFor(t)); err != nil {
				t.Fatal(err)
			}
			noneAlive(t, all)
			if took := time.Since(begin); took > patience {
				t.Errorf("it took %s", took)
			}
		})
	}
}

// TestRemoveEndsTheWholeGroup: when Remove returns, no process of the server is left, even if the server has just died by itself.
func TestRemoveEndsTheWholeGroup(t *testing.T) {
	t.Parallel()
	for name, kill := range map[string]bool{"alive": false, "dead": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := bad(t, misbehave.Grandchild)
			good := bad(t, misbehave.Normal)
			good.Name = "good"
			m := setup(t, mcpclient.Options{}, cfg, good)
			m.Start(ctxFor(t))
			server := status(t, m, "bad").PID
			all := append(pids(t, cfg.Env["MISBEHAVE_PIDS"], 1), server)
			if kill {
				if err := syscall.Kill(server, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
			if err := m.Remove(ctxFor(t), "bad"); err != nil {
				t.Fatal(err)
			}
			noneAlive(t, all)
			if _, err := m.Call(ctxFor(t), "good", "echo", nil, mcpclient.CallOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestCloseWithoutTimeKillsAtOnce makes several tries, because on a busy machine one try may take as long as the grace periods.
func TestCloseWithoutTimeKillsAtOnce(t *testing.T) {
	t.Parallel()
	for range 5 {
		if closesSooner(t) {
			return
		}
	}
	t.Error("it took as long as a polite end, each time")
}

// closesSooner closes one manager with an ended context and another one with time, and reports whether the first close is done before the second.
func closesSooner(t *testing.T) bool {
	t.Helper()
	cfg := bad(t, misbehave.Grandchild)
	m := setup(t, mcpclient.Options{}, cfg)
	m.Start(ctxFor(t))
	all := append(pids(t, cfg.Env["MISBEHAVE_PIDS"], 1), status(t, m, "bad").PID)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	polite := setup(t, mcpclient.Options{}, bad(t, misbehave.Grandchild))
	polite.Start(ctxFor(t))
	ended := make(chan struct{})
	go func() { // takes the grace periods
		defer close(ended)
		if err := polite.Close(ctxFor(t)); err != nil {
			t.Error(err)
		}
	}()
	if err := m.Close(ctx); err != nil {
		t.Fatal(err)
	}
	noneAlive(t, all)
	select {
	case <-ended:
		return false
	default:
	}
	<-ended
	return true
}

// TestKilledServer: if an outsider kills a server, its children end too, and other servers are not affected.
func TestKilledServer(t *testing.T) {
	t.Parallel()
	cfg := bad(t, misbehave.Orphan)
	good := bad(t, misbehave.Normal)
	good.Name = "good"
	opts := mcpclient.Options{}
	opts.SetBackoff(time.Millisecond, time.Millisecond)
	m := setup(t, opts, cfg, good)
	m.Start(ctxFor(t))
	child := pids(t, cfg.Env["MISBEHAVE_PIDS"], 1)
	server := status(t, m, "bad").PID
	hanging := make(chan error, 1)
	go func() {
		_, err := m.Call(t.Context(), "bad", "hang", nil, mcpclient.CallOptions{})
		hanging <- err
	}()
	awaitReceived(t, m, "hang ")
	if err := syscall.Kill(server, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	err := <-hanging
	wantIn(t, "error", callError(t, err, mcpclient.KindConnectionLost, true).Error(), "ended by signal killed")
	eventually(t, "its child is dead", func() bool { return !alive(child[0]) })
	if _, err := m.Call(ctxFor(t), "good", "echo", nil, mcpclient.CallOptions{}); err != nil {
		t.Error(err)
	}
	eventually(t, "the server is back", func() bool {
		_, err := call(t, m, "echo", `{}`)
		return err == nil
	})
}

// TestKilledSupervisor: if a supervisor is killed, its server does not survive.
func TestKilledSupervisor(t *testing.T) {
	t.Parallel()
	cfg := bad(t, misbehave.Grandchild)
	m := setup(t, mcpclient.Options{}, cfg)
	m.Start(ctxFor(t))
	all := append(pids(t, cfg.Env["MISBEHAVE_PIDS"], 1), status(t, m, "bad").PID)
	supervisor := parent(t, all[len(all)-1])
	if err := syscall.Kill(supervisor, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all are dead", func() bool { return !slices.ContainsFunc(all, alive) })
	eventually(t, "the loss is noted", func() bool { return status(t, m, "bad").State == mcpclient.StateBackoff })
}

// holder starts this binary as a program that holds servers with all kinds of children, and returns the process ids of the servers and of their children.
func holder(t *testing.T) (cmd *exec.Cmd, servers, children []int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "pids")
	cmd = exec.Command(self)
	cmd.Env = append(os.Environ(), holdVar+"="+file)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // the program is already dead if the test reached its end
		_, _ = io.Copy(io.Discard, stdout)
		if err := cmd.Wait(); err == nil {
			t.Error("it was not killed")
		}
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	for field := range strings.FieldsSeq(line) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		servers = append(servers, pid)
	}
	children = pids(t, file, 3) // the parents write their ids only after stdin has ended
	t.Cleanup(func() {
		for _, pid := range slices.Concat(servers, children) {
			if t.Failed() {
				_ = syscall.Kill(pid, syscall.SIGKILL) // kills the process that a failed test leaves behind
			}
		}
	})
	for _, pid := range slices.Concat(servers, children) {
		if !alive(pid) {
			t.Errorf("process %d died early", pid)
		}
	}
	return cmd, servers, children
}

// TestKilledHarness: after a process that holds a manager got SIGKILL, no server and no descendant of a server is left.
func TestKilledHarness(t *testing.T) {
	t.Parallel()
	cmd, servers, children := holder(t)
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	all := slices.Concat(servers, children)
	if runtime.GOOS != "linux" {
		all = slices.DeleteFunc(all, func(pid int) bool {
			group, err := syscall.Getpgid(pid)
			return err == nil && group == pid && slices.Contains(children, pid) // only Linux finds processes that left the group
		})
	}
	eventually(t, "all are dead", func() bool { return !slices.ContainsFunc(all, alive) })
}

// TestKilledHarnessAndSupervisors: on Linux the servers end even if both the harness and the supervisors are killed.
func TestKilledHarnessAndSupervisors(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has PDEATHSIG; run this test on Linux")
	}
	cmd, servers, children := holder(t)
	supervisors := make([]int, len(servers))
	for i, pid := range servers {
		supervisors[i] = parent(t, pid)
	}
	signal := func(sig syscall.Signal) {
		for _, pid := range supervisors {
			if err := syscall.Kill(pid, sig); err != nil {
				t.Fatal(err)
			}
		}
	}
	signal(syscall.SIGSTOP) // stopped supervisors end nothing before they are killed
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	signal(syscall.SIGKILL)
	eventually(t, "the servers are dead", func() bool { return !slices.ContainsFunc(servers, alive) })
	for _, pid := range children {
		_ = syscall.Kill(pid, syscall.SIGKILL) // the documented exception: a grandchild may survive
	}
}

func parent(t *testing.T, pid int) int {
	t.Helper()
	out, err := exec.Command("ps", "-o", "ppid=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		t.Fatal(err)
	}
	ppid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil || ppid == os.Getpid() || ppid <= 1 {
		t.Fatalf("process %d has no supervisor but %d, %v", pid, ppid, err)
	}
	return ppid
}

func TestSuperviseRefusesToBeRunByHand(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(self, supervisor.Command, "--", "true").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 2 {
		t.Errorf("got %v", err)
	}
	wantIn(t, "message", string(out), "is started by the harness itself")
}

// TestStartThatHangs: a start that takes too long is killed, although the server's process id is not known yet.
func TestStartThatHangs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	deaf, never := filepath.Join(dir, "deaf"), filepath.Join(dir, "never")
	script := "#!/bin/sh\necho started >" + filepath.Join(dir, "started") + "\nread line <" + never + "\n" // no process writes to the pipe
	if err := errors.Join(syscall.Mkfifo(never, 0o600), os.WriteFile(deaf, []byte(script), 0o700)); err != nil {
		t.Fatal(err)
	}
	m := setup(t, mcpclient.Options{Supervisor: process.SelfAt(deaf)}, mcpclient.Config{Name: "bad", Command: "/bin/sh", StartupTimeout: time.Second})
	m.Start(ctxFor(t))
	if _, err := os.Stat(filepath.Join(dir, "started")); err != nil {
		t.Error(err)
	}
	if s := status(t, m, "bad"); s.State == mcpclient.StateReady {
		t.Errorf("the server is %+v", s)
	}
	if runtime.GOOS != "linux" {
		return
	}
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range commands {
		if text, _ := os.ReadFile(path); strings.Contains(string(text), deaf) {
			t.Errorf("%s is left: %q", path, text)
		}
	}
}

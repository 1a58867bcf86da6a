package process

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/jail"
	osprocess "mcp-code-exec-harness/internal/process"
	"mcp-code-exec-harness/internal/sandbox"
	"mcp-code-exec-harness/internal/sandbox/node"
	"mcp-code-exec-harness/internal/testing/child"
)

// bareRole makes the test binary execute bare, in a process that cannot create user namespaces. Its arguments are the directory and the walls that may be
// missing.
const bareRole = "__bare"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case jail.LauncherCommand:
			os.Exit(jail.LauncherMain())
		case jail.ExecCommand:
			os.Exit(jail.ExecMain(os.Args[2:], os.Stderr))
		case bareRole:
			os.Exit(bare(os.Args[2], os.Args[3:]))
		}
	}
	os.Exit(m.Run())
}

// setup opens the tier. If script is not nil, it replaces the runner.
func setup(t testing.TB, script []byte) *Sandbox {
	t.Helper()
	if _, err := node.Find(t.Context(), ""); errors.Is(err, node.ErrNone) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if script == nil {
		var err error
		if script, err = node.Script(); err != nil {
			t.Fatal(err)
		}
	}
	s, err := open(t.Context(), Options{Program: osprocess.SelfAt(child.Executable(t)), Dir: t.TempDir()}, script)
	if errors.Is(err, jail.ErrWalls) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func start(t testing.TB, s *Sandbox) sandbox.Runner {
	t.Helper()
	r, err := s.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(r) })
	return r
}

// run executes a program and returns its done frame, or nil if the process ended without one.
func run(t testing.TB, r sandbox.Runner, code string) *frame.Frame {
	t.Helper()
	f, err := execute(r, code)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func execute(r sandbox.Runner, code string) (*frame.Frame, error) {
	err := r.Send(&frame.Frame{T: frame.Start, Run: "run_1", Program: &frame.Program{Code: code}, Seed: strings.Repeat("00", 32)})
	return done(r), err
}

func done(r sandbox.Runner) *frame.Frame {
	for f := range r.Frames() {
		if f.T == frame.Done {
			return f
		}
	}
	return nil
}

func TestRun(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	f := run(t, start(t, s), `(async () => [6 * 7, 'ü', typeof process])`)
	if f == nil || string(f.Value) != `[42,"ü","undefined"]` {
		t.Errorf("ended with %+v", f)
	}
}

// The first runner makes a code cache, and later runners load it. A damaged code cache is made again.
func TestCodeCache(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	caches := func() []string {
		t.Helper()
		found, err := filepath.Glob(filepath.Join(s.opt.Dir, "code-*"))
		if err != nil || len(found) != 1 {
			t.Fatalf("code caches: %v, %v", found, err)
		}
		return found
	}
	first := caches()
	script, err := node.Script()
	if err != nil {
		t.Fatal(err)
	}
	for _, damage := range []bool{false, true} {
		if damage {
			data, err := os.ReadFile(first[0])
			if err != nil {
				t.Fatal(err)
			}
			data[len(data)/2] ^= 1
			if err := os.WriteFile(first[0], data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		made := 0
		for range 2 {
			again, err := open(t.Context(), s.opt, script)
			if err != nil {
				t.Fatal(err)
			}
			defer again.Close()
			r, cache, err := again.start(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if made += len(cache); made > 0 {
				t.Errorf("damaged: %v, a runner made a cache although there is one", damage)
			}
			if f := run(t, r, `(async () => 'ü')`); f == nil || string(f.Value) != `"ü"` {
				t.Errorf("damaged: %v, ended with %+v", damage, f)
			}
			end(r)
		}
		if !damage && !slices.Equal(caches(), first) {
			t.Errorf("caches %v, then %v", first, caches())
		}
	}
}

// A script that runs directly in Node.js, without the guest runtime, reaches nothing outside.
func TestEscaped(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile(filepath.Join("testdata", "escaped.cjs"))
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, setup(t, script))
	f := done(r)
	if f == nil {
		t.Fatal(r.Err())
	}
	if string(f.Value) != "{}" {
		t.Errorf("it got %s", f.Value)
	}
}

// Outside of the jail, nearly all attempts of the same script succeed, so the attempts are real.
func TestEscapedWithoutWalls(t *testing.T) {
	t.Parallel()
	machine, err := node.Find(t.Context(), "")
	if err != nil {
		t.Skip(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, machine.Path, filepath.Join("testdata", "escaped.cjs"))
	cmd.Dir = t.TempDir()
	script, err := os.ReadFile(filepath.Join("testdata", "escaped.cjs"))
	if err != nil {
		t.Fatal(err)
	}
	// Only the harmless attempts are made, because this machine must not be changed.
	text, harmless := string(script), []string{"/x", "append", "make a", "remove", "change", "signal", "become", "priority", "fork"}
	var lines []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "  later('connect") {
			continue
		}
		if !strings.HasPrefix(line, "attempt('") || !slices.ContainsFunc(harmless, func(word string) bool { return strings.Contains(line, word) }) {
			lines = append(lines, line)
		}
	}
	text = strings.Join(lines, "")
	text = strings.ReplaceAll(text, "['/x', '/tmp/x', '/runner.cjs', '/node', '/dev/shm/x', '/proc/x']", "[]")
	text = strings.ReplaceAll(text, "[-1, 1 << 20, process.ppid]", "[]")
	text = strings.ReplaceAll(text, "'/dev/mem', '/dev/kmsg', ", "")
	text = strings.ReplaceAll(text, "process.stdin.resume()", "process.exit()")
	path := filepath.Join(cmd.Dir, "harmless.cjs")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd.Args[1] = path
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var f frame.Frame
	if err := json.Unmarshal(bytes.Split(out, []byte("\n"))[1], &f); err != nil {
		t.Fatal(err)
	}
	for _, attempt := range []string{"read /etc/passwd", "read /proc/self/environ", "list /", "execute /bin/sh -c,id", "see the environment", "listen", "look a name up"} {
		if !strings.Contains(string(f.Value), `"`+attempt+`"`) {
			t.Errorf("without walls it did not %s: %s", attempt, f.Value)
		}
	}
}

// TestWalls examines a runner from outside.
func TestWalls(t *testing.T) {
	t.Parallel()
	r := start(t, setup(t, nil))
	read := func(name string) string {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", r.Pid(), name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	status := read("status")
	for _, want := range []string{"NoNewPrivs:\t1", "Seccomp:\t2", "CapEff:\t0000000000000000", "CapPrm:\t0000000000000000", "NSpid:\t"} {
		if !strings.Contains(status, want) {
			t.Errorf("its status has no %q:\n%s", want, status)
		}
	}
	for _, space := range []string{"user", "pid", "net", "mnt", "ipc", "uts"} {
		theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", r.Pid(), space))
		ours, _ := os.Readlink("/proc/self/ns/" + space)
		if err != nil || theirs == ours {
			t.Errorf("namespace %s: %s, %v", space, theirs, err)
		}
	}
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", r.Pid()))
	if err != nil || len(files) < 3 {
		t.Fatalf("open files: %v, %v", files, err)
	}
	for _, path := range files {
		if file, _ := os.Readlink(path); !strings.HasPrefix(file, "pipe:") && !strings.HasPrefix(file, "anon_inode:") {
			t.Errorf("it has %s open", file)
		}
	}
	for line := range strings.Lines(read("mountinfo")) {
		if fields := strings.Fields(line); len(fields) < 6 || !strings.Contains(fields[5], "ro") || !strings.Contains(fields[5], "nosuid") || !strings.Contains(fields[5], "nodev") {
			t.Errorf("a mount of it: %s", line)
		}
	}
	if root, err := os.ReadDir(fmt.Sprintf("/proc/%d/root", r.Pid())); err != nil || len(root) > 5 {
		t.Errorf("its root has %v, %v", root, err)
	}
	if limits := read("limits"); !strings.Contains(limits, "Max file size             0 ") || !strings.Contains(limits, "Max core file size        0 ") {
		t.Errorf("its limits are\n%s", limits)
	}
}

// A program that uses more memory than its limit ends its own process and no other.
func TestMemory(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	bystander := start(t, s)
	for name, code := range map[string]string{
		"objects": `(async () => { const all = []; for (;;) all.push(new Array(1000).fill(1)) })`,
		"buffers": `(async () => { const all = []; for (;;) all.push(new Uint8Array(1 << 20).fill(1)) })`,
		"strings": `(async () => { const all = []; for (let i = 0; ; i++) all.push(('s' + i).repeat(1000)) })`,
	} {
		r := start(t, s)
		if f := run(t, r, code); f == nil {
			if !errors.Is(r.Err(), sandbox.ErrMemory) {
				t.Errorf("%s: %v", name, r.Err())
			}
		} else if f.Error == nil {
			t.Errorf("%s: ended with %s", name, f.Value)
		}
	}
	if f := run(t, bystander, `(async () => 1)`); f == nil || string(f.Value) != "1" {
		t.Errorf("another runner ended with %+v", f)
	}
}

// The tier does not open on a machine without user namespaces, unless Without names the walls that need them.
func TestNoNamespaces(t *testing.T) {
	t.Parallel()
	setup(t, nil)
	open := func(without ...string) string {
		cmd := exec.Command(child.Executable(t), append([]string{bareRole, t.TempDir()}, without...)...)
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return string(out)
	}
	if said := open(); !strings.Contains(said, "walls are missing: empty root: ") || !strings.Contains(said, "namespaces: ") || !strings.Contains(said, "sandbox.process.without") {
		t.Errorf("without namespaces it said %s", said)
	}
	if said := open(jail.Namespaces, jail.Root, jail.User); !strings.HasPrefix(said, "3 [empty root namespaces") {
		t.Errorf("with namespaces named it said %s", said)
	}
}

// bare forbids namespaces and opens the tier. It prints the value of a program and the missing walls, or the error.
func bare(dir string, without []string) int {
	if err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0); err != nil {
		fmt.Println(err)
		return 1
	}
	ctx := context.Background()
	s, err := Open(ctx, Options{Program: osprocess.SelfAt(os.Args[0]), Dir: dir, Without: without})
	if err != nil {
		fmt.Println(err)
		return 0
	}
	defer s.Close()
	r, err := s.Start(ctx)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer end(r)
	f, err := execute(r, `(async () => 1 + 2)`)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	var missing []string
	for wall := range s.Missing() {
		missing = append(missing, wall)
	}
	slices.Sort(missing)
	fmt.Println(string(f.Value), missing)
	return 0
}

// BenchmarkStart measures the start of a runner, and that of the same Node.js without walls. harness bench --tier process measures both alternately.
func BenchmarkStart(b *testing.B) {
	s := setup(b, nil)
	bare, err := Open(b.Context(), Options{Program: osprocess.SelfAt(child.Executable(b)), Dir: s.opt.Dir, Bare: true})
	if err != nil {
		b.Fatal(err)
	}
	for name, s := range map[string]*Sandbox{"jail": s, "bare": bare} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				r, err := s.Start(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				end(r)
			}
		})
	}
	b.Run("run", func(b *testing.B) {
		var took time.Duration
		for b.Loop() {
			r := start(b, s)
			began := time.Now()
			run(b, r, `(async () => 1)`)
			took += time.Since(began)
			end(r)
		}
		b.ReportMetric(float64(took.Microseconds())/float64(b.N), "us/warm-run")
	})
}

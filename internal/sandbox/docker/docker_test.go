package docker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/sandbox"
	"mcp-code-exec-harness/internal/sandbox/node"
	"mcp-code-exec-harness/internal/testing/dockertest"
)

// childVariable makes this binary execute child, a process with containers. Its value is the directory.
const childVariable = "HARNESS_TEST_DOCKER_CHILD"

// testRuntime is the runtime to test; if empty, the engine's default.
var testRuntime = os.Getenv("HARNESS_TEST_DOCKER_RUNTIME")

func TestMain(m *testing.M) {
	if dir := os.Getenv(childVariable); dir != "" {
		child(dir)
	}
	os.Exit(m.Run())
}

func engine(t *testing.T) Engine {
	t.Helper()
	e := Engine{Host: dockertest.Host(t)}
	if _, err := Build(t.Context(), e, "", ""); err != nil {
		t.Fatal(err)
	}
	return e
}

func open(t *testing.T, dir string) *Sandbox {
	t.Helper()
	s, err := Open(t.Context(), Options{Engine: engine(t), Dir: dir, Runtime: testRuntime})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func start(t *testing.T, s *Sandbox) sandbox.Runner {
	t.Helper()
	r, err := s.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Kill)
	return r
}

// TestRun executes two programs, each in its own container.
func TestRun(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	if info := s.Info(); info.Tier != "docker" || !strings.HasPrefix(info.Engine, "node v") || info.Prelude == "" {
		t.Errorf("the tier is %+v", info)
	}
	if len(s.Missing()) > 0 {
		t.Errorf("missing are %v", s.Missing())
	}
	for range 2 {
		r := start(t, s)
		program := &frame.Program{Code: "(async () => 6 * 7)"}
		limits := &frame.Limits{Memory: 64 << 20, InFlight: 10, MaxValue: 1 << 20}
		if err := r.Send(&frame.Frame{T: frame.Start, Run: "r1", Now: 1, Seed: strings.Repeat("0", 64), Program: program, Limits: limits}); err != nil {
			t.Fatal(err)
		}
		f := <-r.Frames()
		if f == nil || f.T != frame.Done || string(f.Value) != "42" {
			t.Errorf("the program ended with %+v, %v", f, r.Err())
		}
	}
}

// native executes code in a container with everything that Node.js offers, like an escaped program, and returns the value of the code's async function.
func native(t *testing.T, s *Sandbox, code string) (sandbox.Runner, json.RawMessage) {
	t.Helper()
	r := begin(t, s, code)
	f, ok := <-r.Frames()
	if !ok {
		return r, nil
	}
	return r, f.Value
}

// begin starts a container that executes code.
func begin(t *testing.T, s *Sandbox, code string) sandbox.Runner {
	t.Helper()
	changed := &Sandbox{
		opt: s.opt, gvisor: s.gvisor, client: s.client, image: s.image, owner: s.owner, slots: s.slots, removing: s.removing, abandoned: s.abandoned,
	}
	changed.script = fmt.Appendf(nil, `const fs = require('fs');
const send = (f) => fs.writeSync(1, JSON.stringify(f) + '\n');
send({t: 'ready', engine: process.version, missing: JSON.parse(process.env.MISSING_WALLS)});
const tried = (f) => { try { return f(); } catch (e) { return e.code ?? e.message; } };
const failure = (emitter) => new Promise((resolve) => {
  emitter.on('error', (e) => resolve(e.code ?? e.message));
  for (const name of ['connect', 'listening', 'spawn']) emitter.on(name, () => resolve(name));
});
(async () => { %s })().then((value) => send({t: 'done', value: value ?? null}), (e) => send({t: 'done', value: e.code ?? e.message}));
setInterval(() => {}, 1000);`, code)
	t.Cleanup(changed.removals.Wait)
	return start(t, changed)
}

// TestWalls tries what an escaped program could do with everything that Node.js offers.
func TestWalls(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	// With gVisor, what seccomp refuses happens inside the container, which has its own loopback interface, and processes within its limits.
	cases := map[string]struct{ code, want, gvisor string }{
		"files of the machine": {`return tried(() => fs.readFileSync('/etc/shadow'))`, `"ENOENT"`, ""},
		"files":                {`return fs.readdirSync('/etc')`, `\[("[a-z.]+",?)*\]`, ""},
		"engine's socket":      {`return tried(() => fs.statSync('/var/run/docker.sock'))`, `"ENOENT"`, ""},
		"root":                 {`return tried(() => fs.writeFileSync('/file', ''))`, `"EROFS"`, `"EACCES"`},
		"node":                 {`return tried(() => fs.writeFileSync('/usr/bin/node', ''))`, `"(EROFS|EACCES)"`, ""},
		"user":                 {`return [process.getuid(), process.getgid(), process.getgroups(), tried(() => process.setuid(0))]`, `\[10001,10001,\[(10001)?\],"EPERM"\]`, ""},
		"processes":            {`return fs.readdirSync('/proc').filter((n) => /^\d+$/.test(n))`, `\["1"\]`, ""},
		"memory of the first":  {`return tried(() => fs.openSync('/proc/1/mem', 'r+'))`, `"(EACCES|EPERM)"|\d+`, ""},
		"environment": {
			`return Object.keys(process.env).sort()`,
			`\["HOME","HOSTNAME","LANG","LD_LIBRARY_PATH","MISSING_WALLS","NODE_EXTRA_CA_CERTS","NODE_OPTIONS","OPENSSL_CONF","PATH","TZ"\]`, "",
		},
		"new process": {`return require('child_process').spawnSync(process.execPath, ['-e', '0']).error?.code`, `"EPERM"`, `null`},
		"process":     {`return failure(require('child_process').spawn(process.execPath, ['-e', '0']))`, `"EPERM"`, `"spawn"`},
		"connect":     {`return failure(require('net').connect(80, '127.0.0.1'))`, `"EPERM"`, `"(ECONNREFUSED|ENETUNREACH)"`},
		"metadata":    {`return failure(require('net').connect(80, '169.254.169.254'))`, `"EPERM"`, `"ENETUNREACH"`},
		"listen":      {`return failure(require('net').createServer().listen(0, '127.0.0.1'))`, `"EPERM"`, `"(listening|EADDRNOTAVAIL)"`},
		"unix socket": {`return failure(require('net').createServer().listen('/tmp/s'))`, `"EPERM"`, `"listening"`},
		"datagram":    {`return failure(require('dgram').createSocket('udp4').bind(0))`, `"EPERM"`, `"listening"`},
		"names":       {`return require('dns').promises.lookup('example.com')`, `"EAI_AGAIN"|"ENOTFOUND"|"EPERM"`, ""},
		"size of /tmp": {
			`const chunk = Buffer.alloc(1 << 20); let n = 0; const f = fs.openSync('/tmp/f', 'w');
			return [tried(() => { for (;; n++) fs.writeSync(f, chunk); }), n]`, `\["ENOSPC",16\]`, "",
		},
		"files of /tmp": {
			`let n = 0; return [tried(() => { for (;; n++) fs.writeFileSync('/tmp/' + n, ''); }), n < 1024]`, `\["ENOSPC",true\]`, `|\["ENOSPC",.*`,
		},
		"programs of /tmp": {
			`const library = fs.readFileSync('/proc/self/maps', 'utf8').match(/\/\S+libgcc_s\S+/)[0];
			fs.writeFileSync('/tmp/f', fs.readFileSync(library), {mode: 0o755});
			try { process.dlopen({exports: {}}, '/tmp/f'); } catch (e) { return e.message; }`,
			`".*failed to map segment.*"`, "",
		},
		"open files":     {`let n = 0; return [tried(() => { for (;; n++) fs.openSync('/etc/passwd'); }), n < 256]`, `\["EMFILE",true\]`, ""},
		"devices":        {`return ['mem', 'kmsg', 'kvm', 'vsock', 'vda', 'fuse'].filter((n) => fs.existsSync('/dev/' + n))`, `\[\]`, `\["fuse"\]`},
		"kernel's knobs": {`return ['/proc/sys/kernel/hostname', '/proc/sysrq-trigger'].map((n) => tried(() => fs.writeFileSync(n, 'x')))`, `\[(,?"(EROFS|EACCES|ENOENT)"){2}\]`, ""},
		"privileges": {
			`return fs.readFileSync('/proc/self/status', 'utf8').match(/^(CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp):\t.*/gm).map((l) => parseInt(l.split('\t')[1], 16))`,
			`\[0,0,0,0,0,1,2\]`, `\[0,0,0,0,0,1,0\]`,
		},
	}
	alone := []string{"size of /tmp", "files of /tmp", "programs of /tmp", "open files"} // These use up what other cases need, so each runs in its own container.
	var together strings.Builder                                                         // The other cases run in one container.
	for name, c := range cases {
		if !slices.Contains(alone, name) {
			fmt.Fprintf(&together, "got[%q] = await (async () => { %s })().catch((e) => e.code ?? e.message) ?? null;\n", name, c.code)
		}
	}
	r, value := native(t, s, "const got = {};\n"+together.String()+"return got")
	var got map[string]json.RawMessage
	if err := json.Unmarshal(value, &got); err != nil {
		t.Fatalf("got %s, %v", value, errorOf(r, value))
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if s.gvisor && c.gvisor != "" {
				c.want = c.gvisor
			}
			r, value := r, got[name]
			if slices.Contains(alone, name) {
				r, value = native(t, s, c.code)
			}
			if !regexp.MustCompile("^(" + c.want + ")$").Match(value) {
				t.Errorf("got %s, %v, want %s", value, errorOf(r, value), c.want)
			}
		})
	}
}

// errorOf returns the reason why a runner ended without sending a value, or nil if it sent one.
func errorOf(r sandbox.Runner, value []byte) error {
	if value != nil {
		return nil
	}
	return r.Err()
}

// TestEnd checks the errors of containers whose processes end by themselves.
func TestEnd(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	for name, c := range map[string]struct {
		code   string
		memory bool
		text   string
	}{
		"exit":    {`process.exit(0)`, false, "exit status 0"},
		"abort":   {`process.abort()`, false, "exit status 1"},
		"throw":   {`setTimeout(() => { throw new Error('lost'); }, 0); await new Promise(() => {})`, false, "Error: lost"},
		"heap":    {`const all = []; for (;;) all.push(new Array(1e5).fill({}))`, true, ""},
		"buffers": {`const all = []; for (;;) all.push(Buffer.alloc(1 << 22, 1))`, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, value := native(t, s, c.code)
			if err := errorOf(r, value); errors.Is(err, sandbox.ErrMemory) != c.memory || err == nil || !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %s, %v", value, err)
			}
		})
	}
}

// containers lists the containers of a process.
func containers(t testing.TB, s *Sandbox, instance string) (ids []string) {
	t.Helper()
	list, err := s.client.ContainerList(t.Context(), client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("label", instanceLabel+"="+instance)})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list.Items {
		ids = append(ids, c.ID)
	}
	return ids
}

// TestClose checks that no containers are left: of runners that were killed, that ended by themselves or that were never used, and of starts that were
// cancelled.
func TestClose(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), Options{Engine: engine(t), Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	busy := begin(t, s, `for (;;);`)
	if n := len(containers(t, s, s.owner.name)); n != 2 {
		t.Errorf("there are %d containers, not the one that Open started, and another", n)
	}
	busy.Kill()
	if r, value := native(t, s, `process.exit(3)`); value != nil {
		t.Errorf("got %s, %v", value, r.Err())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.first.Swap(nil).Kill()
	if r, err := s.Start(ctx); err == nil {
		t.Errorf("a start without time gave %v", r)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if ids := containers(t, open(t, t.TempDir()), s.owner.name); len(ids) > 0 {
		t.Errorf("left %v", ids)
	}
}

// child starts a busy container and an idle one, prints their identity, and waits until it is killed.
func child(dir string) {
	s, err := Open(context.Background(), Options{Engine: Engine{Host: os.Getenv("DOCKER_HOST")}, Dir: dir})
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	idle := s.first.Load().Runner.(runner).link.id
	s.script = []byte(`require('fs').writeSync(1, '{"t":"ready","engine":"' + process.version + '"}\n'); for (;;);`)
	if _, err := s.start(context.Background()); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	fmt.Println(s.owner.name, idle)
	io.Copy(io.Discard, os.Stdin) // waits until the process is killed
	os.Exit(1)
}

// TestKilled kills a process with containers. The idle container ends by itself, and the next process removes both containers. It removes no container of a
// live process.
func TestKilled(t *testing.T) {
	t.Parallel()
	engine(t)
	dir := t.TempDir()
	living := open(t, dir)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	var name, idle string
	if _, err := fmt.Fscan(bufio.NewReader(out), &name, &idle); err != nil {
		t.Fatal(err)
	}
	ids := containers(t, living, name)
	if len(ids) != 2 {
		t.Fatalf("the other process has containers %v", ids)
	}
	pid := strconv.Itoa(cmd.Process.Pid)
	listed(t, dir, ids, pid, false)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	listed(t, dir, ids, pid, true)
	listed(t, dir, containers(t, living, living.owner.name), strconv.Itoa(os.Getpid()), false)
	listed(t, t.TempDir(), ids, pid, false) // Another directory does not know this process.
	wait := living.client.ContainerWait(t.Context(), idle, client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
	select {
	case <-wait.Result:
	case err := <-wait.Error:
		t.Error(err)
	}
	next, err := Open(t.Context(), Options{Engine: engine(t), Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := next.Close(); err != nil {
		t.Error(err)
	}
	if ids := containers(t, living, name); len(ids) > 0 {
		t.Errorf("left of the killed process: %v", ids)
	}
	if n := len(containers(t, living, living.owner.name)); n != 1 {
		t.Errorf("the living process has %d containers", n)
	}
}

// listed checks what List reports about the containers of a process. dir is the directory for List.
func listed(t *testing.T, dir string, ids []string, pid string, left bool) {
	t.Helper()
	listing, err := List(t.Context(), engine(t), "", dir)
	if err != nil {
		t.Fatal(err)
	}
	var used string // id of the image that new containers use
	for _, image := range listing.Images {
		if image.Used {
			used = image.ID
		}
		if !slices.ContainsFunc(image.Names, func(name string) bool { return strings.HasPrefix(name, DefaultImage+":") }) || image.Size == 0 {
			t.Errorf("it lists the image %+v", image)
		}
	}
	n := 0
	for _, c := range listing.Containers {
		if slices.Contains(ids, c.ID) {
			n++
			if c.Pid != pid || c.Left != left || c.Image != used || !strings.HasPrefix(c.Name, "harness-") || c.State == "" || time.Since(c.Created) > time.Hour {
				t.Errorf("it lists %+v, of process %s, left: %t, image %s", c, pid, left, used)
			}
		}
	}
	if n != len(ids) {
		t.Errorf("it lists %d of the containers %v", n, ids)
	}
}

// TestRefused checks that each option that an engine does not support is refused with advice.
func TestRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		opt  Options
		real bool // tells whether a real engine is needed
		want string
	}{
		"runtime": {Options{Runtime: "nonesuch"}, true, `no runtime "nonesuch" .*only .*runc.*daemon.json`},
		"image":   {Options{Image: "none-such"}, true, "no image none-such: make it with `harness sandbox build`"},
		"ssh":     {Options{Engine: Engine{Host: "ssh://user@machine"}}, false, "ssh -nNT -L .*sandbox.docker.host"},
		"address": {Options{Engine: Engine{Host: "machine"}}, false, "no address of a Docker engine: .*sandbox.docker.host"},
		"nobody":  {Options{Engine: Engine{Host: "unix:///none/such"}}, false, "no Docker engine answers at unix:///none/such: .*DOCKER_HOST"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.opt.Dir = t.TempDir()
			if c.real {
				c.opt.Engine = engine(t)
			}
			s, err := Open(t.Context(), c.opt)
			if err == nil {
				s.Close()
			}
			if err == nil || !regexp.MustCompile(c.want).MatchString(err.Error()) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

// TestStreams reads the standard output from chunks of both streams, for all sizes of reads.
func TestStreams(t *testing.T) {
	t.Parallel()
	chunk := func(stream byte, text string) string {
		return string(binary.BigEndian.AppendUint32([]byte{stream, 0, 0, 0}, uint32(len(text)))) + text
	}
	long := strings.Repeat("o", 100_000)
	for name, c := range map[string]struct{ in, out, err, fails string }{
		"both":         {chunk(1, "a") + chunk(2, "no") + chunk(1, "") + chunk(1, long) + chunk(2, "te"), "a" + long, "note", ""},
		"another":      {chunk(1, "a") + chunk(3, "b"), "a", "", "stream of number 3"},
		"no header":    {chunk(1, "a") + "\x01\x00", "a", "", "unexpected EOF"},
		"no content":   {chunk(1, "ab")[:9], "a", "", ""},
		"much to read": {"\x02\x00\x00\x00\xff\xff\xff\xffshort", "", "short", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &link{out: bufio.NewReader(strings.NewReader(c.in))}
			out, err := io.ReadAll(l)
			if string(out) != c.out || l.stderr.String() != c.err || c.fails == "" && err != nil || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
				t.Errorf("got %.20q, %q, %v", out, l.stderr.String(), err)
			}
		})
	}
}

// TestProfile checks the list of allowed system calls.
func TestProfile(t *testing.T) {
	t.Parallel()
	var list struct {
		DefaultAction string
		ArchMap       []struct {
			Architecture     string
			SubArchitectures []string
		}
		Syscalls []struct {
			Names  []string
			Action string
			Args   []any
		}
	}
	decoder := json.NewDecoder(bytes.NewReader(seccomp))
	if err := decoder.Decode(&list); err != nil {
		t.Fatal(err)
	}
	if list.DefaultAction != "SCMP_ACT_ERRNO" || len(list.ArchMap) != 2 {
		t.Errorf("the profile is %+v", list)
	}
	for _, arch := range list.ArchMap {
		if len(arch.SubArchitectures) > 0 || !slices.Contains([]string{"SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"}, arch.Architecture) {
			t.Errorf("it has the architecture %+v", arch)
		}
	}
	never := strings.Fields(`inotify_init1 inotify_init timer_create fcntl socket socketpair socketcall connect bind ptrace process_vm_readv process_vm_writev fork vfork clone clone3 execveat
		memfd_create userfaultfd io_uring_setup bpf perf_event_open keyctl add_key mount unshare setns pivot_root open_by_handle_at kexec_load init_module`)
	for _, rule := range list.Syscalls {
		for _, name := range rule.Names {
			if rule.Action == "SCMP_ACT_ALLOW" && len(rule.Args) == 0 && slices.Contains(never, name) {
				t.Errorf("it allows %s", name)
			}
		}
	}
}

// TestDockerfile compares Dockerfile.sandbox with the image of Build: instructions, directories and user are the same.
func TestDockerfile(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../Dockerfile.sandbox")
	if err != nil {
		t.Fatal(err)
	}
	_, last, found := strings.Cut(string(text), "\nFROM scratch\nCOPY --from=node /image /\n")
	if want := strings.Join(changesFor(&node.Machine{}), "\n") + "\n"; !found || last != want {
		t.Errorf("the image ends with\n%s\nwant\n%s", last, want)
	}
	files, err := layout(&node.Machine{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		want := "/image/" + f.path
		if f.text != "" {
			want = "echo '" + strings.TrimSpace(f.text) + "' > " + want
		}
		if f.path != "usr" && !strings.Contains(string(text), want) {
			t.Errorf("there is no %s", want)
		}
	}
}

// TestBuild builds an image twice. The second call finds the image. Another name refers to the same image.
func TestBuild(t *testing.T) {
	t.Parallel()
	e := engine(t)
	first, err := Build(t.Context(), e, "", "")
	if err != nil {
		t.Fatal(err)
	}
	second, err := Build(t.Context(), e, "localhost:5000/some/sandbox:mine", "")
	if err != nil {
		t.Fatal(err)
	}
	if first.New || !strings.HasPrefix(first.Tag, DefaultImage+":") || !strings.HasPrefix(second.Tag, "localhost:5000/some/sandbox:") ||
		path.Base(first.Tag) != path.Base(second.Tag) {
		t.Errorf("built %+v, then %+v", first, second)
	}
	s, err := Open(t.Context(), Options{Engine: e, Image: "localhost:5000/some/sandbox:mine", Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

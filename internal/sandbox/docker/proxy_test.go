package docker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"mcp-code-exec-harness/internal/sandbox"
)

// proxy forwards the connections between a sandbox and the engine.
type proxy struct {
	alter  func(create map[string]any)                       // changes a request to create a container; may be nil
	before func(w http.ResponseWriter, r *http.Request) bool // returns false if it has answered the request itself; may be nil
	info   func(text []byte) []byte                          // changes the engine's information about itself; may be nil

	mu    sync.Mutex
	conns []net.Conn // connections to the engine
}

// serve starts the proxy and returns an Engine with its address.
func (p *proxy) serve(t *testing.T, e Engine) Engine {
	t.Helper()
	socket := strings.TrimPrefix(e.Host, "unix://")
	if socket == e.Host {
		t.Skipf("the engine is at %s, and not at a Unix socket", e.Host)
	}
	forward := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "engine"})
	forward.FlushInterval = -1
	forward.Transport = &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
		if err == nil {
			p.mu.Lock()
			p.conns = append(p.conns, conn)
			p.mu.Unlock()
		}
		return conn, err
	}}
	forward.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	forward.ModifyResponse = func(r *http.Response) error {
		if p.info == nil || !strings.HasSuffix(r.Request.URL.Path, "/info") {
			return nil
		}
		text, err := io.ReadAll(r.Body)
		text = p.info(text)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
		r.Header.Set("Content-Length", fmt.Sprint(len(text)))
		return err
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.before != nil && !p.before(w, r) {
			return
		}
		if p.alter != nil && strings.HasSuffix(r.URL.Path, "/containers/create") {
			create := map[string]any{}
			if err := json.NewDecoder(r.Body).Decode(&create); err != nil {
				t.Error(err)
			}
			p.alter(create)
			text, err := json.Marshal(create)
			if err != nil {
				t.Error(err)
			}
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
		}
		forward.ServeHTTP(w, r)
	}))
	var err error
	path := filepath.Join(t.TempDir(), "s")
	if server.Listener, err = net.Listen("unix", path); err != nil {
		t.Fatal(err)
	}
	server.Start()
	t.Cleanup(func() {
		p.cut()
		server.CloseClientConnections()
		server.Close()
	})
	return Engine{Host: "unix://" + path}
}

// cut closes all connections to the engine.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range p.conns {
		conn.Close()
	}
	p.conns = nil
}

// TestWeaker changes the containers that the sandbox requests. None of the changed containers executes programs.
func TestWeaker(t *testing.T) {
	t.Parallel()
	host := func(key string, value any) func(map[string]any) {
		return func(create map[string]any) { create["HostConfig"].(map[string]any)[key] = value }
	}
	const tmp = "rw,nosuid,nodev,mode=1777,"
	for name, c := range map[string]struct {
		alter func(map[string]any)
		want  string
		runc  bool // tells that the wall is missing only with runc
	}{
		"another seccomp profile": {host("SecurityOpt", []string{"no-new-privileges"}), `seccomp \(.*allows (links|sockets|processes)`, true},
		"no seccomp":              {host("SecurityOpt", []string{"no-new-privileges", "seccomp=unconfined"}), `seccomp \(`, true},
		"new privileges":          {host("SecurityOpt", []string{"seccomp=unconfined"}), `no privileges \(NoNewPrivs`, true}, // gVisor always sets NoNewPrivs.
		"capabilities":            {host("CapDrop", nil), `no privileges \(Cap`, false},
		"root":                    {func(create map[string]any) { create["User"] = "0:0" }, `no privileges \(Uid`, false},
		"network": {func(create map[string]any) {
			host("NetworkMode", "host")(create)
			create["NetworkDisabled"] = false
			delete(create, "Hostname")
		}, `no network \(it has a route`, true},
		"routes that cannot be read": {func(create map[string]any) {
			command := create["Cmd"].([]any)
			for i := range command {
				command[i] = strings.ReplaceAll(command[i].(string), "/proc/self/net/route", "/proc/self/net/none")
			}
		}, `no network \(.*cannot be read`, false},
		"memory": {func(create map[string]any) {
			host("Memory", 0)(create)
			host("MemorySwap", 0)(create)
		}, `limits \(memory: |limit of memory`, false},
		"processors":              {host("NanoCpus", int64(2e9)), `limits \(processors: 2, not 1|limit of processors`, false},
		"processes":               {host("PidsLimit", nil), `limits \(processes: max, not 64|limit of processes`, false},
		"open files":              {host("Ulimits", nil), `limits \(open files: \d+, not 256`, false},
		"size of /tmp":            {host("Tmpfs", map[string]string{"/tmp": tmp + "noexec,nr_inodes=1024"}), `limits \(size of /tmp: \d+, not 16777216`, false},
		"files in /tmp":           {host("Tmpfs", map[string]string{"/tmp": tmp + "noexec,size=16m"}), `limits \(files in /tmp: \d+, not 1024`, true},
		"the machine's files":     {host("Binds", []string{"/etc:/machine:ro"}), `with what it was not asked for: files of the machine`, false},
		"a volume":                {host("Mounts", []any{map[string]any{"Type": "volume", "Target": "/machine"}}), `files of the machine`, false},
		"the machine's processes": {host("PidMode", "host"), `processes of the machine`, false},
		"the machine's name": {func(create map[string]any) {
			host("UTSMode", "host")(create)
			delete(create, "Hostname")
		}, `the machine's name`, false},
		"a device":         {host("Devices", []any{map[string]any{"PathOnHost": "/dev/null", "PathInContainer": "/dev/extra", "CgroupPermissions": "r"}}), `devices of the machine`, false},
		"a group":          {host("GroupAdd", []string{"0"}), `privileges`, false},
		"core dumps":       {host("Ulimits", []any{map[string]any{"Name": "nofile", "Soft": 256, "Hard": 256}}), `limit of files, core dumps`, false},
		"a log":            {host("LogConfig", map[string]any{"Type": "json-file"}), `a log of what programs print`, false},
		"restarts":         {host("RestartPolicy", map[string]any{"Name": "always"}), `restarts`, false},
		"programs in /tmp": {host("Tmpfs", map[string]string{"/tmp": tmp + "exec,size=16m,nr_inodes=1024"}), `limits \(.*without noexec`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.runc && testRuntime == "runsc" {
				t.Skip("gVisor has this wall all the same")
			}
			p := &proxy{alter: c.alter}
			s, err := Open(t.Context(), Options{Engine: p.serve(t, engine(t)), Runtime: testRuntime, Dir: t.TempDir()})
			if err == nil {
				s.Close()
			}
			if err == nil || !regexp.MustCompile(c.want).MatchString(err.Error()) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

// TestNoGVisor uses a runtime that only has the name of gVisor's.
func TestNoGVisor(t *testing.T) {
	t.Parallel()
	p := &proxy{
		info: func(text []byte) []byte {
			return bytes.Replace(text, []byte(`"Runtimes":{`), []byte(`"Runtimes":{"runsc-it-says":{"path":"/usr/bin/runsc"},`), 1)
		},
		alter: func(create map[string]any) { create["HostConfig"].(map[string]any)["Runtime"] = "runc" },
	}
	s, err := Open(t.Context(), Options{Engine: p.serve(t, engine(t)), Runtime: "runsc-it-says", Dir: t.TempDir()})
	if err == nil {
		s.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "its runtime is not gVisor: it has the machine's") {
		t.Errorf("got %v", err)
	}
}

// removed waits until the engine has removed a container.
func removed(t *testing.T, s *Sandbox, id string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		if _, err := s.client.ContainerInspect(ctx, id, client.ContainerInspectOptions{}); notFound(err) {
			return
		}
		wait := s.client.ContainerWait(ctx, id, client.ContainerWaitOptions{Condition: container.WaitConditionRemoved})
		select {
		case <-wait.Result:
		case <-wait.Error:
		}
	}
	t.Error("the container is still there")
}

func idOf(r sandbox.Runner) string {
	if s, ok := r.(*startedRunner); ok {
		r = s.Runner
	}
	return r.(runner).link.id
}

// TestLost kills a runner whose connection to the engine was lost while it computed. Its container is killed once the engine can be reached again.
func TestLost(t *testing.T) {
	t.Parallel()
	const failures = 3
	var down atomic.Bool
	failed := make(chan struct{}, failures)
	p := &proxy{before: func(w http.ResponseWriter, r *http.Request) bool {
		if !down.Load() {
			return true
		}
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			conn.Close()
		}
		if r.Method == http.MethodDelete {
			if failed <- struct{}{}; len(failed) == failures {
				down.Store(false)
			}
		}
		return false
	}}
	s, err := Open(t.Context(), Options{Engine: p.serve(t, engine(t)), Runtime: testRuntime, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	r := begin(t, s, `send({t: 'log'}); for (;;);`)
	<-r.Frames()
	down.Store(true)
	p.cut()
	for range r.Frames() {
	}
	if !errors.Is(r.Err(), errLost) {
		t.Errorf("it ended with %v", r.Err())
	}
	removed(t, open(t, t.TempDir()), idOf(r))
	if len(failed) != failures {
		t.Errorf("%d removals failed", len(failed))
	}
}

// TestRemovals delays the removal of containers: they count until they are removed. A removal that fails is tried again.
func TestRemovals(t *testing.T) {
	t.Parallel()
	const size = 2
	release := make(chan struct{})
	var refused atomic.Int64
	p := &proxy{before: func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodDelete {
			return true
		}
		select {
		case <-release:
		case <-r.Context().Done():
			return false
		}
		if refused.Add(1) <= 2 {
			http.Error(w, `{"message": "driver is busy"}`, http.StatusInternalServerError)
			return false
		}
		return true
	}}
	s, err := Open(t.Context(), Options{Engine: p.serve(t, engine(t)), Runtime: testRuntime, Dir: t.TempDir(), Size: size})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	for range size {
		start(t, s).Kill()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if r, err := s.Start(ctx); err == nil || !strings.Contains(err.Error(), "all 2 containers are in use or being removed") {
		t.Errorf("one more started: %v, %v", r, err)
	}
	close(release)
	start(t, s)
	start(t, s) // Both starts succeed only after both containers were removed.
	if n := len(containers(t, s, s.owner.name)); n != size {
		t.Errorf("there are %d containers", n)
	}
}

// TestLeft closes a sandbox whose engine removes nothing. The next Open removes the containers that are left.
func TestLeft(t *testing.T) {
	t.Parallel()
	e, dir := engine(t), t.TempDir()
	p := &proxy{before: func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodDelete {
			http.Error(w, `{"message": "driver is busy"}`, http.StatusInternalServerError)
			return false
		}
		return true
	}}
	s, err := Open(t.Context(), Options{Engine: p.serve(t, e), Runtime: testRuntime, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	s.closeTime = time.Second
	start(t, s).Kill()
	if err := s.Close(); err == nil || !regexp.MustCompile("the next start removes them; the last failure: .*driver is busy").MatchString(err.Error()) {
		t.Errorf("it closed with %v", err)
	}
	next, err := Open(t.Context(), Options{Engine: e, Runtime: testRuntime, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := next.Close(); err != nil {
		t.Error(err)
	}
	if ids := containers(t, open(t, t.TempDir()), s.owner.name); len(ids) > 0 {
		t.Errorf("left %v", ids)
	}
}

// TestMeter reads the processor time of a container, and the error if it is unknown.
func TestMeter(t *testing.T) {
	t.Parallel()
	var silent atomic.Bool
	p := &proxy{before: func(w http.ResponseWriter, r *http.Request) bool {
		if silent.Load() && strings.HasSuffix(r.URL.Path, "/stats") {
			http.Error(w, `{"message": "no statistics"}`, http.StatusInternalServerError)
			return false
		}
		return true
	}}
	s, err := Open(t.Context(), Options{Engine: p.serve(t, engine(t)), Runtime: testRuntime, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	r := start(t, s).(interface{ CPU() (time.Duration, error) })
	if used, err := r.CPU(); err != nil || used == 0 {
		t.Errorf("it used %s, %v", used, err)
	}
	silent.Store(true)
	if used, err := r.CPU(); err == nil || !strings.Contains(err.Error(), "no statistics") {
		t.Errorf("it used %s, %v", used, err)
	}
}

// TestKilledByOthers kills a container from outside. The error does not say that it was killed for its memory.
func TestKilledByOthers(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	r := begin(t, s, `send({t: 'log'}); for (;;);`)
	<-r.Frames()
	if _, err := s.client.ContainerKill(t.Context(), idOf(r), client.ContainerKillOptions{Signal: "KILL"}); err != nil {
		t.Fatal(err)
	}
	for range r.Frames() {
	}
	if err := r.Err(); errors.Is(err, sandbox.ErrMemory) || !strings.Contains(err.Error(), "was killed (exit status 137) by somebody else") {
		t.Errorf("it ended with %v", err)
	}
}

// TestSize: the containers take half of the memory of the engine's machine, whatever the memory limit of programs is.
func TestSize(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ machine, program, want int64 }{
		{24 << 30, 100 << 20, 62}, {24 << 30, 512 << 20, 20}, {2 << 30, 100 << 20, 5}, {512 << 20, 512 << 20, minSize}, {0, 100 << 20, minSize}, {4 << 40, 16 << 20, maxSize},
	} {
		s := &Sandbox{opt: Options{Memory: c.program}}
		if got := s.defaultSize(c.machine); got != int(c.want) {
			t.Errorf("%d bytes hold %d containers of %d, not %d", c.machine, got, c.program, c.want)
		}
	}
}

package sqlstore

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/testing/postgrestest"
	"mcp-code-exec-harness/internal/testing/proxytest"
	"mcp-code-exec-harness/internal/testing/storetest"
)

// silentVariable is the environment variable with the store's URL for a test process in a network namespace of its own.
const silentVariable = "HARNESS_STORE_TEST_SILENT"

// TestPostgresSilent: packets of connections are dropped from one moment on, as if the machine at the other side had failed and another machine had
// taken its address. Reads and writes continue over new connections within a minute.
func TestPostgresSilent(t *testing.T) {
	address := os.Getenv(silentVariable)
	if address == "" {
		t.Parallel()
		for _, name := range []string{"unshare", "ip", "iptables"} {
			if _, err := exec.LookPath(name); err != nil || os.Getuid() != 0 {
				t.Skip("it drops packets in a network namespace: execute it as root, with unshare, ip and iptables (apt-get install iproute2 iptables)")
			}
		}
		server := postgrestest.Start(t, postgrestest.Fast...)
		cmd := exec.CommandContext(t.Context(), "unshare", "--net", "--", os.Args[0], "-test.run=^TestPostgresSilent$", "-test.timeout=3m")
		cmd.Env = append(os.Environ(), silentVariable+"="+server.Schema(t))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return
	}
	run := func(name string, args ...string) string {
		out, err := exec.Command(name, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v: %s", name, args, err, out)
		}
		return string(out)
	}
	run("ip", "link", "set", "lo", "up")
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	proxy := proxytest.Start(t, "tcp", "127.0.0.1:0", "unix", filepath.Join(query.Get("host"), ".s.PGSQL.5432"))
	query.Del("host")
	query.Set("sslmode", "disable")
	u.Host, u.RawQuery = proxy.Addr().String(), query.Encode()
	s := openServer(t, u.String(), Options{})
	if _, _, err := s.CreateTask(t.Context(), storetest.New("task_a", "ann", "s")); err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(proxy.Addr().String(), ":")
	table, err := os.ReadFile("/proc/self/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	dropped := 0
	for line := range strings.Lines(string(table)) {
		ports := [2]string{}
		fields := strings.Fields(line)
		for i := range ports {
			_, hex, _ := strings.Cut(fields[1+i], ":")
			n, _ := strconv.ParseUint(hex, 16, 16)
			ports[i] = strconv.FormatUint(n, 10)
		}
		if ports[1] == port {
			run("iptables", "-A", "INPUT", "-p", "tcp", "--sport", ports[0], "--dport", port, "-j", "DROP")
			dropped++
		}
	}
	if dropped < 2 {
		t.Fatalf("%d connections are cut off", dropped)
	}
	began := time.Now()
	done := make(chan error, 2)
	go func() {
		_, _, err := s.CreateTask(t.Context(), storetest.New("task_b", "ann", "s"))
		done <- err
	}()
	go func() {
		_, err := s.Task(t.Context(), "task_a")
		done <- err
	}()
	for range 2 {
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("the store waits for an answer that never comes")
		}
	}
	t.Logf("it took %s", time.Since(began))
}

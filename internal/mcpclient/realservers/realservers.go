// Package realservers gives tests the MCP servers that people use: the reference servers from npm, at versions pinned
// in testdata/servers. They are installed once, by npm ci, into the user's cache directory.
package realservers

import (
	"bufio"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/mcpclient"
)

//go:embed testdata/servers/package.json testdata/servers/package-lock.json
var manifests embed.FS

const installTimeout = 5 * time.Minute

var install = sync.OnceValues(func() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), installTimeout)
	defer cancel()
	return installed(ctx)
})

// Dir returns the directory with the servers' node_modules, installing them if need be. Without Node.js or a
// reachable registry the test is skipped, or fails where CI=true.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := install()
	if err == nil {
		return dir
	}
	msg := fmt.Sprintf("the npm servers are not available: %v; install Node.js 20 or newer with npm (https://nodejs.org) "+
		"and run the test once with access to an npm registry", err)
	if os.Getenv("CI") == "true" {
		t.Fatal(msg)
	}
	t.Skip(msg)
	return ""
}

func installed(ctx context.Context) (string, error) {
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			return "", err
		}
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	files := map[string][]byte{}
	sum := sha256.New()
	for _, name := range []string{"package.json", "package-lock.json"} {
		data, err := manifests.ReadFile("testdata/servers/" + name)
		if err != nil {
			return "", err
		}
		files[name] = data
		sum.Write(data)
	}
	parent := filepath.Join(base, "mcp-code-exec-harness-test")
	dir := filepath.Join(parent, "servers-"+hex.EncodeToString(sum.Sum(nil)[:8]))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", err
	}
	// Several test binaries may do this at once: each installs beside, and the first to rename wins.
	tmp, err := os.MkdirTemp(parent, "installing-*")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(tmp, name), data, 0o644); err != nil {
			return "", err
		}
	}
	cmd := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	cmd.Dir = tmp
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm ci: %w: %s", err, out)
	}
	if err := os.Rename(tmp, dir); err != nil {
		if _, statErr := os.Stat(dir); statErr != nil {
			return "", err
		}
	}
	return dir, nil
}

// script is the path of a server's entry point.
func script(t testing.TB, server string) string {
	t.Helper()
	return filepath.Join(Dir(t), "node_modules", "@modelcontextprotocol", "server-"+server, "dist", "index.js")
}

// Everything is the server with one of everything MCP has, over stdio.
func Everything(t testing.TB) mcpclient.Config {
	t.Helper()
	return mcpclient.Config{Name: "everything", Command: "node", Args: []string{script(t, "everything"), "stdio"}}
}

// Filesystem is the file server, allowed to use dir.
func Filesystem(t testing.TB, dir string) mcpclient.Config {
	t.Helper()
	return mcpclient.Config{Name: "filesystem", Command: "node", Args: []string{script(t, "filesystem"), dir}}
}

// Memory is the knowledge graph server, which keeps its graph in file.
func Memory(t testing.TB, file string) mcpclient.Config {
	t.Helper()
	return mcpclient.Config{
		Name: "memory", Command: "node", Args: []string{script(t, "memory")},
		Env: map[string]string{"MEMORY_FILE_PATH": file},
	}
}

// EverythingHTTP starts the everything server over streamable HTTP; it ends with the test.
func EverythingHTTP(t testing.TB) mcpclient.Config {
	t.Helper()
	url, _ := listen(t, "streamableHttp", 0)
	return mcpclient.Config{Name: "everything", URL: url + "/mcp"}
}

// EverythingSSE starts the everything server over the HTTP+SSE transport of 2024-11-05; it ends with the test.
func EverythingSSE(t testing.TB) mcpclient.Config {
	t.Helper()
	url, _ := listen(t, "sse", 0)
	return mcpclient.Config{Name: "everything", URL: url + "/sse"}
}

// Restartable starts the everything server over streamable HTTP. restart ends it, with its sessions, and starts it
// anew at the same address.
func Restartable(t testing.TB) (cfg mcpclient.Config, restart func()) {
	t.Helper()
	url, stop := listen(t, "streamableHttp", 0)
	port, err := strconv.Atoi(url[strings.LastIndexByte(url, ':')+1:])
	if err != nil {
		t.Fatal(err)
	}
	return mcpclient.Config{Name: "everything", URL: url + "/mcp"}, func() {
		t.Helper()
		stop()
		_, stop = listen(t, "streamableHttp", port)
	}
}

// listen starts the everything server in an HTTP mode and returns when it listens.
func listen(t testing.TB, mode string, port int) (url string, stop func()) {
	t.Helper()
	path := script(t, "everything")
	for attempt := 1; ; attempt++ {
		p := port
		if p == 0 {
			p = freePort(t)
		}
		stop, err := startHTTP(path, mode, p)
		if err == nil {
			t.Cleanup(stop)
			return "http://127.0.0.1:" + strconv.Itoa(p), stop
		}
		// Between finding a free port and taking it, another process may have it.
		if attempt == 3 {
			t.Fatalf("start server-everything %s: %v", mode, err)
		}
	}
}

func startHTTP(path, mode string, port int) (stop func(), err error) {
	cmd := exec.Command("node", path, mode)
	cmd.Env = append(os.Environ(), "PORT="+strconv.Itoa(port))
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout = cmd.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ready, drained := make(chan struct{}), make(chan struct{})
	var said strings.Builder
	go func() {
		defer close(drained)
		r := bufio.NewReader(stderr)
		for {
			line, err := r.ReadString('\n')
			said.WriteString(line)
			if err != nil {
				return
			}
			// "MCP Streamable HTTP Server listening on port N", "Server is running on port N"
			if strings.Contains(line, "port "+strconv.Itoa(port)) && !strings.Contains(line, "in use") {
				close(ready)
				_, _ = io.Copy(io.Discard, r) // until the process ends
				return
			}
		}
	}()
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		<-drained
		_ = cmd.Wait() // it was killed, and says so
	})
	timer := time.NewTimer(30 * time.Second)
	defer timer.Stop()
	select {
	case <-ready:
		return stop, nil
	case <-drained:
		stop()
		return nil, errors.New(said.String())
	case <-timer.C:
		stop()
		return nil, errors.New("it did not listen within 30 s: " + said.String())
	}
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

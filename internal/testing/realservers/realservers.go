// Package realservers gives tests the MCP servers that people use: the reference servers from npm, at versions pinned
// in testdata/servers. They are installed once, by npm ci, into the user's cache directory.
package realservers

import (
	"bufio"
	"embed"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
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
	"mcp-code-exec-harness/internal/testing/npmtest"
)

//go:embed testdata/servers/package.json testdata/servers/package-lock.json
var manifests embed.FS

// packages returns the directory with the servers' node_modules, installing them if need be; see [npmtest.Install].
func packages(t testing.TB) string {
	t.Helper()
	servers, err := fs.Sub(manifests, "testdata/servers")
	if err != nil {
		t.Fatal(err)
	}
	return npmtest.Install(t, "servers", servers)
}

// script returns the path of a server's entry point.
func script(t testing.TB, server string) string {
	t.Helper()
	return filepath.Join(packages(t), "node_modules", "@modelcontextprotocol", "server-"+server, "dist", "index.js")
}

// Everything returns the configuration of the server "everything", which uses every feature of MCP, over stdio.
func Everything(t testing.TB) mcpclient.Config {
	t.Helper()
	return mcpclient.Config{Name: "everything", Command: "node", Args: []string{script(t, "everything"), "stdio"}}
}

// Filesystem returns the configuration of the file server, which may use dir.
func Filesystem(t testing.TB, dir string) mcpclient.Config {
	t.Helper()
	return mcpclient.Config{Name: "filesystem", Command: "node", Args: []string{script(t, "filesystem"), dir}}
}

// Memory returns the configuration of the knowledge graph server, which keeps its graph in file.
func Memory(t testing.TB, file string) mcpclient.Config {
	t.Helper()
	return mcpclient.Config{
		Name: "memory", Command: "node", Args: []string{script(t, "memory")},
		Env: map[string]string{"MEMORY_FILE_PATH": file},
	}
}

// EverythingHTTP starts the server "everything" over streamable HTTP. It ends with the test.
func EverythingHTTP(t testing.TB) mcpclient.Config {
	t.Helper()
	url, _ := listen(t, "streamableHttp", 0)
	return mcpclient.Config{Name: "everything", URL: url + "/mcp"}
}

// EverythingSSE starts the server "everything" over the HTTP+SSE transport of 2024-11-05. It ends with the test.
func EverythingSSE(t testing.TB) mcpclient.Config {
	t.Helper()
	url, _ := listen(t, "sse", 0)
	return mcpclient.Config{Name: "everything", URL: url + "/sse"}
}

// Restartable starts the server "everything" over streamable HTTP. restart ends the server with its sessions, and starts it again at the same address.
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

// listen starts the server "everything" in an HTTP mode, and returns when the server listens.
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
		// Another process may take the port before the server does.
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
				_, _ = io.Copy(io.Discard, r) // returns when the process ends
				return
			}
		}
	}()
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		<-drained
		_ = cmd.Wait() // the error only reports that it was killed
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

// freePort returns a port below the range from which the system assigns ports: a port of that range could be taken before the server listens, and the
// server reports that it listens even if it cannot.
func freePort(t testing.TB) int {
	t.Helper()
	for range 100 {
		port := 20000 + rand.IntN(10000)
		if l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port)); err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

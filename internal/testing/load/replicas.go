package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"mcp-code-exec-harness/internal/testing/misbehave"
)

// replica is one process of a served harness.
type replica struct {
	url string
	cmd *exec.Cmd
}

func (s *server) replicas() []replica {
	if s.cmd == nil {
		return nil
	}
	return append([]replica{{s.url, s.cmd}}, s.more...)
}

// address returns the address of the replica that gets the next request.
func (s *server) address() string {
	if n := s.next.Add(1) % int64(len(s.more)+1); n > 0 {
		return s.more[n-1].url
	}
	return s.url
}

// replica starts replica n with a directory of its own, and waits until it answers. Skills, workspaces and the key of personal data are shared.
func (s *server) replica(ctx context.Context, binary string, n int) (r replica, err error) {
	dir := filepath.Join(s.dir, strconv.Itoa(n))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return r, err
	}
	self, err := os.Executable()
	if err != nil {
		return r, err
	}
	address, err := freeAddress()
	if err != nil {
		return r, err
	}
	store := "sqlite:" + filepath.Join(dir, "harness.db")
	if s.store != nil {
		store = s.store.URL(nil)
	}
	text, err := json.Marshal(map[string]any{ // JSON is valid YAML
		"server":     map[string]any{"listen": address, "rateLimit": map[string]any{"max": 1_000_000}},
		"model":      map[string]any{"provider": "anthropic", "name": "claude-load", "apiKey": "none", "baseUrl": s.model.URL},
		"store":      map[string]any{"url": store},
		"pii":        map[string]any{"keyFile": filepath.Join(s.dir, "pii.key")},
		"skills":     map[string]any{"dir": filepath.Join(s.dir, "skills")},
		"workspace":  map[string]any{"dir": filepath.Join(s.dir, "workspace")},
		"log":        map[string]any{"level": "error", "audit": false},
		"policy":     []any{map[string]any{"tools": "load__echo", "args": map[string]any{"$.zeta": map[string]any{"equals": "ask"}}, "action": "ask"}},
		"mcpServers": map[string]any{"load": map[string]any{"command": self, "env": misbehave.Env(misbehave.Normal, filepath.Join(dir, "pids"))}},
	})
	if err != nil {
		return r, err
	}
	file := filepath.Join(dir, "harness.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return r, err
	}
	if n == 0 {
		key, err := exec.CommandContext(ctx, binary, "keys", "create", "--config", file, "load").Output()
		if err != nil {
			return r, fmt.Errorf("make a key: %w", err)
		}
		s.key = strings.TrimSpace(string(key))
	}
	r = replica{"http://" + address, exec.CommandContext(ctx, binary, "serve", "--config", file)}
	r.cmd.Stderr = os.Stderr
	r.cmd.Cancel = func() error { return r.cmd.Process.Signal(syscall.SIGTERM) }
	if err := r.cmd.Start(); err != nil {
		return r, err
	}
	alone := &server{url: r.url, key: s.key, http: s.http}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		err := alone.call(ctx, "/v1/runs", map[string]any{"userId": "warm", "code": "return (await callMCPTool('load__echo', {alpha: 1})).alpha"}, nil)
		if err == nil {
			return r, nil
		}
		if time.Now().After(deadline) {
			return r, errors.Join(err, r.cmd.Process.Kill(), r.cmd.Wait())
		}
	}
}

// cost begins to measure the resources that the server uses. end returns the amounts for each of n operations as text.
func (s *server) cost() (end func(n int) string) {
	var pids []int
	for _, r := range s.replicas() {
		pids = append(pids, r.cmd.Process.Pid)
	}
	before := processors(pids...)
	if s.store == nil {
		return func(n int) string {
			return fmt.Sprintf("processor time of each %s", (processors(pids...)-before)/time.Duration(n))
		}
	}
	written, err := s.store.Written()
	used := processors(s.store.PID())
	return func(n int) string {
		processor, server := processors(pids...)-before, processors(s.store.PID())-used
		now, failed := s.store.Written()
		if err := errors.Join(err, failed); err != nil {
			return err.Error()
		}
		return fmt.Sprintf("processor time of each %s, of PostgreSQL's %s; %d bytes of its log, %d of its tables, %.1f of its transactions",
			processor/time.Duration(n), server/time.Duration(n), (now.Log-written.Log)/int64(n), (now.Tables-written.Tables)/int64(n),
			float64(now.Transactions-written.Transactions)/float64(n))
	}
}

// processors returns the processor time that processes and their descendants have used so far, or 0 if the system does not report it.
func processors(roots ...int) (sum time.Duration) {
	const tick = 10 * time.Millisecond // USER_HZ, which is 100 on every architecture of Linux that the harness is built for
	type usage struct {
		parent int
		ticks  int64
	}
	all := make(map[int]usage)
	files, _ := filepath.Glob("/proc/[0-9]*/stat") // exists on Linux only
	for _, file := range files {
		text, _ := os.ReadFile(file) // The process may have ended.
		_, rest, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest)
		if len(fields) < 15 {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		var u usage
		u.parent, _ = strconv.Atoi(fields[1])
		for _, field := range fields[11:15] { // times of the process, and of the children for which it has waited
			n, _ := strconv.ParseInt(field, 10, 64)
			u.ticks += n
		}
		all[pid] = u
	}
	for pid, u := range all {
		for at, depth := pid, 0; at > 1 && depth < 32; at, depth = all[at].parent, depth+1 {
			for _, root := range roots {
				if at == root {
					sum += time.Duration(u.ticks) * tick
				}
			}
		}
	}
	return sum
}

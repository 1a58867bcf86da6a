package main

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

//go:embed node.cjs
var nodeRunner []byte

// inNode runs scripts in processes of Node.js.
type inNode struct {
	path, script string
	processes    []*nodeProcess // processes by slot
}

type nodeProcess struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func openNode(o options) (place, error) {
	path, err := exec.LookPath("node")
	if err != nil {
		return nil, fmt.Errorf("%w: install Node.js 20, or leave it out with -in guest,bare", err)
	}
	n := &inNode{path: path, script: filepath.Join(o.out, "node.cjs"), processes: make([]*nodeProcess, o.parallel)}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return nil, err
	}
	return n, os.WriteFile(n.script, nodeRunner, 0o644)
}

func (*inNode) name() string { return "node" }
func (*inNode) web() bool    { return true }

func (n *inNode) close() {
	for slot := range n.processes {
		n.end(slot)
	}
}

func (n *inNode) end(slot int) {
	if p := n.processes[slot]; p != nil {
		p.cmd.Process.Kill()
		p.cmd.Wait()
		n.processes[slot] = nil
	}
}

func (n *inNode) start(slot int) (*nodeProcess, error) {
	if p := n.processes[slot]; p != nil {
		return p, nil
	}
	p := &nodeProcess{cmd: exec.Command(n.path, "--no-warnings", n.script)}
	p.cmd.Env = []string{"TZ=UTC"}
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	n.processes[slot] = p
	return p, nil
}

func (n *inNode) run(ctx context.Context, slot int, t *test, s *script) *outcome {
	made, err := n.ask(ctx, slot, t, s)
	if err != nil {
		n.end(slot)
		return &outcome{phase: "crash", message: err.Error()}
	}
	if t.web {
		n.end(slot)
	}
	return made
}

// ask sends a script to the process of a slot, and returns the outcome. If ctx ends, it kills the process.
func (n *inNode) ask(ctx context.Context, slot int, t *test, s *script) (*outcome, error) {
	p, err := n.start(slot)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { p.cmd.Process.Kill() })
	defer stop()
	request, err := json.Marshal(map[string]any{"setup": s.setup, "code": s.code, "async": s.async, "files": s.files, "here": t.web})
	if err != nil {
		return nil, err
	}
	if _, err := p.in.Write(append(request, '\n')); err != nil {
		return nil, err
	}
	text, err := p.out.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	var got struct {
		Phase, Name, Message string
		Lines                []string
	}
	if err := json.Unmarshal(text, &got); err != nil {
		return nil, err
	}
	return &outcome{phase: got.Phase, name: got.Name, message: got.Message, lines: got.Lines}, nil
}

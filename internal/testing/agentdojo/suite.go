package main

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
)

//go:embed suites.py
var adapter string

// suite is a suite of a checkout. A process runs the checkout's own code for it, for one pair at a time.
type suite struct {
	Name       string
	Version    string
	Tools      []tool
	Users      []task
	Injections []task

	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	mu      sync.Mutex // held during a request and its answer
}

type tool struct {
	Server, Name, Description string
	Input                     json.RawMessage
}

// task is the goal of a user, or of an injection.
type task struct {
	ID     string
	Prompt string
	Calls  int    // number of calls in its reference solution
	Says   string // text that its reference solution tells the user
}

// pair is a user task, and the goal of an injection in the texts that the task reads.
type pair struct {
	Plan struct {
		Before   []call `json:"before"` // calls of the user task up to the first whose answer contains the injection
		Injected []call `json:"injected"`
		Rest     []call `json:"rest"`
	}
	Seen bool // reports whether an answer contains the injection
}

// call is a call of a reference solution. In its arguments, {answer, leaf, before, times, after, last} stands for a text from an earlier answer.
type call struct {
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args"`
}

// openSuite starts the process of a suite. The caller must close the suite.
func openSuite(ctx context.Context, python, checkout, name string) (*suite, error) {
	s := &suite{Name: name, command: exec.CommandContext(ctx, python, "-c", adapter, checkout)}
	s.command.Stderr = os.Stderr
	in, err := s.command.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := s.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.in, s.out = in, bufio.NewReader(out)
	if err := s.command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", python, err)
	}
	if err := s.ask(map[string]any{"op": "open", "suite": name}, s); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *suite) close() error {
	s.in.Close()
	return s.command.Wait()
}

// ask sends a request and decodes the answer.
func (s *suite) ask(request, answer any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := json.NewEncoder(s.in).Encode(request); err != nil {
		return fmt.Errorf("ask the suite %s: %w", s.Name, err)
	}
	line, err := s.out.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("the suite %s gives no answer: %w", s.Name, err)
	}
	return json.Unmarshal(line, answer)
}

// begin creates the environment of a user task with an injection, or without one if injection is empty.
func (s *suite) begin(user, injection string) (p pair, err error) {
	return p, s.ask(map[string]any{"op": "begin", "user": user, "injection": injection}, &p)
}

// call calls a tool in the environment of the pair. failed is the tool's own error.
func (s *suite) call(tool string, args json.RawMessage) (value json.RawMessage, failed string, err error) {
	var answer struct {
		Value json.RawMessage
		Error string
	}
	err = s.ask(map[string]any{"op": "call", "tool": tool, "args": args}, &answer)
	return answer.Value, answer.Error, err
}

// judge runs the checkers of the checkout on the environment and the answer to the user.
func (s *suite) judge(output string) (utility, security bool, err error) {
	var answer struct{ Utility, Security bool }
	err = s.ask(map[string]any{"op": "judge", "output": output}, &answer)
	return answer.Utility, answer.Security, err
}

package docker

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"mcp-code-exec-harness/internal/process"
	"mcp-code-exec-harness/internal/sandbox"
)

// link is a container whose standard streams go over one connection to the engine.
type link struct {
	sandbox *Sandbox
	id      string
	conn    net.Conn
	out     *bufio.Reader
	left    uint32 // bytes of the standard output that are still to be read of a chunk
	stderr  process.Tail

	mu     sync.Mutex
	ended  bool // the container closed its output
	killed bool // before it did
}

var _ sandbox.Link = (*link)(nil)

// container makes a container, attaches to it, starts it and gives it the runner.
func (s *Sandbox) container(ctx context.Context) (*link, error) {
	// A request that is given up may succeed: this one is not, so that the container is known.
	asked, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTime)
	defer cancel()
	created, err := s.client.ContainerCreate(asked, s.recipe())
	if err != nil {
		return nil, fmt.Errorf("create it: %w", err)
	}
	attached, err := s.client.ContainerAttach(ctx, created.ID, client.ContainerAttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
	if err != nil {
		s.remove(created.ID)
		return nil, fmt.Errorf("attach to it: %w", err)
	}
	l := &link{sandbox: s, id: created.ID, conn: attached.Conn, out: attached.Reader}
	if _, err := s.client.ContainerStart(ctx, created.ID, client.ContainerStartOptions{}); err != nil {
		l.Kill()
		return nil, err
	}
	go l.Write(s.script) // the runner's ready frame says that it arrived
	return l, nil
}

// header is what stands before each chunk of output: the stream, and the length.
const header = 8

// The streams.
const (
	stdout = 1
	stderr = 2
)

// Read reads the standard output, and keeps the end of the standard error.
func (l *link) Read(to []byte) (int, error) {
	n, err := l.read(to)
	if err != nil {
		l.mu.Lock()
		l.ended = true
		l.mu.Unlock()
	}
	return n, err
}

func (l *link) read(to []byte) (int, error) {
	for l.left == 0 {
		var head [header]byte
		if _, err := io.ReadFull(l.out, head[:]); err != nil {
			return 0, err
		}
		length := binary.BigEndian.Uint32(head[4:])
		switch head[0] {
		case stdout:
			l.left = length
		case stderr:
			if _, err := io.CopyN(&l.stderr, l.out, int64(length)); err != nil {
				return 0, err
			}
		default:
			return 0, fmt.Errorf("the Docker engine sends a stream of number %d", head[0])
		}
	}
	n, err := l.out.Read(to[:min(len(to), int(l.left))])
	l.left -= uint32(n)
	return n, err
}

func (l *link) Write(lines []byte) (int, error) { return l.conn.Write(lines) }

// Pid implements sandbox.Link: the engine may be on another machine.
func (l *link) Pid() int { return 0 }

// Kill implements sandbox.Link. A container that has ended is looked at by Wait before it is removed.
func (l *link) Kill() {
	l.mu.Lock()
	l.killed = !l.ended
	l.mu.Unlock()
	l.conn.Close()
	if l.killed {
		l.sandbox.remove(l.id)
	}
}

// Wait implements sandbox.Link.
func (l *link) Wait() error {
	if l.killed {
		return errors.New("the container was killed")
	}
	defer l.sandbox.remove(l.id)
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	wait := l.sandbox.client.ContainerWait(ctx, l.id, client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
	select {
	case <-wait.Result:
	case err := <-wait.Error:
		return fmt.Errorf("the container ended, and the Docker engine does not say why: %w", err)
	}
	found, err := l.sandbox.client.ContainerInspect(ctx, l.id, client.ContainerInspectOptions{})
	if err != nil || found.Container.State == nil {
		return fmt.Errorf("the container ended, and the Docker engine does not say why: %w", err)
	}
	state := found.Container.State
	// The engine may learn of the kernel's kill after the end. Nothing else kills the first process of a container.
	if state.OOMKilled || state.ExitCode == killed {
		return fmt.Errorf("%w (exit status %d)", sandbox.ErrMemory, state.ExitCode)
	}
	return sandbox.Ended(fmt.Sprintf("exit status %d", state.ExitCode), &l.stderr)
}

// killed is the exit code of a process that was killed by signal 9.
const killed = 128 + 9

// remove kills and removes a container in the background.
func (s *Sandbox) remove(id string) {
	s.removals.Go(func() {
		s.removing <- struct{}{}
		defer func() { <-s.removing }()
		ctx, cancel := context.WithTimeout(context.Background(), askTime)
		defer cancel()
		// What fails is left to the next Open.
		_, _ = s.client.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	})
}

// runner is a runner in a container.
type runner struct {
	sandbox.Runner
	link *link
}

// CPU is the processor time that the container has used; zero where the engine does not say.
func (r runner) CPU() time.Duration {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	result, err := r.link.sandbox.client.ContainerStats(ctx, r.link.id, client.ContainerStatsOptions{})
	if err != nil {
		return 0
	}
	defer result.Body.Close()
	var stats container.StatsResponse
	if json.NewDecoder(result.Body).Decode(&stats) != nil {
		return 0
	}
	return time.Duration(stats.CPUStats.CPUUsage.TotalUsage)
}

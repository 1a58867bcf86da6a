package docker

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/events"
	"github.com/moby/moby/client"

	"mcp-code-exec-harness/internal/process"
	"mcp-code-exec-harness/internal/sandbox"
)

// link is a container whose standard streams share one connection to the engine.
type link struct {
	sandbox *Sandbox
	id      string
	conn    net.Conn
	out     *bufio.Reader
	left    uint32 // bytes of the current chunk of standard output that are still to be read
	stderr  process.Tail

	mu     sync.Mutex
	ended  bool  // the engine closed the connection, as it does when the container has ended
	broken error // error that ended the connection, if the engine did not close it
	killed error // reason why the container was killed before it ended by itself
}

var _ sandbox.Link = (*link)(nil)

// container creates a container, attaches to it, starts it and sends it the runner. The container holds one of the sandbox's slots until it is
// removed.
func (s *Sandbox) container(ctx context.Context) (*link, error) {
	if err := s.acquire(ctx); err != nil {
		return nil, err
	}
	// Even if the request is given up or fails, the engine may create the container. So the container has a name by which it can be removed.
	asked, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTime)
	defer cancel()
	recipe := s.recipe()
	recipe.Name = "harness-" + rand.Text()
	created, err := s.client.ContainerCreate(asked, recipe)
	if err != nil {
		s.discard(recipe.Name)
		return nil, fmt.Errorf("create it: %w", err)
	}
	attached, err := s.client.ContainerAttach(ctx, created.ID, client.ContainerAttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
	if err != nil {
		s.discard(created.ID)
		return nil, fmt.Errorf("attach to it: %w", err)
	}
	l := &link{sandbox: s, id: created.ID, conn: attached.Conn, out: attached.Reader}
	if _, err := s.client.ContainerStart(ctx, created.ID, client.ContainerStartOptions{}); err != nil {
		l.Kill()
		return nil, err
	}
	go func(script, cache []byte) { // errors are ignored: only the ready frame of the runner shows that script and cache have arrived
		l.Write(script)
		l.Write(cache)
	}(s.script, s.cache)
	return l, nil
}

// header is the size in bytes of the header of each chunk of output, which contains the stream and the length.
const header = 8

// The numbers of the streams.
const (
	stdout = 1
	stderr = 2
)

// errLost is the reason why a container is killed when its connection breaks.
var errLost = errors.New("the connection to the Docker engine was lost, and the container killed")

// Read reads the standard output, and keeps the end of the standard error.
func (l *link) Read(to []byte) (int, error) {
	n, err := l.read(to)
	if err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		if errors.Is(err, io.EOF) { // Wait finds out whether the container or only the connection has ended
			l.ended = true
		} else {
			l.broken = fmt.Errorf("%w: %w", errLost, err)
		}
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

// Pid implements sandbox.Link. It returns 0, because the engine may be on another machine.
func (l *link) Pid() int { return 0 }

// Kill implements sandbox.Link. If the container has ended, Wait examines it before it is removed.
func (l *link) Kill() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.killed = cmp.Or(l.broken, errors.New("the container was killed"))
		l.sandbox.discard(l.id)
	}
	l.conn.Close()
}

// endTime is the maximum time for a container to end after its connection has ended. If a container runs longer, the connection was lost.
const endTime = 3 * time.Second

// Wait implements sandbox.Link.
func (l *link) Wait() error {
	if l.killed != nil {
		return l.killed
	}
	defer l.sandbox.discard(l.id)
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	state, err := l.state(ctx)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: it did not end within %s", errLost, endTime)
	case notFound(err):
		return fmt.Errorf("the container was removed by somebody else than the harness: %w", err)
	case err != nil:
		return fmt.Errorf("%w: %w", errLost, err)
	case state.OOMKilled || state.ExitCode == killed && l.outOfMemory(state):
		return fmt.Errorf("%w (exit status %d)", sandbox.ErrMemory, state.ExitCode)
	case state.ExitCode == killed:
		return fmt.Errorf("the container was killed (exit status %d) by somebody else than the harness, and not by its limit of memory: "+
			"by its limit of processor time, by an operator, or because the machine has no memory left", state.ExitCode)
	}
	return sandbox.Ended(fmt.Sprintf("exit status %d", state.ExitCode), &l.stderr)
}

// state waits until the container has ended, and returns its state.
func (l *link) state(ctx context.Context) (*container.State, error) {
	wait := l.sandbox.client.ContainerWait(ctx, l.id, client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
	select {
	case <-wait.Result:
	case err := <-wait.Error:
		return nil, err
	}
	found, err := l.sandbox.client.ContainerInspect(ctx, l.id, client.ContainerInspectOptions{})
	if err == nil && found.Container.State == nil {
		err = errors.New("it has no state")
	}
	return found.Container.State, err
}

// killed is the exit code of a process that was killed by signal 9.
const killed = 128 + 9

// reportTime is the maximum time for the engine to report that the kernel killed a container for its memory, once the container has ended.
const reportTime = 2 * time.Second

// outOfMemory reports whether the engine says, within reportTime, that the kernel killed a container for its memory.
func (l *link) outOfMemory(state *container.State) bool {
	ctx, cancel := context.WithTimeout(context.Background(), reportTime)
	defer cancel()
	events := l.sandbox.client.Events(ctx, client.EventsListOptions{
		Since:   state.StartedAt,
		Filters: client.Filters{}.Add("container", l.id).Add("event", string(events.ActionOOM)),
	})
	select {
	case <-events.Messages:
		return true
	case <-events.Err:
		return false
	}
}

// runner is a runner in a container.
type runner struct {
	sandbox.Runner
	link *link
}

// CPU returns the processor time that the container has used.
func (r runner) CPU() (time.Duration, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	result, err := r.link.sandbox.client.ContainerStats(ctx, r.link.id, client.ContainerStatsOptions{})
	if err != nil {
		return 0, err
	}
	defer result.Body.Close()
	var stats container.StatsResponse
	if err := json.NewDecoder(result.Body).Decode(&stats); err != nil {
		return 0, fmt.Errorf("the Docker engine's statistics: %w", err)
	}
	if stats.CPUStats.CPUUsage.TotalUsage == 0 { // a container that ran has used some
		return 0, errors.New("the Docker engine does not say what the container computed")
	}
	return time.Duration(stats.CPUStats.CPUUsage.TotalUsage), nil
}

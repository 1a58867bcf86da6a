package sandbox

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/process"
)

// framesAhead is how many frames are read before the host takes them.
const framesAhead = 8

// pipe is a runner whose frames go over the standard input and output of a process.
type pipe struct {
	child  *process.Child
	frames chan *frame.Frame
	err    error // valid once frames is closed
	kill   sync.Once
	dead   chan struct{} // closed by Kill: stop delivering

	mu    sync.Mutex
	queue []byte        // frames to write
	some  chan struct{} // holds a token while queue has any
}

var _ Runner = (*pipe)(nil)

// StartProcess starts cmd as a runner, by start, which sets cmd.Process: process.Start, or the Start of a jail.Launcher.
func StartProcess(cmd *exec.Cmd, start func(*exec.Cmd) error) (Runner, error) {
	child, err := process.Open(cmd, start)
	if err != nil {
		return nil, err
	}
	p := &pipe{child: child, frames: make(chan *frame.Frame, framesAhead), dead: make(chan struct{}), some: make(chan struct{}, 1)}
	process.Lower(child.Process)
	go p.read()
	go p.write()
	return p, nil
}

func (p *pipe) Send(f *frame.Frame) error {
	line, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("encode %s frame: %w", f.T, err)
	}
	select {
	case <-p.dead:
		return errors.New("write to runner: it has been killed")
	default:
	}
	p.mu.Lock()
	p.queue = append(append(p.queue, line...), '\n')
	p.mu.Unlock()
	select {
	case p.some <- struct{}{}:
	default:
	}
	return nil
}

// write moves frames from the queue to the runner: a guest that is busy for long must not hold its host up. The queue has
// no limit of its own; the host's limits on calls and values bound it.
func (p *pipe) write() {
	for {
		select {
		case <-p.some:
		case <-p.dead:
			return
		}
		p.mu.Lock()
		lines := p.queue
		p.queue = nil
		p.mu.Unlock()
		if _, err := p.child.Stdin.Write(lines); err != nil {
			return // the runner is gone; its output says why
		}
	}
}

func (p *pipe) Frames() <-chan *frame.Frame { return p.frames }

func (p *pipe) Err() error { return p.err }

func (p *pipe) Pid() int { return p.child.Process.Pid }

// CPU is the processor time that the process has used; zero where the system does not say.
func (p *pipe) CPU() time.Duration { return process.CPU(p.child.Process.Pid) }

// Freeze stops the process for a while, or lets it go on. It reports whether the system can do that.
func (p *pipe) Freeze(stop bool) bool { return process.Freeze(p.child.Process, stop) }

func (p *pipe) Kill() {
	p.kill.Do(func() {
		close(p.dead)
		p.child.Process.Kill()
	})
}

// read delivers frames until the process ends or breaks the protocol; then it reaps the process.
func (p *pipe) read() {
	err := p.deliver(bufio.NewReaderSize(p.child.Stdout, 64<<10))
	p.Kill()
	io.Copy(io.Discard, p.child.Stdout)
	state := p.child.Wait()
	switch last := p.child.Stderr.String(); {
	case err != nil:
		p.err = err
	case strings.Contains(last, "out of memory") || strings.Contains(last, "cannot allocate memory"):
		p.err = fmt.Errorf("%w (%s)", ErrMemory, state)
	case last != "":
		p.err = fmt.Errorf("the runner ended (%s): %s", state, last)
	default:
		p.err = fmt.Errorf("the runner ended (%s)", state)
	}
	close(p.frames)
}

func (p *pipe) deliver(r *bufio.Reader) error {
	for first := true; ; first = false {
		line, err := readLine(r)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if first {
			process.Lower(p.child.Process) // with the threads that it has by now
		}
		if !utf8.Valid(line) {
			line = bytes.ToValidUTF8(line, []byte("\uFFFD")) // a guest's lone surrogates
		}
		f := new(frame.Frame)
		if err := json.Unmarshal(line, f); err != nil {
			return fmt.Errorf("the runner sent something that is no frame: %w", err)
		}
		select {
		case p.frames <- f:
		case <-p.dead:
			return nil
		}
	}
}

var (
	// ErrFrameSize reports a frame that is longer than any value needs.
	ErrFrameSize = errors.New("the runner sent a frame that is too long")
	// ErrMemory reports a runner that ended because the system refused it memory.
	ErrMemory = errors.New("the runner used more memory than its process may")
)

// readLine reads a line of at most frame.MaxSize bytes. The bytes are the caller's: frames keep parts of them.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if err == nil {
			return line, nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, io.EOF
		}
		if len(line) > frame.MaxSize {
			return nil, ErrFrameSize
		}
	}
}

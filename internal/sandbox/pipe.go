package sandbox

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
	"unicode/utf8"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/process"
)

// framesAhead is the maximum number of frames that are read before the host takes them.
const framesAhead = 8

// Link is a started guest process: Read reads its standard output, Write writes its standard input. Only one goroutine at a time calls each of them.
type Link interface {
	io.ReadWriter
	// Kill ends the process; Read and Write return soon after. It is called once, from any goroutine.
	Kill()
	// Wait returns the reason why the process ended. It is called once, after Kill.
	Wait() error
	// Pid returns the process id, for diagnosis; 0 if the process has none on this machine.
	Pid() int
}

// pipe is a runner that exchanges frames over a link.
type pipe struct {
	link   Link
	frames chan *frame.Frame
	err    error // valid once frames is closed
	kill   sync.Once
	dead   chan struct{} // closed by Kill, to end the delivery of frames

	mu      sync.Mutex
	queue   []byte        // frames to write
	some    chan struct{} // holds a token while queue is not empty
	writing bool          // the queue is being written
}

// direct is a Link that can take bytes without waiting. TryWrite returns the number of bytes that it took. It is not called during a Write.
type direct interface{ TryWrite(lines []byte) int }

// NewRunner returns a runner for a guest process.
func NewRunner(link Link) Runner { return newPipe(link) }

func newPipe(link Link) *pipe {
	p := &pipe{link: link, frames: make(chan *frame.Frame, framesAhead), dead: make(chan struct{}), some: make(chan struct{}, 1)}
	go p.read()
	go p.write()
	return p
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
	line = append(line, '\n')
	p.mu.Lock()
	if link, ok := p.link.(direct); ok && !p.writing && len(p.queue) == 0 {
		line = line[link.TryWrite(line):] // writes most frames without another goroutine
	}
	p.queue = append(p.queue, line...)
	p.mu.Unlock()
	if len(line) == 0 {
		return nil
	}
	select {
	case p.some <- struct{}{}:
	default:
	}
	return nil
}

// write moves frames from the queue to the runner, so that a guest that is busy for long does not block its host. The queue needs no limit of its
// own, because the host limits calls and values.
func (p *pipe) write() {
	for {
		select {
		case <-p.some:
		case <-p.dead:
			return
		}
		p.mu.Lock()
		lines := p.queue
		p.queue, p.writing = nil, true
		p.mu.Unlock()
		if _, err := p.link.Write(lines); err != nil {
			return // the runner is gone; read finds out why
		}
		p.mu.Lock()
		p.writing = false
		p.mu.Unlock()
	}
}

func (p *pipe) Frames() <-chan *frame.Frame { return p.frames }

func (p *pipe) Err() error { return p.err }

func (p *pipe) Pid() int { return p.link.Pid() }

func (p *pipe) Kill() {
	p.kill.Do(func() {
		close(p.dead)
		p.link.Kill()
	})
}

// read delivers frames until the process ends or breaks the protocol. Then it kills the process and waits for its end.
func (p *pipe) read() {
	err := p.deliver(bufio.NewReaderSize(p.link, 64<<10))
	p.Kill()
	io.Copy(io.Discard, p.link)
	p.err = p.link.Wait()
	if err != nil {
		p.err = err
	}
	close(p.frames)
}

func (p *pipe) deliver(r *bufio.Reader) error {
	for {
		line, err := readLine(r)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !utf8.Valid(line) {
			line = bytes.ToValidUTF8(line, []byte("\uFFFD")) // replaces lone surrogates that the guest sent
		}
		f := new(frame.Frame)
		if err := json.Unmarshal(line, f); err != nil {
			return fmt.Errorf("the runner sent something that is no frame: %w", err)
		}
		if deep(line) {
			return errDeep
		}
		select {
		case p.frames <- f:
		case <-p.dead:
			return nil
		}
	}
}

// StartProcess starts cmd as a runner. start starts cmd and sets cmd.Process: it is process.Start, or the method Start of a jail.Launcher.
func StartProcess(cmd *exec.Cmd, start func(*exec.Cmd) error) (Runner, error) {
	opened, err := process.Open(cmd, start)
	if err != nil {
		return nil, err
	}
	process.Lower(opened.Process)
	return processRunner{newPipe(&processLink{child: opened}), opened.Process}, nil
}

// processRunner is a runner in a process of this machine.
type processRunner struct {
	*pipe
	process *os.Process
}

// CPU returns the processor time that the process has used. The error is errors.ErrUnsupported on a system that never reports it.
func (r processRunner) CPU() (time.Duration, error) { return process.CPU(r.process.Pid) }

// Freeze freezes the process if stop is true, or lets it continue. It reports whether the system can do that.
func (r processRunner) Freeze(stop bool) bool { return process.Freeze(r.process, stop) }

type processLink struct {
	child   *process.Child
	lowered bool
}

func (l *processLink) Read(to []byte) (int, error) {
	n, err := l.child.Stdout.Read(to)
	if !l.lowered {
		l.lowered = true
		process.Lower(l.child.Process) // lowers all threads that exist now
	}
	return n, err
}

func (l *processLink) Write(lines []byte) (int, error) { return l.child.Stdin.Write(lines) }

func (l *processLink) TryWrite(lines []byte) int { return l.child.TryWrite(lines) }

func (l *processLink) Pid() int { return l.child.Process.Pid }

func (l *processLink) Kill() { l.child.Process.Kill() }

func (l *processLink) Wait() error {
	state := l.child.Wait()
	return Ended(state.String(), &l.child.Stderr)
}

// Ended returns the error that says why a runner ended. It contains the state of the process and the end of its standard error.
func Ended(state string, stderr *process.Tail) error {
	switch last := stderr.String(); {
	case stderr.OutOfMemory():
		return fmt.Errorf("%w (%s)", ErrMemory, state)
	case last != "":
		return fmt.Errorf("the runner ended (%s): %s", state, last)
	}
	return fmt.Errorf("the runner ended (%s)", state)
}

var (
	// ErrFrameSize reports a frame that is longer than any value needs.
	ErrFrameSize = errors.New("the runner sent a frame that is too long")
	errDeep      = fmt.Errorf("the runner sent a frame with a value that is nested more than %d levels deep", maxNested)
	// ErrMemory reports a runner that ended because the system refused it memory.
	ErrMemory = errors.New("the runner used more memory than its process may")
)

// maxNested is the maximum nesting depth of values in frames. It is more than the guest runtime allows. It is also so small that a value fits into
// the records and answers that contain it: these may be nested 10,000 levels deep.
const maxNested = 600

// deep reports whether a frame contains a value that is nested more deeply than any value that the guest runtime sends.
func deep(line []byte) bool {
	if bytes.Count(line, []byte("["))+bytes.Count(line, []byte("{")) <= maxNested {
		return false
	}
	depth, text := 0, false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '[' || c == '{':
			if depth++; depth > maxNested {
				return true
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return false
}

// readLine reads a line of at most frame.MaxSize bytes. The bytes are not reused, because frames keep parts of them.
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

//go:build unix

package worker

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// pipeInput reads frames on the engine's own thread: it blocks while the guest waits, and reads from the engine's interrupt hook
// while the guest computes. A separate goroutine would cost a thread switch for every answer.
type pipeInput struct {
	fd      int
	stop    *atomic.Bool // set when a cancel frame arrives
	lines   [][]byte
	size    int // bytes of lines
	partial []byte
	chunk   [64 << 10]byte
}

// maxAhead is the maximum number of bytes of frames that poll reads before the guest takes them. If more bytes arrive, the host has to wait, and
// poll does not see a cancel frame; the host then kills the process.
const maxAhead = 64 << 20

// newInput returns an input that reads frames from stdin.
func newInput(stdin io.Reader, stop *atomic.Bool) (input, error) {
	file, ok := stdin.(*os.File)
	if !ok {
		return nil, errors.New("standard input is not a file")
	}
	return &pipeInput{fd: int(file.Fd()), stop: stop}, nil // Fd sets the file to blocking mode
}

func (p *pipeInput) take() []byte {
	for len(p.lines) == 0 {
		p.read()
	}
	line := p.lines[0]
	p.lines = p.lines[1:]
	p.size -= len(line)
	return line
}

func (p *pipeInput) poll() {
	for p.size < maxAhead {
		ready := []unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}
		if n, err := unix.Poll(ready, 0); err != nil || n == 0 {
			return
		}
		p.read()
	}
}

// read waits for a chunk of input. When the host is gone it ends the process, whatever the guest is doing.
func (p *pipeInput) read() {
	n, err := unix.Read(p.fd, p.chunk[:])
	if errors.Is(err, unix.EINTR) {
		return
	}
	if err != nil || n == 0 {
		os.Exit(0)
	}
	for rest := p.chunk[:n]; len(rest) > 0; {
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			p.partial = append(p.partial, rest...)
			return
		}
		line := append(p.partial, rest[:end+1]...)
		p.partial = nil
		rest = rest[end+1:]
		if isCancel(line) {
			p.stop.Store(true)
		}
		p.lines = append(p.lines, line)
		p.size += len(line)
	}
}

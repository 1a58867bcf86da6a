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

// pipeInput reads frames on the engine's own thread: blocking while the guest waits, and from the engine's interrupt hook
// while it computes. A reader in a goroutine of its own would cost every answer a switch between threads.
type pipeInput struct {
	fd      int
	stop    *atomic.Bool // set when a cancel frame arrives
	lines   [][]byte
	size    int // bytes of lines
	partial []byte
	chunk   [64 << 10]byte
}

// maxAhead is how many bytes of frames poll takes in ahead of the guest. Behind more the host has to wait, and a cancel frame
// is not seen: the host kills the process then.
const maxAhead = 64 << 20

// newInput reads frames from stdin.
func newInput(stdin io.Reader, stop *atomic.Bool) (input, error) {
	file, ok := stdin.(*os.File)
	if !ok {
		return nil, errors.New("standard input is not a file")
	}
	return &pipeInput{fd: int(file.Fd()), stop: stop}, nil // Fd makes it blocking
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

// read waits for a chunk. When the host is gone the process ends, wherever the guest is.
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

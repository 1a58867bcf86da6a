//go:build !unix

package worker

import (
	"bufio"
	"io"
	"os"
	"sync/atomic"
)

// newInput returns an input that reads frames from stdin.
func newInput(stdin io.Reader, stop *atomic.Bool) (input, error) {
	q := newInbox()
	go q.read(stdin, stop)
	return q, nil
}

// read fills the inbox until the host is gone. Then it ends the process, whatever the guest is doing.
func (q *inbox) read(stdin io.Reader, stop *atomic.Bool) {
	reader := bufio.NewReaderSize(stdin, 64<<10)
	for {
		line, err := reader.ReadBytes('\n')
		if err != nil {
			os.Exit(0)
		}
		if isCancel(line) {
			stop.Store(true)
		}
		q.put(line)
	}
}

//go:build !unix

package wasm

import (
	"io"
	"sync/atomic"
)

// newInput reads frames from stdin.
func newInput(stdin io.Reader, stop *atomic.Bool) (input, error) {
	q := newInbox()
	go q.read(stdin, stop)
	return q, nil
}

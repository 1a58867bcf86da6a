package remote

import (
	"context"
	"crypto/hmac"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// answerTime is the time that a server has to accept or refuse a command. A server that takes longer does not execute the command, because the
// client gives up.
const answerTime = 3 * time.Second

// Streams are the standard streams of a client.
type Streams struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Password reads a line without echo, until ctx ends. Keyboard writes to the terminal that is the standard input. Both are nil if the standard
	// input is no terminal.
	Password func(ctx context.Context) (string, error)
	Keyboard io.Writer
	// Sizes receives the sizes of the terminals that are standard output and standard error, each time that a size changes. It is nil if no size
	// changes.
	Sizes <-chan [2]Stream
	// Signal returns the name of the signal that ended a context, or "" if no signal did.
	Signal func(cause error) string
}

// Do has the server of a state directory execute a command, and returns its exit code. An error that wraps ErrNone means that the command was not
// executed; an error that wraps ErrLost means that it may have been. When ctx ends the server cancels the command, and Do waits for the command's end.
// Do calls key only if a server listens.
func Do(ctx context.Context, state string, key func() (string, error), c Command, s Streams) (code int, err error) {
	raw, err := dial(state)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNone, err)
	}
	defer raw.Close()
	conn := newConn(raw)
	if err := enter(conn, key, c); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	cl := &client{conn: conn, streams: s, ctx: ctx, handles: map[int]io.Closer{}}
	defer cl.close()
	defer cl.asking.Wait() // the end of a passphrase prompt turns the echo of the terminal on again
	defer cancel()
	return cl.serve()
}

// enter authenticates both sides and waits until the server has accepted the command.
func enter(c *conn, key func() (string, error), command Command) error {
	none := func(err error) error { return fmt.Errorf("%w: %w", ErrNone, err) }
	if _, err := samePeer(c.Conn); err != nil {
		return none(err)
	}
	k, err := key()
	if err != nil {
		return none(err)
	}
	if err := c.SetDeadline(time.Now().Add(answerTime)); err != nil {
		return none(err)
	}
	ours := nonce()
	if err := c.send(frameNonce, ours); err != nil {
		return none(err)
	}
	kind, body, err := c.receive(maxFrame)
	switch {
	case err != nil:
		return none(err)
	case kind == frameRefused:
		return RefusedError(body)
	case kind != frameChallenge || len(body) != nonceSize+len(proof("", "", nil, nil)):
		return none(errProtocol)
	}
	theirs := body[:nonceSize]
	if !hmac.Equal(body[nonceSize:], proof(k, "server", ours, theirs)) {
		return none(errors.New("the server does not know the local token"))
	}
	text, err := json.Marshal(command)
	if err != nil {
		return none(err)
	}
	if len(text) > maxCommand {
		return none(errors.New("the command is too long"))
	}
	err = c.send(frameProof, proof(k, "client", theirs, ours))
	if err == nil {
		err = c.send(frameCommand, text)
	}
	if err != nil {
		return none(err)
	}
	kind, body, err = c.receive(maxFrame)
	switch {
	case err != nil:
		return none(err)
	case kind == frameRefused:
		return RefusedError(body)
	case kind != frameAccepted:
		return none(errProtocol)
	}
	if err := c.SetDeadline(time.Time{}); err != nil {
		return none(err)
	}
	if err := c.send(frameGo); err != nil { // the server begins only after the whole frame
		return none(err)
	}
	return nil
}

// dial connects to the socket of a state directory.
func dial(state string) (net.Conn, error) {
	dir := folder(state)
	c, err := net.DialTimeout("unix", filepath.Join(dir, socketName), answerTime)
	if err == nil {
		return c, nil
	}
	elsewhere, failed := os.ReadFile(filepath.Join(dir, elsewhereName))
	if failed != nil {
		return nil, err
	}
	return net.DialTimeout("unix", strings.TrimSpace(string(elsewhere)), answerTime)
}

// client answers the requests of the server while the server executes the command.
type client struct {
	conn    *conn
	streams Streams
	ctx     context.Context //nolint:containedctx // context of the command
	stdin   sync.Mutex      // held while standard input is read
	asking  sync.WaitGroup  // waits for passphrases that are being read

	mu      sync.Mutex
	handles map[int]io.Closer
	last    int
}

func (c *client) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range c.handles {
		h.Close()
	}
}

func (c *client) serve() (int, error) {
	defer context.AfterFunc(c.ctx, func() {
		if signal := c.streams.Signal(context.Cause(c.ctx)); signal != "" {
			_ = c.conn.send(frameSignal, []byte(signal)) // the loop below notices a server that is gone
		}
	})()
	done := make(chan struct{})
	defer close(done)
	go func() { // ends when serve returns
		for {
			select {
			case sizes, ok := <-c.streams.Sizes:
				if !ok {
					return
				}
				_ = c.conn.sendJSON(frameSizes, sizes, nil)
			case <-done:
				return
			}
		}
	}()
	for {
		k, body, err := c.conn.receive(maxFrame)
		if err != nil {
			return 0, ErrLost
		}
		switch k {
		case frameStdout:
			_, err = c.streams.Stdout.Write(body)
		case frameStderr:
			_, _ = c.streams.Stderr.Write(body) // a write error on standard error is ignored, as when the command runs without a server
		case frameKeyboard:
			if c.streams.Keyboard != nil {
				_, err = c.streams.Keyboard.Write(body)
			}
		case frameAsk:
			var q ask
			if _, err := decode(body, &q); err != nil {
				return 0, fmt.Errorf("%w: %w", ErrLost, err)
			}
			if q.Op == opPassword {
				c.asking.Go(func() { c.answer(q) })
				continue
			}
			go c.answer(q) // ends with the read, or with the process
		case frameExit:
			if len(body) != 4 {
				return 0, fmt.Errorf("%w: %w", ErrLost, errProtocol)
			}
			return int(binary.BigEndian.Uint32(body)), nil
		default:
			return 0, fmt.Errorf("%w: %w", ErrLost, errProtocol)
		}
		if err != nil { // closing the connection cancels the command
			return 0, &WriteError{err}
		}
	}
}

// WriteError reports that the client could not write the output of a command.
type WriteError struct{ Err error }

func (e *WriteError) Error() string { return "write the result: " + e.Err.Error() }

// Unwrap returns the error of the stream.
func (e *WriteError) Unwrap() error { return e.Err }

func (c *client) answer(q ask) {
	a, data, err := c.do(q)
	a.ID = q.ID
	if errors.Is(err, io.EOF) {
		a.EOF = true
	} else if err != nil {
		a.Err = failureOf(err)
	}
	_ = c.conn.sendJSON(frameAnswer, a, data) // a server that is gone needs no answer
}

func (c *client) do(q ask) (a answer, data []byte, err error) {
	switch q.Op {
	case opStdin:
		c.stdin.Lock()
		defer c.stdin.Unlock()
		return c.read(c.streams.Stdin, q.N)
	case opPassword:
		if c.streams.Password == nil {
			return a, nil, errProtocol
		}
		text, err := c.streams.Password(c.ctx)
		return a, []byte(text), err
	case opOpen:
		f, err := os.Open(q.Path)
		if err != nil {
			return a, nil, err
		}
		return c.keepFile(f)
	case opFolder:
		root, err := os.OpenRoot(q.Path)
		if err != nil {
			return a, nil, err
		}
		a.Handle = c.keep(root)
		return a, nil, nil
	case opIn, opStatIn:
		root, ok := c.handle(q.Handle).(*os.Root)
		if !ok {
			return a, nil, errProtocol
		}
		if q.Op == opStatIn {
			info, err := fs.Stat(root.FS(), q.Path)
			if err == nil {
				a.Info = infoOf(info)
			}
			return a, nil, err
		}
		f, err := root.FS().Open(q.Path)
		if err != nil {
			return a, nil, err
		}
		return c.keepFile(f)
	case opRead:
		f, ok := c.handle(q.Handle).(io.Reader)
		if !ok {
			return a, nil, errProtocol
		}
		return c.read(f, q.N)
	case opClose:
		c.mu.Lock()
		h := c.handles[q.Handle]
		delete(c.handles, q.Handle)
		c.mu.Unlock()
		if h == nil {
			return a, nil, errProtocol
		}
		return a, nil, h.Close()
	}
	return a, nil, errProtocol
}

func (c *client) read(r io.Reader, n int) (a answer, data []byte, err error) {
	data = make([]byte, min(max(n, 0), maxPiece))
	n, err = r.Read(data)
	return a, data[:n], err
}

func (c *client) keepFile(f fs.File) (a answer, data []byte, err error) {
	info, err := f.Stat()
	if err != nil {
		return a, nil, errors.Join(err, f.Close())
	}
	a.Info = infoOf(info)
	a.Handle = c.keep(f)
	return a, nil, nil
}

func (c *client) keep(h io.Closer) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	c.handles[c.last] = h
	return c.last
}

func (c *client) handle(n int) io.Closer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.handles[n]
}

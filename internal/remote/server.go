package remote

import (
	"context"
	"crypto/hmac"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/disk"
)

const (
	// enterTime is the time that a client has from its connection until its command begins.
	enterTime = 10 * time.Second
	// stallTime is the maximum time that a program waits for a client that does not read its output. The program holds a runner while it waits.
	stallTime = time.Minute
	// lastTime is the time that a client has to read the remaining output of a command that ended because the server stops.
	lastTime = 5 * time.Second
	// maxPrinted is the maximum number of bytes of standard error that are kept for a client that does not read.
	maxPrinted = 1 << 20
	// DefaultCommands is the default maximum number of concurrent commands. Further clients execute their commands themselves.
	DefaultCommands = 64
)

// The causes with which the context of a command ends, and ErrTaken, an error of Listen.
var (
	// ErrGone means that the client has disconnected or violated the protocol.
	ErrGone = errors.New("the client is gone")
	// ErrStopped means that the server stops.
	ErrStopped = errors.New("harness serve was stopped")
	// errStalled means that the client did not read the output.
	errStalled = errors.New("the client reads nothing")
	// ErrTaken means that another server takes the commands of this state directory.
	ErrTaken = errors.New("another server takes the commands of this state directory")
)

// Options configure a server.
type Options struct {
	State string // state directory
	Key   string // key that clients have to know
	Most  int    // maximum number of concurrent commands; 0: DefaultCommands
	// Execute executes a command and returns its exit code. It first calls Accept or Refuse of the session. The cause with which ctx ends is an
	// error from Signal, ErrGone, ErrStopped or an internal error.
	Execute func(ctx context.Context, s *Session) int
	// Signal returns the cause with which ctx ends after the client got the signal of this name. It returns nil for an unknown name.
	Signal func(name string) error
}

// Listener accepts the connections of clients.
type Listener struct {
	opt    Options
	socket net.Listener
	lock   *os.File
	temp   string // directory of a socket outside the state directory, or ""
}

// Listen opens the socket of a state directory. The error is ErrTaken if another server already listens there.
func Listen(opt Options) (_ *Listener, err error) {
	if opt.Most == 0 {
		opt.Most = DefaultCommands
	}
	dir := folder(opt.State)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, err
	}
	l := &Listener{opt: opt}
	if l.lock, err = os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			l.lock.Close()
		}
	}()
	taken, err := disk.TryLock(l.lock, true)
	switch {
	case err != nil:
		return nil, err
	case !taken:
		return nil, ErrTaken
	}
	forget(dir) // remove the socket of a server that was killed
	if l.socket, err = listen(filepath.Join(dir, socketName)); err == nil {
		return l, nil
	}
	// The path is too long for a socket, or the file system does not support sockets.
	if l.temp, err = os.MkdirTemp("", "harness-"); err != nil {
		return nil, err
	}
	path := filepath.Join(l.temp, socketName)
	if l.socket, err = listen(path); err == nil {
		err = disk.Replace(filepath.Join(dir, elsewhereName), []byte(path+"\n"), 0o600)
	}
	if err != nil {
		if l.socket != nil {
			l.socket.Close()
		}
		os.RemoveAll(l.temp)
		return nil, err
	}
	return l, nil
}

// forget removes the socket that an earlier server left behind. The caller holds the lock.
func forget(dir string) {
	os.Remove(filepath.Join(dir, socketName))
	file := filepath.Join(dir, elsewhereName)
	if text, err := os.ReadFile(file); err == nil {
		path := strings.TrimSpace(string(text))
		if filepath.Base(path) == socketName && strings.HasPrefix(filepath.Base(filepath.Dir(path)), "harness-") {
			os.Remove(path)
			os.Remove(filepath.Dir(path))
		}
		os.Remove(file)
	}
}

// listen creates a socket that only its owner may use, in a directory that only the owner may enter.
func listen(path string) (net.Listener, error) {
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// Path returns the path of the socket.
func (l *Listener) Path() string { return l.socket.Addr().String() }

// Serve executes commands until ctx ends. Running commands may continue for the grace period; then their contexts end. Serve returns when all have
// ended.
func (l *Listener) Serve(ctx context.Context, grace time.Duration) {
	dir := folder(l.opt.State)
	work, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	var all sync.WaitGroup
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		l.socket.Close()
		select {
		case <-ended:
		case <-time.After(grace):
			cut(ErrStopped)
		}
	})
	defer stop()
	places := make(chan struct{}, l.opt.Most)
	for {
		c, err := l.socket.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				break
			}
			select { // for example, too few file descriptors are left; some may be closed soon
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
			continue
		}
		select {
		case places <- struct{}{}:
		default:
			all.Go(func() { refuse(c, "harness serve is busy with other commands") })
			continue
		}
		all.Go(func() {
			defer func() { <-places }()
			l.handle(work, c)
		})
	}
	all.Wait()
	close(ended)
	forget(dir)
	if l.temp != "" {
		os.RemoveAll(l.temp)
	}
	l.lock.Close()
}

// refuse tells a client why the server does not take its command.
func refuse(raw net.Conn, why string) {
	defer raw.Close()
	c := newConn(raw)
	if c.SetDeadline(time.Now().Add(time.Second)) != nil {
		return
	}
	if _, err := c.expect(frameNonce, nonceSize); err == nil { // a client reads the reason only after it has sent its nonce
		_ = c.send(frameRefused, []byte(why)) // the client does not depend on this frame
	}
}

// handle executes the command of one connection.
func (l *Listener) handle(ctx context.Context, raw net.Conn) {
	defer raw.Close()
	peer, err := samePeer(raw)
	if err != nil {
		return
	}
	c := newConn(raw)
	if c.SetDeadline(time.Now().Add(enterTime)) != nil {
		return
	}
	command, err := l.admit(c)
	if err != nil {
		return
	}
	if err := sameFiles(peer); err != nil {
		_ = c.send(frameRefused, []byte(err.Error()))
		return
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &Session{Command: command, conn: c, cancel: cancel, pending: map[uint32]chan answer{}, printed: sync.NewCond(&sync.Mutex{}), done: make(chan struct{})}
	s.sizes = [2]Stream{command.Stdout, command.Stderr}
	s.signal = l.opt.Signal
	defer context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), ErrStopped) { // a client that does not read must not delay the stop of the server
			_ = c.SetDeadline(time.Now().Add(lastTime))
		}
	})()
	code := l.opt.Execute(ctx, s)
	s.finish(code)
}

// admit authenticates a client and reads its command.
func (l *Listener) admit(c *conn) (command Command, err error) {
	theirs, err := c.expect(frameNonce, nonceSize)
	if err != nil {
		return command, err
	}
	if len(theirs) != nonceSize {
		return command, errProtocol
	}
	ours := nonce()
	if err := c.send(frameChallenge, ours, proof(l.opt.Key, "server", theirs, ours)); err != nil {
		return command, err
	}
	given, err := c.expect(frameProof, nonceSize)
	if err != nil {
		return command, err
	}
	if !hmac.Equal(given, proof(l.opt.Key, "client", ours, theirs)) {
		return command, errProtocol
	}
	text, err := c.expect(frameCommand, maxCommand)
	if err != nil {
		return command, err
	}
	if err := json.Unmarshal(text, &command); err != nil {
		return command, err
	}
	return command, nil
}

// Session is a command that a client wants executed. Its methods are safe for concurrent use, unless they say otherwise.
type Session struct {
	Command

	conn    *conn
	cancel  context.CancelCauseFunc
	signal  func(name string) error
	reading sync.WaitGroup
	done    chan struct{} // closed when the command has ended
	begun   bool          // Accept has succeeded

	mu      sync.Mutex
	pending map[uint32]chan answer // unanswered asks, by ID; nil: the connection has ended
	last    uint32
	sizes   [2]Stream

	// A separate goroutine sends standard error, because a run must not wait for a client that only observes it.
	printed *sync.Cond // condition whose lock guards the fields below
	queue   []byte
	sending bool
	failed  error
	ended   bool
}

// Refuse tells the client why the server does not execute the command. Exactly one of Refuse and Accept is called, once.
func (s *Session) Refuse(why string) {
	_ = s.conn.send(frameRefused, []byte(why)) // the client does not depend on this frame
}

// Accept tells the client that the server executes the command. After an error the server must not execute it, because the client did not wait.
func (s *Session) Accept() error {
	if err := s.conn.send(frameAccepted); err != nil {
		return err
	}
	if _, err := s.conn.expect(frameGo, 0); err != nil {
		return err
	}
	if err := s.conn.SetDeadline(time.Time{}); err != nil {
		return err
	}
	s.begun = true
	s.reading.Go(s.receive)
	go s.send() // ends with finish, or with the connection
	return nil
}

// receive handles the frames of the client until the connection ends.
func (s *Session) receive() {
	defer func() {
		s.cancel(ErrGone)
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, answered := range s.pending {
			close(answered)
		}
		s.pending = nil
	}()
	for {
		k, body, err := s.conn.receive(maxFrame)
		if err != nil {
			return
		}
		switch k {
		case frameAnswer:
			var a answer
			if a.data, err = decode(body, &a); err != nil {
				return
			}
			s.mu.Lock()
			answered := s.pending[a.ID]
			delete(s.pending, a.ID)
			s.mu.Unlock()
			if answered == nil {
				return
			}
			answered <- a
		case frameSignal:
			cause := s.signal(string(body))
			if cause == nil {
				return
			}
			s.cancel(cause)
		case frameSizes:
			var sizes [2]Stream
			if _, err := decode(body, &sizes); err != nil {
				return
			}
			s.mu.Lock()
			s.sizes = sizes
			s.mu.Unlock()
		default:
			return
		}
	}
}

// ask sends a request to the client and waits for the answer, until the command or the connection has ended.
func (s *Session) ask(q ask) (answer, error) {
	answered := make(chan answer, 1)
	s.mu.Lock()
	if s.pending == nil || !s.begun {
		s.mu.Unlock()
		return answer{}, ErrGone
	}
	s.last++
	q.ID = s.last
	s.pending[q.ID] = answered
	s.mu.Unlock()
	if err := s.conn.sendJSON(frameAsk, q, nil); err != nil {
		return answer{}, ErrGone
	}
	select {
	case a, ok := <-answered:
		switch {
		case !ok:
			return a, ErrGone
		case a.Err != nil:
			return a, a.Err.error()
		}
		return a, nil
	case <-s.done:
		return answer{}, ErrGone
	}
}

// read asks the client for bytes and copies them into p.
func (s *Session) read(q ask, p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	q.N = min(len(p), maxPiece)
	a, err := s.ask(q)
	if len(a.data) > q.N {
		s.conn.Close()
		return 0, ErrGone
	}
	if err == nil && a.EOF {
		err = io.EOF
	}
	return copy(p, a.data), err
}

// Read reads the client's standard input.
func (s *Session) Read(p []byte) (int, error) { return s.read(ask{Op: opStdin}, p) }

// Password reads a line from the client's terminal without echo.
func (s *Session) Password() (string, error) {
	a, err := s.ask(ask{Op: opPassword})
	return string(a.data), err
}

// Keyboard writes to the terminal that is the client's standard input.
func (s *Session) Keyboard(p []byte) (int, error) { return s.pieces(frameKeyboard, p) }

// Sizes returns what is currently known of the client's standard output and standard error.
func (s *Session) Sizes() (stdout, stderr Stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sizes[0], s.sizes[1]
}

// Stdout writes to the client's standard output, after everything that was written to its standard error before. It waits until the connection
// takes the bytes.
func (s *Session) Stdout(p []byte) (int, error) {
	if err := s.flush(); err != nil {
		return 0, err
	}
	return s.pieces(frameStdout, p)
}

func (s *Session) pieces(k kind, p []byte) (n int, err error) {
	if !s.begun {
		return 0, ErrGone
	}
	for n < len(p) {
		piece := p[n:min(len(p), n+maxPiece)]
		if err := s.conn.send(k, piece); err != nil {
			return n, err
		}
		n += len(piece)
	}
	return n, nil
}

// Stderr writes to the client's standard error. It waits if the client has left maxPrinted bytes unread, and ends the command after stallTime.
func (s *Session) Stderr(p []byte) (int, error) {
	s.printed.L.Lock()
	defer s.printed.L.Unlock()
	if len(s.queue) > 0 && len(s.queue)+len(p) > maxPrinted {
		timer := time.AfterFunc(stallTime, func() {
			s.cancel(errStalled)
			s.conn.Close()
		})
		defer timer.Stop()
		for s.failed == nil && !s.ended && len(s.queue) > 0 && len(s.queue)+len(p) > maxPrinted {
			s.printed.Wait()
		}
	}
	if s.failed != nil || s.ended || !s.begun {
		return 0, ErrGone
	}
	s.queue = append(s.queue, p...)
	s.printed.Broadcast()
	return len(p), nil
}

// send sends the queue of standard error until the command has ended.
func (s *Session) send() {
	s.printed.L.Lock()
	defer s.printed.L.Unlock()
	for {
		for len(s.queue) == 0 && !s.ended && s.failed == nil {
			s.printed.Wait()
		}
		if len(s.queue) == 0 || s.failed != nil {
			return
		}
		piece := s.queue[:min(len(s.queue), maxPiece)]
		s.sending = true
		s.printed.L.Unlock()
		err := s.conn.send(frameStderr, piece)
		s.printed.L.Lock()
		s.sending = false
		if s.queue = s.queue[len(piece):]; len(s.queue) == 0 {
			s.queue = nil
		}
		if err != nil {
			s.failed = err
		}
		s.printed.Broadcast()
	}
}

// flush waits until all of standard error has been sent.
func (s *Session) flush() error {
	s.printed.L.Lock()
	defer s.printed.L.Unlock()
	for s.failed == nil && (len(s.queue) > 0 || s.sending) {
		s.printed.Wait()
	}
	return s.failed
}

// finish sends the exit code and closes the connection.
func (s *Session) finish(code int) {
	if s.begun {
		if s.flush() == nil {
			_ = s.conn.send(frameExit, binary.BigEndian.AppendUint32(nil, uint32(code))) // a client that is gone needs no exit code
		}
		s.printed.L.Lock()
		s.ended = true
		s.printed.Broadcast()
		s.printed.L.Unlock()
	}
	close(s.done)
	s.conn.Close()
	s.reading.Wait()
}

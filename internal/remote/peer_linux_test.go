package remote

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// nobody is the user of the attack.
const nobody = 65534

// Another user's process gets nothing of a server, even with its key and with a way to its socket.
func TestAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("becoming another user takes root: run it as root")
	}
	s := listenFor(t, 0, func(_ context.Context, s *Session) int {
		if s.Accept() != nil {
			return 1
		}
		return 9
	})
	streams := Streams{Stdout: io.Discard, Stderr: io.Discard}
	if code, err := s.do(t.Context(), Command{}, streams); code != 9 || err != nil {
		t.Fatalf("its own user: %d, %v", code, err)
	}
	attack := func() error {
		done := make(chan error, 1)
		go func() {
			runtime.LockOSThread() // the thread ends with the goroutine: it is another user's
			if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody); errno != 0 {
				done <- errno
				return
			}
			raw, err := dial(s.state)
			if err != nil {
				done <- err
				return
			}
			defer raw.Close()
			c := newConn(raw)
			if err = c.send(frameNonce, nonce()); err == nil {
				_, _, err = c.receive(maxFrame)
			}
			if err == nil {
				err = errors.New("it was answered")
			}
			done <- err
		}()
		return <-done
	}
	if err := attack(); !errors.Is(err, syscall.EACCES) {
		t.Errorf("the folder lets another user in: %v", err)
	}
	for _, path := range []string{filepath.Dir(s.state), s.state, folder(s.state), filepath.Join(folder(s.state), socketName)} { // somebody has opened every way
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := attack(); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		t.Errorf("the server takes another user's command: %v", err)
	}
}

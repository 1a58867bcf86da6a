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

// nobody is the user as which the test attacks the server.
const nobody = 65534

// TestAnotherUser: a process of another user gets no answer from a server, even if it knows the key and can reach the socket.
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
			runtime.LockOSThread() // the thread, which belongs to another user, ends with the goroutine
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
	// The loop stands for an owner who has opened the whole path to other users.
	for _, path := range []string{filepath.Dir(s.state), s.state, folder(s.state), filepath.Join(folder(s.state), socketName)} {
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := attack(); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		t.Errorf("the server takes another user's command: %v", err)
	}
}

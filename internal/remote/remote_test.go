//go:build linux || darwin

package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// patience bounds the waits of the tests. Only a failing test reaches it.
const patience = time.Minute

// served is a server that executes commands.
type served struct {
	state string
	stop  func()
	ended chan struct{} // closed when Serve has returned
}

func listenFor(t *testing.T, most int, execute func(ctx context.Context, s *Session) int) *served {
	t.Helper()
	state := t.TempDir()
	l, err := Listen(Options{State: state, Key: "key", Most: most, Execute: execute, Signal: func(name string) error { return errors.New(name) }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &served{state, stop, make(chan struct{})}
	go func() {
		l.Serve(ctx, 0)
		close(s.ended)
	}()
	t.Cleanup(func() {
		stop()
		arrives(t, "the end of the server", s.ended)
	})
	return s
}

func (s *served) do(ctx context.Context, c Command, streams Streams) (int, error) {
	if streams.Signal == nil {
		streams.Signal = func(cause error) string { return cause.Error() }
	}
	return Do(ctx, s.state, func() (string, error) { return "key", nil }, c, streams)
}

func arrives[T any](t *testing.T, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Errorf("%s does not come", what)
	}
	return v
}

// TestDo: a command gets the arguments, streams and files of its client, and the client gets the command's output, errors and exit code.
func TestDo(t *testing.T) {
	t.Parallel()
	s := listenFor(t, 0, func(_ context.Context, s *Session) int {
		if s.Accept() != nil {
			return 1
		}
		in, err := io.ReadAll(s)
		fmt.Fprintf(stderrOf(s), "read %d %v", len(in), err)
		_, _ = s.Stdout(in)
		password, err := s.Password()
		fmt.Fprintf(stderrOf(s), "; password %s %v", password, err)
		f, err := s.Open(s.Args[0])
		if err != nil {
			return 2
		}
		text, err := io.ReadAll(f)
		fmt.Fprintf(stderrOf(s), "; file %s %v", text, errors.Join(err, f.Close()))
		_, err = s.Open(s.Args[0] + ".none")
		path, ok := errors.AsType[*fs.PathError](err)
		fmt.Fprintf(stderrOf(s), "; none %v %v", ok && path.Op == "open", errors.Is(err, fs.ErrNotExist))
		return 77
	})
	file := filepath.Join(t.TempDir(), "a.txt")
	if err := os.WriteFile(file, []byte("of a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	in := strings.Repeat("0123456789", 3*maxPiece/10)
	var stdout, stderr bytes.Buffer
	code, err := s.do(t.Context(), Command{Args: []string{file}}, Streams{
		Stdin: strings.NewReader(in), Stdout: &stdout, Stderr: &stderr, Password: func(context.Context) (string, error) { return "secret", nil },
	})
	if code != 77 || err != nil {
		t.Errorf("%d, %v", code, err)
	}
	if stdout.String() != in {
		t.Errorf("standard output has %d bytes, standard input has %d", stdout.Len(), len(in))
	}
	if want := fmt.Sprintf("read %d <nil>; password secret <nil>; file of a file <nil>; none true true", len(in)); stderr.String() != want {
		t.Errorf("standard error: %s, want %s", &stderr, want)
	}
}

// stderrOf returns a writer to the client's standard error.
func stderrOf(s *Session) io.Writer { return writer(s.Stderr) }

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// TestClientIsKilled: the death of a client ends its command, whatever the command waits for.
func TestClientIsKilled(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]func(ctx context.Context, s *Session) error{
		"computing": func(ctx context.Context, _ *Session) error {
			<-ctx.Done()
			return context.Cause(ctx)
		},
		"reading": func(_ context.Context, s *Session) error {
			_, err := io.ReadAll(s)
			return err
		},
		"asking": func(_ context.Context, s *Session) error {
			_, err := s.Password()
			return err
		},
		"printing": func(_ context.Context, s *Session) (err error) {
			for err == nil {
				_, err = s.Stdout(make([]byte, maxPiece))
			}
			return ErrGone
		},
		"logging": func(_ context.Context, s *Session) (err error) {
			for err == nil {
				_, err = s.Stderr(make([]byte, maxPiece))
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begun, ended := make(chan struct{}), make(chan error, 1)
			s := listenFor(t, 0, func(ctx context.Context, s *Session) int {
				if s.Accept() != nil {
					return 1
				}
				close(begun)
				ended <- wait(ctx, s)
				return 0
			})
			raw, err := dial(s.state)
			if err != nil {
				t.Fatal(err)
			}
			defer raw.Close()
			if err := enter(newConn(raw), func() (string, error) { return "key", nil }, Command{}); err != nil {
				t.Fatal(err)
			}
			arrives(t, "the command", begun)
			raw.Close() // the kernel does the same for a process that is killed
			if err := arrives(t, "the end of the command", ended); !errors.Is(err, ErrGone) {
				t.Errorf("the command ends with %v", err)
			}
		})
	}
}

// TestServerIsKilled: when a server dies, the client knows whether its command may have been executed.
func TestServerIsKilled(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		execute func(s *Session)
		want    error
	}{
		"before the answer": {func(*Session) {}, ErrNone},
		"after it began":    {func(s *Session) { _ = s.Accept() }, ErrLost},
		"amid its output": {func(s *Session) {
			_ = s.Accept()
			_, _ = s.Stdout([]byte("half a l"))
		}, ErrLost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := listenFor(t, 0, func(_ context.Context, s *Session) int {
				c.execute(s)
				s.conn.Close() // the kernel does the same for a process that is killed
				return 0
			})
			if code, err := s.do(t.Context(), Command{}, Streams{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard}); code != 0 || !errors.Is(err, c.want) {
				t.Errorf("%d, %v, want %v", code, err, c.want)
			}
		})
	}
	if _, err := Do(t.Context(), t.TempDir(), func() (string, error) { return "key", nil }, Command{}, Streams{}); !errors.Is(err, ErrNone) {
		t.Errorf("without a server: %v", err)
	}
}

// TestClientDoesNotRead: a client that does not read the output delays only its own command. It does not delay the stop of the server.
func TestClientDoesNotRead(t *testing.T) {
	t.Parallel()
	printing := make(chan struct{})
	s := listenFor(t, 0, func(_ context.Context, s *Session) int {
		if s.Accept() != nil {
			return 1
		}
		if s.Args[0] == "quick" {
			return 5
		}
		close(printing)
		for {
			if _, err := s.Stdout(make([]byte, maxPiece)); err != nil {
				return 6
			}
		}
	})
	raw, err := dial(s.state)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	if err := enter(newConn(raw), func() (string, error) { return "key", nil }, Command{Args: []string{"much"}}); err != nil {
		t.Fatal(err)
	}
	arrives(t, "the command", printing)
	if code, err := s.do(t.Context(), Command{Args: []string{"quick"}}, Streams{Stdout: io.Discard, Stderr: io.Discard}); code != 5 || err != nil {
		t.Errorf("beside it: %d, %v", code, err)
	}
	s.stop()
	arrives(t, "the end of the server", s.ended)
}

// TestRefused: a client that does not know the key, or that comes while the maximum number of commands runs, gets an error that wraps ErrNone.
func TestRefused(t *testing.T) {
	t.Parallel()
	begun, end := make(chan struct{}), make(chan struct{})
	s := listenFor(t, 1, func(_ context.Context, s *Session) int {
		if s.Accept() == nil {
			close(begun)
			<-end
		}
		return 0
	})
	if _, err := Do(t.Context(), s.state, func() (string, error) { return "another key", nil }, Command{}, Streams{}); !errors.Is(err, ErrNone) {
		t.Errorf("with another key: %v", err)
	}
	first := make(chan error, 1)
	go func() {
		for { // tries again until the refused connection no longer counts
			_, err := s.do(context.Background(), Command{}, Streams{Stdout: io.Discard, Stderr: io.Discard})
			if !errors.Is(err, ErrNone) {
				first <- err
				return
			}
		}
	}()
	arrives(t, "the command", begun)
	_, err := s.do(t.Context(), Command{}, Streams{})
	if why, ok := errors.AsType[RefusedError](err); !ok || !strings.Contains(why.Error(), "busy") {
		t.Errorf("without a place: %v", err)
	}
	close(end)
	if err := arrives(t, "the end of the first", first); err != nil {
		t.Errorf("the first: %v", err)
	}
	if _, err := Listen(Options{State: s.state, Key: "key"}); !errors.Is(err, ErrTaken) {
		t.Errorf("a second server: %v", err)
	}
}

// TestFolderOfClient: through a folder of the client, the server can read only files inside the folder.
func TestFolderOfClient(t *testing.T) {
	t.Parallel()
	s := listenFor(t, 0, func(_ context.Context, s *Session) int {
		if s.Accept() != nil {
			return 1
		}
		folder, err := s.Folder(s.Args[0])
		if err != nil {
			return 2
		}
		defer folder.Close()
		text, err := fs.ReadFile(folder, "in/a.txt")
		fmt.Fprintf(stderrOf(s), "%s %v", text, err)
		for _, path := range []string{"out.txt", "../secret", "/etc/passwd", "away/secret"} {
			if text, err := fs.ReadFile(folder, path); err == nil {
				fmt.Fprintf(stderrOf(s), " %s: %s", path, text)
			}
		}
		return 0
	})
	outside := t.TempDir()
	dir := filepath.Join(outside, "folder")
	for name, text := range map[string]string{"secret": "secret", "folder/in/a.txt": "inside"} {
		path := filepath.Join(outside, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink("../secret", filepath.Join(dir, "out.txt")), os.Symlink("..", filepath.Join(dir, "away"))); err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	if code, err := s.do(t.Context(), Command{Args: []string{dir}}, Streams{Stdout: io.Discard, Stderr: &stderr}); code != 0 || err != nil || stderr.String() != "inside <nil>" {
		t.Errorf("%d, %v, %s", code, err, &stderr)
	}
}

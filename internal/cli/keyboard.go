package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// keyboard is a terminal at which the command's user types. Text that is written to it is shown there.
type keyboard interface {
	io.Writer
	// secret calls ask and reads a line without echo, until ctx ends. read reports whether the user completed the line.
	secret(ctx context.Context, ask func()) (text string, read bool, err error)
}

// keyboard returns the terminal that is standard input, or nil if there is none.
func (a *app) keyboard() keyboard {
	switch in := a.Stdin.(type) {
	case *os.File:
		if term.IsTerminal(int(in.Fd())) {
			return fileKeyboard{in}
		}
	case remoteInput:
		if in.Command.Stdin.Terminal {
			return in
		}
	}
	return nil
}

// piped reports whether standard input is a pipe or a file.
func (a *app) piped() bool {
	switch in := a.Stdin.(type) {
	case *os.File:
		info, err := in.Stat()
		return err == nil && (info.Mode()&os.ModeNamedPipe != 0 || info.Mode().IsRegular())
	case remoteInput:
		return in.Command.Stdin.Piped
	}
	return false
}

// fileKeyboard is a terminal of this process.
type fileKeyboard struct{ *os.File }

func (k fileKeyboard) secret(ctx context.Context, ask func()) (text string, read bool, err error) {
	before, err := term.GetState(int(k.Fd()))
	if err != nil {
		return "", false, fmt.Errorf("ask on the terminal: %w", err)
	}
	ask()
	type line struct {
		text []byte
		err  error
	}
	lines := make(chan line, 1)
	go func() { // ends when a line is read, or with the process
		text, err := term.ReadPassword(int(k.Fd()))
		lines <- line{text, err}
	}()
	select {
	case l := <-lines:
		if l.err != nil {
			return "", true, fmt.Errorf("read the passphrase: %w", l.err)
		}
		return string(l.text), true, nil
	case <-ctx.Done():
		return "", false, errors.Join(context.Cause(ctx), term.Restore(int(k.Fd()), before))
	}
}

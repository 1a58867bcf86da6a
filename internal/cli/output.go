package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"mcp-code-exec-harness/internal/disk"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/modelview"
	"mcp-code-exec-harness/internal/run"
)

// path resolves a path of the command line against the working directory.
func (a *app) path(p string) string {
	if filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(a.Dir, p)
}

// outcome prints how a run ended, and returns the error of the command.
func (a *app) outcome(out *run.Outcome) error {
	if out.Status == run.WaitingApproval {
		err := a.waits(*out.Approval)
		if a.flags.JSON {
			return errors.Join(a.json(out), err)
		}
		return err
	}
	return ended(a.printOutcome(out), out.Error == nil)
}

func (a *app) printOutcome(out *run.Outcome) error {
	if !a.flags.JSON {
		for _, w := range out.Warnings {
			fmt.Fprintln(a.Stderr, "warning: "+w)
		}
	}
	if out.Error == nil || a.flags.JSON {
		return a.answer(out, "%s\n", pretty(out.Output))
	}
	fmt.Fprint(a.Stderr, modelview.Failure(out))
	return nil
}

// pretty returns a value as text for people: a string without quotes, any other value indented.
func pretty(raw json.RawMessage) string {
	var text string
	if bytes.HasPrefix(raw, []byte{'"'}) && json.Unmarshal(raw, &text) == nil {
		return text
	}
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

// checkRecord checks that the file of --record can be written. Commands call it first, so that they start nothing that cannot be recorded.
func (a *app) checkRecord(path string) error {
	if path == "" {
		return nil
	}
	path = a.path(path)
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return usage(fmt.Errorf("write the recording: %s is a directory; name a file in it", path))
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		err = errors.Unwrap(err) // drops the name of the temporary file
		return usage(fmt.Errorf("write the recording: %s: %w; name a file in a directory that exists and that you may write to", path, err))
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// saveRecording writes the file of --record. err is the error of making the recording; if it is not nil, saveRecording returns it.
func (a *app) saveRecording(path string, recording any, err error) error {
	var text []byte
	if err == nil {
		text, err = journal.EncodeLines(recording)
	}
	if err == nil {
		err = disk.Replace(a.path(path), text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("save the recording: %w", err)
	}
	return nil
}

// openRecording reads the file of --replay.
func openRecording[T any](a *app, file string, decode func(io.Reader) (T, error)) (recording T, err error) {
	f, err := os.Open(a.path(file))
	if err != nil {
		return recording, usage(fmt.Errorf("open the recording: %w; --record makes one", err))
	}
	defer f.Close()
	if recording, err = decode(f); err != nil {
		return recording, usage(fmt.Errorf("%s: %w", file, err))
	}
	return recording, nil
}

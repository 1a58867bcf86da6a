package runs

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"path"
	"strings"
	"unicode/utf8"

	"mcp-code-exec-harness/internal/files"
	"mcp-code-exec-harness/internal/input"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/pii"
)

// Input is the data that a run works on: Text, or a file of the session's workspace.
type Input struct {
	Name   string       // name of the file, for its format and for the program; may be empty
	Format input.Format // if empty, derived from the name and the beginning of the text
	Text   io.Reader
	Path   string // path in the workspace; empty for Text
}

// inputFile is the name of an input's copy in the directory of its run.
const inputFile = "input"

// take copies the input for the run, so that it does not change until the run has ended. An InvalidError says what is wrong with the input.
func (e *environment) take(ctx context.Context, in *Input) error {
	if in == nil {
		return nil
	}
	name := in.Name
	text := in.Text
	from := pii.Origin("")
	if in.Path != "" {
		at := strings.TrimPrefix(in.Path, "/workspace/")
		by := e.workspace.Hand(at)
		f, info, err := e.workspace.Open(at)
		if err != nil {
			return InvalidError("the input: " + err.Error())
		}
		defer f.Close()
		name, text = cmp.Or(name, path.Base(in.Path)), f
		switch {
		case by.Given == 0 || by != e.workspace.Hand(at):
			from = pii.FromProgram
		case by.Given != info.Size():
			// The user and programs have written parts of the file, and it is unknown which. As in files of skills, guesses share no tokens, and
			// texts that look like tokens are not taken for tokens.
			from = pii.FromSkill
		}
	}
	dir, err := e.inputs()
	if err != nil {
		return err
	}
	defer dir.Close()
	buffered := bufio.NewReaderSize(text, 64<<10)
	beginning, err := buffered.Peek(64 << 10)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the input: %w", err)
	}
	given := &journal.Input{Name: name, Path: in.Path, From: string(from), Format: string(cmp.Or(in.Format, input.FormatOf(name, beginning)))}
	part := dir.Part(inputFile, "")
	seen := &checked{r: buffered, hash: sha256.New()}
	if given.Size, err = part.Receive(ctx, 0, seen); err == nil && seen.wrong == nil && len(seen.rest) > 0 {
		seen.wrong = notUTF8(given.Size)
	}
	if seen.wrong != nil {
		return seen.wrong
	}
	if err == nil {
		_, err = part.Complete(ctx, nil)
	}
	if err != nil {
		return fmt.Errorf("copy the input: %w", err)
	}
	given.SHA256 = hex.EncodeToString(seen.hash.Sum(nil))
	return e.use(dir, given)
}

// use opens the run's copy of an input.
func (e *environment) use(dir *files.Dir, given *journal.Input) error {
	f, info, err := dir.Open(inputFile)
	if err != nil {
		return fmt.Errorf("open the input: %w", err)
	}
	e.file, e.given = f, given
	e.input, err = input.NewReader(f, info.Size(), input.Format(given.Format))
	if wrong, ok := errors.AsType[*input.Error](err); ok {
		return InvalidError(wrong.Error())
	}
	return err
}

// takeAgain takes the input of a recorded run again: from in or, if in is nil, from the recorded path in the workspace. It returns an error if
// this is not the input that the run had.
func (e *environment) takeAgain(ctx context.Context, recorded *journal.Input, in *Input) error {
	switch {
	case recorded == nil && in != nil:
		return InvalidError("the run was recorded without an input")
	case recorded == nil:
		return nil
	case in == nil && recorded.Path != "":
		in = &Input{Path: recorded.Path}
	}
	what := fmt.Sprintf("its input, %s with %d bytes and the SHA-256 %s", cmp.Or(recorded.Name, "a text"), recorded.Size, recorded.SHA256)
	if in == nil {
		return InvalidError("a journal has no copy of " + what + ": give the same file again")
	}
	given := *in
	given.Name, given.Format = recorded.Name, input.Format(recorded.Format)
	err := e.take(ctx, &given)
	switch {
	case e.given == nil && given.Path != "" && err != nil:
		return InvalidError("the run needs " + what + ": " + err.Error())
	case e.given != nil && e.given.SHA256 != recorded.SHA256:
		return InvalidError("the run needs " + what + "; what is there now is another file, with " + fmt.Sprint(e.given.Size) + " bytes")
	case err != nil:
		return err
	}
	e.given = recorded
	return nil
}

// resumeInput opens the copy of the input of a run that is resumed.
func (e *environment) resumeInput(recorded *journal.Input) error {
	if recorded == nil {
		return nil
	}
	dir, err := e.inputs()
	if err != nil {
		return err
	}
	defer dir.Close()
	err = e.use(dir, recorded)
	if errors.Is(err, fs.ErrNotExist) {
		return InvalidError("the copy of the run's input is gone, so it cannot go on; run the program again with --input")
	}
	return err
}

// inputs opens the directory for the copy of the run's input.
func (e *environment) inputs() (*files.Dir, error) {
	base, err := e.s.opt.Inputs()
	if err != nil {
		return nil, err
	}
	e.copied = true
	return base.Open(e.user, e.runID)
}

func (e *environment) removeInput() {
	if !e.copied {
		return
	}
	if base, err := e.s.opt.Inputs(); err == nil {
		base.Remove(e.user, e.runID) // if this fails, SweepWorkspaces removes the copy
	}
}

// inputFrom returns the origin of values in the input. Files that programs wrote contain tokens of the session.
func (e *environment) inputFrom() pii.Origin {
	switch {
	case e.given == nil || e.given.Path == "":
		return pii.FromInput
	case e.given.From != "":
		return pii.Origin(e.given.From)
	}
	return pii.FromFile
}

// recall returns what the program gets for a recorded answer about its input.
func (e *environment) recall(recorded json.RawMessage) (json.RawMessage, error) {
	if e.input == nil {
		return nil, errors.New("the run has no input")
	}
	return e.input.Recall(recorded)
}

// checked is a reader that hashes a text and fails where the text is not UTF-8.
type checked struct {
	r     io.Reader
	hash  hash.Hash
	at    int64
	rest  []byte // the beginning of a character whose end has not been read
	wrong error
}

func (c *checked) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.hash.Write(p[:n])
	text := p[:n]
	if len(c.rest) > 0 {
		text = append(c.rest, text...)
	}
	whole := len(text)
	for i := 1; i <= min(utf8.UTFMax-1, len(text)); i++ {
		if last := text[len(text)-i:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				whole = len(text) - i
			}
			break
		}
	}
	if !utf8.Valid(text[:whole]) {
		for i := 0; ; {
			r, size := utf8.DecodeRune(text[i:])
			if r == utf8.RuneError && size == 1 {
				c.wrong = notUTF8(c.at - int64(len(c.rest)) + int64(i))
				return 0, c.wrong
			}
			i += size
		}
	}
	c.at += int64(n)
	c.rest = bytes.Clone(text[whole:])
	return n, err
}

func notUTF8(at int64) error {
	return InvalidError(fmt.Sprintf("the input is not UTF-8 at byte %d; convert it first, such as with iconv -f WINDOWS-1252 -t UTF-8", at))
}

package files

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/journal"
)

// MaxRead is the maximum number of bytes of a file that one host call reads.
const MaxRead = 8 << 20

// arguments are the arguments of all file calls; each call uses some of them.
type arguments struct {
	Path      string  `json:"path"`
	From      string  `json:"from"`
	To        string  `json:"to"`
	Encoding  string  `json:"encoding"`
	Offset    int64   `json:"offset"`
	Length    *int64  `json:"length"`
	Text      *string `json:"text"`
	Base64    *string `json:"base64"`
	Recursive bool    `json:"recursive"`
	Force     bool    `json:"force"`
}

// operation is one file call of a program.
type operation struct {
	syscall string // name of the system call in errors
	read    func(*Space, context.Context, *arguments) (any, error)
	change  func(*Space, context.Context, *arguments) error // nil for a call that changes nothing
}

var operations = map[string]operation{
	"readFile":   {"open", (*Space).callRead, nil},
	"writeFile":  {"open", nil, storing((*Dir).write)},
	"appendFile": {"open", nil, storing((*Dir).AppendFile)},
	"readdir":    {"scandir", (*Space).callList, nil},
	"stat":       {"stat", (*Space).callStat, nil},
	"exists":     {"access", (*Space).callExists, nil},
	"deleteFile": {"unlink", nil, changing(func(_ context.Context, d *Dir, p string, _ *arguments) error { return d.Delete(p) })},
	"rm": {"rm", nil, changing(func(ctx context.Context, d *Dir, p string, a *arguments) error {
		return d.Remove(ctx, p, a.Recursive, a.Force)
	})},
	"mkdir": {"mkdir", nil, changing(func(ctx context.Context, d *Dir, p string, a *arguments) error {
		return d.Mkdir(ctx, p, a.Recursive)
	})},
	"rename":   {"rename", nil, (*Space).callRename},
	"copyFile": {"copyfile", nil, (*Space).callCopy},
}

// changing returns the implementation of a call that changes the file or directory at its path.
func changing(change func(context.Context, *Dir, string, *arguments) error) func(*Space, context.Context, *arguments) error {
	return func(s *Space, ctx context.Context, a *arguments) error {
		d, rel, err := s.target(a.Path)
		if err != nil {
			return err
		}
		return change(ctx, d, rel, a)
	}
}

// storing returns the implementation of a call that writes data to its path.
func storing(write func(*Dir, context.Context, string, []byte) error) func(*Space, context.Context, *arguments) error {
	return func(s *Space, ctx context.Context, a *arguments) error {
		d, p, err := s.target(a.Path)
		if err != nil {
			return err
		}
		data, err := a.data()
		if err == nil {
			data, err = s.kept(ctx, d, p, data)
		}
		if err != nil {
			return err
		}
		return write(d, ctx, p, data)
	}
}

// kept returns the data to write into a file. For a file below /skills, this is the result of Keep.
func (s *Space) kept(ctx context.Context, d *Dir, p string, data []byte) ([]byte, error) {
	if d != s.skills || s.Keep == nil {
		return data, nil
	}
	old, err := d.ReadFile(p, 0, -1)
	if err != nil {
		old = nil // the old text does not exist, or is too large for a skill
	}
	return s.Keep(ctx, old, data)
}

// Mutates reports whether a file call may change something. The changing calls of a run execute one after another: the answer of each is
// committed to the journal before the next one begins. The answer is the value true.
func Mutates(name string) bool { return operations[name].change != nil }

// Call executes a host call of kind fs. Its errors have the name FSError and the data {code, path}. They never contain
// a path of the host.
func (s *Space) Call(ctx context.Context, name string, args json.RawMessage) (json.RawMessage, *frame.Error) {
	op, ok := operations[name]
	if !ok {
		return nil, wireError(&Error{Code: Invalid, Op: name, Detail: "fs has no such function"})
	}
	a, err := decode(args)
	if err != nil {
		return nil, wireError(&Error{Code: Invalid, Op: op.syscall, Detail: err.Error()})
	}
	if ctx.Err() != nil {
		return nil, cancelled()
	}
	var value any = true
	if op.change != nil {
		err = op.change(s, ctx, a)
	} else {
		value, err = op.read(s, ctx, a)
	}
	if err != nil && ctx.Err() != nil {
		return nil, cancelled()
	}
	var answer json.RawMessage
	if err == nil {
		answer, err = journal.Encode(value)
	}
	if err != nil {
		e := hostError(op.syscall, a.Path, err)
		if name == "rename" || name == "copyFile" {
			e.Path, e.To = shown(a.From), shown(a.To)
		}
		return nil, wireError(e)
	}
	return answer, nil
}

func decode(args json.RawMessage) (*arguments, error) {
	var a arguments
	if err := frame.DecodeArgs(args, &a); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
			value, _, _ := strings.Cut(wrong.Value, " ") // the kind of value; after "number", the literal follows, which can be long
			return nil, fmt.Errorf("%s may not be a %s", wrong.Field, value)
		}
		return nil, errors.New("the arguments are not an object")
	}
	return &a, nil
}

func cancelled() *frame.Error {
	return &frame.Error{Kind: frame.KindCancelled, Name: "Error", Message: "the run was cancelled"}
}

func wireError(e *Error) *frame.Error {
	data, _ := json.Marshal(map[string]string{"code": e.Code, "path": e.Path}) // strings always encode
	return &frame.Error{Kind: frame.KindRuntime, Name: "FSError", Message: e.Error(), Data: data}
}

func (s *Space) callRead(ctx context.Context, a *arguments) (any, error) {
	length := int64(-1)
	if a.Length != nil {
		if length = *a.Length; length < 0 {
			return nil, invalid("the length is negative")
		}
	}
	switch a.Encoding {
	case "base64":
		data, err := s.read(ctx, a.Path, a.Offset, length)
		return map[string]string{"base64": base64.StdEncoding.EncodeToString(data)}, err
	case "", "utf8":
		text, err := s.readText(ctx, a.Path, a.Offset, length)
		return map[string]string{"text": text}, err
	}
	return nil, invalid("the encoding must be utf8 or base64")
}

// readText returns the characters that begin in a range of bytes. Consecutive ranges thus give the whole
// text even if a boundary splits a character. Data that is not UTF-8 is an error.
func (s *Space) readText(ctx context.Context, p string, offset, length int64) (string, error) {
	more := length
	if length >= 0 {
		more += utf8.UTFMax - 1 // for the rest of a last character that the range splits
	}
	data, err := s.read(ctx, p, offset, more)
	if err != nil {
		return "", err
	}
	start := 0
	for offset > 0 && start < utf8.UTFMax-1 && start < len(data) && !utf8.RuneStart(data[start]) {
		start++
	}
	end := len(data)
	if length >= 0 && int64(end) > length {
		end = max(start, int(length))
		for end < len(data) && !utf8.RuneStart(data[end]) {
			end++
		}
	}
	if data = data[start:end]; !utf8.Valid(data) {
		return "", invalid("the file is not UTF-8 text; read it with the encoding 'base64'")
	}
	return string(data), nil
}

// WriteFrom writes size bytes from r to a file, as writeFile does, without holding all of them in memory.
func (s *Space) WriteFrom(ctx context.Context, p string, size int64, r io.Reader) error {
	d, rel, err := s.target(p)
	if err == nil {
		err = d.writeFrom(ctx, rel, size, r)
	}
	if err != nil {
		return hostError("open", p, err)
	}
	return nil
}

func (a *arguments) data() ([]byte, error) {
	switch {
	case a.Text != nil && a.Base64 == nil:
		return []byte(*a.Text), nil
	case a.Base64 != nil && a.Text == nil:
		data, err := base64.StdEncoding.DecodeString(*a.Base64)
		if err != nil {
			return nil, invalid("the data is not valid base64")
		}
		return data, nil
	}
	return nil, invalid("the data to write is missing; it must be a string or bytes")
}

// target returns the Dir and the relative path of a file or directory to change.
func (s *Space) target(p string) (*Dir, string, error) {
	at, err := s.route(p)
	switch {
	case err != nil || at.dir != nil:
		return at.dir, at.rel, err
	case at.tree == "skills":
		return nil, "", &Error{Code: Denied, Detail: "skills of other users can only be read; propose a change with harness skills propose"}
	case at.tree == "servers":
		return nil, "", &Error{Code: Denied, Detail: "./servers is made from the connected servers and cannot be changed"}
	}
	return nil, "", &Error{Code: Denied, Detail: "only /skills and /workspace can be written to"}
}

// dirEntry is an element of readdir's answer. Name is relative to the listed directory, as in Node.js.
type dirEntry struct {
	Name string `json:"name"`
	Path string `json:"path"`
	Type string `json:"type"`
	Size int64  `json:"size"`
}

func (s *Space) callList(ctx context.Context, a *arguments) (any, error) {
	at, err := s.route(a.Path)
	if err != nil {
		return nil, err
	}
	list, err := s.listPlace(ctx, at, a.Recursive)
	if err == nil && len(list) > maxList { // the list can span several trees
		return nil, errLong
	}
	top := strings.TrimSuffix(at.String(), "/") + "/"
	out := make([]dirEntry, len(list))
	for i, e := range list {
		out[i] = dirEntry{strings.TrimPrefix(e.Path, top), e.Path, typeOf(e), e.Size}
	}
	return out, err
}

func typeOf(e Entry) string {
	if e.IsDir {
		return "directory"
	}
	return "file"
}

func (s *Space) callStat(ctx context.Context, a *arguments) (any, error) {
	e, err := s.stat(ctx, a.Path)
	ms := int64(0) // files made on demand have no modification time
	if !e.ModTime.IsZero() {
		ms = e.ModTime.UnixMilli()
	}
	return map[string]any{"type": typeOf(e), "size": e.Size, "mtimeMs": ms}, err
}

// callExists returns false for any path that a program could not open, as existsSync does.
func (s *Space) callExists(ctx context.Context, a *arguments) (any, error) {
	_, err := s.stat(ctx, a.Path)
	if e, ok := errors.AsType[*Error](err); ok && e.Code == IO {
		return nil, err
	}
	return err == nil, nil
}

func (s *Space) callCopy(ctx context.Context, a *arguments) error {
	dst, to, err := s.target(a.To)
	if err != nil {
		return err
	}
	at, err := s.route(a.From)
	switch {
	case err != nil:
		return err
	case at.tree == "":
		return &Error{Code: IsDirectory}
	case s.virtual(at) != nil:
		data, err := s.read(ctx, a.From, 0, -1)
		if err == nil {
			data, err = s.kept(ctx, dst, to, data)
		}
		if err != nil {
			return err
		}
		return dst.write(ctx, to, data)
	}
	if err := s.moves(ctx, dst, to, at.dir, at.rel); err != nil {
		return err
	}
	return Copy(ctx, dst, to, at.dir, at.rel)
}

// moves returns an error for a file of /workspace whose text must not be stored in /skills unchanged.
func (s *Space) moves(ctx context.Context, dst *Dir, to string, src *Dir, from string) error {
	if dst != s.skills || src == s.skills || s.Keep == nil {
		return nil
	}
	data, err := src.ReadFile(from, 0, -1)
	if err != nil {
		return err
	}
	kept, err := s.kept(ctx, dst, to, data)
	if err == nil && !bytes.Equal(kept, data) {
		err = invalid("the file has tokens of this session; read it, and write what is to be kept")
	}
	return err
}

// callRename renames a file or directory. It also moves files between /skills and /workspace.
func (s *Space) callRename(ctx context.Context, a *arguments) error {
	src, from, err := s.target(a.From)
	if err != nil {
		return err
	}
	dst, to, err := s.target(a.To)
	if err != nil {
		return err
	}
	if src == dst {
		return src.Rename(ctx, from, to)
	}
	if e, err := src.Stat(from); err != nil {
		return err
	} else if e.IsDir {
		return invalid("a directory cannot be moved between /skills and /workspace; copy its files")
	}
	if err := s.moves(ctx, dst, to, src, from); err != nil {
		return err
	}
	return Move(ctx, dst, to, src, from)
}

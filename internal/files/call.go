package files

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"unicode/utf8"

	"mcp-code-exec-harness/internal/frame"
)

// maxRead is the number of bytes that one host call reads of a file.
const maxRead = 8 << 20

// arguments are those of every file call; which are used depends on the call.
type arguments struct {
	Path      string  `json:"path"`
	From      string  `json:"from"`
	To        string  `json:"to"`
	Encoding  string  `json:"encoding"`
	Offset    *int64  `json:"offset"`
	Length    *int64  `json:"length"`
	Text      *string `json:"text"`
	Base64    *string `json:"base64"`
	Recursive bool    `json:"recursive"`
	Force     bool    `json:"force"`
}

// operation is one file call of a program.
type operation struct {
	syscall string // what errors call it
	mutates bool
	run     func(*Space, context.Context, *arguments) (any, error)
}

func operationOf(name string) (operation, bool) {
	switch name {
	case "readFile":
		return operation{"open", false, (*Space).callRead}, true
	case "writeFile":
		return operation{"open", true, (*Space).callWrite}, true
	case "appendFile":
		return operation{"open", true, (*Space).callAppend}, true
	case "readdir":
		return operation{"scandir", false, (*Space).callList}, true
	case "stat":
		return operation{"stat", false, (*Space).callStat}, true
	case "exists":
		return operation{"access", false, (*Space).callExists}, true
	case "deleteFile":
		return operation{"unlink", true, (*Space).callDelete}, true
	case "rm":
		return operation{"rm", true, (*Space).callRemove}, true
	case "mkdir":
		return operation{"mkdir", true, (*Space).callMkdir}, true
	case "rename":
		return operation{"rename", true, (*Space).callRename}, true
	case "copyFile":
		return operation{"copyfile", true, (*Space).callCopy}, true
	}
	return operation{}, false
}

// Mutates says whether a file call may change something. Such calls of a run must execute one after another, each
// answer committed to the journal before the next begins. Every one of them answers true.
func Mutates(name string) bool {
	op, _ := operationOf(name)
	return op.mutates
}

// Call executes a host call of kind fs. Its errors have the name FSError and the data {code, path}; they never show
// a path of the host.
func (s *Space) Call(ctx context.Context, name string, args json.RawMessage) (json.RawMessage, *frame.Error) {
	op, ok := operationOf(name)
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
	value, err := op.run(s, ctx, a)
	if err != nil && ctx.Err() != nil {
		return nil, cancelled()
	}
	var answer bytes.Buffer
	if err == nil {
		enc := json.NewEncoder(&answer)
		enc.SetEscapeHTML(false)
		err = enc.Encode(value)
	}
	if err != nil {
		e := hostError(op.syscall, a.Path, err)
		if name == "rename" || name == "copyFile" {
			e.Path, e.To = shown(a.From), shown(a.To)
		}
		return nil, wireError(e)
	}
	return bytes.TrimSuffix(answer.Bytes(), []byte("\n")), nil
}

func decode(args json.RawMessage) (*arguments, error) {
	var a arguments
	if err := frame.DecodeArgs(args, &a); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) && wrong.Field != "" {
			value, _, _ := strings.Cut(wrong.Value, " ") // of a number the literal follows, however long
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
	data, err := json.Marshal(map[string]string{"code": e.Code, "path": e.Path})
	if err != nil {
		data = nil // two strings always encode
	}
	return &frame.Error{Kind: frame.KindRuntime, Name: "FSError", Message: e.Error(), Data: data}
}

func (s *Space) callRead(ctx context.Context, a *arguments) (any, error) {
	offset, length := int64(0), int64(-1)
	if a.Offset != nil {
		offset = *a.Offset
	}
	if a.Length != nil {
		if length = *a.Length; length < 0 {
			return nil, &Error{Code: Invalid, Detail: "the length is negative"}
		}
	}
	switch a.Encoding {
	case "base64":
		data, err := s.read(ctx, a.Path, offset, length)
		return map[string]string{"base64": base64.StdEncoding.EncodeToString(data)}, err
	case "", "utf8":
		text, err := s.readText(ctx, a.Path, offset, length)
		return map[string]string{"text": text}, err
	}
	return nil, &Error{Code: Invalid, Detail: "the encoding must be utf8 or base64"}
}

// readText returns the characters that begin in a range of bytes, so that ranges one after another give the whole
// text even where they cut a character in two. What is not UTF-8 is no text and never passes for it.
func (s *Space) readText(ctx context.Context, p string, offset, length int64) (string, error) {
	more := length
	if length >= 0 {
		more += utf8.UTFMax - 1 // the rest of a last character that is cut
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
		return "", &Error{Code: Invalid, Detail: "the file is not UTF-8 text; read it with the encoding 'base64'"}
	}
	return string(data), nil
}

func (s *Space) callWrite(ctx context.Context, a *arguments) (any, error) {
	return s.store(ctx, a, (*Dir).write)
}

// WriteFrom writes the size bytes that r has to a file, as writeFile does, without holding them.
func (s *Space) WriteFrom(ctx context.Context, p string, size int64, r io.Reader) error {
	d, rel, err := s.target(p)
	if err == nil {
		err = d.change("open", rel, func(st *state, name string) error { return st.put(ctx, name, size, r) })
	}
	if err != nil {
		return hostError("open", p, err)
	}
	return nil
}

func (s *Space) callAppend(ctx context.Context, a *arguments) (any, error) {
	return s.store(ctx, a, (*Dir).AppendFile)
}

func (s *Space) store(ctx context.Context, a *arguments, write func(*Dir, context.Context, string, []byte) error) (any, error) {
	data, err := a.data()
	if err != nil {
		return nil, err
	}
	d, rel, err := s.target(a.Path)
	if err != nil {
		return nil, err
	}
	return true, write(d, ctx, rel, data)
}

func (a *arguments) data() ([]byte, error) {
	switch {
	case a.Text != nil && a.Base64 == nil:
		return []byte(*a.Text), nil
	case a.Base64 != nil && a.Text == nil:
		data, err := base64.StdEncoding.DecodeString(*a.Base64)
		if err != nil {
			return nil, &Error{Code: Invalid, Detail: "the data is not valid base64"}
		}
		return data, nil
	}
	return nil, &Error{Code: Invalid, Detail: "the data to write is missing; it must be a string or bytes"}
}

// target returns the Dir and relative path of something to change.
func (s *Space) target(p string) (*Dir, string, error) {
	at, bad := s.route(p)
	if bad != nil {
		return nil, "", bad
	}
	d, bad := s.dir(at)
	if bad != nil {
		return nil, "", bad
	}
	return d, at.rel, nil
}

// dirEntry is an element of readdir's answer. Its name is relative to the directory that was listed, as in Node.js.
type dirEntry struct {
	Name string `json:"name"`
	Path string `json:"path"`
	Type string `json:"type"`
	Size int64  `json:"size"`
}

func (s *Space) callList(ctx context.Context, a *arguments) (any, error) {
	at, bad := s.route(a.Path)
	if bad != nil {
		return nil, bad
	}
	list, err := s.listPlace(ctx, at, a.Recursive)
	if err == nil && len(list) > maxList { // those of several trees
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
	ms := int64(0)
	if !e.ModTime.IsZero() {
		ms = e.ModTime.UnixMilli()
	}
	return map[string]any{"type": typeOf(e), "size": e.Size, "mtimeMs": ms}, err
}

// callExists answers false for everything that a program could not open, as existsSync does.
func (s *Space) callExists(ctx context.Context, a *arguments) (any, error) {
	_, err := s.stat(ctx, a.Path)
	var e *Error
	if errors.As(err, &e) && e.Code == IO {
		return nil, err
	}
	return err == nil, nil
}

func (s *Space) callDelete(_ context.Context, a *arguments) (any, error) {
	d, rel, err := s.target(a.Path)
	if err != nil {
		return nil, err
	}
	return true, d.Delete(rel)
}

func (s *Space) callRemove(ctx context.Context, a *arguments) (any, error) {
	d, rel, err := s.target(a.Path)
	if err != nil {
		return nil, err
	}
	e, err := d.Stat(rel)
	switch {
	case errors.Is(err, fs.ErrNotExist) && a.Force:
		return true, nil
	case err != nil:
		return nil, err
	case !e.IsDir:
		return true, d.Delete(rel)
	case a.Recursive:
		return true, d.RemoveAll(ctx, rel)
	}
	err = d.RemoveDir(rel)
	var full *Error
	if errors.As(err, &full) && full.Code == NotEmpty {
		full.Detail = "use {recursive: true} to remove what is in it too"
	}
	return true, err
}

func (s *Space) callMkdir(ctx context.Context, a *arguments) (any, error) {
	d, rel, err := s.target(a.Path)
	if err != nil {
		return nil, err
	}
	return true, d.Mkdir(ctx, rel, a.Recursive)
}

func (s *Space) callCopy(ctx context.Context, a *arguments) (any, error) {
	dst, to, err := s.target(a.To)
	if err != nil {
		return nil, err
	}
	at, bad := s.route(a.From)
	switch {
	case bad != nil:
		return nil, bad
	case at.tree == "":
		return nil, &Error{Code: IsDirectory}
	case at.tree == "servers":
		data, err := s.read(ctx, a.From, 0, -1)
		if err != nil {
			return nil, err
		}
		return true, dst.write(ctx, to, data)
	}
	src, _ := s.dir(at)
	return true, Copy(ctx, dst, to, src, at.rel)
}

// callRename moves between /skills and /workspace, too.
func (s *Space) callRename(ctx context.Context, a *arguments) (any, error) {
	src, from, err := s.target(a.From)
	if err != nil {
		return nil, err
	}
	dst, to, err := s.target(a.To)
	if err != nil {
		return nil, err
	}
	if src == dst {
		return true, src.Rename(ctx, from, to)
	}
	if e, err := src.Stat(from); err != nil {
		return nil, err
	} else if e.IsDir {
		return nil, &Error{Code: Invalid, Detail: "a directory cannot be moved between /skills and /workspace; copy its files"}
	}
	return true, Move(ctx, dst, to, src, from)
}

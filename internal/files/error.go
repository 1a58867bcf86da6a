package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"mcp-code-exec-harness/internal/bucket"
	"mcp-code-exec-harness/internal/clip"
)

// The codes of an [Error], as in Node.js.
const (
	NotFound    = "ENOENT"
	Denied      = "EACCES"
	Exists      = "EEXIST"
	IsDirectory = "EISDIR"
	NotDir      = "ENOTDIR"
	NoSpace     = "ENOSPC"
	Invalid     = "EINVAL"
	NotEmpty    = "ENOTEMPTY"
	IO          = "EIO" // the host's own file system failed
)

// Error is the failure of a file operation, in the form of Node.js. It never contains a path of the host.
type Error struct {
	Code   string // a code as in Node.js, such as NotFound
	Op     string // open, scandir, unlink, ...
	Path   string // path as the caller wrote it
	To     string // second path of rename and copyfile
	Detail string // the cause and what to do next; may be empty
}

func (e *Error) Error() string {
	text := e.Code + ": " + meanings[e.Code] + ", " + e.Op + " '" + e.Path + "'"
	if e.To != "" {
		text += " -> '" + e.To + "'"
	}
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

// Is matches sentinel errors of io/fs.
func (e *Error) Is(target error) bool {
	return target == fs.ErrNotExist && e.Code == NotFound || target == fs.ErrExist && e.Code == Exists ||
		target == fs.ErrPermission && e.Code == Denied
}

var meanings = map[string]string{
	NotFound:    "no such file or directory",
	Denied:      "permission denied",
	Exists:      "file already exists",
	IsDirectory: "illegal operation on a directory",
	NotDir:      "not a directory",
	NoSpace:     "no space left on device",
	Invalid:     "invalid argument",
	NotEmpty:    "directory not empty",
	IO:          "i/o error",
}

func noSpace(format string, args ...any) error {
	return &Error{Code: NoSpace, Detail: fmt.Sprintf(format, args...)}
}

func invalid(format string, args ...any) error {
	return &Error{Code: Invalid, Detail: fmt.Sprintf(format, args...)}
}

// shown returns a path for an error; if the path is too long, only its beginning.
func shown(p string) string {
	if len(p) <= maxGiven {
		return p
	}
	return clip.Text(p, 100)
}

// hostError turns an error of the host's file system into an Error without the host's path.
func hostError(op, path string, err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return &Error{Code: e.Code, Op: op, Path: shown(path), Detail: e.Detail}
	}
	e := &Error{Code: IO, Op: op, Path: shown(path)}
	var errno syscall.Errno
	switch {
	case errors.Is(err, bucket.ErrUnavailable) && !errors.Is(err, context.Canceled): // first: it wraps errors of the network
		e.Detail = "the bucket of the files does not answer; try again later"
	case errors.Is(err, fs.ErrNotExist):
		e.Code = NotFound
	case isNotEmpty(err): // before ErrExist, which also matches this error
		e.Code = NotEmpty
	case errors.Is(err, fs.ErrExist):
		e.Code = Exists
	case isDiskFull(err):
		e.Code, e.Detail = NoSpace, "the disk of the host is full; what was stored before is unchanged"
	case errors.Is(err, fs.ErrPermission):
		e.Code, e.Detail = Denied, "the harness may not do this; check owner and mode of its directories"
	case errors.Is(err, fs.ErrClosed):
		e.Code, e.Detail = NotFound, "the directory was removed, because its session or run has ended"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		e.Detail = "it was ended early"
	case errors.Is(err, bucket.ErrConflict):
		e.Detail = "other runs kept changing the same files; try again"
	case errors.As(err, &errno):
		e.Detail = errno.Error()
	}
	return e
}

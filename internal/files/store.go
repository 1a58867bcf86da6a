package files

import (
	"context"
	"crypto/sha256"
	"io"
	"io/fs"
	"time"
)

// Base holds one directory per owner: in a directory of the host (OpenBase) or in a bucket (OpenBucket). It is safe for concurrent use.
type Base interface {
	// Open returns the directory of an owner, given as one or more ids (user, then session), which may be any text. It creates
	// nothing before the first write. Dirs of the same owner share their quota. The caller closes the Dir.
	Open(ids ...string) (*Dir, error)

	// Remove deletes the directory of an owner with its content. Operations on Dirs that are open on it fail from then on. Removing a directory that
	// does not exist is no error.
	Remove(ids ...string) error

	// Sweep removes leftovers of interrupted removals. It also removes a directory whose second id is that of a run, if the directory was last changed
	// before the given time and ended returns true for the run. It keeps open directories.
	Sweep(ctx context.Context, before time.Time, ended func(run string) bool) error

	// Close closes the base. Operations on Dirs that are still open fail from then on.
	Close() error
}

// Dir is the directory of one owner. Paths in it are relative and slash-separated; "" and "." are the Dir itself. A Dir is safe for concurrent use.
// Changes happen one after another, and a read sees a change completely or not at all.
//
// All errors are of type *Error.
type Dir struct {
	directory
	release func()
}

// Close releases the Dir. It is idempotent.
func (d *Dir) Close() { d.release() }

// directory is where the content of a Dir is stored. Its methods are safe for concurrent use. They may be repeated after an error with code IO,
// except for those that Space.Precondition names.
type directory interface {
	// Pause releases what the Dir holds open until it is used again. It does nothing if another Dir is open on the same directory. The caller makes sure
	// that no read of this Dir is in progress.
	Pause()

	// ReadFile returns length bytes of a file from offset on, or fewer at the end of the file. If length is negative, it returns all bytes from offset on.
	ReadFile(p string, offset, length int64) ([]byte, error)

	// ReadDir lists a directory, sorted by path, each directory before its content. More than 50,000 entries or 8 MiB of
	// paths are an error.
	ReadDir(ctx context.Context, p string, recursive bool) ([]Entry, error)

	// Stat describes a file or directory.
	Stat(p string) (Entry, error)

	// Hand returns how much of a file its owner wrote. The result is zero if the file cannot be read.
	Hand(p string) Hand

	// AppendFile adds data to the end of a file and creates the file and the directories above it. A crash in the middle can
	// leave a part of data; Space.AlreadyDone describes how such a call is repeated.
	AppendFile(ctx context.Context, p string, data []byte) error

	// Mkdir creates a directory. If parents is true, it also creates the directories above it and accepts an existing directory.
	Mkdir(ctx context.Context, p string, parents bool) error

	// Delete removes a file. It is no error if the file does not exist.
	Delete(p string) error

	// Remove removes a file or an empty directory. If recursive is true, it also removes a directory with its content. If force is true, it is no
	// error if nothing exists at the path. If ctx ends, some of the content may remain.
	Remove(ctx context.Context, p string, recursive, force bool) error

	// Rename moves a file or directory. It replaces a file at the new path, or an empty directory if it moves a directory. If a
	// directory is moved, the paths of its content must stay within the limits of paths.
	Rename(ctx context.Context, from, to string) error

	// Discard removes the parts of a file, and reports whether there were any.
	Discard(ctx context.Context, p string) (found bool, err error)

	// writeFrom replaces the content of a file by size bytes from r and creates the file and the directories above it. It is atomic: a reader of the
	// file, even after a crash in the middle, sees either the old or the new content.
	writeFrom(ctx context.Context, p string, size int64, r io.Reader) error

	// truncate shortens a file to size bytes if it is longer.
	truncate(p string, size int64) error

	// open opens a file for reading.
	open(op, p string) (File, error)

	// copy writes the content of f to a file, and records the part that the owner wrote. of is the owner's part of f; copy ignores it if f has changed
	// since of was determined.
	copy(ctx context.Context, op, to string, f File, of Hand) error

	// removeCopied removes a file that open returned with this info. If the file has changed since, removeCopied returns an error.
	removeCopied(op, from string, copied fs.FileInfo) error

	// The methods of files that are being received; see Part.

	partSize(p *Part) (int64, error)
	partFits(ctx context.Context, p *Part, size int64) error
	// receive writes bytes at an offset of a part. An offset of 0 empties the part first.
	receive(ctx context.Context, p *Part, offset int64, data []byte) error
	sum(ctx context.Context, p *Part) ([sha256.Size]byte, error)
	complete(ctx context.Context, p *Part, check func(fs.FileInfo) error) (created bool, err error)
	abort(p *Part) error
	// receiveBytes is the number of bytes of a part that are written at a time.
	receiveBytes() int
}

// File is a file that is open for reading. Later renames do not affect it. In a directory of the host, later removals and writes do not affect it
// either; in a bucket, a read after them fails with errChanged. ReadAt and Stat are safe for concurrent use.
type File interface {
	io.Reader
	io.ReaderAt
	io.Closer
	Stat() (fs.FileInfo, error)
}

package remote

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"syscall"
	"time"
)

// fileInfo describes a file of the client. It implements fs.FileInfo.
type fileInfo struct {
	FileName string
	FileSize int64
	FileMode fs.FileMode
	Modified time.Time
}

func infoOf(i fs.FileInfo) *fileInfo { return &fileInfo{i.Name(), i.Size(), i.Mode(), i.ModTime()} }

// Name implements fs.FileInfo.
func (i *fileInfo) Name() string { return i.FileName }

// Size implements fs.FileInfo.
func (i *fileInfo) Size() int64 { return i.FileSize }

// Mode implements fs.FileInfo.
func (i *fileInfo) Mode() fs.FileMode { return i.FileMode }

// ModTime implements fs.FileInfo.
func (i *fileInfo) ModTime() time.Time { return i.Modified }

// IsDir implements fs.FileInfo.
func (i *fileInfo) IsDir() bool { return i.FileMode.IsDir() }

// Sys implements fs.FileInfo.
func (i *fileInfo) Sys() any { return nil }

// failure is the JSON form of an error of the client. The server converts it to an error that has the same text and gives the same results with
// errors.Is and errors.As.
type failure struct {
	Op    string `json:",omitempty"` // operation of a path error
	Path  string `json:",omitempty"`
	Errno uint64 `json:",omitempty"`
	Text  string
}

func failureOf(err error) *failure {
	f := &failure{Text: err.Error()}
	if of, ok := errors.AsType[*fs.PathError](err); ok && of.Error() == err.Error() {
		f.Op, f.Path, f.Text, err = of.Op, of.Path, of.Err.Error(), of.Err
	}
	if number, ok := errors.AsType[syscall.Errno](err); ok && number.Error() == err.Error() {
		f.Errno = uint64(number)
	}
	return f
}

func (f *failure) error() error {
	err := errors.New(f.Text)
	if f.Errno != 0 {
		err = syscall.Errno(f.Errno)
	}
	if f.Op != "" {
		err = &fs.PathError{Op: f.Op, Path: f.Path, Err: err}
	}
	return err
}

// file is an open file of the client. It is not safe for concurrent use.
type file struct {
	s      *Session
	handle int
	info   *fileInfo
}

// Stat implements fs.File.
func (f *file) Stat() (fs.FileInfo, error) { return f.info, nil }

// Read implements fs.File.
func (f *file) Read(p []byte) (int, error) {
	return f.s.read(ask{Op: opRead, Handle: f.handle}, p)
}

// Close implements fs.File.
func (f *file) Close() error {
	_, err := f.s.ask(ask{Op: opClose, Handle: f.handle})
	return err
}

// Open opens a file of the client. The path is absolute.
func (s *Session) Open(name string) (fs.File, error) {
	return s.openFile(ask{Op: opOpen, Path: name})
}

func (s *Session) openFile(q ask) (fs.File, error) {
	a, err := s.ask(q)
	if err != nil {
		return nil, err
	}
	if a.Info == nil {
		return nil, errProtocol
	}
	return &file{s, a.Handle, a.Info}, nil
}

// Folder is an open folder of the client. It gives no access to files outside the folder.
type Folder struct {
	s      *Session
	handle int
}

// Folder opens a folder of the client. The path is absolute.
func (s *Session) Folder(name string) (*Folder, error) {
	a, err := s.ask(ask{Op: opFolder, Path: name})
	if err != nil {
		return nil, err
	}
	return &Folder{s, a.Handle}, nil
}

// Open implements fs.FS.
func (f *Folder) Open(name string) (fs.File, error) {
	return f.s.openFile(ask{Op: opIn, Handle: f.handle, Path: name})
}

// Stat implements fs.StatFS.
func (f *Folder) Stat(name string) (fs.FileInfo, error) {
	a, err := f.s.ask(ask{Op: opStatIn, Handle: f.handle, Path: name})
	switch {
	case err != nil:
		return nil, err
	case a.Info == nil:
		return nil, errProtocol
	}
	a.Info.FileName = path.Base(a.Info.FileName)
	return a.Info, nil
}

// Close closes the folder.
func (f *Folder) Close() error {
	_, err := f.s.ask(ask{Op: opClose, Handle: f.handle})
	return err
}

var (
	_ fs.StatFS = (*Folder)(nil)
	_ io.Reader = (*file)(nil)
)

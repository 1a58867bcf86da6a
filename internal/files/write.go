package files

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
)

// tempPrefix is the prefix of files that are being written.
const tempPrefix = reserved + "tmp-"

// WriteFile writes a file for the harness itself. It works like the write of a program, but cannot be cancelled.
func (d *Dir) WriteFile(p string, data []byte) error {
	return d.write(context.Background(), p, data)
}

// write replaces the content of a file and creates the file and the directories above it. It is atomic: a reader of the file,
// even after a crash in the middle, sees either the old or the new content.
func (d *Dir) write(ctx context.Context, p string, data []byte) error {
	return d.writeFrom(ctx, p, int64(len(data)), bytes.NewReader(data))
}

func (s *hostDir) writeFrom(ctx context.Context, p string, size int64, r io.Reader) error {
	return s.change("open", p, func(at *spot) error { return s.put(ctx, at, size, r) })
}

// Copy copies a file within a Dir or between two Dirs. It is atomic like WriteFile.
func Copy(ctx context.Context, dst *Dir, to string, src *Dir, from string) error {
	const op = "copyfile"
	f, err := src.open(op, from)
	if err != nil {
		return err
	}
	defer f.Close()
	return dst.copy(ctx, op, to, f, src.Hand(from))
}

func (s *hostDir) open(op, p string) (File, error) {
	var f *os.File
	err := s.view(op, p, func(at *spot) (err error) {
		f, _, err = at.openFile()
		return err
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (s *hostDir) copy(ctx context.Context, op, to string, f File, of Hand) error {
	return s.change(op, to, func(at *spot) error {
		info, err := f.Stat()
		if err != nil {
			return err
		}
		err = s.put(ctx, at, info.Size(), f)
		if err == nil && of.Given > 0 && of.time == info.ModTime().UnixNano() {
			err = s.giveFile(ctx, at.path, of.Given)
		}
		return err
	})
}

// put writes size bytes to a temporary file beside the spot and then renames it.
func (s *hostDir) put(ctx context.Context, at *spot, size int64, r io.Reader) error {
	mode, before, more := fs.FileMode(0o600), int64(0), int64(1)
	switch {
	case at.isDir():
		return &Error{Code: IsDirectory}
	case at.info != nil:
		mode, before, more = at.info.Mode().Perm(), at.info.Size(), 0
	}
	if err := s.room(ctx, size-before, more+int64(len(at.missing))); err != nil {
		return err
	}
	if err := s.mkdirs(at); err != nil {
		return err
	}
	temp := tempPrefix + rand.Text()
	err := s.fill(at.dir, temp, mode, size, r)
	if err == nil {
		err = at.dir.Rename(temp, at.name)
	}
	if err != nil {
		return errors.Join(err, ignoreVanished(at.dir.Remove(temp)))
	}
	s.add(size-before, more)
	return errors.Join(s.sync(at.dir), s.taken(ctx, at.path))
}

func (s *hostDir) fill(dir *os.Root, temp string, mode fs.FileMode, size int64, r io.Reader) (err error) {
	f, err := dir.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := io.CopyN(f, r, size); err != nil {
		return err
	}
	if mode != 0o600 {
		if err := f.Chmod(mode); err != nil {
			return err
		}
	}
	if s.base.opts.Durable {
		return f.Sync()
	}
	return nil
}

func (s *hostDir) sync(dir *os.Root) error {
	if !s.base.opts.Durable {
		return nil
	}
	return syncDir(dir)
}

func (s *hostDir) AppendFile(ctx context.Context, p string, data []byte) error {
	return s.change("open", p, func(at *spot) error {
		switch {
		case at.isDir():
			return &Error{Code: IsDirectory}
		case at.info == nil:
			return s.put(ctx, at, int64(len(data)), bytes.NewReader(data))
		}
		if err := s.room(ctx, int64(len(data)), 0); err != nil {
			return err
		}
		of := s.givenAt(at.path, at.info)
		err := s.extend(at, data)
		if err == nil && of.Given > 0 {
			err = s.giveFile(ctx, at.path, of.Given)
		}
		return err
	})
}

func (s *hostDir) extend(at *spot, data []byte) (err error) {
	f, err := at.dir.OpenFile(at.name, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if n, err := f.Write(data); err != nil {
		if n > 0 { // the disk is full; undo the partial write
			err = errors.Join(err, f.Truncate(at.info.Size()))
		}
		return err
	}
	s.add(int64(len(data)), 0)
	if s.base.opts.Durable {
		return f.Sync()
	}
	return nil
}

func (s *hostDir) truncate(p string, size int64) error {
	return s.change("open", p, func(at *spot) error {
		if at.info == nil || at.isDir() || at.info.Size() <= size {
			return nil
		}
		of := s.givenAt(at.path, at.info)
		f, err := at.dir.OpenFile(at.name, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		if err := errors.Join(f.Truncate(size), f.Close()); err != nil {
			return err
		}
		if of.Given > 0 {
			if err := s.giveFile(context.Background(), at.path, of.Given); err != nil {
				return err
			}
		}
		s.add(size-at.info.Size(), 0)
		return nil
	})
}

func (s *hostDir) Mkdir(ctx context.Context, p string, parents bool) error {
	return s.change("mkdir", p, func(at *spot) error {
		switch {
		case at.isDir() && parents:
			return nil
		case at.info != nil:
			return &Error{Code: Exists}
		case len(at.missing) > 0 && !parents:
			return errNoMkdir
		}
		if err := s.room(ctx, 0, int64(len(at.missing)+1)); err != nil {
			return err
		}
		if err := s.mkdirs(at); err != nil {
			return err
		}
		return s.mkdir(at.dir, at.name)
	})
}

var errNoMkdir = &Error{Code: NotFound, Detail: "the directory above it does not exist; use {recursive: true}"}

// mkdirs creates the missing directories of a spot and moves the spot down into them.
func (s *hostDir) mkdirs(at *spot) error {
	for len(at.missing) > 0 {
		name := at.missing[0]
		if err := s.mkdir(at.dir, name); err != nil {
			return err
		}
		info, err := at.dir.Lstat(name)
		if err != nil {
			return err
		}
		if err := at.enter(name, info); err != nil {
			return err
		}
		at.missing = at.missing[1:]
	}
	return nil
}

func (s *hostDir) mkdir(dir *os.Root, name string) error {
	err := dir.Mkdir(name, 0o700)
	if errors.Is(err, fs.ErrExist) { // another process was faster
		return nil
	}
	if err != nil {
		return err
	}
	s.add(0, 1)
	return s.sync(dir)
}

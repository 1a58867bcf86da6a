package files

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"
)

// handFile is the name of the file that lists the files in an owner's directory that the owner wrote. It is at the top of the directory, and has one
// JSON object per line. If several lines have the same path, the last one applies. All files that are not listed were written by programs, or by the
// harness for programs.
const handFile = reserved + "given"

// maxHandBytes is the size above which the list is rewritten with only those files that still exist.
const maxHandBytes = 1 << 20

// given is a line of the list: a file as it was when the line was written. If size or time of the file differ now, a program has written it since.
type given struct {
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"` // length of the owner's part at the beginning; programs appended the rest
	Size  int64  `json:"size"`
	Time  int64  `json:"time"` // modification time in nanoseconds
}

// hands is the content of handFile as it was last read.
type hands struct {
	files map[string]given
	size  int64     // size of handFile
	time  time.Time // modification time of handFile
}

// Hand says how much of a file its owner wrote.
type Hand struct {
	Given int64 // number of bytes at the beginning that the owner put there; programs wrote the rest
	Size  int64 // size of the file; 0 if the owner wrote none of it
	time  int64
}

// givenAt returns how much of a file its owner wrote. The caller holds mu.
func (s *hostDir) givenAt(p string, info fs.FileInfo) Hand {
	if info == nil {
		return Hand{}
	}
	g, ok := s.hands().files[p]
	if !ok || g.Size != info.Size() || g.Time != info.ModTime().UnixNano() {
		return Hand{}
	}
	return Hand{g.Bytes, g.Size, g.Time}
}

// hands returns the list and reads it again if it has changed. If the list cannot be read, all files count as written by programs.
func (s *hostDir) hands() *hands {
	s.handsMu.Lock()
	defer s.handsMu.Unlock()
	info, err := s.root.Lstat(handFile)
	if err != nil || !info.Mode().IsRegular() {
		s.handsRead = &hands{}
		return s.handsRead
	}
	if s.handsRead != nil && s.handsRead.size == info.Size() && s.handsRead.time.Equal(info.ModTime()) {
		return s.handsRead
	}
	now := &hands{files: map[string]given{}, size: info.Size(), time: info.ModTime()}
	data, err := s.root.ReadFile(handFile)
	for line := range bytes.Lines(data) {
		var g given
		if err == nil && json.Unmarshal(line, &g) == nil {
			now.files[g.Path] = g
		}
	}
	s.handsRead = now
	return now
}

// give appends lines to the list. If the list is larger than maxHandBytes, give rewrites it, without the lines that no longer apply. The caller holds
// mu for writing.
func (s *hostDir) give(ctx context.Context, all ...given) error {
	var lines bytes.Buffer
	out := json.NewEncoder(&lines)
	flag := os.O_CREATE | os.O_WRONLY | os.O_APPEND
	was := s.hands()
	if was.size > maxHandBytes {
		for _, g := range was.files {
			if info, err := s.root.Lstat(g.Path); err == nil && s.givenAt(g.Path, info).Given > 0 {
				all = append([]given{g}, all...)
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
		flag = os.O_CREATE | os.O_WRONLY | os.O_TRUNC
	}
	for _, g := range all {
		if err := out.Encode(g); err != nil {
			return err
		}
	}
	f, err := s.root.OpenFile(handFile, flag, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(lines.Bytes())
	if err == nil && s.base.opts.Durable {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil && flag&os.O_APPEND != 0 {
		s.read(was, all, int64(lines.Len()))
	}
	return err
}

// read adds the appended lines, of size bytes in all, to the list in memory, unless another process has also written to the list.
func (s *hostDir) read(was *hands, all []given, size int64) {
	s.handsMu.Lock()
	defer s.handsMu.Unlock()
	info, err := s.root.Lstat(handFile)
	if s.handsRead != was || err != nil || info.Size() != was.size+size {
		return
	}
	now := &hands{files: was.files, size: info.Size(), time: info.ModTime()}
	if now.files == nil {
		now.files = map[string]given{}
	}
	for _, g := range all {
		now.files[g.Path] = g
	}
	s.handsRead = now
}

// taken records that a program has written the file at a path, because timestamps are too coarse to show every change. If the list no longer counts the file as
// the owner's, taken records nothing. The caller holds mu for writing.
func (s *hostDir) taken(ctx context.Context, p string) error {
	if _, ok := s.hands().files[p]; !ok {
		return nil
	}
	info, err := s.root.Lstat(p)
	if err != nil || s.givenAt(p, info).Given == 0 {
		return ignoreVanished(err)
	}
	return s.give(ctx, given{Path: p, Size: info.Size(), Time: info.ModTime().UnixNano()})
}

// giveFile records that the first bytes of a file, up to most, are its owner's. The caller holds mu for writing.
func (s *hostDir) giveFile(ctx context.Context, p string, most int64) error {
	info, err := s.root.Lstat(p)
	if err != nil {
		return err
	}
	return s.give(ctx, given{p, min(most, info.Size()), info.Size(), info.ModTime().UnixNano()})
}

// moved records the new paths of listed files at or below a renamed path. The caller holds mu for writing.
func (s *hostDir) moved(ctx context.Context, from, to string) error {
	var all []given
	for p, g := range s.hands().files {
		if rest, ok := strings.CutPrefix(p, from); ok && (rest == "" || rest[0] == '/') {
			g.Path = path.Join(to, rest)
			all = append(all, g)
		}
	}
	if len(all) == 0 {
		return s.taken(ctx, to)
	}
	return s.give(ctx, all...)
}

func (s *hostDir) Hand(p string) (h Hand) {
	_ = s.view("stat", p, func(at *spot) error {
		if !at.isDir() {
			h = s.givenAt(at.path, at.info)
		}
		return nil
	})
	return h
}

// Hand returns how much of the file at a program's path its owner wrote.
func (s *Space) Hand(p string) Hand {
	if at, err := s.route(p); err == nil && at.dir != nil {
		return at.dir.Hand(at.rel)
	}
	return Hand{}
}

// Tree returns the tree of a program's path: skills, workspace or servers; "" for the directory above them and for an invalid path.
func (s *Space) Tree(p string) string {
	at, err := s.route(p)
	if err != nil {
		return ""
	}
	return at.tree
}

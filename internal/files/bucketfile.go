package files

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"sync"

	"mcp-code-exec-harness/internal/bucket"
)

func (d *bucketDir) open(op, p string) (f File, err error) {
	err = d.view(d.base.ctx, op, p, func(s *snapshot, at string) error {
		n, err := s.file(at)
		if err == nil {
			f = d.read(n, at)
		}
		return err
	})
	return f, err
}

// read returns a file for reading.
func (d *bucketDir) read(n *node, p string) *bucketFile {
	f := &bucketFile{dir: d, ctx: d.base.ctx, node: n, name: path.Base(p)}
	f.SectionReader = io.NewSectionReader(bucketReader{f}, 0, n.size())
	return f
}

// bucketFile is an open file of a bucket.
type bucketFile struct {
	*io.SectionReader
	dir  *bucketDir
	ctx  context.Context //nolint:containedctx // io.Reader has no other way
	node *node
	name string

	mu    sync.Mutex
	chunk int    // index of the chunk of which a part is in memory
	from  int64  // offset of this part in the chunk
	ahead []byte // the part, at most aheadBytes; nil if there is none
}

const (
	aheadBytes = 1 << 20  // number of bytes that are read at once from a file that is read in pieces
	pieceBytes = 16 << 10 // size from which a read counts as a piece
)

var _ File = (*bucketFile)(nil)

func (f *bucketFile) Stat() (fs.FileInfo, error) { return nodeInfo{f.name, f.node}, nil }

// Close releases the memory of the file.
func (f *bucketFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ahead = nil
	return nil
}

// bucketReader reads the content of a bucketFile.
type bucketReader struct{ f *bucketFile }

// ReadAt implements io.ReaderAt.
func (r bucketReader) ReadAt(p []byte, offset int64) (n int, err error) {
	f, begins := r.f, int64(0)
	for i, c := range f.node.Chunks {
		at := offset + int64(n) - begins
		begins += c.Size
		if at >= c.Size {
			continue
		}
		if n == len(p) {
			return n, nil
		}
		want := min(int64(len(p)-n), c.Size-at)
		data, err := f.read(i, c, at, want)
		if err != nil {
			return n, err
		}
		n += copy(p[n:], data)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// read returns a part of a chunk.
func (f *bucketFile) read(i int, c chunk, at, length int64) (data []byte, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ahead != nil && f.chunk == i && at >= f.from && at+length <= f.from+int64(len(f.ahead)) {
		return f.ahead[at-f.from:][:length], nil
	}
	size := length
	if length >= pieceBytes && length < aheadBytes {
		size = min(aheadBytes, c.Size-at)
	}
	data, err = f.dir.base.objects.Read(f.ctx, f.dir.prefix+dataKey+c.ID, at, size)
	switch {
	case errors.Is(err, bucket.ErrNotFound):
		return nil, errChanged
	case err != nil:
		return nil, err
	case int64(len(data)) != size:
		return nil, errChanged
	}
	if size > length {
		f.chunk, f.from, f.ahead = i, at, data
	}
	return data[:length], nil
}

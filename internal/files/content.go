package files

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"slices"

	"golang.org/x/text/encoding"
	"golang.org/x/text/transform"
)

// Restorer replaces tokens in texts by their values.
type Restorer interface {
	// RestoreSome restores the beginning of a text, as far as it does not depend on the text that follows; last is true if no text follows. used is
	// the number of bytes of text that were restored; it is greater than 0 for a text of at least 1 KiB. RestoreSome is safe for concurrent use.
	RestoreSome(ctx context.Context, text string, last bool) (restored string, used int, err error)
}

// Layout describes a file's content as its owner reads it: the file unchanged or, if it is UTF-8, with tokens replaced by values.
type Layout struct {
	Size int64             // size of the content
	Text bool              // whether the file is valid UTF-8
	Sum  [sha256.Size]byte // SHA-256 of the content

	marks []mark // beginnings of chunks, if tokens are restored; nil if the file is read unchanged
}

// mark is the beginning of a chunk: its offset in the file and its offset in the content.
type mark struct{ file, read int64 }

// chunkBytes is the number of bytes of a file that are restored at a time.
const chunkBytes = 256 << 10

// Content reads a file as its owner sees it. Its memory does not depend on the file's size. It is for one goroutine only.
type Content struct {
	*Layout
	Info fs.FileInfo

	ctx     context.Context //nolint:containedctx // io.Reader has no other way
	f       File
	restore Restorer // nil if the file is read unchanged
	buffer  []byte
	at      int64  // read position, an offset in the content
	chunk   string // restored chunk
	begins  int64  // offset of the chunk in the content
	next    int64  // offset of the next chunk in the file
}

var _ io.ReadSeekCloser = (*Content)(nil)

// errChanged reports that a file was written while it was read, or that the values of its tokens have changed since it was read first.
var errChanged = &Error{Code: IO, Detail: "the file has changed while it was read; read it again"}

// Content opens a file for its owner. If restore is nil, the file is read unchanged. layout may be nil; it returns the Layout of an earlier Content of the
// same file, or nil. Without a Layout, Content reads the whole file once. Reading stops when ctx ends. The caller closes the Content.
func (d *Dir) Content(ctx context.Context, p string, restore Restorer, layout func(fs.FileInfo) *Layout) (*Content, error) {
	f, info, err := d.Open(p)
	if err != nil {
		return nil, err
	}
	c := &Content{Info: info, ctx: ctx, f: f, restore: restore}
	if layout != nil {
		c.Layout = layout(info)
	}
	if c.Layout == nil {
		if err := c.scan(); err != nil {
			return nil, errors.Join(hostError("open", p, err), f.Close())
		}
	}
	if c.marks == nil {
		c.restore = nil
	}
	c.at, c.chunk, c.begins, c.next = 0, "", 0, 0
	return c, nil
}

// Close closes the file.
func (c *Content) Close() error { return c.f.Close() }

// scan reads the whole file to determine its layout.
func (c *Content) scan() error {
	c.Layout = &Layout{Text: true}
	c.chunk, c.begins, c.next = "", 0, 0
	sum, same := sha256.New(), true
	text := transform.NewWriter(io.Discard, encoding.UTF8Validator)
	for {
		c.marks = append(c.marks, mark{c.next, c.Size})
		raw, err := c.load()
		if err != nil {
			return err
		}
		if len(raw) == 0 {
			break
		}
		if c.Text {
			_, err = text.Write(raw)
			c.Text = err == nil
		}
		same = same && c.chunk == string(raw)
		io.WriteString(sum, c.chunk) // a hash accepts everything
		c.Size += int64(len(c.chunk))
	}
	c.Text = c.Text && text.Close() == nil
	if !c.Text && !same { // data that is not UTF-8 has no tokens
		c.restore = nil
		return c.scan()
	}
	if same {
		c.marks = nil
	}
	sum.Sum(c.Sum[:0])
	return nil
}

// load reads the next chunk and returns its bytes in the file, before restoring; none at the end of the file.
func (c *Content) load() (raw []byte, err error) {
	if err := c.ctx.Err(); err != nil {
		return nil, err
	}
	if c.buffer == nil {
		c.buffer = make([]byte, chunkBytes)
	}
	n, err := c.f.ReadAt(c.buffer, c.next)
	last := errors.Is(err, io.EOF)
	if err != nil && !last {
		return nil, err
	}
	raw, used := c.buffer[:n], n
	c.begins += int64(len(c.chunk))
	c.chunk = string(raw)
	if c.restore != nil {
		if c.chunk, used, err = c.restore.RestoreSome(c.ctx, c.chunk, last); err != nil {
			if c.ctx.Err() == nil {
				err = errors.Join(&Error{Code: IO, Detail: "its personal data cannot be restored; harness doctor says why"}, err)
			}
			return nil, err
		}
	}
	c.next += int64(used)
	return raw[:used], nil
}

// Read implements io.Reader.
func (c *Content) Read(p []byte) (int, error) {
	switch {
	case c.ctx.Err() != nil:
		return 0, c.ctx.Err()
	case c.at >= c.Size:
		return 0, io.EOF
	case len(p) == 0:
		return 0, nil
	}
	p = p[:min(int64(len(p)), c.Size-c.at)]
	if c.restore == nil {
		n, err := c.f.ReadAt(p, c.at)
		c.at += int64(n)
		if n < len(p) && errors.Is(err, io.EOF) {
			err = errChanged
		}
		return n, err
	}
	if err := c.find(); err != nil {
		return 0, err
	}
	n := copy(p, c.chunk[c.at-c.begins:])
	c.at += int64(n)
	return n, nil
}

// find loads the chunk that contains the read position.
func (c *Content) find() error {
	end := c.begins + int64(len(c.chunk))
	if c.at < c.begins || c.at >= end+chunkBytes {
		i, found := slices.BinarySearchFunc(c.marks, c.at, func(m mark, at int64) int { return cmp.Compare(m.read, at) })
		if !found {
			i--
		}
		c.chunk, c.begins, c.next = "", c.marks[i].read, c.marks[i].file
		end = c.begins
	}
	for c.at >= end {
		raw, err := c.load()
		if err != nil {
			return err
		}
		end += int64(len(c.chunk))
		if len(raw) == 0 || end > c.Size {
			return errChanged
		}
	}
	return nil
}

// Seek implements io.Seeker.
func (c *Content) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += c.at
	case io.SeekEnd:
		offset += c.Size
	}
	if offset < 0 {
		return 0, errors.New("seek before the beginning of a file")
	}
	c.at = offset
	return offset, nil
}

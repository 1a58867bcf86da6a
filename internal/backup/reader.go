package backup

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"
)

// The kinds of errors of a Reader, for errors.Is.
var (
	ErrNoBackup = errors.New("it is no backup of the harness")
	ErrDamaged  = errors.New("the archive is damaged")
	ErrNewer    = errors.New("a newer harness wrote the archive")
)

// Entry is a file or a directory of an archive.
type Entry struct {
	Name    string // slash-separated name inside the archive
	Dir     bool
	Size    int64
	Mode    fs.FileMode // permissions
	ModTime time.Time
}

// Reader reads an archive from its beginning to its end. Its methods are not safe for concurrent use.
type Reader struct {
	raw      *bufio.Reader
	gzip     *gzip.Reader
	tar      *tar.Reader
	manifest Manifest
	sums     *os.File // temporary file with the checksum lines of the entries read so far
	lines    *bufio.Writer
	sum      hash.Hash // hash of the current entry
	name     string    // name of the current file; empty if there is none
	last     Entry
	again    bool // whether the next call of Next returns the entry last again
}

// NewReader returns a reader after it has read the manifest. scratch is a directory for a temporary file, as with [NewWriter]. Close must be called.
func NewReader(r io.Reader, scratch string) (*Reader, error) {
	raw := bufio.NewReaderSize(r, 64<<10)
	z, err := gzip.NewReader(raw)
	if err != nil {
		return nil, noBackup(err)
	}
	z.Multistream(false)
	b := &Reader{raw: raw, gzip: z, tar: tar.NewReader(z)}
	h, err := b.tar.Next()
	if err != nil || h.Name != manifestName || h.Typeflag != tar.TypeReg {
		return nil, noBackup(err)
	}
	if h.Size > maxManifest {
		return nil, fmt.Errorf("%w: its manifest has %d bytes", ErrDamaged, h.Size)
	}
	text, err := io.ReadAll(b.tar)
	if err != nil {
		return nil, damaged(err)
	}
	if err := json.Unmarshal(text, &b.manifest); err != nil || b.manifest.Format < 1 {
		return nil, fmt.Errorf("%w: its manifest cannot be read", ErrDamaged)
	}
	if b.manifest.Format > Format {
		return nil, fmt.Errorf("%w: version %s, in form %d; this one knows form %d", ErrNewer, b.manifest.Version, b.manifest.Format, Format)
	}
	if b.sums, err = os.CreateTemp(scratch, ".harness-sums-*"); err != nil {
		return nil, err
	}
	b.lines = bufio.NewWriter(b.sums)
	sum := sha256.Sum256(text)
	_, err = b.lines.WriteString(sumLine(sum[:], manifestName))
	return b, err
}

func noBackup(err error) error {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, gzip.ErrHeader) || errors.Is(err, tar.ErrHeader) {
		return ErrNoBackup
	}
	return damaged(err)
}

// damaged wraps an error of reading an archive.
func damaged(err error) error {
	if _, system := errors.AsType[*fs.PathError](err); system {
		return err
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it ends too early", ErrDamaged)
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}

// Manifest returns the description of the archive.
func (b *Reader) Manifest() Manifest { return b.manifest }

// Next goes to the next entry. At the end of the archive, it returns io.EOF if the archive is complete and every file matches its checksum. After any
// other error, the caller must discard everything that it has read.
func (b *Reader) Next() (Entry, error) {
	if b.again {
		b.again = false
		return b.last, nil
	}
	if err := b.endFile(); err != nil {
		return Entry{}, err
	}
	h, err := b.tar.Next()
	if err != nil {
		return Entry{}, damaged(err) // io.EOF is an error here, because the last entry of an archive is its checksums
	}
	if h.Name == sumsName && h.Typeflag == tar.TypeReg {
		return Entry{}, b.finish()
	}
	e := Entry{Name: h.Name, Size: h.Size, Mode: h.FileInfo().Mode().Perm(), ModTime: h.ModTime}
	switch h.Typeflag {
	case tar.TypeDir:
		e.Dir, e.Name = true, strings.TrimSuffix(e.Name, "/")
	case tar.TypeReg:
		b.name, b.sum = e.Name, sha256.New()
	default:
		return Entry{}, fmt.Errorf("%w: %q is neither a file nor a directory", ErrDamaged, clip(e.Name))
	}
	if err := checkName(e.Name); err != nil {
		return Entry{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	b.last = e
	return e, nil
}

// Unread makes the next call of Next return the current entry again. Nothing of that entry may have been read.
func (b *Reader) Unread() { b.again = true }

// Read reads from the current file.
func (b *Reader) Read(p []byte) (int, error) {
	n, err := b.tar.Read(p)
	if b.sum != nil {
		b.sum.Write(p[:n])
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = damaged(err)
	}
	return n, err
}

// endFile reads the rest of the current file and records its checksum.
func (b *Reader) endFile() error {
	if b.name == "" {
		return nil
	}
	if _, err := io.Copy(io.Discard, b); err != nil {
		return err
	}
	line := sumLine(b.sum.Sum(nil), b.name)
	b.name, b.sum = "", nil
	_, err := b.lines.WriteString(line)
	return err
}

// finish compares the recorded checksums with those of the archive, and checks that the archive ends.
func (b *Reader) finish() error {
	if err := b.lines.Flush(); err != nil {
		return err
	}
	if _, err := b.sums.Seek(0, io.SeekStart); err != nil {
		return err
	}
	want, got := bufio.NewReader(b.tar), bufio.NewReader(b.sums)
	for {
		wanted, wantErr := readLine(want)
		found, gotErr := readLine(got)
		if wantErr != nil && !errors.Is(wantErr, io.EOF) {
			return damaged(wantErr)
		}
		if gotErr != nil && !errors.Is(gotErr, io.EOF) {
			return gotErr
		}
		if !bytes.Equal(wanted, found) {
			name := found
			if len(name) == 0 {
				name = wanted
			}
			_, after, _ := strings.Cut(string(name), "  ")
			return fmt.Errorf("%w: the checksum of %q does not match", ErrDamaged, clip(strings.TrimSuffix(after, "\n")))
		}
		if wantErr != nil {
			break
		}
	}
	if _, err := b.tar.Next(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: data follows its checksums", ErrDamaged)
	}
	if _, err := io.Copy(io.Discard, b.gzip); err != nil { // reads up to the checksum of gzip
		return damaged(err)
	}
	if _, err := b.raw.ReadByte(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: data follows its end", ErrDamaged)
	}
	return io.EOF
}

// readLine reads a line of bounded length; it reads a longer line in parts.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	line = bytes.Clone(line)
	if errors.Is(err, bufio.ErrBufferFull) {
		err = nil
	}
	return line, err
}

// Close releases the temporary file.
func (b *Reader) Close() error { return removeOpen(b.sums) }

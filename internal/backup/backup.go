// Package backup writes and reads the archives of harness backup: a gzip-compressed tar file that standard tools can read.
//
// # Form
//
// The first entry, harness-backup.json, is the [Manifest]. The files follow. The last entry is SHA256SUMS. It has a line for each file, in the order
// of the archive, in the format that sha256sum writes and checks. Names use slashes. An archive contains files and directories only, no links and no
// devices.
//
// The memory for writing and reading does not depend on the size of the archive or the number of its files.
package backup

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"
)

// Format is the version of the archive format that this package writes. The package also reads older versions.
const Format = 1

const (
	manifestName = "harness-backup.json"
	sumsName     = "SHA256SUMS"
	maxManifest  = 1 << 20 // maximum size of the manifest in bytes
	maxName      = 4 << 10 // maximum length of a name in an archive, in bytes
	// wholeFile is the maximum size of a file that is read into memory before its entry begins. The header of the entry then has the size that was
	// read, so the copy succeeds even if the file becomes shorter after it was read.
	wholeFile = 1 << 20
	// private is the beginning of the names of files that the harness is writing or receiving; such files are left out.
	private = ".harness-"
)

// Manifest describes an archive.
type Manifest struct {
	Format  int       `json:"format"`
	Version string    `json:"version"` // version of the harness that wrote it
	Schema  int       `json:"schema"`  // schema version of the store; 0 if the archive has no store
	Created time.Time `json:"created"`
	Keys    bool      `json:"keys"` // whether the archive contains keys and secrets
	// Personal reports whether the configuration was the personal one of a user, and not the one of a project directory.
	Personal bool `json:"personal,omitempty"`
	// KeyIDs identify the keys that encrypt personal data in the store, the newest first. They reveal nothing of the keys.
	KeyIDs []string `json:"keyIds,omitempty"`
	Parts  []string `json:"parts"` // names of the parts that the archive may have; the name of each entry begins with the name of its part
}

// Total is the number and the size of the files in an archive or in a part of it.
type Total struct {
	Files int64 `json:"files"`
	Bytes int64 `json:"bytes"`
}

func (t *Total) add(size int64) { t.Files, t.Bytes = t.Files+1, t.Bytes+size }

// Writer writes an archive. Its methods are not safe for concurrent use. After the first error the archive is useless.
type Writer struct {
	gzip  *gzip.Writer
	tar   *tar.Writer
	sums  *os.File // temporary file with the lines of SHA256SUMS; Abort removes it
	now   time.Time
	total Total
}

// NewWriter begins an archive with its manifest. scratch is a directory for a temporary file, of about 100 bytes for each file of the archive. Finish
// or Abort must be called.
func NewWriter(w io.Writer, m Manifest, scratch string) (*Writer, error) {
	m.Format = Format
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, err
	}
	sums, err := os.CreateTemp(scratch, ".harness-sums-*")
	if err != nil {
		return nil, err
	}
	z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		return nil, errors.Join(err, removeOpen(sums))
	}
	b := &Writer{gzip: z, tar: tar.NewWriter(z), sums: sums, now: m.Created}
	if err := b.Bytes(manifestName, append(text, '\n'), 0o600); err != nil {
		return nil, errors.Join(err, b.Abort())
	}
	b.total = Total{}
	return b, nil
}

// Bytes adds a file with the given content.
func (b *Writer) Bytes(name string, data []byte, mode fs.FileMode) error {
	return b.entry(name, mode, b.now, int64(len(data)), bytes.NewReader(data))
}

// File adds the file at a path. It ignores a missing file.
func (b *Writer) File(ctx context.Context, name, file string) error {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no file", file)
	}
	return b.open(ctx, name, f, info)
}

// Dir adds the files and the directories below a directory, including empty ones. It treats a missing directory as an empty one. It leaves out links,
// files that the harness is writing (private), and files that vanish while Dir reads.
func (b *Writer) Dir(ctx context.Context, name, dir string) error {
	if err := b.dir(name, 0o700, b.now); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist), err == nil && p == ".":
			return nil
		case err != nil:
			return err
		case strings.HasPrefix(strings.ToLower(d.Name()), private):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		below := path.Join(name, p)
		if d.IsDir() {
			info, err := d.Info()
			if err != nil {
				return vanished(err)
			}
			return b.dir(below, info.Mode().Perm(), info.ModTime())
		}
		if !d.Type().IsRegular() {
			return nil
		}
		f, err := root.Open(p)
		if err != nil {
			return vanished(err)
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil || !info.Mode().IsRegular() {
			return vanished(err)
		}
		return b.open(ctx, below, f, info)
	})
}

func vanished(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// open adds an open file. A file that grows is added up to its original size.
func (b *Writer) open(ctx context.Context, name string, f *os.File, info fs.FileInfo) error {
	mode, changed := info.Mode().Perm(), info.ModTime()
	if info.Size() <= wholeFile {
		data, err := io.ReadAll(io.LimitReader(f, info.Size()))
		if err != nil {
			return err
		}
		return b.entry(name, mode, changed, int64(len(data)), bytes.NewReader(data))
	}
	return b.entry(name, mode, changed, info.Size(), until{ctx, f})
}

// until is a reader that fails once a context has ended.
type until struct {
	ctx context.Context
	r   io.Reader
}

// Read implements io.Reader.
func (u until) Read(p []byte) (int, error) {
	if u.ctx.Err() != nil {
		return 0, context.Cause(u.ctx)
	}
	return u.r.Read(p)
}

func (b *Writer) dir(name string, mode fs.FileMode, changed time.Time) error {
	if err := checkName(name); err != nil {
		return err
	}
	return b.tar.WriteHeader(&tar.Header{
		Typeflag: tar.TypeDir, Name: name + "/", Mode: int64(mode), ModTime: changed.Truncate(time.Second), Format: tar.FormatPAX,
	})
}

func (b *Writer) entry(name string, mode fs.FileMode, changed time.Time, size int64, r io.Reader) error {
	if err := checkName(name); err != nil {
		return err
	}
	if err := b.tar.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: name, Mode: int64(mode), Size: size, ModTime: changed.Truncate(time.Second), Format: tar.FormatPAX,
	}); err != nil {
		return err
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(b.tar, sum), io.LimitReader(r, size))
	if err == nil && n < size {
		err = fmt.Errorf("%s became shorter while it was copied; try again", name)
	}
	if err != nil {
		return err
	}
	b.total.add(size)
	_, err = b.sums.WriteString(sumLine(sum.Sum(nil), name))
	return err
}

// sumLine returns a line of SHA256SUMS. It escapes names with a backslash or a line break as sha256sum does.
func sumLine(sum []byte, name string) string {
	escaped := strings.NewReplacer("\\", "\\\\", "\n", "\\n", "\r", "\\r").Replace(name)
	mark := ""
	if escaped != name {
		mark = "\\"
	}
	return mark + hex.EncodeToString(sum) + "  " + escaped + "\n"
}

// Total returns what was added so far, without the manifest.
func (b *Writer) Total() Total { return b.total }

// Finish ends the archive with its checksums. It does not close the underlying writer.
func (b *Writer) Finish() error {
	size, err := b.sums.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = b.sums.Seek(0, io.SeekStart)
	}
	if err == nil {
		err = b.tar.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: sumsName, Mode: 0o600, Size: size, ModTime: b.now.Truncate(time.Second), Format: tar.FormatPAX,
		})
	}
	if err == nil {
		_, err = io.Copy(b.tar, b.sums)
	}
	if err == nil {
		err = errors.Join(b.tar.Close(), b.gzip.Close())
	}
	return errors.Join(err, b.Abort())
}

// Abort gives up the archive. After Finish it does nothing.
func (b *Writer) Abort() error {
	if b.sums == nil {
		return nil
	}
	err := removeOpen(b.sums)
	b.sums = nil
	return err
}

func removeOpen(f *os.File) error { return errors.Join(f.Close(), os.Remove(f.Name())) }

// checkName refuses names that could lead out of a directory, on any system.
func checkName(name string) error {
	switch {
	case !fs.ValidPath(name) || name == "." || strings.ContainsRune(name, 0):
		return fmt.Errorf("%q is no name of a file in an archive", clip(name))
	case len(name) > maxName:
		return fmt.Errorf("the name %q… has more than %d bytes", clip(name), maxName)
	}
	return nil
}

func clip(name string) string { return name[:min(len(name), 100)] }

package source

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"mcp-code-exec-harness/internal/versions"
)

// archive takes the skills of an archive of this machine or at an address.
func (r *reading) archive(ctx context.Context) error {
	data, err := r.archiveBytes(ctx)
	if err != nil {
		return err
	}
	t, err := unpack(data)
	if err != nil {
		return err
	}
	return r.takeUnder(ctx, t, versions.Origin{Digest: digest(data)})
}

func (r *reading) archiveBytes(ctx context.Context) ([]byte, error) {
	if r.place.at != nil {
		return r.get(ctx, r.place.at, maxArchive)
	}
	info, err := os.Stat(r.place.file)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a file")
	case info.Size() > maxArchive:
		return nil, errLarge(maxArchive)
	}
	f, err := os.Open(r.place.file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxArchive+1))
	if err == nil && len(data) > maxArchive {
		err = errLarge(maxArchive)
	}
	return data, err
}

func errLarge(limit int64) error { return fmt.Errorf("it has more than %d bytes", limit) }

// unpack returns the files of an archive in memory. Its first bytes say whether it is a zip or a tar.gz.
func unpack(data []byte) (tree, error) {
	u := &unpacked{archive: int64(len(data)), names: names{}, contents: map[string][]byte{}}
	u.nodes = map[string]node{}
	u.read = func(_ context.Context, paths []string) (all [][]byte, err error) {
		for _, p := range paths {
			all = append(all, u.contents[p])
		}
		return all, nil
	}
	var err error
	switch {
	case bytes.HasPrefix(data, []byte("PK\x03\x04")):
		err = u.zip(data)
	case bytes.HasPrefix(data, []byte{0x1f, 0x8b}):
		err = u.tar(data)
	default:
		err = errors.New("it is neither a zip nor a tar.gz archive")
	}
	return u.tree, err
}

// unpacked is an archive that is being unpacked.
type unpacked struct {
	tree
	archive  int64 // size of the archive in bytes
	size     int64 // bytes that were unpacked or announced so far
	entries  int
	names    names
	contents map[string][]byte
}

// grow counts bytes before they are unpacked.
func (u *unpacked) grow(size int64) error {
	switch u.size += max(size, 0); {
	case size < 0 || u.size > maxAll:
		return fmt.Errorf("it unpacks to more than %d bytes", maxAll)
	case u.size > freeUnpacked && u.size > maxRatio*u.archive:
		return fmt.Errorf("it unpacks to more than %d times its size, as archives do that are made to exhaust a machine", maxRatio)
	}
	return nil
}

// add adds a file. One bad path makes the whole archive suspect, so the error ends the unpacking. problem says why the file cannot be part of a skill.
func (u *unpacked) add(name string, size int64, problem string, content io.Reader) error {
	name = strings.TrimPrefix(name, "./")
	if _, err := u.names.add(name); err != nil {
		return err
	}
	u.nodes[name] = node{size: size, problem: problem}
	if problem != "" {
		return nil
	}
	if err := u.grow(size); err != nil {
		return err
	}
	if size > maxFile { // parts says so if it is part of a skill
		return nil
	}
	data, err := io.ReadAll(io.LimitReader(content, size+1))
	if err == nil && int64(len(data)) != size {
		err = errors.New("it has another size than the archive says")
	}
	u.contents[name] = data
	return errorAt(name, err)
}

func errorAt(name string, err error) error {
	if err != nil {
		err = fmt.Errorf("%s: %w", visible(name), err)
	}
	return err
}

// entry counts a file or folder, and checks its path.
func (u *unpacked) entry() error {
	if u.entries++; u.entries > maxEntries {
		return fmt.Errorf("it has more than %d files and folders", maxEntries)
	}
	return nil
}

func (u *unpacked) zip(data []byte) error {
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return err
	}
	for _, f := range z.File {
		if err := u.entry(); err != nil {
			return err
		}
		if f.UncompressedSize64 > maxAll {
			return u.grow(-1)
		}
		if strings.HasSuffix(f.Name, "/") && f.UncompressedSize64 == 0 {
			if _, err := (names{}).add(strings.TrimSuffix(strings.TrimPrefix(f.Name, "./"), "/")); err != nil {
				return err
			}
			continue
		}
		problem := ""
		switch mode := f.Mode(); {
		case f.Flags&1 != 0:
			problem = "it is encrypted"
		case mode&fs.ModeSymlink != 0:
			problem = noLink
		case !mode.IsRegular():
			problem = "it is neither a file nor a folder"
		}
		if err := u.zipped(f, problem); err != nil {
			return err
		}
	}
	return nil
}

func (u *unpacked) zipped(f *zip.File, problem string) error {
	if problem != "" {
		return u.add(f.Name, 0, problem, nil)
	}
	content, err := f.Open()
	if err != nil {
		return errorAt(f.Name, err)
	}
	defer content.Close()
	return u.add(f.Name, int64(f.UncompressedSize64), "", content) //nolint:gosec // at most maxAll
}

func (u *unpacked) tar(data []byte) error {
	unzipped, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return err
	}
	// The headers and what is skipped count too.
	bounded := &boundedReader{from: unzipped, left: min(maxAll, max(freeUnpacked, maxRatio*u.archive)) + maxEntries*1024}
	archive := tar.NewReader(bounded)
	for {
		h, err := archive.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := u.entry(); err != nil {
			return err
		}
		problem := ""
		switch h.Typeflag {
		case tar.TypeReg:
		case tar.TypeDir:
			if name := strings.TrimSuffix(strings.TrimPrefix(h.Name, "./"), "/"); name != "" && name != "." {
				if _, err := (names{}).add(name); err != nil {
					return err
				}
			}
			continue
		case tar.TypeXGlobalHeader:
			continue
		case tar.TypeSymlink:
			problem = noLink
		case tar.TypeLink:
			problem = noHardLink
		default:
			problem = "it is neither a file nor a folder"
		}
		if err := u.add(h.Name, h.Size, problem, archive); err != nil {
			return err
		}
	}
}

// boundedReader fails after a number of bytes.
type boundedReader struct {
	from io.Reader
	left int64
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errors.New("it unpacks to too many bytes")
	}
	n, err := b.from.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

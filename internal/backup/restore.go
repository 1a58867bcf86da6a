package backup

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/disk"
)

// Kind is the kind of a Place. It determines which files belong to the Place.
type Kind int

// The kinds of places.
const (
	File   Kind = iota
	Dir         // a directory with its contents
	Series      // a file, and the files beside it whose names are its name, a dot and a suffix
)

// Place says where a part of an archive belongs on this machine.
type Place struct {
	Name string // name of the part, as in the manifest
	Path string // absolute path
	Kind Kind
	// With lists the suffixes of further files, such as -wal, that are replaced together with a File. Files that are left from the old File would be
	// taken for parts of the new one.
	With []string
	// Keep means that the old content stays, under a name that begins with "before-restore-".
	Keep bool
}

// holds lists the paths that exist at a place. It does not list an empty directory.
func (p Place) holds() (all []string, err error) {
	switch p.Kind {
	case Dir:
		d, err := os.Open(p.Path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		defer d.Close()
		if _, err := d.Readdirnames(1); errors.Is(err, io.EOF) {
			return nil, nil
		}
		return []string{p.Path}, nil
	case Series:
		entries, err := os.ReadDir(filepath.Dir(p.Path))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			if e.Name() == filepath.Base(p.Path) || strings.HasPrefix(e.Name(), filepath.Base(p.Path)+".") {
				all = append(all, filepath.Join(filepath.Dir(p.Path), e.Name()))
			}
		}
		return all, nil
	}
	for _, end := range append([]string{""}, p.With...) {
		if _, err := os.Lstat(p.Path + end); err == nil {
			all = append(all, p.Path+end)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return all, nil
}

// Check returns an error if a directory of an archive contains another place or one of the other paths, because replacing the directory would remove
// them.
func Check(places []Place, others ...string) error {
	for _, dir := range places {
		if dir.Kind != Dir {
			continue
		}
		inside := slices.Clone(others)
		for _, p := range places {
			if p.Name != dir.Name {
				inside = append(inside, p.Path)
			}
		}
		for _, path := range inside {
			if below, err := filepath.Rel(dir.Path, path); err == nil && filepath.IsLocal(below) {
				return fmt.Errorf("%s lies in %s, the directory of %s, which would be replaced as a whole", path, dir.Path, dir.Name)
			}
		}
	}
	return nil
}

// Occupied lists the paths that the parts of an archive would replace.
func Occupied(m Manifest, places []Place) (all []string, err error) {
	for _, p := range places {
		if !slices.Contains(m.Parts, p.Name) {
			continue
		}
		there, err := p.holds()
		if err != nil {
			return nil, err
		}
		all = append(all, there...)
	}
	return all, nil
}

// Staged is an archive that was read completely and is intact. Its files lie beside their final places.
type Staged struct {
	places []Place
	files  []staged
	total  Total
	ending string   // suffix of staged and replaced names
	kept   []string // paths of old files and directories that stay
	made   []string // directories that were created above the places, the outermost first
}

// staged is a file or directory with its final path.
type staged struct{ from, to string }

// Stage reads an archive to its end and writes its files beside the places of its parts. After an error, none of these files is left.
func Stage(ctx context.Context, r *Reader, places []Place) (_ *Staged, err error) {
	s := &Staged{ending: ".restore-" + strings.ToLower(rand.Text()[:8])}
	roots := map[string]*os.Root{}
	closeRoots := func() {
		for _, root := range roots {
			err = errors.Join(err, root.Close())
		}
	}
	defer func() {
		closeRoots()
		if err != nil {
			err = errors.Join(err, s.Abort())
		}
	}()
	for _, p := range places {
		if !slices.Contains(r.manifest.Parts, p.Name) {
			continue
		}
		s.places = append(s.places, p)
		made, err := disk.MakeDirs(filepath.Dir(p.Path))
		if s.made = append(s.made, made...); err != nil {
			return nil, err
		}
		if p.Kind != Dir {
			continue
		}
		dir := s.beside(p.Path)
		if err := os.Mkdir(dir, 0o700); err != nil {
			return nil, err
		}
		s.files = append(s.files, staged{dir, p.Path})
		if roots[p.Name], err = os.OpenRoot(dir); err != nil {
			return nil, err
		}
	}
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return s, nil
		}
		if err == nil {
			err = s.extract(until{ctx, r}, e, roots)
		}
		if err != nil {
			return nil, err
		}
	}
}

// beside returns a temporary path in the same directory for a file or directory that belongs at path.
func (s *Staged) beside(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+s.ending)
}

// extract writes an entry beside its place.
func (s *Staged) extract(r io.Reader, e Entry, roots map[string]*os.Root) error {
	for _, p := range s.places {
		below, inside := strings.CutPrefix(e.Name, p.Name+"/")
		suffix, ofSeries := strings.CutPrefix(e.Name, p.Name+".")
		switch {
		case p.Kind == Dir && e.Dir && e.Name == p.Name:
			return nil
		case p.Kind == Dir && inside && e.Dir:
			return roots[p.Name].MkdirAll(filepath.FromSlash(below), e.Mode|0o700)
		case p.Kind == Dir && inside:
			return s.write(r, e, func(flag int) (*os.File, error) {
				return roots[p.Name].OpenFile(filepath.FromSlash(below), flag, 0o600)
			}, func() error { return roots[p.Name].Chtimes(filepath.FromSlash(below), e.ModTime, e.ModTime) })
		case p.Kind != Dir && !e.Dir && e.Name == p.Name:
			return s.writeFile(r, e, p.Path)
		case p.Kind == Series && !e.Dir && ofSeries && !strings.ContainsAny(suffix, `/\:`):
			return s.writeFile(r, e, p.Path+"."+suffix)
		}
	}
	return fmt.Errorf("%w: it has %q, which is of no part of it", ErrDamaged, clip(e.Name))
}

// writeFile writes a file that is not in a directory of the archive, and records it for Commit.
func (s *Staged) writeFile(r io.Reader, e Entry, to string) error {
	from := s.beside(to)
	return s.write(r, e, func(flag int) (*os.File, error) {
		f, err := os.OpenFile(from, flag, 0o600)
		if err == nil {
			s.files = append(s.files, staged{from, to})
		}
		return f, err
	}, func() error { return os.Chtimes(from, e.ModTime, e.ModTime) })
}

func (s *Staged) write(r io.Reader, e Entry, open func(flag int) (*os.File, error), date func() error) error {
	f, err := open(os.O_CREATE | os.O_EXCL | os.O_WRONLY)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: it has %q twice", ErrDamaged, clip(e.Name))
	}
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	if err == nil && e.Mode != 0o600 {
		err = f.Chmod(e.Mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	s.total.add(e.Size)
	return date()
}

// Total returns the number and the size of the files that were read.
func (s *Staged) Total() Total { return s.total }

// Kept lists the old files and directories that stay after Commit, by their new paths.
func (s *Staged) Kept() []string { return s.kept }

// At returns the path of the staged file whose final path is path. The result is valid until Commit. If the archive
// has no such file, At returns an empty string.
func (s *Staged) At(path string) string {
	for _, f := range s.files {
		if f.to == path {
			return f.from
		}
	}
	return ""
}

// Commit moves everything to its place and removes what was there. If something cannot be moved, it restores the old state.
func (s *Staged) Commit() error {
	var done []staged
	var emptied []string // empty directories that were removed
	undo := func(err error) error {
		for _, move := range slices.Backward(done) {
			err = errors.Join(err, os.Rename(move.to, move.from))
		}
		for _, dir := range emptied {
			err = errors.Join(err, os.Mkdir(dir, 0o700))
		}
		return errors.Join(err, s.Abort())
	}
	move := func(from, to string) error {
		err := os.Rename(from, to)
		if err == nil {
			done = append(done, staged{from, to})
		}
		return err
	}
	var old []string
	for _, p := range s.places {
		there, err := p.holds()
		if err != nil {
			return undo(err)
		}
		if p.Kind == Dir && len(there) == 0 { // the directory is empty or does not exist
			err := os.Remove(p.Path)
			if err == nil {
				emptied = append(emptied, p.Path)
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return undo(err)
			}
		}
		for _, path := range there {
			aside := s.beside(path) + ".old"
			if p.Keep {
				aside = filepath.Join(filepath.Dir(path), "before-"+s.ending[1:]+"-"+filepath.Base(path))
			}
			if err := move(path, aside); err != nil {
				return undo(err)
			}
			if p.Keep {
				s.kept = append(s.kept, aside)
			} else {
				old = append(old, aside)
			}
		}
	}
	for _, f := range s.files {
		if err := move(f.from, f.to); err != nil {
			return undo(err)
		}
	}
	s.files, s.made = nil, nil
	var err error
	for _, path := range old {
		err = errors.Join(err, os.RemoveAll(path))
	}
	if err != nil {
		return fmt.Errorf("everything is restored, but what was there before is not all removed: %w", err)
	}
	return nil
}

// Abort removes the staged files, and the directories that were created for them. After Commit it does nothing.
func (s *Staged) Abort() (err error) {
	for _, f := range s.files {
		err = errors.Join(err, os.RemoveAll(f.from))
	}
	disk.RemoveDirs(s.made)
	s.files, s.made = nil, nil
	return err
}

package main

import (
	"archive/tar"
	"archive/zip"
	"cmp"
	"compress/flate"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"
)

// item is a file in an archive or a package: its name there, the path of its content, and its mode.
type item struct {
	name string
	from string
	mode os.FileMode
}

// documentation returns the documents that every package contains.
func (r *release) documentation() (all []item, err error) {
	for _, pattern := range []string{"LICENSE", "NOTICE", "README.md", "CHANGELOG.md", "docs/*.md", "docs/images/*.png"} {
		files, err := filepath.Glob(filepath.FromSlash(pattern))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			all = append(all, item{filepath.ToSlash(file), file, 0o644})
		}
	}
	pages, err := filepath.Glob(filepath.Join(r.manDir(), "*.1"))
	for _, page := range pages {
		all = append(all, item{path.Join("man", "man1", filepath.Base(page)), page, 0o644})
	}
	for _, file := range shells {
		all = append(all, item{path.Join("completions", file), filepath.Join(r.work, "completions", file), 0o644})
	}
	return all, err
}

// archive writes the archive of a platform, a zip for Windows. Its files are in a directory with the archive's name.
func (r *release) archive(p platform) error {
	all, err := r.documentation()
	if err != nil {
		return err
	}
	all = append(all, item{filepath.Base(p.binary), p.binary, 0o755}, item{"sbom.cdx.json", p.bom, 0o644})
	slices.SortFunc(all, func(a, b item) int { return cmp.Compare(a.name, b.name) })
	top := r.fileName(p, "")
	for i := range all {
		all[i].name = top + "/" + all[i].name
	}
	if p.os == "windows" {
		return r.create(top+".zip", func(w io.Writer) error { return writeZip(w, all, r.date) })
	}
	return r.create(top+".tar.gz", func(w io.Writer) error { return writeTarGz(w, all, r.date) })
}

// writeTarGz writes an archive whose files belong to root and have the same date.
func writeTarGz(w io.Writer, all []item, date time.Time) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	return errors.Join(writeTar(z, all, date), z.Close())
}

func writeTar(w io.Writer, all []item, date time.Time) error {
	t := tar.NewWriter(w)
	for _, i := range all {
		f, err := os.Open(i.from)
		if err != nil {
			return err
		}
		info, err := f.Stat()
		if err == nil {
			err = t.WriteHeader(&tar.Header{
				Typeflag: tar.TypeReg, Name: i.name, Size: info.Size(), Mode: int64(i.mode), ModTime: date, Uname: "root", Gname: "root",
			})
		}
		if err == nil {
			_, err = io.Copy(t, f)
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return t.Close()
}

func writeZip(w io.Writer, all []item, date time.Time) error {
	z := zip.NewWriter(w)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestCompression) })
	for _, i := range all {
		h := &zip.FileHeader{Name: i.name, Method: zip.Deflate, Modified: date}
		h.SetMode(i.mode)
		to, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		f, err := os.Open(i.from)
		if err != nil {
			return err
		}
		_, err = io.Copy(to, f)
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return z.Close()
}

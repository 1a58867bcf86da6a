package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/files"
	"mcp-code-exec-harness/internal/versions"
)

// folder takes the skills of a folder of this machine.
func (r *reading) folder(ctx context.Context) error {
	root, err := os.OpenRoot(r.place.file)
	if err != nil {
		return err
	}
	defer root.Close()
	t, err := walk(root)
	if err != nil {
		return err
	}
	return r.takeUnder(ctx, t, versions.Origin{})
}

// takeUnder takes the skills of a tree that are in the folder, or the marketplace file, that the user named.
func (r *reading) takeUnder(ctx context.Context, t tree, origin versions.Origin) error {
	roots := []string{cmp.Or(r.place.under, ".")}
	if path.Base(r.place.under) == marketplaceFile {
		var err error
		if roots, err = r.listed(ctx, t, r.place.under); err != nil {
			return err
		}
	}
	folders := t.skillFolders(roots...)
	if len(folders) == 0 && len(r.found.Skipped) == 0 {
		return fmt.Errorf("%w: no folder has a file SKILL.md", errNothing)
	}
	return r.take(ctx, t, folders, origin)
}

var errNothing = errors.New("it has no skills")

// walk lists the files below a directory, without following links.
func walk(root *os.Root) (tree, error) {
	t := tree{nodes: map[string]node{}}
	entries := 0
	err := fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if entries++; err == nil && entries > maxEntries {
			err = fmt.Errorf("it has more than %d files and folders: name a folder of it", maxEntries)
		}
		switch {
		case err != nil:
			return err
		case d.IsDir() && ignored(p):
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		t.nodes[p] = node{size: info.Size(), problem: irregular(info)}
		return nil
	})
	t.read = func(ctx context.Context, paths []string) (all [][]byte, err error) {
		for _, p := range paths {
			data, err := readRegular(root, p, t.nodes[p].size)
			if err = errors.Join(err, ctx.Err()); err != nil {
				return nil, fmt.Errorf("%s: %w", visible(p), err)
			}
			all = append(all, data)
		}
		return all, nil
	}
	return t, err
}

// irregular says why a file cannot be part of a skill; empty if it can.
func irregular(info fs.FileInfo) string {
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return noLink
	case !info.Mode().IsRegular():
		return "it is neither a file nor a folder"
	case files.HardLinked(info):
		return noHardLink
	}
	return ""
}

const (
	noLink     = "it is a symbolic link, and links are not followed; replace it by a copy"
	noHardLink = "it is a hard link, which may be a file from elsewhere; replace it by a copy"
)

// readRegular reads a file of at most size bytes.
func readRegular(root *os.Root, p string, size int64) ([]byte, error) {
	if info, err := root.Lstat(p); err != nil { // opening a pipe could wait forever
		return nil, err
	} else if why := irregular(info); why != "" {
		return nil, errors.New(why)
	}
	f, err := root.Open(p)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if why := irregular(info); why != "" {
		return nil, errors.New(why)
	}
	data, err := io.ReadAll(io.LimitReader(f, size+1))
	if err == nil && int64(len(data)) > size {
		err = errors.New("it grew while it was read; try again")
	}
	return data, err
}

// visible returns a path for people, in which hidden characters are visible.
func visible(p string) string { return clip.Text(clip.Visible(p), 200) }

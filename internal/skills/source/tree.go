package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"mcp-code-exec-harness/internal/files"
	"mcp-code-exec-harness/internal/skills"
	"mcp-code-exec-harness/internal/versions"
)

// manifest is the file that makes a folder a skill.
const manifest = "SKILL.md"

// tree holds the files of a source before they are read.
type tree struct {
	nodes map[string]node // files by path inside the source, with slashes, as the source spells it
	// read returns the contents of files, in the same order. It fails if a file has more bytes than its node says.
	read func(ctx context.Context, paths []string) ([][]byte, error)
}

// node is a file of a source.
type node struct {
	size    int64
	problem string // why it cannot be part of a skill; empty if it can
}

// ignored reports whether a path is in a directory that is never part of a skill: what git and package managers keep for themselves.
func ignored(p string) bool {
	for name := range strings.SplitSeq(p, "/") {
		if name == ".git" || name == "node_modules" {
			return true
		}
	}
	return false
}

// skillFolders returns the folders of skills at or below one of the folders roots. A skill inside of another one is a part of that one.
func (t tree) skillFolders(roots ...string) (folders []string) {
	all := map[string]bool{}
	for p := range t.nodes {
		if path.Base(p) == manifest && !ignored(p) {
			all[path.Dir(p)] = true
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(all)) {
		if slices.ContainsFunc(roots, func(root string) bool { return within(dir, root) }) &&
			!slices.ContainsFunc(folders, func(outer string) bool { return within(dir, outer) }) {
			folders = append(folders, dir)
		}
	}
	return folders
}

// within reports whether a folder is another one or inside of it. "." contains all.
func within(dir, root string) bool {
	return root == "." || dir == root || strings.HasPrefix(dir, root+"/")
}

// take takes the skills in folders of a tree. origin is the origin of the tree.
func (r *reading) take(ctx context.Context, t tree, folders []string, origin versions.Origin) error {
	if len(folders) > maxSkills {
		return fmt.Errorf("it has %d skills; at most %d are read: name a folder of it", len(folders), maxSkills)
	}
	for _, folder := range folders {
		origin.Source = r.place.of(folder)
		if err := r.takeOne(ctx, t, folder, origin); err != nil {
			return err
		}
	}
	return nil
}

// takeOne takes the skill in a folder, or says in found why not. The error ends the reading.
func (r *reading) takeOne(ctx context.Context, t tree, folder string, origin versions.Origin) error {
	head := path.Join(folder, manifest)
	if n := t.nodes[head]; n.problem != "" || n.size > maxFile {
		r.skip(folder, "%s: %s", manifest, cmp.Or(n.problem, fmt.Sprintf("it has %d bytes; at most %d are read", n.size, maxFile)))
		return nil
	}
	texts, err := t.read(ctx, []string{head})
	if err != nil {
		return err
	}
	name, err := nameOf(texts[0])
	if err != nil {
		r.skip(folder, "%v", err)
		return nil
	}
	if !r.wanted(name) {
		return nil
	}
	paths, size, err := t.parts(folder)
	switch {
	case err != nil:
		r.skip(folder, "%v", err)
		return nil
	case r.size+size > maxAll:
		r.skip(folder, "the skills before it have %d bytes, and all may have %d: name it alone", r.size, maxAll)
		return nil
	}
	var inTree []string
	for _, p := range paths {
		inTree = append(inTree, p.full)
	}
	contents, err := t.read(ctx, inTree)
	if err != nil {
		return err
	}
	b := Bundle{Name: name, Files: map[string][]byte{}, Path: folder, Origin: origin}
	for i, p := range paths {
		b.Files[p.clean] = contents[i]
		r.size += int64(len(contents[i]))
	}
	r.found.Skills = append(r.found.Skills, b)
	return nil
}

// part is a file of a skill: its path inside the tree, and inside the skill.
type part struct{ full, clean string }

// parts returns the files of the skill in a folder, sorted by path, and the sum of their sizes. The error says why the skill cannot be taken.
func (t tree) parts(folder string) (parts []part, size int64, err error) {
	prefix := ""
	if folder != "." {
		prefix = folder + "/"
	}
	seen := names{}
	for _, p := range slices.Sorted(maps.Keys(t.nodes)) {
		rel, ok := strings.CutPrefix(p, prefix)
		if !ok || ignored(rel) {
			continue
		}
		n := t.nodes[p]
		clean, err := seen.add(rel)
		switch {
		case err != nil:
			return nil, 0, err
		case n.problem != "":
			return nil, 0, fmt.Errorf("%s: %s", visible(rel), n.problem)
		case n.size > maxFile:
			return nil, 0, fmt.Errorf("%s has %d bytes; a file of a skill may have %d", visible(rel), n.size, maxFile)
		}
		parts = append(parts, part{p, clean})
		if size += n.size; size > maxSkill {
			return nil, 0, fmt.Errorf("it has more than %d bytes", maxSkill)
		}
		if len(parts) > maxFiles {
			return nil, 0, fmt.Errorf("it has more than %d files", maxFiles)
		}
	}
	return parts, size, nil
}

// names collects paths of files, and refuses those that would be the same on another system: some ignore case, or the spelling of accents.
type names map[string]string

// add returns a path in its canonical form.
func (n names) add(p string) (string, error) {
	clean, err := files.Clean(p)
	if err == nil && (clean != norm.NFC.String(p) || clean == ".") {
		err = errors.New("the path is absolute, or has empty parts")
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", visible(p), err)
	}
	key := fold(clean)
	if other, taken := n[key]; taken {
		return "", fmt.Errorf("%s and %s are the same on some systems", visible(other), visible(p))
	}
	for dir := path.Dir(key); dir != "."; dir = path.Dir(dir) {
		if other, taken := n[dir]; taken && other != "" {
			return "", fmt.Errorf("%s is a file and a folder", visible(other))
		}
		n[dir] = "" // a folder
	}
	n[key] = p
	return clean, nil
}

// fold returns the form of a path that is equal for paths that some system takes for the same.
func fold(p string) string { return cases.Fold().String(norm.NFKC.String(p)) }

// nameOf returns the name in the header of SKILL.md.
func nameOf(text []byte) (string, error) {
	if !utf8.Valid(text) {
		return "", errors.New("SKILL.md is not UTF-8 text")
	}
	h, err := skills.ReadHeader(string(text))
	return h.Name, err
}

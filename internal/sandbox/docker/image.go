package docker

import (
	"archive/tar"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/moby/moby/client"

	"mcp-code-exec-harness/internal/sandbox/node"
)

// DefaultImage is the default name of the image of containers, and the name of the image that Build builds.
const DefaultImage = "mcp-code-exec-harness/sandbox"

// nodePath is the path of Node.js in an image that Build built.
const nodePath = "/usr/bin/node"

// imageID returns the id of an image in the engine.
func imageID(ctx context.Context, c *client.Client, name string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	image, err := c.ImageInspect(ctx, name)
	switch {
	case notFound(err):
		return "", fmt.Errorf("the Docker engine has no image %s: make it with `harness sandbox build`, which needs no registry, or load one that has "+
			"Node.js %d or later (sandbox.docker.image)", name, node.MinVersion)
	case err != nil:
		return "", fmt.Errorf("look for the image %s: %w", name, err)
	case image.Config != nil && len(image.Config.Volumes) > 0:
		return "", fmt.Errorf("the image %s declares volumes, which programs could write to without limit: use one without (sandbox.docker.image)", name)
	}
	return image.ID, nil
}

// Built describes an image that Build built or found.
type Built struct {
	Name string `json:"name"`
	Tag  string `json:"tag"` // name that always refers to this image
	ID   string `json:"id"`
	Node string `json:"node"` // version of Node.js
	New  bool   `json:"new"`  // whether Build has just built it
}

// Build builds an image without a registry. The image contains Node.js of this machine, its libraries, a user, and nothing else. In the engine, the
// image has the given name (empty: DefaultImage) and a tag that is the hash of its content. program is the path of Node.js; if it is empty, node is
// searched in the directories of PATH.
func Build(ctx context.Context, engine Engine, name, program string) (*Built, error) {
	name = cmp.Or(name, DefaultImage)
	c, err := engine.connect()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	info, err := reach(ctx, c)
	if err != nil {
		return nil, err
	}
	if runtime.GOOS != "linux" || info.Architecture != architecture() {
		return nil, fmt.Errorf("this machine's Node.js (%s, %s) does not run in containers of %s: docker build -t %s -f Dockerfile.sandbox . makes the image with a registry",
			runtime.GOOS, architecture(), info.Architecture, name)
	}
	machine, err := node.Find(ctx, program)
	if err != nil {
		return nil, err
	}
	files, err := layout(machine)
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	changes := changesFor(machine)
	fmt.Fprintln(sum, changes)
	if err := archive(sum, files); err != nil {
		return nil, err
	}
	repository, _, _ := strings.Cut(path.Base(name), ":")
	b := &Built{Name: name, Tag: path.Join(path.Dir(name), repository) + ":" + hex.EncodeToString(sum.Sum(nil)[:8]), Node: machine.Version}
	if b.ID, err = imageID(ctx, c, b.Tag); err != nil {
		if err := load(ctx, c, b.Tag, files, changes); err != nil {
			return nil, fmt.Errorf("load the image into the Docker engine: %w", err)
		}
		b.New = true
		if b.ID, err = imageID(ctx, c, b.Tag); err != nil {
			return nil, err
		}
	}
	if _, err := c.ImageTag(ctx, client.ImageTagOptions{Source: b.ID, Target: name}); err != nil {
		return nil, fmt.Errorf("name the image: %w", err)
	}
	return b, nil
}

// Ensure builds DefaultImage if an engine has no image of this name yet, and reports whether it did.
func Ensure(ctx context.Context, engine Engine, program string) (built bool, err error) {
	c, err := engine.connect()
	if err != nil {
		return false, err
	}
	defer c.Close()
	if _, err := reach(ctx, c); err != nil {
		return false, err
	}
	if _, err := imageID(ctx, c, DefaultImage); err == nil {
		return false, nil
	}
	_, err = Build(ctx, engine, DefaultImage, program)
	return err == nil, err
}

// changesFor returns the image's Dockerfile instructions other than those for its files. Dockerfile.sandbox has the same ones, without
// LD_LIBRARY_PATH.
func changesFor(machine *node.Machine) []string {
	changes := []string{"USER " + user, `ENTRYPOINT ["` + nodePath + `"]`}
	for _, variable := range machine.Env() {
		changes = append(changes, "ENV "+variable)
	}
	return changes
}

// file is an entry of an image: a directory, a text, or a file of this machine.
type file struct {
	path   string // path without the slash at the beginning
	mode   int64
	text   string
	source string
}

// layout lists the files of the image, each directory before its contents.
func layout(machine *node.Machine) ([]file, error) {
	all := map[string]file{}
	add := func(f file) {
		f.path = strings.TrimPrefix(path.Clean(f.path), "/")
		all[f.path] = f
		for dir := path.Dir(f.path); dir != "."; dir = path.Dir(dir) {
			if _, known := all[dir]; !known {
				all[dir] = file{path: dir, mode: 0o755}
			}
		}
	}
	add(file{path: nodePath, mode: 0o755, source: machine.Path})
	for _, library := range machine.Libraries {
		source, err := filepath.EvalSymlinks(library)
		if err != nil {
			return nil, err
		}
		add(file{path: library, mode: 0o755, source: source})
	}
	for _, dir := range []string{"dev", "proc", "sys"} {
		add(file{path: dir, mode: 0o755})
	}
	add(file{path: "tmp", mode: 0o1777})
	add(file{path: "etc/passwd", mode: 0o644, text: "sandbox:x:10001:10001::/:/\n"})
	files := make([]file, 0, len(all))
	for _, f := range all {
		files = append(files, f)
	}
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.path, b.path) })
	return files, nil
}

// archive writes files as a tar archive. The same content always gives the same archive.
func archive(to io.Writer, files []file) error {
	w := tar.NewWriter(to)
	for _, f := range files {
		if err := add(w, f); err != nil {
			return fmt.Errorf("pack /%s: %w", f.path, err)
		}
	}
	return w.Close()
}

func add(w *tar.Writer, f file) error {
	head := &tar.Header{Typeflag: tar.TypeReg, Name: f.path, Mode: f.mode, Size: int64(len(f.text)), Format: tar.FormatPAX}
	var content io.Reader = strings.NewReader(f.text)
	switch {
	case f.source != "":
		source, err := os.Open(f.source)
		if err != nil {
			return err
		}
		defer source.Close()
		info, err := source.Stat()
		if err != nil {
			return err
		}
		head.Size, content = info.Size(), source
	case f.text == "":
		head.Typeflag, head.Name = tar.TypeDir, f.path+"/"
	}
	if err := w.WriteHeader(head); err != nil {
		return err
	}
	_, err := io.Copy(w, content)
	return err
}

// load sends an image to the engine.
func load(ctx context.Context, c *client.Client, tag string, files []file, changes []string) error {
	r, w := io.Pipe()
	defer r.Close()
	go func() { w.CloseWithError(archive(w, files)) }()
	end := strings.LastIndex(tag, ":") // an earlier colon precedes the port of a registry
	repository, version := tag[:end], tag[end+1:]
	result, err := c.ImageImport(ctx, client.ImageImportSource{Source: r, SourceName: "-"}, repository, client.ImageImportOptions{Tag: version, Changes: changes})
	if err != nil {
		return err
	}
	defer result.Close()
	for messages := json.NewDecoder(result); ; {
		var message struct{ Error string }
		switch err := messages.Decode(&message); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case message.Error != "":
			return errors.New(message.Error)
		}
	}
}

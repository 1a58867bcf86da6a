package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// The user id of the image is the one that images without a distribution commonly use.
const (
	imageUser = 65532
	imageHome = "/home/" + name
	imageData = "/data"
)

// image writes an image of the program for Linux, for all processors, as a tar file in the OCI layout. docker load and podman load can
// read it, and skopeo can copy it to a registry. The image contains the program, CA certificates and a user, but no shell and no
// libraries.
func (r *release) image(all []platform) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	var legacy []map[string]any
	for _, p := range all {
		if p.os != "linux" {
			continue
		}
		image, err := r.imageOf(p)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.os, Architecture: p.arch}},
		})
		entry, err := legacyEntry(image, name+":"+r.version+"-"+p.arch)
		if err != nil {
			return err
		}
		legacy = append(legacy, entry)
	}
	if len(legacy) == 0 {
		return nil
	}
	dir := filepath.Join(r.work, "image")
	to, err := layout.Write(dir, empty.Index)
	if err == nil { // the index of the images for all processors
		err = to.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": r.version}))
	}
	if err != nil {
		return err
	}
	// Engines before Docker 25 read this file instead of index.json.
	text, err := json.Marshal(legacy)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "manifest.json"), text, 0o644); err != nil {
		return err
	}
	var items []item
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			below, _ := filepath.Rel(dir, path)
			items = append(items, item{filepath.ToSlash(below), path, 0o644})
		}
		return err
	})
	if err != nil {
		return err
	}
	slices.SortFunc(items, func(a, b item) int { return bytes.Compare([]byte(a.name), []byte(b.name)) })
	return r.create(name+"_"+r.version+"_image.tar", func(w io.Writer) error { return writeTar(w, items, r.date) })
}

// legacyEntry returns the entry of an image in manifest.json.
func legacyEntry(image v1.Image, tag string) (map[string]any, error) {
	config, err := image.ConfigName()
	if err != nil {
		return nil, err
	}
	layers, err := image.Layers()
	if err != nil {
		return nil, err
	}
	blob := func(h v1.Hash) string { return "blobs/" + h.Algorithm + "/" + h.Hex }
	var paths []string
	for _, l := range layers {
		digest, err := l.Digest()
		if err != nil {
			return nil, err
		}
		paths = append(paths, blob(digest))
	}
	return map[string]any{"Config": blob(config), "RepoTags": []string{tag}, "Layers": paths}, nil
}

// imageOf returns the image for one platform, with a layer that rarely changes and a layer with the program.
func (r *release) imageOf(p platform) (v1.Image, error) {
	base, err := r.layer(func(t *tar.Writer) error { return r.baseFiles(t) })
	if err != nil {
		return nil, err
	}
	program, err := r.layer(func(t *tar.Writer) error {
		return errors.Join(
			r.addFile(t, "usr/bin/"+name, p.binary, 0o755),
			r.addFile(t, "usr/share/doc/"+name+"/copyright", "LICENSE", 0o644),
			r.addFile(t, "usr/share/doc/"+name+"/NOTICE", "NOTICE", 0o644),
			r.addFile(t, "usr/share/doc/"+name+"/sbom.cdx.json", p.bom, 0o644),
		)
	})
	if err != nil {
		return nil, err
	}
	oci := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.AppendLayers(oci, base, program)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = p.os, p.arch, v1.Time{Time: r.date}
	config.Config = v1.Config{
		User: fmt.Sprintf("%d:%d", imageUser, imageUser), WorkingDir: imageData, Entrypoint: []string{"/usr/bin/" + name}, Cmd: []string{"--help"},
		Env:     []string{"PATH=/usr/bin", "HOME=" + imageHome},
		Volumes: map[string]struct{}{imageData: {}},
		Labels: map[string]string{
			"org.opencontainers.image.title": name, "org.opencontainers.image.description": description,
			"org.opencontainers.image.version": r.version, "org.opencontainers.image.revision": r.revision, "org.opencontainers.image.licenses": licence,
		},
	}
	for i := range config.History {
		config.History[i].Created = v1.Time{Time: r.date}
	}
	return mutate.ConfigFile(image, config)
}

func (r *release) layer(write func(*tar.Writer) error) (v1.Layer, error) {
	var text bytes.Buffer
	t := tar.NewWriter(&text)
	if err := errors.Join(write(t), t.Close()); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer))
}

// baseFiles adds directories, users and Mozilla's CA certificates, without those that have constraints.
func (r *release) baseFiles(t *tar.Writer) error {
	for _, d := range []struct {
		name string
		mode int64
		user int
	}{
		{"etc/", 0o755, 0},
		{"etc/ssl/", 0o755, 0},
		{"etc/ssl/certs/", 0o755, 0},
		{"home/", 0o755, 0},
		{imageHome[1:] + "/", 0o700, imageUser},
		{imageData[1:] + "/", 0o700, imageUser},
		{"tmp/", 0o1777, 0},
		{"usr/", 0o755, 0},
		{"usr/bin/", 0o755, 0},
	} {
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: d.name, Mode: d.mode, Uid: d.user, Gid: d.user, ModTime: r.date}); err != nil {
			return err
		}
	}
	var roots bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			if err := pem.Encode(&roots, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
				return err
			}
		}
	}
	for _, f := range []struct{ name, text string }{
		{"etc/passwd", fmt.Sprintf("root:x:0:0:root:/root:/sbin/nologin\n%s:x:%d:%d:%s:%s:/sbin/nologin\n", name, imageUser, imageUser, name, imageHome)},
		{"etc/group", fmt.Sprintf("root:x:0:\n%s:x:%d:\n", name, imageUser)},
		{"etc/nsswitch.conf", "hosts: files dns\n"},
		{"etc/ssl/certs/ca-certificates.crt", roots.String()},
	} {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: 0o644, Size: int64(len(f.text)), ModTime: r.date}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.WriteString(t, f.text); err != nil {
			return err
		}
	}
	return nil
}

func (r *release) addFile(t *tar.Writer, to, from string, mode int64) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: to, Mode: mode, Size: int64(len(data)), ModTime: r.date}); err != nil {
		return err
	}
	_, err = t.Write(data)
	return err
}
